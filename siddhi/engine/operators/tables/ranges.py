"""Find the rows of a table within bounds that events set, by bisection over rows sorted by an attribute.

    T.v > low and T.v <= high        rows in order of T.v     1  2  2  5  9
    low = 1, high = 5                                            └─────┘

The pairs are candidates in the order in which events are joined with rows; the whole condition is evaluated for them
afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from siddhi.analysis import model
from siddhi.analysis.expression.walk import walk
from siddhi.engine.jit.arrays import AnyArray, BoolArray, Int64Array
from siddhi.engine.operators.expressions.compiler import ExpressionCompiler
from siddhi.engine.operators.expressions.evaluation import Evaluation, ExpressionNode, as_type, broadcast
from siddhi.engine.operators.expressions.operators import NUMERIC
from siddhi.engine.operators.tables.pairs import Pairs
from siddhi.engine.operators.tables.table import Table
from siddhi.engine.tuning import MAX_PAIRS_AT_ONCE, MIN_INDEXED_PAIRS, MIN_RANGE_PROBES
from siddhi.language.ast import AttributeType

NameOfRow = Callable[[model.TypedExpression], str | None]
"""The attribute of the table's row, if the expression is one, else None."""
_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
Bound = tuple[str, ExpressionNode, AttributeType]
"""The comparison of the attribute with a value of the event, that value, and the type of the comparison."""


class RowRanges:
    """The bounds that a condition sets for the attribute `name` of the rows of `table`."""

    def __init__(self, table: Table, name: str, bounds: Sequence[Bound]) -> None:
        self.table = table
        self.name = name
        self.bounds = bounds

    @staticmethod
    def find(
        table: Table, parts: Sequence[model.TypedExpression], name_of: NameOfRow, compiler: ExpressionCompiler
    ) -> RowRanges | None:
        """Return the bounds of the attribute with the most of them among `parts`, all of which must be true.

        Return None without bounds.
        """
        found: dict[str, list[Bound]] = {}
        for part in parts:
            if not isinstance(part, model.Comparison) or part.operator not in _TURNED:
                continue
            for sign, row, value in (
                (part.operator, part.left, part.right),
                (_TURNED[part.operator], part.right, part.left),
            ):
                name = name_of(row)
                if name is None or not {row.type, value.type} <= NUMERIC or any(map(name_of, walk(value))):
                    continue
                node = compiler.compile(value)
                if not (node.can_fail or node.stateful):
                    found.setdefault(name, []).append((sign, node, part.operand_type))
        name = max(found, key=lambda one: len(found[one]), default=None)
        return None if name is None else RowRanges(table, name, found[name])

    def candidates(self, events: Evaluation, probes: Int64Array) -> Iterator[Pairs] | None:
        """Return the pairs of the events at `probes` and rows within their bounds, block by block.

        Return None if comparing all pairs is cheaper, or if rows were changed in the step that reads them.
        """
        rows = len(self.table)
        if len(probes) < MIN_RANGE_PROBES or len(probes) * rows < MIN_INDEXED_PAIRS or self.table.history is not None:
            return None
        places = self.table.places()
        column = self.table.column(self.name, places)
        values, valid = column.values, column.valid
        order = np.argsort(values, kind="stable")
        bad = np.isnan(values) if values.dtype.kind == "f" else np.zeros(rows, dtype=np.bool_)
        bad = bad if valid is None else bad | ~valid
        order = order[~bad[order]]  # null and NaN are outside all bounds
        first, stop = self._between(events, values[order])
        counts = np.maximum(stop - first, 0)[probes]
        if 2 * int(counts.sum()) > len(probes) * rows:
            return None
        return self._blocks(probes, first[probes], counts, order, places)

    def _between(self, events: Evaluation, values: AnyArray) -> tuple[Int64Array, Int64Array]:
        """Return for each event the first of the ordered `values` within its bounds, and the one behind the last."""
        first: Int64Array = np.zeros(events.size, dtype=np.int64)
        stop: Int64Array = np.full(events.size, len(values), dtype=np.int64)
        for sign, node, type_ in self.bounds:
            bound, valid = broadcast(node.evaluate(events), events.size)
            bound = as_type(bound, type_)
            compared = as_type(values, type_)
            if sign in (">", ">="):
                first = np.maximum(first, np.searchsorted(compared, bound, side="right" if sign == ">" else "left"))
            else:
                stop = np.minimum(stop, np.searchsorted(compared, bound, side="left" if sign == "<" else "right"))
            void: BoolArray | None = None if valid is None else ~valid
            if bound.dtype.kind == "f":
                void = np.isnan(bound) if void is None else void | np.isnan(bound)
            if void is not None:
                stop[void] = 0
        return first, stop

    @staticmethod
    def _blocks(
        probes: Int64Array, first: Int64Array, counts: Int64Array, order: Int64Array, places: Int64Array
    ) -> Iterator[Pairs]:
        ends = np.cumsum(counts)
        start = 0
        while start < len(probes):
            before = int(ends[start - 1]) if start else 0
            end = max(start + 1, int(np.searchsorted(ends, before + MAX_PAIRS_AT_ONCE, side="right")))
            some = counts[start:end]
            total = int(ends[end - 1]) - before
            shifts = first[start:end] - (ends[start:end] - some - before)
            among = order[np.arange(total) + np.repeat(shifts, some)]
            keys = np.repeat(np.arange(end - start), some) * len(places) + among
            keys.sort()  # by event, then in the order of its rows
            numbers, met = np.divmod(keys, len(places))
            yield Pairs(probes[start:end][numbers], places[met])
            start = end
