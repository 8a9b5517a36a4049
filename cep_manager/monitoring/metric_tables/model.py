"""Data types of recorded metrics: readings of counters, rows of the tables, points of the charts. Data alone."""

from __future__ import annotations

from typing import Literal

import msgspec

from cep_common.ids import PlanKey
from cep_common.protocol.tasks import ComponentState

Kind = Literal["gauge", "counter", "meter", "histogram", "timer"]


class StageReading(msgspec.Struct, frozen=True):
    """A stage, its instances added up. `busy` is, by instance, how long it has worked, and when that was heard."""

    component: str
    received: int
    emitted: int
    dropped: int
    errors: int
    queued: int
    heard_ms: int
    busy: dict[str, tuple[int, int]]
    held: tuple[ComponentState, ...]


class QueryReading(msgspec.Struct, frozen=True):
    """A query's events by how long it worked on them, since the tasks that run it started."""

    query: str
    heard_ms: int
    latencies: dict[int, int]


class PlanReading(msgspec.Struct, frozen=True):
    """The current values of a plan's counters.

    `counts` is False while its stages count nothing, `detailed` is True while they count for each query. `heard_ms` is
    when its receivers were heard last (monotonic); `streams` are events by stream, `latencies` events of receivers by
    bucket, `checkpoints` the duration (ms) and the size (bytes) of its newest complete ones.
    """

    key: PlanKey
    counts: bool
    detailed: bool
    received: int
    emitted: int
    heard_ms: int
    since_ms: int
    latencies: dict[int, int]
    streams: dict[str, int]
    stages: tuple[StageReading, ...]
    queries: tuple[QueryReading, ...]
    checkpoints: tuple[tuple[float, float], ...]


class MetricRow(msgspec.Struct, frozen=True):
    """A row of one of the tables: what `name` of `source` was at the time of day `at_ms`."""

    kind: Kind
    source: str
    at_ms: int
    name: str
    values: dict[str, float | str]


class PlanPoint(msgspec.Struct, frozen=True):
    """A plan's metrics since the previous point; None where nothing was counted or measured.

    Rates are events a second, latencies milliseconds, `capacity` the share of time that its busiest instance worked.
    """

    at_ms: int
    received: float | None = None
    emitted: float | None = None
    latency_p50: float | None = None
    latency_p99: float | None = None
    capacity: float | None = None
    state_rows: float | None = None
    queue: float | None = None
