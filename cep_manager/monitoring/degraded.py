"""Detects failing parts of a running plan: sinks and sources that fail, logs that are full or broken. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import msgspec

from cep_common.ids import PlanKey
from cep_common.protocol.registry import RegisterWorker, WorkerPlanReport
from cep_common.protocol.worker_reports import ConnectorReport, PreparedResultsReport
from cep_manager.control.members import ClusterMember, undelivered_results

Worker = ClusterMember[RegisterWorker]


class DegradedPart(msgspec.Struct, frozen=True):
    """A part of a plan at a `worker` that does not work, and why (`error`).

    It is a sink or source of `type` and `stream`, or the worker's log of a stream or of results. The fault began at the
    time of day `since_ms` (0: not known), and `waiting_events` wait for the part.
    """

    worker: str
    kind: Literal["sink", "source", "log", "results"]
    type: str
    stream: str
    error: str
    since_ms: int = 0
    waiting_events: int = 0

    def name(self) -> str:
        """Return the part's name for messages."""
        if self.kind in ("sink", "source"):
            return f"{self.type} {self.kind} of {self.stream}"
        return f"log of {self.stream}" if self.kind == "log" else "log of results"


def degraded_parts(key: PlanKey, workers: tuple[tuple[Worker, WorkerPlanReport], ...]) -> tuple[DegradedPart, ...]:
    """Return the plan's faulty parts as live workers report them, longest-lasting first."""
    found = [part for worker, report in workers for part in _parts(key, worker.latest, report)]
    return tuple(sorted(found, key=lambda part: (part.since_ms or 2**63, part.worker, part.name())))


def reason_of(parts: tuple[DegradedPart, ...]) -> str:
    """Return why the plan is degraded, in a line."""
    if not parts:
        return ""
    first = parts[0]
    waits = f"; {first.waiting_events:,} events wait" if first.waiting_events else ""
    more = f" (and {len(parts) - 1} more)" if len(parts) > 1 else ""
    return f"{first.name()} at {first.worker}: {first.error}{waits}{more}"


def _parts(key: PlanKey, worker: RegisterWorker, report: WorkerPlanReport) -> Iterator[DegradedPart]:
    name = worker.worker
    mine = [one for one in worker.connectors if (one.tenant, one.plan) == (key.tenant, key.plan)]
    failing = [one for one in mine if one.error]
    full = full_reason(report.prepared)
    for one in failing:
        error = one.error.removeprefix(f"@{one.direction}(type='{one.type}') of stream {one.stream}: ")
        error += f"; {full}, and sources wait" if full and one.direction == "sink" else ""
        waiting = _waits_for(one, mine, report) if one.direction == "sink" else one.waiting_events
        yield DegradedPart(name, one.direction, one.type, one.stream, error, one.since_ms, waiting)
    for wal in report.write_ahead_logs:
        if wal.problem:
            yield DegradedPart(name, "log", "", wal.stream, wal.problem)
    if full and not any(one.direction == "sink" for one in failing):
        error = f"{full}: sinks are slower than the results arrive, and sources wait"
        yield DegradedPart(name, "results", "", "", error, 0, undelivered_results(report))
    elif report.last_error and not failing:
        yield DegradedPart(name, "results", "", "", report.last_error, 0, undelivered_results(report))


def full_reason(prepared: PreparedResultsReport | None) -> str:
    """Return the error that the log of undelivered results is full, or an empty text."""
    if prepared is None or not prepared.full:
        return ""
    limit = f" (results.max_undelivered_bytes: {prepared.maximum_bytes:,})" if prepared.maximum_bytes else ""
    return f"the log of undelivered results is full{limit}"


def _waits_for(sink: ConnectorReport, mine: list[ConnectorReport], report: WorkerPlanReport) -> int:
    """Return how many events wait for the sink; those on disk count only if no other sink fails."""
    alone = sum(one.direction == "sink" and bool(one.error) for one in mine) == 1
    return max(sink.waiting_events, undelivered_results(report)) if alone else sink.waiting_events
