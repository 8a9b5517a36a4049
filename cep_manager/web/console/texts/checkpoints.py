"""Checkpoints and savepoints as the console shows them. Pure."""

from __future__ import annotations

from typing import Literal

import msgspec

from cep_common.protocol.drivers import CheckpointSettings
from cep_manager.checkpoints.view import (
    CheckpointList,
    CheckpointOverview,
    CheckpointSummary,
    CheckpointView,
    PlanCheckpointSummary,
    SavepointList,
    SavepointView,
)
from cep_manager.web.console.texts.formats import UNKNOWN, count, duration, latency, plural, size

Tone = Literal["good", "busy", "wait", "warn", "bad", "idle"]

STATES: dict[str, tuple[str, Tone]] = {
    "taking": ("being taken", "busy"),
    "complete": ("complete", "good"),
    "failed": ("failed", "bad"),
    "abandoned": ("abandoned", "warn"),
}
TRIGGERS = {"interval": "interval", "savepoint": "savepoint", "last": "last before the topology ended"}
SAVEPOINT_STATES: dict[str, tuple[str, Tone]] = {
    "taking": ("being taken", "busy"),
    "stored": ("stored", "good"),
    "unreadable": ("unreadable", "warn"),
    "failed": ("failed", "bad"),
}

SHOWN_ROWS = 100
SHOWN_BARS = 60
SLOT, BAR = 12, 8
"""Width of a checkpoint's place in the chart, and of its bar."""
DURATION_TOP, DURATION_HEIGHT = 22, 78
SIZE_TOP, SIZE_HEIGHT = 124, 46
LEFT = 70
LEAST_HEIGHT = 3


class CheckpointRow(msgspec.Struct, frozen=True):
    """A line of the history."""

    number: int
    epoch: int
    state: str
    tone: Tone
    trigger: str
    name: str
    began_ms: int
    duration: str
    alignment: str
    size: str
    stored: str
    tasks: str
    error: str


class CheckpointBar(msgspec.Struct, frozen=True):
    """A checkpoint in the chart: where its bars stand, and what they say.

    `mark` is a sign above it that does not depend on colours.
    """

    number: int
    x: int
    state: str
    tone: Tone
    mark: str
    duration_y: int
    duration_height: int
    size_y: int
    size_height: int
    stored_y: int
    stored_height: int
    words: str


class CheckpointChart(msgspec.Struct, frozen=True):
    """The newest checkpoints by duration and size; `words` say in short what it shows."""

    width: int
    height: int
    bars: tuple[CheckpointBar, ...]
    longest: str
    largest: str
    words: str


class SpreadRow(msgspec.Struct, frozen=True):
    """How one of their metrics is spread over complete checkpoints."""

    name: str
    minimum: str
    average: str
    p50: str
    p99: str
    maximum: str


class SavepointRow(msgspec.Struct, frozen=True):
    """A savepoint, whether it can be started from, and what is wrong with it."""

    name: str
    state: str
    tone: Tone
    stored: bool
    usable: bool
    checkpoint: str
    taken_ms: int
    size: str
    error: str


class CheckpointPage(msgspec.Struct, frozen=True):
    """A plan's checkpoints. `nothing` says why there are none, empty when there are some."""

    plan: str
    epoch: int
    attempt: int
    begun_from: str
    begun_note: str
    newest: CheckpointRow | None
    taking: int
    complete: str
    troubled: str
    rows: tuple[CheckpointRow, ...]
    hidden: int
    chart: CheckpointChart | None
    spreads: tuple[SpreadRow, ...]
    savepoints: tuple[SavepointRow, ...]
    settings: tuple[tuple[str, str], ...]
    nothing: str


class PlanCheckpointRow(msgspec.Struct, frozen=True):
    """A plan in the list of all."""

    plan: str
    state: str
    tone: Tone
    newest: CheckpointRow | None
    typical: str
    longest: str
    complete: str
    failed: int
    abandoned: int
    problem: CheckpointRow | None
    savepoints: int


