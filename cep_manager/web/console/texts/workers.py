"""Workers as the console shows them. Pure."""

from __future__ import annotations

from typing import Literal

import msgspec

from cep_common.ids import Endpoint
from cep_common.protocol.worker_reports import PreparedResultsReport, WalReport
from cep_manager.monitoring.worker_view import WorkerDetails, WorkerPlanView
from cep_manager.web.console.texts.formats import UNKNOWN, count, duration, percent, plural, rate, size

Tone = Literal["good", "busy", "wait", "warn", "bad", "idle"]

STATES: dict[str, tuple[str, Tone]] = {
    "live": ("live", "good"),
    "leaving": ("leaving", "busy"),
    "lost": ("lost", "bad"),
}
BEHIND: tuple[str, Tone] = ("behind", "busy")
"""The note on a worker that has an older list of plans."""
NEARLY_FULL = 0.8
"""From this share of its bound on a log is marked."""

FSYNC = {
    "always": "on disk before it is acknowledged",
    "interval": "on disk shortly after: a machine that fails may lose the newest",
    "none": "left to the operating system: a machine that fails may lose some",
}


class Share(msgspec.Struct, frozen=True):
    """How much of a bound is used; `per_mille` is for a gauge."""

    words: str
    per_mille: int
    tone: Tone


class WorkerRow(msgspec.Struct, frozen=True):
    """A worker in the list."""

    name: str
    state: str
    tone: Tone
    host: str
    process: str
    up: str
    plans: int
    problem: str
    received: str
    emitted: str
    waiting: str
    wal: str
    prepared: str
    memory: str
    cpu: str
    errors: str


class InflowRow(msgspec.Struct, frozen=True):
    """An inflow of a plan, as a row of the worker's page."""

    stream: str
    state: str
    tone: Tone
    receiver: str
    speed: str
    sent: str
    waiting: str
    under_way: Share


class PublisherRow(msgspec.Struct, frozen=True):
    """A publisher that a worker serves, as a row of its page."""

    instance: str
    state: str
    tone: Tone
    under_way: Share


class WalRow(msgspec.Struct, frozen=True):
    """The write-ahead log of a stream, as a row of the worker's page."""

    stream: str
    used: Share
    segments: str
    oldest: str
    lost: str
    aside: str
    problem: str


class PlanPart(msgspec.Struct, frozen=True):
    """What a worker does for a plan."""

    plan: str
    tenant: int
    epoch: int
    inflow: tuple[InflowRow, ...]
    outflow: tuple[tuple[str, str, str, str], ...]
    """Stream, rate, events in all."""
    publishers: tuple[PublisherRow, ...]
    write_ahead_logs: tuple[WalRow, ...]
    prepared: str
    prepared_problem: str
    """What is wrong with prepared results; empty: nothing."""
    last_error: str
    errors: str


class ConnectorRow(msgspec.Struct, frozen=True):
    """A source or sink, as a row of the worker's page."""

    kind: str
    type: str
    plan: str
    stream: str
    state: str
    tone: Tone
    error: str
    waiting: str
    dropped: str


class ListenerRow(msgspec.Struct, frozen=True):
    """A listener to a stream, as a row of the worker's page."""

    stream: str
    tenant: int
    waiting: str
    under_way: str
    lag: str


class WorkerPage(msgspec.Struct, frozen=True):
    """A worker's page; `log` is the name under which its log is asked for."""

    row: WorkerRow
    silent: str
    facts: tuple[tuple[str, str], ...]
    parts: tuple[PlanPart, ...]
    connectors: tuple[ConnectorRow, ...]
    listeners: tuple[ListenerRow, ...]
    log: str


def present_worker_row(worker: WorkerDetails) -> WorkerRow:
    """Return a line of the list."""
    state, tone = STATES[worker.state]
    if worker.state == "live" and not worker.synchronised:
        state, tone = BEHIND
    failing = [one for one in worker.connectors if one.error]
    full = [wal for plan in worker.plans for wal in plan.write_ahead_logs if wal.problem]
    problems = []
    if full:
        problems.append(f"{plural(len(full), 'log', 'logs')} full")
    if failing:
        problems.append(f"{plural(len(failing), 'source or sink', 'sources and sinks')} failing")
    unlinked = sum(not one.connected for plan in worker.plans for one in plan.inflow)
    if unlinked:
        problems.append(f"{plural(unlinked, 'stream', 'streams')} without a receiver")
    problems += _damage(worker)
    if problems and tone == "good":
        tone = "warn"
    return WorkerRow(
        name=worker.worker,
        state=state,
        tone=tone,
        host=worker.host,
        process=str(worker.process_id),
        up=duration(worker.up_ms) if worker.state != "lost" else UNKNOWN,
        plans=len(worker.plans),
        problem=", ".join(problems),
        received=rate(worker.events_in_per_s),
        emitted=rate(worker.events_out_per_s),
        waiting=count(worker.waiting_events),
        wal=size(worker.wal_bytes),
        prepared=count(worker.prepared_results),
        memory=size(worker.memory_bytes),
        cpu=percent(worker.cpu),
        errors=count(worker.errors),
    )


