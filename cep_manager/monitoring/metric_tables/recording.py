"""From one reading of the counters to the next: rows for the tables and points for the charts. Pure.

look ──────────── interval ──────────── look
 counters              growth ÷ time between the heartbeats that told them = rate
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import msgspec

from cep_common.ids import PlanKey
from cep_common.monitoring.latency import middle_ms, percentile_ms
from cep_manager.monitoring.metric_tables.distribution import spread
from cep_manager.monitoring.metric_tables.meter import Meter
from cep_manager.monitoring.metric_tables.model import Kind, MetricRow, PlanPoint, PlanReading, StageReading
from cep_manager.monitoring.metric_tables.names import KINDS, of_part, of_plan, source_of

Values = dict[str, float | str]
PER_SECOND: Values = {"rate_unit": "events/second"}
PLACES = 6
"""More decimal places carry no information."""


class _Timed(msgspec.Struct):
    """Events by bucket as they stood at the last look, and their meter."""

    latencies: dict[int, int]
    meter: Meter


class _LastSample:
    """The values of a plan's previous reading."""

    def __init__(self) -> None:
        self.meters: dict[str, Meter] = {}
        self.timers: dict[str, _Timed] = {}
        self.busy: dict[str, tuple[int, int]] = {}
        self.reading: PlanReading | None = None
        self.idle: PlanPoint | None = None
        """Its point after a look at which the reading was the one of the look before."""


class Recording:
    """Compares counters with those of the previous reading. Not thread-safe."""

    def __init__(self, *, keeps_rows: bool = True) -> None:
        """Without `keeps_rows` there are points alone, for where nothing writes rows into tables."""
        self._keeps_rows = keeps_rows
        self._plans: dict[PlanKey, _LastSample] = {}

    def take(
        self, readings: Iterable[PlanReading], monotonic_ms: int, now_ms: int
    ) -> tuple[list[MetricRow], dict[PlanKey, PlanPoint]]:
        """Return the rows and points that follow from these readings and the previous ones.

        `monotonic_ms` and the time of day `now_ms` are when the readings were taken. A plan that is new or whose
        counters were restarted gives points from its second reading on; a removed one is dropped.
        """
        rows: list[MetricRow] = []
        points: dict[PlanKey, PlanPoint] = {}
        plans, self._plans = self._plans, {}
        for reading in readings:
            before = plans.get(reading.key) if reading.counts else None
            same = before is not None and before.reading is reading
            if before is not None and before.idle is not None and same and not self._keeps_rows:
                points[reading.key] = msgspec.structs.replace(before.idle, at_ms=now_ms)
                self._plans[reading.key] = before
                continue
            look = _Look(reading, before, now_ms - monotonic_ms, now_ms, self._keeps_rows)
            point = points[reading.key] = look.point()
            rows += look.rows
            if reading.counts:
                look.plan.reading, look.plan.idle = reading, point if same else None
                self._plans[reading.key] = look.plan
        return rows, points


