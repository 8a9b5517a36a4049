"""Incremental aggregations: events aggregated by group and by second, minute, hour, day, month and year.

    events      ·  ··   ·    ·· ·      · ·
    seconds  |  2 | 1 |    | 3 |  ...
    minutes  |            6              |  ...

Each event is added to its bucket of every duration when it comes (`accumulators` says why), so that a bucket can be
read while it is open and a late event finds its place as long as its bucket is kept.
"""

from __future__ import annotations

import itertools

import numpy as np

from siddhi.analysis import model
from siddhi.analysis.query.aggregations import TIMESTAMP
from siddhi.engine.columnar.batch import EventBatch
from siddhi.engine.columnar.column import Column
from siddhi.engine.columnar.kinds import CURRENT
from siddhi.engine.columnar.state_size import StateSize, held_bytes
from siddhi.engine.columnar.state_tree import State
from siddhi.engine.jit.arrays import NO_POSITIONS, Int64Array
from siddhi.engine.operators.base.operator import OperatorContext, Stateful, Step
from siddhi.engine.operators.expressions.compiler import ExpressionCompiler
from siddhi.engine.operators.expressions.evaluation import Evaluation, to_column
from siddhi.engine.operators.filters import drop_failed
from siddhi.engine.operators.incremental_aggregation.accumulators import Arrivals
from siddhi.engine.operators.incremental_aggregation.calendar import bucket_starts, sizes_of
from siddhi.engine.operators.incremental_aggregation.measures import build_measures
from siddhi.engine.operators.incremental_aggregation.period import time_or_none
from siddhi.engine.operators.incremental_aggregation.retention import retention_of
from siddhi.engine.operators.incremental_aggregation.row_order import GroupTexts, hash_map_places
from siddhi.engine.operators.incremental_aggregation.slot_index import SlotIndex
from siddhi.engine.operators.selection.groups import Groups
from siddhi.errors import Problem, SiddhiRuntimeError
from siddhi.language.ast import AttributeType

_LONG_AGO = np.iinfo(np.int64).min