def present_worker(worker: WorkerDetails) -> WorkerPage:
    """Return the page of a worker."""
    connectors = [
        ConnectorRow(
            kind=one.direction,
            type=one.type,
            plan=one.plan,
            stream=one.stream,
            state="failing" if one.error else "works",
            tone="bad" if one.error else "good",
            error=one.error,
            waiting=count(one.waiting_events) if one.direction == "sink" else UNKNOWN,
            dropped=count(one.dropped_events) if one.direction == "sink" else UNKNOWN,
        )
        for one in worker.connectors
    ]
    return WorkerPage(
        row=present_worker_row(worker),
        silent=f"last heard {duration(worker.silent_ms)} ago" if worker.state == "lost" else "",
        facts=(
            ("Host", f"{worker.host}, process {worker.process_id}"),
            ("Up for", duration(worker.up_ms)),
            ("HTTP in", worker.http_address or UNKNOWN),
            ("ZeroMQ in", _address(worker.ingress)),
            ("ZeroMQ out", _address(worker.egress)),
            ("Processor time", duration(worker.cpu_ms)),
            ("Accepted events", FSYNC.get(worker.fsync, UNKNOWN)),
        ),
        parts=tuple(map(_part, worker.plans)),
        connectors=tuple(connectors),
        listeners=tuple(
            ListenerRow(
                one.event_stream,
                one.tenant,
                count(one.waiting_events),
                count(one.in_flight_rows),
                duration(one.lag_ms),
            )
            for one in worker.listeners
        ),
        log=f"worker:{worker.worker}",
    )


def _damage(worker: WorkerDetails) -> list[str]:
    """Describe what was lost or set aside of the files on the worker's disk."""
    write_ahead_logs = [wal for plan in worker.plans for wal in plan.write_ahead_logs]
    prepared = [plan.prepared for plan in worker.plans if plan.prepared is not None]
    events, results = sum(one.lost_events for one in write_ahead_logs), sum(one.lost_events for one in prepared)
    aside = sum(one.damaged_file_bytes for one in write_ahead_logs) + sum(one.damaged_file_bytes for one in prepared)
    found = []
    if events:
        found.append(f"{plural(events, 'event', 'events')} lost")
    if results:
        found.append(f"{plural(results, 'prepared result', 'prepared results')} lost")
    if aside:
        found.append(f"damaged files of {size(aside)} set aside")
    return found


def _prepared_problem(prepared: PreparedResultsReport) -> str:
    found = []
    if prepared.lost_events:
        found.append(f"{plural(prepared.lost_events, 'result', 'results')} could not be read back and are lost")
    if prepared.damaged_file_bytes:
        found.append(f"damaged files of {size(prepared.damaged_file_bytes)} were set aside (*.unreadable)")
    return "; ".join(found)


def _part(plan: WorkerPlanView) -> PlanPart:
    prepared = plan.prepared
    return PlanPart(
        plan=plan.plan,
        tenant=plan.tenant,
        epoch=plan.epoch,
        inflow=tuple(
            InflowRow(
                stream=one.stream,
                state="linked" if one.connected else "not linked",
                tone="good" if one.connected else "wait",
                receiver=one.receiver or UNKNOWN,
                speed=rate(one.events_per_s),
                sent=count(one.sent_events),
                waiting=count(one.waiting_events),
                under_way=_share(one.in_flight_rows, one.window_rows),
            )
            for one in plan.inflow
        ),
        outflow=tuple(
            (one.stream, rate(one.events_per_s), count(one.delivered_events), count(one.waiting_events))
            for one in plan.outflow
        ),
        publishers=tuple(
            PublisherRow(
                instance=one.instance,
                state="waits for a sink" if one.waits else "linked",
                tone="wait" if one.waits else "good",
                under_way=_share(one.in_flight_rows, one.window_rows),
            )
            for one in plan.publishers
        ),
        write_ahead_logs=tuple(map(_wal, plan.write_ahead_logs)),
        prepared=(
            f"{plural(prepared.events, 'result', 'results')} ({size(prepared.size_bytes)}), the oldest for "
            f"{duration(prepared.oldest_ms)}"
            if prepared is not None and prepared.events
            else "none"
            if prepared is not None
            else ""
        ),
        prepared_problem=_prepared_problem(prepared) if prepared is not None else "",
        last_error=plan.last_error,
        errors=count(sum(one.count for one in plan.errors)),
    )


def _wal(one: WalReport) -> WalRow:
    share = one.size_bytes / one.maximum_bytes if one.maximum_bytes else 0.0
    tone: Tone = "bad" if one.problem else "warn" if share >= NEARLY_FULL else "good"
    return WalRow(
        stream=one.stream,
        used=Share(f"{size(one.size_bytes)} of {size(one.maximum_bytes)}", min(1_000, round(share * 1_000)), tone),
        segments=count(one.segments),
        oldest=duration(one.oldest_ms) if one.oldest_ms else "none waits",
        lost=count(one.lost_events),
        aside=size(one.damaged_file_bytes) if one.damaged_file_bytes else "none",
        problem=one.problem,
    )


def _share(used: int, most: int) -> Share:
    if not most:
        return Share(UNKNOWN, 0, "idle")
    share = min(1.0, used / most)
    return Share(f"{count(used)} of {count(most)}", round(share * 1_000), "warn" if share >= NEARLY_FULL else "good")


def _address(endpoint: Endpoint | None) -> str:
    return f"{endpoint.host}:{endpoint.port}" if endpoint is not None else UNKNOWN
