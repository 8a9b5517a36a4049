"""The interface of component instances, and their statistics."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from cep_common.monitoring.latency import bucket
from cep_common.protocol.error_records import ErrorLog
from cep_common.protocol.tasks import (
    ComponentKind,
    ComponentReport,
    ComponentState,
    QueryReport,
    StatisticsLevel,
    StreamCount,
)
from cep_common.writable import writable
from topology.events.bundle import Bundle

Emit = Callable[[Bundle], None]
"""Passes a bundle to every consumer of the instance's component."""

Of = TypeVar("Of", str, int)

Parts = Mapping[str, bytes]
"""The state of an instance, by the names of its parts: those that can be split or matched separately."""
NO_STATE: Parts = {}


class StageInstance(Protocol):
    """One instance of a component. All calls come from the task's one thread; times are the task's clock in ms."""

    name: str
    statistics: InstanceStatistics

    def open(self, now_ms: int, state: Parts = NO_STATE) -> None:
        """Open the instance; called once, before anything else.

        `state` is what `snapshot` of an instance of the same stage returned, in a topology of the same plan that this
        one replaces; empty: there is no earlier state.
        """

    def on_bundle(self, bundle: Bundle, now_ms: int) -> None:
        """Process a bundle and make sure that it is settled, now or when its rows have been passed on."""

    def on_time(self, now_ms: int) -> None:
        """Perform due work; called at `next_deadline_ms`."""

    def next_deadline_ms(self) -> int | None:
        """Return when `on_time` must be called next, or None."""

    def snapshot(self) -> Parts:
        """Return the whole state between two bundles; empty for an instance that keeps none."""

    def mark(self, checkpoint: int) -> Parts:
        """Return the instance's state for `checkpoint`, whose marker has been sent to all consumers."""

    def close(self) -> None:
        """Close the instance; called once, after everything else."""


Counts = defaultdict[Of, int]
"""A plain dictionary, since `collections.Counter` takes twice as long to count."""


def _none() -> Counts[Of]:
    return defaultdict(int)


@dataclass(slots=True)
class QueryWork:
    """The work of one query while the level was `detail`."""

    events: int = 0
    busy_ns: int = 0
    latencies: Counts[int] = field(default_factory=_none)

    def report(self, query: str) -> QueryReport:
        """Return the counters in the form sent to the manager."""
        latencies = tuple((index, events) for index, events in sorted(self.latencies.items()) if events)
        return QueryReport(query, self.events, self.busy_ns // 1_000, latencies)


@dataclass(slots=True)
class InstanceStatistics:
    """Counters of one instance since its task started.

    `stay_ns` is the sum of the times that events were here; at receivers, `latencies` count events by the time until
    all their results had been passed on. Times in nanoseconds are those of `perf_counter_ns`.

    While the level is `off`, only errors, drops and waiting rows are counted, which the runtime itself needs.
    """

    component: str
    kind: ComponentKind
    received: Counts[str] = field(default_factory=_none)
    emitted: Counts[str] = field(default_factory=_none)
    dropped_events: int = 0
    late: Mapping[str, int] = field(default_factory=dict)
    """The number of late events by stream."""
    awaits: tuple[str, ...] = ()
    """What time waits for: streams without a first event, or channels that have not been served."""
    behind_ms: int = 0
    """The lag of processing time behind the time of day."""
    queued_events: int = 0
    busy_ns: int = 0
    bundles: int = 0
    stay_ns: int = 0
    latencies: Counts[int] = field(default_factory=_none)
    errors: int = 0
    last_error: str = ""
    last_error_ms: int = 0
    failures: ErrorLog = field(default_factory=ErrorLog)
    held: tuple[ComponentState, ...] = ()
    queries: dict[str, QueryWork] = field(default_factory=dict)
    level: StatisticsLevel = "basic"
    _queued: int = 0
    _noted_ns: int = 0

    def took(self, stream: str, events: int) -> None:
        """Count received events of `stream`."""
        if self.level != "off":
            self.received[stream] += events

    def gave(self, stream: str, events: int) -> None:
        """Count emitted events of `stream`; a negative number subtracts events that must be sent again."""
        if self.level != "off":
            self.emitted[stream] += events

    def passed(self, stream: str, events: int) -> None:
        """Count events of `stream` that were received and emitted."""
        if self.level != "off":
            self.received[stream] += events
            self.emitted[stream] += events

    def error(self, code: str, text: str, now_ms: int, count: int = 1) -> bool:
        """Count `count` more occurrences of an error at `now_ms` (time of day). Return whether the error is new."""
        self.errors += count
        self.last_error, self.last_error_ms = writable(text), now_ms
        return self.failures.note(code, text, now_ms, count=count)

    def explain(self, code: str, text: str, now_ms: int, count: int) -> bool:
        """Record why `count` events failed that are already counted as errors. Return whether the reason is new."""
        return self.failures.note(code, text, now_ms, count=count)

    def worked(self, events: int, started_ns: int, now_ns: int) -> None:
        """Record work on `events` new events that began at `started_ns`; `queued_events` remain.

        Events that were queued before have been here since the last call, new ones since the start, which is added to
        the sum of all stays.
        """
        if self.level == "off":
            self._queued = 0  # waiting events stay uncounted, since their arrival times are unknown
            return
        self.busy_ns += now_ns - started_ns
        self.stay_ns += self._queued * (now_ns - self._noted_ns) + events * (now_ns - started_ns)
        self.bundles += events > 0
        self._queued, self._noted_ns = self.queued_events, now_ns

    def gone_on(self, events: int, came_ns: int, now_ns: int) -> None:
        """Record that all results of `events` received at `came_ns` have been passed on."""
        if self.level == "off":
            return
        self.stay_ns += events * (now_ns - came_ns)
        self.latencies[bucket(now_ns - came_ns)] += events

    def queried(self, query: str, events: int, length_ns: int) -> None:
        """Record that `query` has processed a batch of `events` events in `length_ns`."""
        work = self.queries.get(query)
        if work is None:
            work = self.queries[query] = QueryWork()
        work.events += events
        work.busy_ns += length_ns
        work.latencies[bucket(length_ns)] += events

    def report(self, instance: str, peers: tuple[str, ...]) -> ComponentReport:
        """Return the counters in the form sent to the manager."""
        return ComponentReport(
            instance=instance,
            component=self.component,
            kind=self.kind,
            peers=peers,
            received=_counts(self.received),
            emitted=_counts(self.emitted),
            dropped_events=self.dropped_events,
            queued_events=self.queued_events,
            busy_ms=self.busy_ns // 1_000_000,
            bundles=self.bundles,
            stay_ms=self.stay_ns // 1_000_000,
            latencies=tuple(sorted(self.latencies.items())),
            errors=self.errors,
            last_error=self.last_error,
            last_error_ms=self.last_error_ms,
            failures=self.failures.records(),
            late=tuple(StreamCount(stream, events) for stream, events in sorted(self.late.items())),
            awaits=self.awaits,
            behind_ms=self.behind_ms,
            held=self.held,
            queries=tuple(work.report(query) for query, work in sorted(self.queries.items())),
        )


def _counts(counter: Counts[str]) -> tuple[StreamCount, ...]:
    return tuple(StreamCount(stream, events) for stream, events in sorted(counter.items()))