class Aggregation(Stateful):
    """The buckets of one aggregation; `add` adds events, `find` returns rows.

    `compiler` records which attributes of the events are read.
    """

    def __init__(self, analysed: model.AnalysedAggregation, context: OperatorContext) -> None:
        self.id = analysed.schema.id
        self.schema = analysed.schema
        self.durations = analysed.durations
        self._sizes = sizes_of(analysed.durations)
        self.pool = context.pool
        self.compiler = ExpressionCompiler(context)
        self.retention = retention_of(analysed.retention)
        self._by = None if analysed.by is None else self.compiler.compile(analysed.by)
        self._measures = build_measures(analysed.selection, self.compiler, context)
        for key in analysed.selection.group_by:
            self.compiler.compile(key)
        self._groups = Groups(analysed.selection.group_by, context, several=False)
        self._group_texts = GroupTexts(self._groups)
        self._index = SlotIndex(len(analysed.durations))
        self._latest_ms = _LONG_AGO
        self.version = 0
        """Changes whenever results may change."""
        self._first_ms = 0
        self._cleaned_ms = 0

    def __len__(self) -> int:
        """Return how many rows are kept, over all durations."""
        return self._index.count

    # ---- events

    def add(self, batch: EventBatch, step: Step) -> None:
        """Add the current rows of `batch` to their buckets, and purge buckets that are due in between.

        The time of a row is its attribute from `aggregate by`, else the clock on arrival. Failed rows are recorded in
        `step`.
        """
        if not self.retention.enabled:
            self._take_in(batch, step)
            return
        # buckets are purged at multiples of the interval, before rows of the same time
        points = self._grid_points(batch.clocks)
        cuts = [0, *(np.flatnonzero(points[1:] != points[:-1]) + 1).tolist(), batch.size]
        for start, stop in itertools.pairwise(cuts):
            if stop > start:
                self._give_up(int(points[start]))
                self._take_in(batch.slice(start, stop), step)
        self._give_up(int(self._grid_points(step.clocks[-1:])[0]))

    def _take_in(self, batch: EventBatch, step: Step) -> None:
        if not batch.size:
            return
        evaluation = Evaluation(batch)
        times = self._times(evaluation)
        columns = {}
        for name, node in self._measures.taken.items():
            columns[name] = to_column(node.evaluate(evaluation), node.type, self.pool, batch.size)
        rows = batch.kinds == CURRENT
        if evaluation.failed is not None:
            rows &= drop_failed(evaluation, step)
        if not rows.all():
            places = np.flatnonzero(rows)
            if not len(places):
                return
            batch, times = batch.take(places), times[places]
            columns = {name: column.take(places) for name, column in columns.items()}
        slots = self._index.slots(bucket_starts(times, self._sizes), self._groups.ids(batch))
        arrivals = Arrivals(slots, self._index.count, times, columns)
        for accumulator in self._measures.accumulators.values():
            accumulator.add(arrivals)
        self._latest_ms = max(self._latest_ms, int(times.max()))
        self.version += 1

    def _times(self, evaluation: Evaluation) -> Int64Array:
        """Return the time of each row in milliseconds; rows without one fail."""
        if self._by is None:
            return evaluation.batch.clocks
        column = to_column(self._by.evaluate(evaluation), self._by.type, self.pool, evaluation.size)
        if self._by.type is AttributeType.LONG:
            if column.valid is not None:
                evaluation.fail(~column.valid, f"the time by which '{self.id}' aggregates is null")
            return column.values
        codes, inverse = np.unique(column.values, return_inverse=True)
        parsed = [time_or_none(self.pool.text(code) or "") for code in codes.tolist()]
        bad = np.array([time is None for time in parsed], dtype=np.bool_)
        if bad.any():
            text = self.pool.text(int(codes[bad][0]))
            evaluation.fail(bad[inverse], f"'{text}' is not a time for 'aggregate by' of '{self.id}'")
        times: Int64Array = np.array([time or 0 for time in parsed], dtype=np.int64)[inverse]
        return times

    # ---- purging old buckets

    def start(self, clock_ms: int) -> None:
        self._first_ms = self._cleaned_ms = clock_ms

    def next_deadline_ms(self) -> int | None:
        """Return the next time at which a bucket is purged, or None."""
        outdated = self.retention.first_outdated_ms(self._index.oldest)
        if outdated is None:
            return None
        interval = self.retention.interval_ms
        point = self._first_ms - (self._first_ms - outdated) // interval * interval
        return max(point, self._cleaned_ms + interval)

    def _grid_points(self, clocks: Int64Array) -> Int64Array:
        """Return for each clock the last purge time that is not later."""
        return clocks - (clocks - self._first_ms) % self.retention.interval_ms

    def _give_up(self, point_ms: int) -> None:
        """Purge the buckets that are too old at `point_ms`, and groups that are no longer used."""
        if point_ms <= self._cleaned_ms:
            return
        self._cleaned_ms = point_ms
        kept_from = self.retention.kept_from_ms(point_ms)
        if (self._index.oldest >= kept_from).all():
            return
        kept: Int64Array = np.delete(np.arange(self._index.count), self._index.older(kept_from))
        new_groups = self._keep_groups(np.unique(self._index.groups(kept)))
        self._index.keep(kept, new_groups)
        self.version += 1
        for accumulator in self._measures.accumulators.values():
            accumulator.keep(kept)

    def _keep_groups(self, groups: Int64Array) -> Int64Array:
        """Keep only the groups `groups`, which become groups 0, 1, …; return the new id of each old one."""
        new_ids = np.zeros(max(self._groups.count, 1), dtype=np.int64)
        new_ids[groups] = np.arange(len(groups))
        if self._groups.table.width:
            self._groups.table.restore(self._groups.table.keys[groups])
            self._group_texts.clear()
        return new_ids

    # ---- reading

    def find(self, within_start_ms: int, within_end_ms: int, per: str, *, joined: bool = False) -> dict[str, Column]:
        """Return the rows of the buckets of size `per` (`sec` … `year`) within a period.

        The buckets start at `within_start_ms` or later and before `within_end_ms`. The columns are those of `schema`,
        `AGG_TIMESTAMP` first. `joined` is set when an event of a join reads them, not an on-demand query.

        `SiddhiRuntimeError` `duration-not-kept` when the aggregation has no buckets of that size.
        """
        if per not in self.durations:
            hint = f"it has {', '.join(self.durations)}"
            message = f"the aggregation '{self.id}' has no buckets of size '{per}'"
            raise SiddhiRuntimeError(Problem("duration-not-kept", message, hint))
        level = self.durations.index(per)
        slots = self._index.of_level(level, within_start_ms, within_end_ms)
        starts = self._index.buckets(slots)
        if self._by is not None:
            smallest = 1 if joined and self.durations[0] == "sec" else 0
            part = self._part_of_open_bucket(level, smallest, within_start_ms, within_end_ms)
            slots = np.concatenate([slots, part])
            starts = np.concatenate(
                [starts, bucket_starts(self._index.buckets(part), self._sizes[level : level + 1])[:, 0]]
            )
            hashes = self._group_texts.hashes(starts, self._index.groups(slots))
            places = hash_map_places(hashes)
            slots, starts = slots[places], starts[places]
        return self._rows(slots, starts)

    def _part_of_open_bucket(self, level: int, smallest: int, within_start_ms: int, within_end_ms: int) -> Int64Array:
        """Return the slots that replace the open bucket of `level` if it began before the period.

        With `aggregate by`, Siddhi then shows, as a row of that bucket, the contents of the largest of the smaller open
        buckets that begins within the period: for the open year, say, the open month. Buckets smaller than level
        `smallest` do not count: in joins no second replaces a larger bucket.
        """
        if self._latest_ms == _LONG_AGO:
            return NO_POSITIONS
        opened = bucket_starts(np.array([self._latest_ms]), self._sizes)[0].tolist()
        if opened[level] >= within_start_ms:
            return NO_POSITIONS
        for part in reversed(range(smallest, level)):
            if within_start_ms <= opened[part] < within_end_ms:
                return self._index.of_level(part, opened[part], opened[part] + 1)
        return NO_POSITIONS

    def _rows(self, slots: Int64Array, starts: Int64Array) -> dict[str, Column]:
        """Return the rows of `slots`, whose buckets start at `starts`."""
        columns = {name: measure.column(slots) for name, measure in self._measures.columns.items()}
        batch = EventBatch(starts, np.zeros(len(slots), dtype=np.int8), starts, starts, columns)
        evaluation = Evaluation(batch)
        rows = {TIMESTAMP: Column(AttributeType.LONG, self.pool, values=starts)}
        for name, type_, node in self._measures.outputs:
            rows[name] = to_column(node.evaluate(evaluation), type_, self.pool, len(slots))
        return rows

    # ---- state

    def state_size(self) -> StateSize:
        return StateSize(rows=len(self), groups=self._groups.count, bytes=held_bytes(self))

    def snapshot(self) -> State:
        count = self._index.count
        kept = {name: part.snapshot(count) for name, part in self._measures.accumulators.items()}
        return {
            "groups": self._groups.snapshot(),
            "index": self._index.snapshot(),
            "kept": kept,
            "latest": self._latest_ms,
            "first": self._first_ms,
            "cleaned": self._cleaned_ms,
        }

    def restore(self, state: State) -> None:
        self._groups.restore(state["groups"])
        self._group_texts.clear()
        self._index.restore(state["index"])
        for name, part in self._measures.accumulators.items():
            part.restore(state["kept"][name])
        self.version += 1
        self._latest_ms, self._first_ms, self._cleaned_ms = state["latest"], state["first"], state["cleaned"]