def present_checkpoints(checkpoints: CheckpointList, savepoints: SavepointList) -> CheckpointPage:
    """Return the page of a plan."""
    newest_first = checkpoints.checkpoints[::-1]
    rows = tuple(map(_row, newest_first))
    complete = next((row for row in rows if row.state == STATES["complete"][0]), None)
    summary = checkpoints.summary
    return CheckpointPage(
        plan=checkpoints.plan,
        epoch=checkpoints.epoch,
        attempt=checkpoints.attempt,
        begun_from=f"No. {checkpoints.begun_from}" if checkpoints.begun_from else "no checkpoint",
        begun_note=f"another plan's state is savepoint {checkpoints.kept_savepoint}"
        if checkpoints.kept_savepoint
        else "",
        newest=complete,
        taking=next((row.number for row in rows if row.tone == "busy"), 0),
        complete=count(summary.complete),
        troubled=_troubled(summary),
        rows=rows[:SHOWN_ROWS],
        hidden=max(0, len(rows) - SHOWN_ROWS),
        chart=_chart(checkpoints.checkpoints[-SHOWN_BARS:]) if checkpoints.checkpoints else None,
        spreads=_spreads(summary),
        savepoints=tuple(map(_savepoint, reversed(savepoints.savepoints))),
        settings=present_settings(checkpoints.settings),
        nothing="" if checkpoints.checkpoints else _nothing(checkpoints.settings),
    )


def present_overview(overview: CheckpointOverview) -> tuple[PlanCheckpointRow, ...]:
    """Return the list of all plans, those with problems first."""
    rows = tuple(map(_plan_row, overview.plans))
    return tuple(sorted(rows, key=lambda row: (row.tone not in ("bad", "warn"), row.plan)))


def present_settings(settings: CheckpointSettings | None) -> tuple[tuple[str, str], ...]:
    """Describe how checkpoints are taken."""
    if settings is None:
        return ()
    if not settings.location:
        return (("Store", "none: checkpoint.location is empty"),)
    every = f"every {duration(settings.interval_ms)}" if settings.interval_ms else "only on request"
    return (
        ("Taken", every),
        ("Pause", f"at least {duration(settings.pause_ms)} between two"),
        ("Given up", f"after {duration(settings.timeout_ms)}"),
        ("Kept", f"the newest {settings.retained}, and all savepoints"),
        ("Store", settings.location),
        *((("It cannot be used", settings.problem),) if settings.problem else ()),
    )


def _row(one: CheckpointView) -> CheckpointRow:
    state, tone = STATES[one.state]
    known = one.state == "complete"
    return CheckpointRow(
        number=one.checkpoint,
        epoch=one.epoch,
        state=state,
        tone=tone,
        trigger=TRIGGERS[one.trigger],
        name=one.name,
        began_ms=one.began_ms,
        duration=latency(one.duration_ms) if one.duration_ms or known else UNKNOWN,
        alignment=latency(one.alignment_ms) if known else UNKNOWN,
        size=size(one.size_bytes) if known else UNKNOWN,
        stored=size(one.stored_bytes) if known else UNKNOWN,
        tasks=f"{one.acknowledged} of {one.tasks}" if one.tasks else UNKNOWN,
        error=one.error,
    )


def _plan_row(summary: PlanCheckpointSummary) -> PlanCheckpointRow:
    newest = _row(summary.newest) if summary.newest is not None else None
    problem = _row(summary.newest_problem) if summary.newest_problem is not None else None
    if problem is not None and (newest is None or problem.number > newest.number):
        state, tone = f"the last {problem.state}", problem.tone
    elif newest is None:
        state, tone = ("being taken", "busy") if summary.taking else ("none yet", "wait")
    else:
        state, tone = "good", "good"
    spread = summary.summary.duration_ms
    return PlanCheckpointRow(
        plan=summary.plan,
        state=state,
        tone=tone,
        newest=newest,
        typical=latency(spread.p50) if spread is not None else UNKNOWN,
        longest=latency(spread.maximum) if spread is not None else UNKNOWN,
        complete=count(summary.summary.complete),
        failed=summary.summary.failed,
        abandoned=summary.summary.abandoned,
        problem=problem,
        savepoints=summary.savepoints,
    )


