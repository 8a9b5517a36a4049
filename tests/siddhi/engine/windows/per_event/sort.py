"""`sort(n, attribute, 'asc'|'desc', …)`: the n first events in the order of attributes.

n = 2    in     5     3     4          1
         out    +5    +3    +4 -5      +1 -4
"""

from __future__ import annotations

from bisect import insort
from functools import cmp_to_key
from typing import Any

from siddhi.engine.columnar.batch import EventBatch
from siddhi.engine.columnar.state_tree import State
from siddhi.engine.operators.expressions.evaluation import Evaluation, ExpressionNode, to_column
from siddhi.engine.operators.expressions.leaves import scalar_or_none
from siddhi.engine.operators.windows.base.row_window import Arrival, Emission, RowWindow
from siddhi.engine.operators.windows.base.window import WindowContext


class SortWindow(RowWindow):
    """Sorts stably, nulls last; the new event may be the one that leaves."""

    def __init__(self, context: WindowContext) -> None:
        super().__init__(context)
        length, *rest = context.arguments()
        self.length = int(str(scalar_or_none(length)))
        self.keys: list[tuple[ExpressionNode, bool]] = []
        for node in rest:
            order = scalar_or_none(node)
            if order is None:
                self.keys.append((node, False))
            else:
                self.keys[-1] = (self.keys[-1][0], str(order).lower() == "desc")
        self.sorted: list[tuple[list[Any], int]] = []
        self._in_order = False  # from the first row that does not fit
        self._values: list[list[Any]] = []

    def prepare(self, batch: EventBatch) -> None:
        evaluation = Evaluation(batch)
        columns = [
            to_column(node.evaluate(evaluation), node.type, self.slots.pool, batch.size).to_list()
            for node, _ in self.keys
        ]
        self._values = [list(values) for values in zip(*columns, strict=True)]

    def arrive(self, event: Arrival, out: Emission) -> None:
        out.current(event.slot, event.timestamp)
        row = (self._values[event.row], event.slot)
        if not self._in_order:
            self.sorted.append(row)
        if len(self.sorted) > self.length:
            self.sorted.sort(key=cmp_to_key(self._compare))
            self._in_order = True
        elif self._in_order:
            insort(self.sorted, row, key=cmp_to_key(self._compare))
        if len(self.sorted) > self.length:
            _, slot = self.sorted.pop()
            out.expired(slot)
            self.release(slot)

    def _compare(self, left: tuple[list[Any], int], right: tuple[list[Any], int]) -> int:
        for place, (_, descending) in enumerate(self.keys):
            first, second = left[0][place], right[0][place]
            if first == second:
                continue
            if first is None or second is None:
                return 1 if first is None else -1
            return (1 if first > second else -1) * (-1 if descending else 1)
        return 0

    def held(self) -> list[int]:
        return [slot for _, slot in self.sorted]

    def own_state(self) -> State:
        return [[values, slot] for values, slot in self.sorted]

    def restore_own(self, state: State) -> None:
        self.sorted = [(values, slot) for values, slot in state]
        self._in_order = False
