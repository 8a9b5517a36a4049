"""Texts of a plan's page and a stage's page: columns with their meaning, actions, connections, the latency chart.

Pure: structs in, texts out; templates only place them.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from cep_manager.graph.model import GraphConnection
from cep_manager.graph.topology_view.model import (
    HistogramBar,
    StageError,
    StageView,
    TopologyHead,
    TopologyView,
    WindowName,
)
from cep_manager.monitoring.status import PlanStatus
from cep_manager.plans.compiled_plan import PlannedQuery
from cep_manager.plans.state import PlanState
from cep_manager.web.console.texts.formats import SPACE, UNKNOWN, count, duration, latency, percent, plural
from cep_manager.web.console.texts.highlight import Piece
from cep_manager.web.console.texts.metric_columns import STAGE_TABLES
from cep_manager.web.console.texts.presenters import STATE_TONES, Line

WINDOW_WORDS: dict[WindowName, str] = {
    "10m": "last 10 min",
    "3h": "last 3 h",
    "1d": "last day",
    "all": "all time",
}

DELIVERY_WORDS = {
    "at-least-once": "at least once",
    "exactly-once": "exactly once",
    "at-most-once": "at most once",
}

CAPACITY_STEPS = (0.2, 0.4, 0.6, 0.8)
"""Where a colour of the capacity's scale ends and the next begins."""


class StageTable(msgspec.Struct, frozen=True):
    """A table of stages; `columns` are names of `METRICS`."""

    title: str
    columns: tuple[str, ...]
    stages: tuple[StageView, ...]


class PlanAction(msgspec.Struct, frozen=True):
    """What can be done to a plan; `refusal` says why it cannot be done now, empty when it can."""

    label: str
    permission: str
    refusal: str = ""


class ConnectionText(msgspec.Struct, frozen=True):
    """A connection: from whom to whom. `window` is how much of it is in flight."""

    direction: str
    source: str
    target: str
    stream: str
    events: str
    rate: float | None
    waiting: str
    window: str
    state: Line


class BarText(msgspec.Struct, frozen=True):
    """A bar of the latency chart, in its units; `hint` is its tooltip."""

    x: float
    y: float
    width: float
    height: float
    hint: str


class Summary(msgspec.Struct, frozen=True):
    """The head of a plan's page: `facts` are (name, text) pairs; `problem` is why it does not run as it should."""

    state: str
    tone: str
    problem: str
    facts: tuple[tuple[str, str], ...]
    notes: tuple[tuple[str, str], ...]


def stage_tables(view: TopologyView) -> tuple[StageTable, ...]:
    """Return the tables that have a stage to show."""
    tables = (
        StageTable(title, columns, tuple(stage for stage in view.stages if stage.kind in kinds))
        for title, kinds, columns in STAGE_TABLES
    )
    return tuple(table for table in tables if table.stages)


def summary(view: TopologyHead) -> Summary:
    """Return the summary at the top of the page."""
    topology = view.status.topology
    hosts = sorted({place.host for place in view.places if place.live})
    checkpoint = view.last_checkpoint
    facts = [
        ("In this state", duration(topology.since_ms)),
        ("Running", duration(view.up_ms) if view.up_ms else "–"),
        ("Workers", f"{topology.tasks_live} of {topology.tasks_required}"),
        ("Hosts", ", ".join(hosts) or "–"),
        ("Instances", f"{view.executors} of {view.tasks}"),
        ("Epoch", str(view.epoch)),
        ("Restarts", str(topology.restarts)),
        ("Delivery", DELIVERY_WORDS[view.delivery]),
        (
            "Last checkpoint",
            f"{checkpoint.checkpoint} · {duration(checkpoint.duration_ms)}" if checkpoint is not None else "none",
        ),
        ("Tenant", str(view.tenant)),
        ("Id", view.identifier),
    ]
    return Summary(topology.state.value, STATE_TONES[topology.state], topology.reason, tuple(facts), _notes(view))


def _notes(view: TopologyHead) -> tuple[tuple[str, str], ...]:
    topology = view.status.topology
    notes = [("Last change", f"failed: {topology.change_error}")] if topology.change_error else []
    if topology.interruption and topology.state in (PlanState.ACTIVE, PlanState.DEGRADED):
        ago = duration(topology.interrupted_ms)
        notes.append(
            ("Last restart" if topology.restarts else "Last interruption", f"{topology.interruption}, {ago} ago")
        )
    notes += [("Waiting for", what) for what in topology.waits_for]
    notes += [("Late", f"{one.events:,} events of {one.stream} came behind the clock") for one in topology.late]
    notes += [("State was reset", left) for left in topology.state_left]
    lost = ", ".join(f"{one.worker} on {one.host} for {duration(one.silent_ms)}" for one in view.status.lost_workers)
    return (*notes, *((("Silent workers", lost),) if lost else ()))


