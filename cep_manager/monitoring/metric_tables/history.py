"""The history of a plan's metrics, in steps, for the charts. Pure, except for the reader that is passed in."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Literal, NamedTuple

import msgspec

from cep_common.ids import PlanKey
from cep_manager.monitoring.metric_tables.model import Kind, PlanPoint
from cep_manager.monitoring.metric_tables.names import of_plan, source_of

Metric = Literal["received", "emitted", "latency_p50", "latency_p99", "capacity", "state_rows", "queue"]


class Series(NamedTuple):
    """The location of a metric in the tables, its unit, and whether a step shows its maximum or its mean."""

    kind: Kind
    name: str
    column: str
    unit: str
    greatest: bool


SERIES: dict[Metric, Series] = {
    "received": Series("meter", "throughput", "count", "events/s", greatest=False),
    "emitted": Series("meter", "emitted.throughput", "count", "events/s", greatest=False),
    "latency_p50": Series("timer", "latency", "p50", "ms", greatest=False),
    "latency_p99": Series("timer", "latency", "p99", "ms", greatest=True),
    "capacity": Series("gauge", "capacity", "value", "share", greatest=True),
    "state_rows": Series("gauge", "rows", "value", "rows", greatest=False),
    "queue": Series("gauge", "size", "value", "events", greatest=True),
}

MOST_STEPS = 2_000

MISSED = 3
"""A gap of more intervals than this without a row is shown as unknown."""


class Wanted(NamedTuple):
    """A metric from one time of day until another, in steps of a number of milliseconds."""

    metric: Metric
    since_ms: int
    until_ms: int
    step_ms: int


class PlanHistory(msgspec.Struct, frozen=True):
    """`points` are (time of day at the end of the step, value), None where nothing was recorded.

    They come from the metric `tables`, or from `memory`, which keeps the last three hours. `problem` says why the
    tables could not be read.
    """

    plan: str
    tenant: int
    metric: Metric
    unit: str
    step_ms: int
    source: Literal["tables", "memory"]
    points: tuple[tuple[int, float | None], ...]
    problem: str = ""


Read = Callable[[Kind, str, str, str, int, int], list[tuple[int, float]]]
"""Kind, source, name, column, since, until: see `MetricDatabase.read`."""


def from_tables(read: Read, key: PlanKey, wanted: Wanted, interval_ms: int) -> PlanHistory:
    """Return the history as the tables have it, whose rows come every `interval_ms`."""
    series = SERIES[wanted.metric]
    longest_ms = MISSED * max(interval_ms, 1_000)
    since_ms = wanted.since_ms - longest_ms  # a rate needs the row before
    values: Iterable[tuple[int, float]] = read(
        series.kind, source_of(key), of_plan(key, series.name), series.column, since_ms, wanted.until_ms
    )
    if series.kind == "meter":
        values = _rates(list(values), longest_ms)
    return _history(key, wanted, "tables", values)


def from_points(points: Sequence[PlanPoint], key: PlanKey, wanted: Wanted, problem: str = "") -> PlanHistory:
    """Return the history as memory has it."""
    values = ((point.at_ms, getattr(point, wanted.metric)) for point in points)
    return _history(key, wanted, "memory", ((at_ms, value) for at_ms, value in values if value is not None), problem)


def _rates(counts: Sequence[tuple[int, float]], longest_ms: int) -> Iterable[tuple[int, float]]:
    """Yield the growth rate of a counter between rows that are not too far apart.

    A counter that fell was restarted.
    """
    for (before_ms, before), (at_ms, count) in itertools.pairwise(counts):
        if 0 < at_ms - before_ms <= longest_ms:
            yield at_ms, (count - before if count >= before else count) * 1_000 / (at_ms - before_ms)


def _history(
    key: PlanKey,
    wanted: Wanted,
    source: Literal["tables", "memory"],
    values: Iterable[tuple[int, float]],
    problem: str = "",
) -> PlanHistory:
    series = SERIES[wanted.metric]
    steps: dict[int, list[float]] = {}
    for at_ms, value in values:
        if wanted.since_ms < at_ms <= wanted.until_ms:
            steps.setdefault(math.ceil((at_ms - wanted.since_ms) / wanted.step_ms), []).append(value)
    last = math.ceil((wanted.until_ms - wanted.since_ms) / wanted.step_ms)
    points = tuple(
        (min(wanted.since_ms + step * wanted.step_ms, wanted.until_ms), _aggregate(steps.get(step), series.greatest))
        for step in range(1, last + 1)
    )
    return PlanHistory(
        key.plan, key.tenant, wanted.metric, series.unit, wanted.step_ms, source, points, problem
    )  # fmt: skip


def _aggregate(values: Sequence[float] | None, greatest: bool) -> float | None:
    if not values:
        return None
    return round(max(values) if greatest else sum(values) / len(values), 6)
