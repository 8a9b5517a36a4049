"""The aggregators `sum`, `avg`, `count`, `stdDev`, `min`, `max`, `minForever`, `maxForever` and `distinctCount`.

- sum: of the stored non-null values, null when there are none; a new value is always stored
- avg: their mean, null when there are none
- count: the number of stored events, including nulls
- stdDev: the population standard deviation, 0 for a single value, null when all stored values are null
- min, max: the least and greatest stored non-null value, null when there is none; NaN counts only without others
- minForever, maxForever: the same for all values since the last reset, whether still stored or not
- distinctCount: the number of distinct stored values, where null counts as a value
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from siddhi.analysis import model
from siddhi.engine.columnar.kinds import CURRENT, EXPIRED
from siddhi.engine.columnar.state_tree import State
from siddhi.engine.jit.arrays import INT64, Int64Array
from siddhi.engine.jit.bits import address_of
from siddhi.engine.jit.kernels import NO_MASK, kernel_array, state_kernel
from siddhi.engine.operators.aggregates.accumulators import Accumulators, accumulation_of, in_form
from siddhi.engine.operators.aggregates.moves import (
    ADD,
    CLEAR,
    FORM,
    GROUP_SHIFT,
    LINE_WIDTH,
    MASK,
    REMOVE,
    ROW_SHIFT,
    VALUES,
    WRITE,
)
from siddhi.engine.operators.base.implementations import not_supported
from siddhi.engine.operators.base.operator import OperatorContext
from siddhi.engine.operators.expressions.aggregation import AGGREGATORS, AggregateInput, Aggregator
from siddhi.engine.operators.expressions.evaluation import Value
from siddhi.language.ast import AttributeType


@state_kernel
def _plan(kinds, groups, fresh, of_kinds, moves):  # type: ignore[no-untyped-def]
    """Plan what each row does; without `fresh` no group starts again."""
    for row in range(len(kinds)):
        moves[row] = of_kinds[kinds[row]] | row << ROW_SHIFT | groups[row] << GROUP_SHIFT
        if len(fresh) > 0 and fresh[row]:
            moves[row] |= CLEAR


_MOVES: Int64Array = np.full(128, WRITE, dtype=np.int64)
"""The number of rows that each kind adds."""
_MOVES[CURRENT] |= ADD
_MOVES[EXPIRED] |= REMOVE


def _moves(rows: AggregateInput) -> Int64Array:
    """Return the moves of `rows`, which the aggregates of one evaluation share."""
    evaluation = rows.evaluation
    known = evaluation.moves
    if known is not None:
        moves, active, groups, fresh = known
        if active is evaluation.active and groups is evaluation.groups and fresh is evaluation.fresh:
            return moves
    kinds, fresh = kernel_array(rows.kinds), NO_MASK if rows.fresh is None else kernel_array(rows.fresh)
    moves = np.empty(len(kinds), INT64)
    _plan(kinds, kernel_array(rows.groups), fresh, _MOVES, moves)
    evaluation.moves = moves, evaluation.active, evaluation.groups, evaluation.fresh
    return moves


class AccumulatingAggregator(Aggregator):
    """An aggregator whose state each added and removed row updates."""

    def __init__(self, call: model.Aggregate, context: OperatorContext) -> None:
        accumulation = accumulation_of(call, context.removal_order)
        if accumulation is None:
            raise not_supported(f"'{call.name}' of objects", None if call.syntax is None else call.syntax.span)
        self.state = Accumulators([accumulation], [0])
        self.strings = accumulation.argument is AttributeType.STRING
        self.argued = accumulation.argument is not None
        self._lines: Int64Array = np.zeros((1, LINE_WIDTH), INT64)

    def update(self, rows: AggregateInput) -> Value:
        size = len(rows.kinds)
        moves, lines = _moves(rows), self._lines
        values = valid = None
        if self.argued:
            values, form = in_form(rows.values)
            lines[0, FORM], lines[0, VALUES], lines[0, MASK] = form, address_of(values), 0
            if rows.valid is not None and not self.strings:
                valid = np.ascontiguousarray(rows.valid)
                lines[0, MASK] = address_of(valid)
        self.state.grow_groups(rows.group_count)
        out, out_valid = self.state.room_for(size)
        self.state.follow(moves, size, size, lines, out, out_valid, 0)
        ((results, known),) = self.state.values(out, out_valid, size)
        return Value(results, known)

    def distinct_values(self) -> int:
        return self.state.distinct_values()

    def keep_groups(self, kept: Int64Array) -> None:
        self.state.keep_groups(kept)

    def joined(self, states: Sequence[State], counts: Sequence[int]) -> State:
        return self.state.joined(states, counts)

    def snapshot(self) -> State:
        return self.state.snapshot()

    def restore(self, state: State) -> None:
        self.state.restore(state)


for _name in ("sum", "avg", "count", "stdDev", "min", "max", "minForever", "maxForever", "distinctCount"):
    AGGREGATORS.register(_name)(AccumulatingAggregator)