def actions(status: PlanStatus, stages: bool) -> dict[str, PlanAction]:
    """Return the actions on the plan, with the reason for each that is not available now.

    `stages`: the plan's text compiles.
    """
    topology = status.topology
    running = topology.state in (PlanState.ACTIVE, PlanState.DEGRADED, PlanState.INACTIVE)
    goes = "The plan is being undeployed. Activate it to keep it." if topology.undeploying else ""
    changing = f"The plan is {topology.state.value}: wait until that has ended." if topology.change else goes
    idle = "" if running else f"The plan is {topology.state.value}: it has no running topology for this action."
    return {
        "activate": PlanAction("Activate", "OPERATE", "The plan is active." if topology.intake and not goes else ""),
        "deactivate": PlanAction("Deactivate", "OPERATE", "" if topology.intake else "The plan is deactivated."),
        "rebalance": PlanAction(
            "Rebalance", "OPERATE", changing or ("" if stages else "The plan's text cannot be compiled.")
        ),
        "restart": PlanAction("Restart", "OPERATE", changing),
        "savepoint": PlanAction("Savepoint", "OPERATE", changing or idle),
        "release": PlanAction(
            "Continue without", "OPERATE", "" if topology.awaited else "The plan does not wait for first events."
        ),
        "sample": PlanAction("Sample", "OPERATE", idle),
        "trace": PlanAction("End trace" if topology.trace else "Trace", "OPERATE"),
        "statistics": PlanAction("Statistics", "OPERATE"),
        "rename": PlanAction("Rename", "EDIT", changing),
        "edit": PlanAction("Edit", "EDIT"),
        "undeploy": PlanAction("Undeploy", "EDIT"),
    }


def connection_texts(connections: Iterable[GraphConnection]) -> tuple[ConnectionText, ...]:
    """Return the connections: workers with receivers, publishers with workers."""
    return tuple(_connection(one) for one in connections)


def _connection(one: GraphConnection) -> ConnectionText:
    worker = f"{one.worker} on {one.host}"
    inflow = one.direction == "inflow"
    peer = one.peer or "no receiver yet"
    full = bool(one.window) and one.under_way >= one.window
    if not one.connected:
        state = Line("", "not connected", "wait")
    else:
        state = Line("", "backpressured: window full", "warn") if full else Line("", "established", "good")
    return ConnectionText(
        direction=one.direction,
        source=worker if inflow else one.what,
        target=peer if inflow else worker,
        stream=one.what if inflow else "",
        events=count(one.events),
        rate=one.events_per_second,
        waiting=count(one.waiting) if inflow else UNKNOWN,
        window=_used(one),
        state=state,
    )


def _used(one: GraphConnection) -> str:
    """Describe how much of the connection's window is in use."""
    if not one.window:
        return UNKNOWN
    return f"{count(one.under_way)} of {count(one.window)} ({percent(one.under_way / one.window)})"


def capacity_step(share: float) -> int:
    """Return the step of the capacity's scale, 0 to 4."""
    return sum(share >= end for end in CAPACITY_STEPS)


def error_words(error: StageError) -> str:
    """Describe where an error happened."""
    return f"{error.instance} on {error.host}, task {error.task}, process {error.process_id}"


def histogram_bars(bars: tuple[HistogramBar, ...], width: float, height: float) -> tuple[BarText, ...]:
    """Return the bars of a picture of that size; the highest fills it."""
    if not bars:
        return ()
    each, most, total = width / len(bars), max(bar.events for bar in bars), sum(bar.events for bar in bars)
    texts, before_ms = [], None
    for place, bar in enumerate(bars):
        tall = height * bar.events / most
        least = f"more than {latency(before_ms)}" if before_ms is not None else ""
        most_ms = f"up to {latency(bar.to_ms)}" if bar.to_ms is not None else ""
        length = " and ".join(part for part in (least, most_ms) if part)
        hint = f"{plural(bar.events, 'event', 'events')} ({percent(bar.events / total)}): {length}"
        texts.append(
            BarText(round(place * each, 2), round(height - tall, 2), round(each * 0.88, 2), round(tall, 2), hint)
        )
        before_ms = bar.to_ms
    return tuple(texts)


class TextLine(msgspec.Struct, frozen=True):
    """A line of the plan's text; `stage` runs the query that begins on it, empty when none does."""

    number: int
    pieces: list[Piece]
    stage: str = ""
    query: str = ""


def plan_lines(lines: list[list[Piece]], queries: dict[str, tuple[PlannedQuery, ...]]) -> tuple[TextLine, ...]:
    """Return the plan's text with what runs each query; `queries` are those of each stage."""
    begun = {query.line: (stage, query.name) for stage, found in queries.items() for query in found if query.line}
    return tuple(TextLine(number, pieces, *begun.get(number, ("", ""))) for number, pieces in enumerate(lines, start=1))


def query_text(text: str, query: PlannedQuery) -> str:
    """Return the lines of a query in the plan's text."""
    return "\n".join(text.splitlines()[max(0, query.line - 1) : query.last_line])


def share_of_core(cpu_ms: int, up_ms: int) -> str:
    """Processor time as a mean share of one core since the task started."""
    return f"{100 * cpu_ms / up_ms:.0f}{SPACE}%" if up_ms else "–"
