"""The selection of a query: select, group by, having, order by, limit and offset, chunk by chunk.

The output for a chunk depends on the query:
- no aggregate, no group by: every event that passes
- an aggregate, no group by: the last event that passes
- group by: the last event that passes of each group, in the order in which the groups first passed
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np
import pyarrow as pa

from siddhi.analysis import model
from siddhi.analysis.expression.walk import has_aggregate
from siddhi.column_names import internal_name
from siddhi.engine.columnar.batch import EventBatch
from siddhi.engine.columnar.column import Column
from siddhi.engine.columnar.kinds import CURRENT, EXPIRED, RESET
from siddhi.engine.columnar.state_size import StateSize, held_bytes
from siddhi.engine.columnar.state_tree import Codes, State
from siddhi.engine.jit.arrays import INT64, NO_POSITIONS, BoolArray, Int64Array
from siddhi.engine.jit.kernels import grown, kernel_array, state_kernel
from siddhi.engine.operators.base.operator import NEVER, Operator, OperatorContext, Step
from siddhi.engine.operators.expressions.aggregation import AggregateNode
from siddhi.engine.operators.expressions.compiler import ExpressionCompiler
from siddhi.engine.operators.expressions.evaluation import Evaluation, ExpressionNode, Value, to_column, together
from siddhi.engine.operators.expressions.leaves import ColumnNode
from siddhi.engine.operators.filters import drop_failed
from siddhi.engine.operators.selection.groups import Groups
from siddhi.engine.operators.selection.sorting import sort_positions
from siddhi.engine.tuning import MIN_FORGOTTEN_GROUPS
from siddhi.language.ast import AttributeType, EventType

ACCEPTED = {EventType.CURRENT: (CURRENT,), EventType.EXPIRED: (EXPIRED,), EventType.ALL: (CURRENT, EXPIRED)}


_CURRENT_ONLY = ACCEPTED[EventType.CURRENT]
GROUP = internal_name("group")
"""The column with each row's group, for rate limiters."""


class GroupHolder(Protocol):
    """An operator after a selector that stores groups of its rows by number."""

    def groups_in_use(self) -> Int64Array:
        """Return the groups in use, in any order, with or without repetitions."""

    def renumber_groups(self, numbers: Int64Array) -> None:
        """Rename group g to `numbers[g]`, -1 for a removed group; no group in use is removed."""


@state_kernel
def last_of_each_group(positions, chunks, groups, seen, slots, out):  # type: ignore[no-untyped-def]
    """Write the last of `positions` of each group in each chunk, in order of first appearance; return their number.

    `seen` has for each group the number of the last chunk of the loop in which it appeared, counted in `seen[-1]`.
    """
    count = 0
    mark = seen[-1]
    for place in range(len(positions)):
        position = positions[place]
        if place == 0 or chunks[position] != chunks[positions[place - 1]]:
            mark += 1
        group = groups[position]
        if seen[group] != mark:
            seen[group] = mark
            slots[group] = count
            count += 1
        out[slots[group]] = position
    seen[-1] = mark
    return count


@state_kernel
def _last_accepted(kinds, accepted, chunks, groups, seen, slots, out):  # type: ignore[no-untyped-def]
    """Do what `last_of_each_group` does for the rows whose kind is `accepted`; without `groups` all are one group.

    Return also whether each of the rows is in a chunk of its own.
    """
    count = 0
    first_mark = mark = seen[-1]
    chunk = np.int64(0)
    for row in range(len(kinds)):
        if not accepted[kinds[row]]:
            continue
        if mark == first_mark or chunks[row] != chunk:
            mark += 1
            chunk = chunks[row]
        group = groups[row] if len(groups) > 0 else np.int64(0)
        if seen[group] != mark:
            seen[group] = mark
            slots[group] = count
            count += 1
        out[slots[group]] = row
    seen[-1] = mark
    return count, mark - first_mark == count


@state_kernel
def _within_limits(kinds, chunks, offset, limit, limits_expired, positions):  # type: ignore[no-untyped-def]
    """Write the positions of the rows that the limits of their chunks let through; return how many.

    Marks pass, and expired events beyond the limit unless `limits_expired`.
    """
    count = place = 0
    for row in range(len(kinds)):
        if row > 0 and chunks[row] != chunks[row - 1]:
            place = 0
        passes = kinds[row] > EXPIRED
        if not passes:
            within = place - offset < limit or (kinds[row] == EXPIRED and not limits_expired)
            passes = place >= offset and within
            place += 1
        if passes:
            positions[count] = row
            count += 1
    return count


