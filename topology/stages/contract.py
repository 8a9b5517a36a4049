"""The contract of a component instance, and what every instance counts."""

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
"""Hands a bundle to every consumer of the instance's component."""

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
        """Do everything that is due; called at `next_deadline_ms`."""

    def next_deadline_ms(self) -> int | None:
        """Return when `on_time` must be called next, or None."""

    def snapshot(self) -> Parts:
        """Return the whole state between two bundles; empty for an instance that keeps none."""

    def mark(self, checkpoint: int) -> Parts:
        """Return the instance's state for `checkpoint`, whose marker has been sent to all consumers."""

    def close(self) -> None:
        """Close the instance; called once, after everything else."""


Counts = defaultdict[Of, int]
"""Plain counters: `collections.Counter` takes twice as long to count, for each piece of events."""


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

    `stay_ns` adds up how long each event was here; `latencies` count, at receivers, the events by how long it took
    until all their results had been passed on. Times in nanoseconds are those of `perf_counter_ns`.

    While the level is `off`, only errors, drops and waiting rows are counted, which the runtime itself needs.
    """

    component: str
    kind: ComponentKind
    received: Counts[str] = field(default_factory=_none)
    emitted: Counts[str] = field(default_factory=_none)
    dropped_events: int = 0
    late: Mapping[str, int] = field(default_factory=dict)
    """By stream, the number of events behind the clock."""
    awaits: tuple[str, ...] = ()
    """What time waits for: streams without a first event, or channels that have not been served."""
    behind_ms: int = 0
    """How far processing time is behind the time of day."""
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
        """Events of `stream` came in."""
        if self.level != "off":
            self.received[stream] += events

    def gave(self, stream: str, events: int) -> None:
        """Count events of `stream` that were sent on; a negative number takes back what must be sent again."""
        if self.level != "off":
            self.emitted[stream] += events

    def passed(self, stream: str, events: int) -> None:
        """Count events of `stream` that came in and were sent on."""
        if self.level != "off":
            self.received[stream] += events
            self.emitted[stream] += events

    def error(self, code: str, text: str, now_ms: int, count: int = 1) -> bool:
        """Count an error that came `count` times more at `now_ms`, a time of day; return True for a new kind."""
        self.errors += count
        self.last_error, self.last_error_ms = writable(text), now_ms
        return self.failures.note(code, text, now_ms, count=count)

    def explain(self, code: str, text: str, now_ms: int, count: int) -> bool:
        """Record why `count` events failed that are counted as errors by themselves; return True for a new kind."""
        return self.failures.note(code, text, now_ms, count=count)

    def worked(self, events: int, started_ns: int, now_ns: int) -> None:
        """Work that began at `started_ns` with `events` more is done; `queued_events` of all remain.

        Each one that was queued before has been here since the last call, each new one since the start: added up, that
        is how long all of them stay.
        """
        if self.level == "off":
            self._queued = 0  # waiting events stay uncounted, since their arrival times are unknown
            return
        self.busy_ns += now_ns - started_ns
        self.stay_ns += self._queued * (now_ns - self._noted_ns) + events * (now_ns - started_ns)
        self.bundles += events > 0
        self._queued, self._noted_ns = self.queued_events, now_ns

    def gone_on(self, events: int, came_ns: int, now_ns: int) -> None:
        """Record that all results of `events` that came in at `came_ns` have been passed on."""
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
