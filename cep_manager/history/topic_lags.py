"""Detects plans that read topics more slowly than others write them, from workers' reports. Pure.

The lag of each topic is recorded every `SAMPLE_MS`. It grows when every lag of the later half of `GROWS_MS` is above
every lag of the earlier half, and the newest is above the first of that half: a burst that is being worked off does
not, nor does a lag that a higher rate has raised once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

import msgspec

from cep_common.protocol.worker_reports import ConnectorReport

SAMPLE_MS = 30_000
GROWS_MS = 300_000
_SAMPLES = GROWS_MS // SAMPLE_MS + 1
FORGOTTEN_MS = 60_000
"""A worker that has been silent for this long is assumed to read nothing."""

PlanName = tuple[int, str]
"""Tenant and name."""


class GrowingLag(msgspec.Struct, frozen=True):
    """A topic whose lag grows: `messages` are not read, `before` were not at `since_ms` (monotonic)."""

    topic: str
    messages: int
    before: int
    since_ms: int


class TopicLags:
    """Lags by plan and topic. Not thread-safe, but the results of `growing` may be shared."""

    def __init__(self) -> None:
        self._reports: dict[str, tuple[int, dict[tuple[PlanName, str], int]]] = {}
        self._samples: dict[tuple[PlanName, str], deque[int]] = {}
        self._sampled_ms: int | None = None

    def heard(self, worker: str, connectors: Iterable[ConnectorReport], now_ms: int) -> None:
        """Note what the worker has not read, and sample all topics when it is time."""
        lags: dict[tuple[PlanName, str], int] = {}
        for source in connectors:
            for one in source.partitions:
                name = ((source.tenant, source.plan), one.topic)
                lags[name] = lags.get(name, 0) + one.lag
        self._reports[worker] = (now_ms, lags)
        if self._sampled_ms is None or now_ms - self._sampled_ms >= SAMPLE_MS:
            self._sampled_ms = now_ms
            self._sample(now_ms)

    def growing(self) -> dict[PlanName, tuple[GrowingLag, ...]]:
        """Return the topics whose lag grows, by plan."""
        found: dict[PlanName, tuple[GrowingLag, ...]] = {}
        for (plan, topic), lags in self._samples.items():
            if _grows(lags):
                since_ms = (self._sampled_ms or 0) - GROWS_MS
                found[plan] = (*found.get(plan, ()), GrowingLag(topic, lags[-1], lags[0], since_ms))
        return found

    def _sample(self, now_ms: int) -> None:
        self._reports = {name: report for name, report in self._reports.items() if now_ms - report[0] < FORGOTTEN_MS}
        sums: dict[tuple[PlanName, str], int] = {}
        for _, lags in self._reports.values():
            for name, lag in lags.items():
                sums[name] = sums.get(name, 0) + lag
        before, self._samples = self._samples, {}
        for name, lag in sums.items():
            self._samples[name] = before.get(name) or deque(maxlen=_SAMPLES)
            self._samples[name].append(lag)


def _grows(lags: deque[int]) -> bool:
    if len(lags) < _SAMPLES:
        return False
    earlier, later = list(lags)[: _SAMPLES // 2], list(lags)[_SAMPLES // 2 :]
    return min(later) > max(earlier) and later[-1] > later[0]