def _each_alone(chunks: Int64Array) -> bool:
    """Return whether no two of these numbers, which never fall, are equal."""
    size = len(chunks)
    if size <= 1:
        return size == 1
    # With fewer numbers than rows some must be equal, so there is no need to compare.
    return int(chunks[-1]) - int(chunks[0]) >= size - 1 and bool((chunks[1:] != chunks[:-1]).all())


def _behind_first(rows: BoolArray, batch: EventBatch) -> BoolArray:
    """Return where the previous row is also one of `rows`, and fails together with it."""
    chunks = together(batch)
    behind: BoolArray = np.append(False, rows[:-1] & (chunks[1:] == chunks[:-1]))
    return behind


def _hidden(place: int, key: model.SortKey) -> model.SortKey:
    """Return `key` under a name of its own if it is not an output, so that it is not confused with one."""
    return replace(key, name=internal_name(f"order{place}")) if isinstance(key.value, model.AttributeValue) else key


class Selector(Operator):
    """Computes the output attributes of each row in order and selects the rows to emit for each chunk.

    `keep_resets` passes the resets of batch windows on if nothing collapses, as rate limiters count them. `collapse`
    False passes every row on, for snapshots; rows of groups are then not sorted or skipped, and a limit also cuts
    expired ones, as in Siddhi. For a `limiter` after it there is the column `GROUP` with each row's group id. `empties`
    means that a group is like new after all its rows have left: such groups are removed, unless the limiter refers to
    them.
    """

    def __init__(
        self,
        selection: model.AnalysedSelection,
        events: EventType,
        compiler: ExpressionCompiler,
        context: OperatorContext,
        *,
        keep_resets: bool = False,
        collapse: bool = True,
        limiter: GroupHolder | None = None,
        empties: bool = False,
    ) -> None:
        self.outputs = [(o.name, o.type, compiler.compile(o.expression)) for o in selection.attributes]
        self.having = None if selection.having is None else compiler.compile(selection.having)
        for key in selection.group_by:
            compiler.compile(key)
        self.aggregates = compiler.aggregates
        self._asks_aggregates = selection.having is not None and has_aggregate(selection.having)
        nodes = [node for _, _, node in self.outputs]
        self._may_stop = any(node.can_fail for node in nodes) and any(node.stateful for node in nodes)
        # Failures of the row alone are found first, then failures of aggregates.
        self._in_turn = sorted(range(len(nodes)), key=lambda place: (nodes[place].stateful, not nodes[place].can_fail))
        self.groups = Groups(selection.group_by, context, several=compiler.several, counts=empties)
        self.grouped = bool(selection.group_by)
        self.limiter = limiter
        # Each partition instance has a limiter, whose groups are removed with the instance.
        self._forgets = (empties or not self.aggregates) and not (limiter and self.groups.partitioned)
        self._look_at = MIN_FORGOTTEN_GROUPS
        self.collapse = collapse and (self.grouped or selection.aggregates)
        self._leaves_out = self._left_out(nodes)
        rows_of_groups = self.grouped and not self.collapse
        self.order_by = () if rows_of_groups else tuple(map(_hidden, itertools.count(), selection.order_by))
        self.limit = selection.limit
        self.offset = 0 if rows_of_groups else selection.offset or 0
        self.unlimited = self.limit is None and not self.offset
        self.limits_expired = rows_of_groups or (self.collapse and not self.grouped)
        self._unselected = [
            (key.name, compiler.compile(key.value))
            for key in self.order_by
            if isinstance(key.value, model.AttributeValue)
        ]
        self.projection = self._plain()
        self._renames = self.projection is not None and any(name != column for name, column in self.projection)
        self.accepted = ACCEPTED[events]
        self.takes_current = CURRENT in self.accepted
        self._is_accepted: BoolArray = np.isin(np.arange(128), self.accepted)
        self.keep_resets = keep_resets and not self.collapse
        self.pool = context.pool
        self._seen: Int64Array = np.zeros(9, dtype=np.int64)
        self._slots: Int64Array = np.zeros(8, dtype=np.int64)

    def _left_out(self, nodes: Sequence[ExpressionNode]) -> bool:
        """Return whether aggregates may skip results that are not read, and mark those that are whole outputs.

        `having` or `order by` over a skipped output must not fail.
        """
        outputs = [node for node in nodes if isinstance(node, AggregateNode) and node.by_row]
        for node in outputs:
            node.is_output = True
        return bool(outputs) and (self.having is None or not self.having.can_fail)

    @property
    def can_fail(self) -> bool:
        """True when a row may fail in the selection."""
        nodes = [node for _, _, node in self.outputs]
        return any(node.can_fail for node in (nodes if self.having is None else [*nodes, self.having]))

    def process(self, batch: EventBatch, step: Step) -> EventBatch:
        if self.projection is not None:
            return self._project(batch, self.projection)
        if self._forgets and self.groups.count >= self._look_at:
            self._forget_empty()
        groups = self.groups.ids(batch) if self.grouped or self.groups.partitioned else None
        evaluation = self._evaluate(batch, groups)
        tested = self.having is not None or evaluation.failed is not None
        positions: Int64Array | None = None
        alone = False
        if self.collapse and batch.chunks is not None and not tested:
            positions, alone = self._last_ones(batch, groups)
        elif tested or not (batch.only_current and self.takes_current):
            positions = self._passing(evaluation, step)
            if self.collapse and batch.chunks is not None and len(positions):
                positions = self._collapsed(positions, batch, groups)

        def picked(value: Value, type_: AttributeType) -> Column:
            column = to_column(value, type_, self.pool, batch.size)
            return column if positions is None else column.take(positions)

        columns = {name: picked(evaluation.outputs[name], type_) for name, type_, _ in self.outputs}
        if self.limiter is not None and groups is not None:
            columns[GROUP] = Column(AttributeType.LONG, self.pool, groups if positions is None else groups[positions])
        rows = batch if positions is None else batch.take(positions, ())
        if alone:
            rows.chunks = None
        if positions is not None and self.accepted == _CURRENT_ONLY and not self.keep_resets:
            rows.only_current = True
        if not self._unselected:
            return self._arrange(rows.with_columns(columns))
        keys = {name: picked(node.evaluate(evaluation), node.type) for name, node in self._unselected}
        arranged = self._arrange(rows.with_columns({**columns, **keys}))
        return arranged.with_columns({name: arranged.columns[name] for name in columns})

    def _plain(self) -> tuple[tuple[str, str], ...] | None:
        """Return (output, input column) of each output if rows are selected one by one unchanged, else None."""
        if self.collapse or self.grouped or self.having is not None or self._unselected:
            return None
        plain = [(name, node.column) for name, _, node in self.outputs if isinstance(node, ColumnNode)]
        return tuple(plain) if len(plain) == len(self.outputs) else None

    @property
    def hands_out(self) -> tuple[tuple[str, str], ...] | None:
        """Return (output, input column) of each output when all current rows are emitted one by one unchanged.

        Else None.
        """
        return self.projection if self.unlimited and self.takes_current and not self.order_by else None

    def hand_over_names(self) -> tuple[tuple[str, str], ...] | None:
        """Have the previous operator rename columns; return (output, input column) of each unchanged output.

        From then on that operator gives the columns the outputs' names, and passes on no others. Return None when it
        has to continue as before.
        """
        projection = None if self.order_by else self.projection
        if projection is not None:
            self.projection = tuple((name, name) for name, _ in projection)
            self._renames = False
        return projection

    def _project(self, batch: EventBatch, projection: tuple[tuple[str, str], ...]) -> EventBatch:
        columns = batch.columns
        projected = batch
        if self._renames or len(columns) > len(projection):
            projected = batch.with_columns({name: columns[column] for name, column in projection})
        if not (batch.only_current and self.takes_current):
            wanted = self._wanted(batch)
            if not wanted.all():
                projected = projected.take(np.flatnonzero(wanted))
        alone = projected.chunks is None and projected.deliveries is None
        return projected if alone and self.unlimited else self._arrange(projected)

    def _evaluate(self, batch: EventBatch, groups: Int64Array | None) -> Evaluation:
        fresh = None
        if self.aggregates:
            fresh = self.groups.fresh(batch, np.zeros(batch.size, dtype=np.int64) if groups is None else groups)
        evaluation = Evaluation(batch, batch.event_rows(), groups, self.groups.count, fresh)
        if self._leaves_out and not self._unselected:
            evaluation.read = self._read(batch, groups)
        if self._may_stop:
            self._evaluate_until_failures(evaluation)
            return evaluation
        for name, _, node in self.outputs:
            evaluation.outputs[name] = node.evaluate(evaluation)
        return evaluation

    def _read(self, batch: EventBatch, groups: Int64Array | None) -> BoolArray:
        """Return the rows whose outputs may be emitted.

        In a chunk that is the last row of a group, unless it may fail or not pass, so that another takes its place.
        """
        read = self._wanted(batch)
        if self.collapse and batch.chunks is not None and self.having is None and not self.can_fail and read.any():
            positions = self._collapsed(np.flatnonzero(read), batch, groups)
            read = np.zeros(batch.size, dtype=np.bool_)
            read[positions] = True
        return read

    def _evaluate_until_failures(self, evaluation: Evaluation) -> None:
        """Evaluate the outputs so that no aggregate processes rows after a failed row in its chunk.

        Outputs before the one that fails have processed the row.
        """
        events, failed_at = evaluation.active, np.full(evaluation.size, len(self.outputs))
        for place in self._in_turn:
            name, _, node = self.outputs[place]
            known = evaluation.failed
            if node.stateful and known is not None:
                stopped = evaluation.from_first(known)
                seen = ~stopped | (known & (failed_at > place) & ~_behind_first(stopped, evaluation.batch))
                evaluation.active = seen if events is None else events & seen
            evaluation.outputs[name] = node.evaluate(evaluation)
            failed = evaluation.failed
            if failed is not None and failed is not known:
                failed_at[failed if known is None else failed & ~known] = place
        if evaluation.failed is not None:
            going = ~evaluation.from_first(evaluation.failed)
            evaluation.active = going if events is None else events & going

    def _wanted(self, batch: EventBatch) -> BoolArray:
        kinds = batch.kinds
        wanted: BoolArray = kinds <= EXPIRED if len(self.accepted) > 1 else kinds == self.accepted[0]
        return wanted | (kinds == RESET) if self.keep_resets else wanted

    def _passing(self, evaluation: Evaluation, step: Step) -> Int64Array:
        passed = self._wanted(evaluation.batch)
        if self.having is not None:
            truth = self._condition(self.having, evaluation, passed)
            passed = passed & (truth | (evaluation.batch.kinds == RESET) if self.keep_resets else truth)
        if evaluation.failed is not None:
            passed = passed & drop_failed(evaluation, step)
        return np.flatnonzero(passed)

    def _condition(self, having: ExpressionNode, evaluation: Evaluation, wanted: BoolArray) -> BoolArray:
        """Return where `having` is true.

        As in Siddhi, its own aggregates ignore resets, and have groups only inside a partition; for snapshots they
        process only the `wanted` rows.
        """
        if self._asks_aggregates:
            evaluation.fresh = None
            if not self.collapse:
                evaluation.active = wanted if evaluation.active is None else evaluation.active & wanted
            if not self.groups.partitioned:
                evaluation.groups, evaluation.group_count = None, 1
        return having.truth(evaluation)

    def _last_ones(self, batch: EventBatch, groups: Int64Array | None) -> tuple[Int64Array, bool]:
        """Return the rows that come out, in each chunk the last of each group that is accepted.

        Return also whether each of them is in a chunk of its own.
        """
        out: Int64Array = np.empty(batch.size, INT64)
        chunks = kernel_array(batch.chunk_ids())
        of_rows = kernel_array(groups) if self.grouped and groups is not None else NO_POSITIONS
        self._make_room_for_groups()
        count, alone = _last_accepted(
            kernel_array(batch.kinds), self._is_accepted, chunks, of_rows, self._seen, self._slots, out
        )
        return out[:count], bool(alone)

    def _make_room_for_groups(self) -> None:
        count = self.groups.count
        if count >= len(self._seen):
            self._seen = np.append(grown(self._seen[:-1], count + 1), self._seen[-1])
            self._slots = grown(self._slots, count + 1)

    def _collapsed(self, positions: Int64Array, batch: EventBatch, groups: Int64Array | None) -> Int64Array:
        if batch.chunks is None:
            return positions
        if not self.grouped:
            chunks = batch.chunks[positions]
            last = np.append(chunks[1:] != chunks[:-1], True)
            picked: Int64Array = positions[last]
            return picked
        assert groups is not None  # noqa: S101 - a grouped query has groups
        self._make_room_for_groups()
        out = np.empty(len(positions), dtype=np.int64)
        chunks = kernel_array(batch.chunks)
        used = last_of_each_group(positions, chunks, kernel_array(groups), self._seen, self._slots, out)
        result: Int64Array = out[:used]
        return result

    def _arrange(self, batch: EventBatch) -> EventBatch:
        """Sort, skip and limit within each chunk; the result is in the chunks in which it leaves the query."""
        deliveries = batch.deliveries
        batch = self._ordered_and_limited(batch)
        return batch if deliveries is None else batch.with_chunks(batch.deliveries)

    def _ordered_and_limited(self, batch: EventBatch) -> EventBatch:
        if batch.chunks is not None and _each_alone(batch.chunks):
            batch = batch.with_chunks(None, batch.deliveries)
        single = self.collapse and not self.grouped
        if self.order_by and batch.chunks is not None and not single:
            batch = batch.take(sort_positions(batch, self.order_by))
        if self.unlimited or not batch.size:
            return batch
        positions: Int64Array = np.empty(batch.size, INT64)
        limit = NEVER if self.limit is None else self.limit
        kinds, chunks = kernel_array(batch.kinds), kernel_array(batch.chunk_ids())
        return batch.take(
            positions[: _within_limits(kinds, chunks, self.offset, limit, self.limits_expired, positions)]
        )

    def state_size(self) -> StateSize:
        aggregators = [node.aggregator for node in self.aggregates]
        return StateSize(
            groups=self.groups.count if self.grouped or self.groups.partitioned else 0,
            distinct_values=sum(aggregator.distinct_values() for aggregator in aggregators),
            bytes=held_bytes(self.groups) + sum(map(held_bytes, aggregators)),
        )

    def forget_partitions(self, partitions: Int64Array) -> Int64Array | None:
        """Remove the groups of these partition instances.

        Return the new number of each old group (-1: removed), None when none was removed.
        """
        gone = self.groups.of_partitions(partitions)
        return self._keep_groups(np.flatnonzero(~gone), len(gone)) if gone.any() else None

    def keys_of_groups(self, attribute: str) -> tuple[Int64Array, pa.Array]:
        """Return the number of every group (ascending), and the value of its key `attribute` (`key_values`)."""
        return np.arange(self.groups.count), self.groups.key(attribute)

    def keep_groups(self, kept: Int64Array) -> None:
        """Keep only the groups `kept` (ascending); no limiter refers to their numbers."""
        self._keep_groups(kept, self.groups.count)

    def group_count(self, state: State) -> int:
        """Return the number of groups in `state`, which belongs to a selector like this one."""
        keys, *_ = state["groups"]
        return len(keys[0].array if isinstance(keys[0], Codes) else keys[0]) if keys else 1

    def joined(self, states: Sequence[State], ids: Sequence[Int64Array]) -> State:
        if not self.groups.table.width:
            return super().joined(states, ids)
        counts = list(map(self.group_count, states))
        aggregates = [
            node.aggregator.joined([state["aggregates"][place] for state in states], counts)
            for place, node in enumerate(self.aggregates)
        ]
        return {"groups": self.groups.joined([state["groups"] for state in states], ids), "aggregates": aggregates}

    def _forget_empty(self) -> None:
        """Remove groups without rows; search again when there are twice as many as are left.

        This is done before a batch, when the limiter has processed all earlier rows.
        """
        count = self.groups.count
        used: BoolArray = ~self.groups.empty() if self.aggregates else np.zeros(count, dtype=np.bool_)
        if self.limiter is not None:
            used[self.limiter.groups_in_use()] = True
        kept = np.flatnonzero(used)
        if 2 * len(kept) <= count:
            numbers = self._keep_groups(kept, count)
            if self.limiter is not None:
                self.limiter.renumber_groups(numbers)
        self._look_at = max(MIN_FORGOTTEN_GROUPS, 2 * self.groups.count)

    def _keep_groups(self, kept: Int64Array, count: int) -> Int64Array:
        """Keep only the groups `kept` of `count`; return the new number of each old one (-1: removed)."""
        self.groups.keep(kept)
        for node in self.aggregates:
            node.aggregator.keep_groups(kept)
        self._seen, self._slots = np.zeros(9, dtype=np.int64), np.zeros(8, dtype=np.int64)
        numbers = np.full(count, -1, dtype=np.int64)
        numbers[kept] = np.arange(len(kept))
        return numbers

    def snapshot(self) -> State:
        return {
            "groups": self.groups.snapshot(),
            "aggregates": [node.aggregator.snapshot() for node in self.aggregates],
        }

    def restore(self, state: State) -> None:
        self.groups.restore(state["groups"])
        for node, part in zip(self.aggregates, state["aggregates"], strict=True):
            node.aggregator.restore(part)
