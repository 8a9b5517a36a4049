"""The activity of component instances in a window, in Storm's metrics. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import msgspec

from cep_manager.history.counter_history import CounterHistory

CAPACITY_WINDOW_S = 600


class WindowMetrics(msgspec.Struct, frozen=True):
    """Counts of one or several instances in a window; `received` and `emitted` by stream, `latencies` by bucket.

    `covered_ms` is how much of the window counting covers, that of the instance that has counted longest.
    """

    received: dict[str, int] = {}
    emitted: dict[str, int] = {}
    latencies: dict[int, int] = {}
    busy_ms: int = 0
    bundles: int = 0
    stay_ms: int = 0
    dropped: int = 0
    errors: int = 0
    covered_ms: int = 0

    def events_received(self) -> int:
        return sum(self.received.values())

    def events_emitted(self) -> int:
        return sum(self.emitted.values())

    def execute_latency_ms(self) -> float | None:
        """Return the mean processing time of an event; None without events."""
        return _mean(self.busy_ms, self.events_received())

    def bundle_latency_ms(self) -> float | None:
        """Return the mean time that working on a bundle of events took; None without any."""
        return _mean(self.busy_ms, self.bundles)

    def stay_latency_ms(self) -> float | None:
        """Return the mean time that an event stayed; at a receiver until all that came of it had gone on."""
        return _mean(self.stay_ms, self.events_received())

    def busy_share(self) -> float:
        """Return the share of the time that was spent working, 0 to 1 for one instance."""
        return self.busy_ms / self.covered_ms if self.covered_ms else 0.0


def _mean(total_ms: int, events: int) -> float | None:
    return total_ms / events if events else None


def window_metrics(history: CounterHistory, window_s: int | None, now_ms: int) -> WindowMetrics:
    """Return an instance's metrics of the last `window_s` seconds, one of `WINDOWS_S`, or of all its time (None)."""
    counts = history.in_all() if window_s is None else history.within(window_s, now_ms)
    lived_ms = max(0, now_ms - history.since_ms)
    by_kind: dict[str, dict[str, int]] = {}
    for (kind, of), events in counts.items():
        by_kind.setdefault(kind, {})[of] = events
    return WindowMetrics(
        received=by_kind.get("received", {}),
        emitted=by_kind.get("emitted", {}),
        latencies={int(bucket): events for bucket, events in by_kind.get("latency", {}).items() if events},
        busy_ms=counts.get(("busy_ms", ""), 0),
        bundles=counts.get(("bundles", ""), 0),
        stay_ms=counts.get(("stay_ms", ""), 0),
        dropped=counts.get(("dropped", ""), 0),
        errors=counts.get(("errors", ""), 0),
        covered_ms=lived_ms if window_s is None else min(window_s * 1_000, lived_ms),
    )


def added_up(parts: Iterable[WindowMetrics]) -> WindowMetrics:
    """Return the metrics of several instances together."""
    received: Counter[str] = Counter()
    emitted: Counter[str] = Counter()
    latencies: Counter[int] = Counter()
    sums: Counter[str] = Counter()
    covered_ms = 0
    for part in parts:
        received.update(part.received)
        emitted.update(part.emitted)
        latencies.update(part.latencies)
        for name in ("busy_ms", "bundles", "stay_ms", "dropped", "errors"):
            sums[name] += getattr(part, name)
        covered_ms = max(covered_ms, part.covered_ms)
    return WindowMetrics(dict(received), dict(emitted), dict(latencies), covered_ms=covered_ms, **sums)


def capacity(histories: Iterable[CounterHistory], now_ms: int) -> float:
    """Return the share of the last ten minutes that the busiest instance spent working.

    Near 1 it is at its limit.
    """
    return max((window_metrics(one, CAPACITY_WINDOW_S, now_ms).busy_share() for one in histories), default=0.0)