class _Look:
    """The readings of one plan at one moment. `shift_ms` turns monotonic times into times of day."""

    def __init__(
        self, reading: PlanReading, before: _LastSample | None, shift_ms: int, now_ms: int, keeps_rows: bool
    ) -> None:
        self._keeps_rows = keeps_rows
        self.reading = reading
        self.plan = _LastSample()
        self.rows: list[MetricRow] = []
        self._before = before or _LastSample()
        self._shift_ms = shift_ms
        self._now_ms = now_ms
        self._source = source_of(reading.key)

    def point(self) -> PlanPoint:
        """Return the point for the charts, and add this moment's rows to `rows`."""
        reading, key = self.reading, self.reading.key
        queued = sum(stage.queued for stage in reading.stages)
        self._gauge(of_plan(key, "size"), queued)
        point = PlanPoint(self._now_ms, queue=queued)
        for stage in reading.stages if self._keeps_rows else ():
            self._stage_always(stage)
        if not reading.counts:
            return point
        received = self._meter(of_plan(key, "throughput"), reading.received, reading.heard_ms)
        emitted = self._meter(of_plan(key, "emitted.throughput"), reading.emitted, reading.heard_ms)
        latencies = self._timer(of_plan(key, "latency"), reading.latencies, reading.heard_ms)
        for stream, events in sorted(reading.streams.items()):
            self._meter(of_part(key, "Streams", stream, "throughput"), events, reading.heard_ms)
        capacity = self._stages()
        for query in reading.queries:
            self._timer(of_part(key, "Queries", query.query, "latency"), query.latencies, query.heard_ms)
        if self._keeps_rows:
            self._checkpoints()
        held = [part for stage in reading.stages for part in stage.held]
        state_rows = sum(part.rows for part in held if part.kind != "strings")
        self._gauge(of_plan(key, "rows"), state_rows)
        self._gauge(of_plan(key, "memory"), sum(part.bytes for part in held))
        if capacity is not None:
            self._gauge(of_plan(key, "capacity"), capacity)
        return msgspec.structs.replace(
            point,
            received=received,
            emitted=emitted,
            latency_p50=percentile_ms(latencies, 0.5),
            latency_p99=percentile_ms(latencies, 0.99),
            capacity=capacity,
            state_rows=state_rows,
        )

    def _stage_always(self, stage: StageReading) -> None:
        """Add the metrics that the runtime itself relies on, at every statistics level."""
        key = self.reading.key
        self._gauge(of_part(key, "Stages", stage.component, "size"), stage.queued)
        self._row("counter", of_part(key, "Stages", stage.component, "errors"), self._now_ms, {"count": stage.errors})
        self._row("counter", of_part(key, "Stages", stage.component, "dropped"), self._now_ms, {"count": stage.dropped})

    def _stages(self) -> float | None:
        """Return the capacity of the busiest instance of all; None at the first reading."""
        key = self.reading.key
        shares: list[float] = []
        for stage in self.reading.stages:
            if not stage.busy:
                continue  # none of its instances has reported: the start of its counting is unknown
            self._meter(of_part(key, "Stages", stage.component, "throughput"), stage.received, stage.heard_ms)
            self._meter(of_part(key, "Stages", stage.component, "emitted.throughput"), stage.emitted, stage.heard_ms)
            share = self._capacity(stage.busy)
            if share is not None:
                self._gauge(of_part(key, "Stages", stage.component, "capacity"), share)
                shares.append(share)
            for part in stage.held:
                if part.kind in KINDS and self.reading.detailed:
                    self._gauge(of_part(key, KINDS[part.kind], part.name, "memory"), part.bytes)
            if stage.held:
                self._gauge(of_part(key, "Stages", stage.component, "memory"), sum(part.bytes for part in stage.held))
        return max(shares, default=None)

    def _capacity(self, busy: Mapping[str, tuple[int, int]]) -> float | None:
        shares = []
        for name, (busy_ms, heard_ms) in busy.items():
            before = self._before.busy.get(name)
            self.plan.busy[name] = (busy_ms, heard_ms)
            if before is not None and heard_ms > before[1] and busy_ms >= before[0]:
                shares.append(min(1.0, (busy_ms - before[0]) / (heard_ms - before[1])))
        return max(shares, default=None)

    def _checkpoints(self) -> None:
        for place, what in enumerate(("duration", "size")):
            counts = Counter(one[place] for one in self.reading.checkpoints)
            if counts:
                values: Values = {"count": counts.total(), **_rounded(spread(counts))}
                self._row("histogram", of_part(self.reading.key, "Checkpoints", "all", what), self._now_ms, values)

    def _gauge(self, name: str, value: float) -> None:
        if self._keeps_rows:
            self._row("gauge", name, self._now_ms, {"value": str(round(value, PLACES))})

    def _meter(self, name: str, count: int, heard_ms: int) -> float | None:
        meter, rate = self._followed(self._before.meters.get(name), count, heard_ms)
        self.plan.meters[name] = meter
        if self._keeps_rows:
            values: Values = {"count": count, **_rounded(meter.rates()), **PER_SECOND}
            self._row("meter", name, heard_ms + self._shift_ms, values)
        return None if rate is None else round(rate, PLACES)

    def _timer(self, name: str, latencies: dict[int, int], heard_ms: int) -> Mapping[int, int]:
        """Return the events since the last look, by bucket. Without any there is no row: nothing was measured."""
        count = sum(latencies.values())
        before = self._before.timers.get(name)
        meter, _ = self._followed(before.meter if before else None, count, heard_ms)
        self.plan.timers[name] = _Timed(latencies, meter)
        growth = _growth(before.latencies, latencies) if before else {}
        if growth and self._keeps_rows:
            values: Values = {
                "count": count,
                **_rounded(spread({middle_ms(index): events for index, events in growth.items()})),
                **_rounded(meter.rates()),
                **PER_SECOND,
                "duration_unit": "milliseconds",
            }
            self._row("timer", name, heard_ms + self._shift_ms, values)
        return growth

    def _followed(self, meter: Meter | None, count: int, heard_ms: int) -> tuple[Meter, float | None]:
        since_ms = self.reading.since_ms
        if meter is None:
            return Meter(count, heard_ms, since_ms), None
        return meter, meter.update(count, heard_ms, since_ms)

    def _row(self, kind: Kind, name: str, at_ms: int, values: Values) -> None:
        self.rows.append(MetricRow(kind, self._source, at_ms, name, values))


def _growth(before: Mapping[int, int], now: Mapping[int, int]) -> dict[int, int]:
    """Return the growth of a histogram; all of it if it was restarted."""
    if any(now.get(index, 0) < events for index, events in before.items()):
        before = {}
    return {index: grown for index, events in now.items() if (grown := events - before.get(index, 0)) > 0}


def _rounded(values: Mapping[str, float]) -> dict[str, float]:
    return {name: round(value, PLACES) for name, value in values.items()}