def _savepoint(one: SavepointView) -> SavepointRow:
    state, tone = SAVEPOINT_STATES["unreadable" if one.unreadable else one.state]
    stored = one.state == "stored"
    return SavepointRow(
        name=one.name,
        state=state,
        tone=tone,
        stored=stored,
        usable=stored and not one.unreadable,
        checkpoint=count(one.checkpoint) if one.checkpoint else UNKNOWN,
        taken_ms=one.taken_ms,
        size=size(one.size_bytes) if stored else UNKNOWN,
        error="; ".join(filter(None, (one.unreadable, one.error))),
    )


def _troubled(summary: CheckpointSummary) -> str:
    if not summary.failed + summary.abandoned:
        return "none failed"
    return f"{summary.failed} failed, {summary.abandoned} abandoned"


def _nothing(settings: CheckpointSettings | None) -> str:
    if settings is None:
        return "No driver is registered; checkpoints are taken by the driver."
    if not settings.location:
        return (
            "No checkpoints are taken: checkpoint.location in the driver's configuration is empty. "
            "A topology that fails restarts without state."
        )
    if not settings.interval_ms:
        return (
            "Checkpoints are only taken on request: the interval is 0, in the plan's @Plan:config or, if it "
            "has none, in checkpoint.interval_ms of the driver's configuration."
        )
    return f"The first one is taken {duration(settings.interval_ms)} after the topology runs, or sooner."


def _spreads(summary: CheckpointSummary) -> tuple[SpreadRow, ...]:
    metrics = (
        ("Duration", summary.duration_ms, latency),
        ("Alignment", summary.alignment_ms, latency),
        ("Total size of the state", summary.size_bytes, size),
        ("New in the store", summary.stored_bytes, size),
    )
    rows = []
    for name, spread, words in metrics:
        if spread is not None:
            parts = (spread.minimum, spread.average, spread.p50, spread.p99, spread.maximum)
            rows.append(SpreadRow(name, *(words(part) for part in parts)))
    return tuple(rows)


def _chart(shown: tuple[CheckpointView, ...]) -> CheckpointChart:
    longest_ms = max(1, *(one.duration_ms for one in shown))
    largest = max(1, *(one.size_bytes for one in shown))
    troubled = sum(one.state in ("failed", "abandoned") for one in shown)
    return CheckpointChart(
        width=LEFT + SLOT * SHOWN_BARS,
        height=SIZE_TOP + SIZE_HEIGHT + 18,
        bars=tuple(_bar(place, one, longest_ms, largest) for place, one in enumerate(shown)),
        longest=latency(longest_ms),
        largest=size(largest),
        words=(
            f"The last {plural(len(shown), 'checkpoint', 'checkpoints')}, oldest first: the longest took "
            f"{latency(longest_ms)}, the largest was {size(largest)}, {troubled} failed. "
            "The table below has the same data."
        ),
    )


def _bar(place: int, one: CheckpointView, longest_ms: int, largest: int) -> CheckpointBar:
    state, tone = STATES[one.state]
    taken = _height(one.duration_ms, longest_ms, DURATION_HEIGHT)
    whole = _height(one.size_bytes, largest, SIZE_HEIGHT) if one.size_bytes else 0
    new = _height(one.stored_bytes, largest, SIZE_HEIGHT) if one.stored_bytes else 0
    signs = {"failed": "×", "abandoned": "!", "taking": "…"}
    facts = [f"Checkpoint {one.checkpoint}: {state}"]
    facts += [one.error] if one.error else []
    facts += [f"savepoint {one.name}"] if one.name else []
    facts += [f"took {latency(one.duration_ms)}"] if one.duration_ms else []
    facts += [f"{size(one.size_bytes)}, {size(one.stored_bytes)} of it new"] if one.size_bytes else []
    return CheckpointBar(
        number=one.checkpoint,
        x=LEFT + SLOT * place,
        state=one.state,
        tone=tone,
        mark=signs.get(one.state, "◆" if one.name else ""),
        duration_y=DURATION_TOP + DURATION_HEIGHT - taken,
        duration_height=taken,
        size_y=SIZE_TOP + SIZE_HEIGHT - whole,
        size_height=whole,
        stored_y=SIZE_TOP + SIZE_HEIGHT - new,
        stored_height=new,
        words="; ".join(facts),
    )


def _height(number: int, most: int, pixels: int) -> int:
    return max(LEAST_HEIGHT, round(number / most * pixels))
