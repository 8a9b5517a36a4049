"""Reads an aggregation for a query whose `within` and `per` may depend on an event."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from siddhi.analysis import model
from siddhi.engine.columnar.batch import EventBatch
from siddhi.engine.columnar.column import Column
from siddhi.engine.jit.arrays import Int64Array
from siddhi.engine.operators.base.operator import OperatorContext
from siddhi.engine.operators.expressions.compiler import ExpressionCompiler
from siddhi.engine.operators.expressions.evaluation import Evaluation, to_column
from siddhi.engine.operators.incremental_aggregation.aggregation import Aggregation
from siddhi.engine.operators.incremental_aggregation.period import parse_duration, within_bounds
from siddhi.errors import Problem, SiddhiRuntimeError
from siddhi.language.ast import AttributeType

_GRID_MS = 1_000
"""All buckets begin at whole seconds."""
_Bounds = tuple[str | int | None, ...]
"""The period of an event: the bounds of `within`, then the duration of `per`."""


class AggregationReader:
    """Evaluates `within` and `per` of one query.

    In a join the event has `slot`; in an on-demand query (`slot` None) there is none. `columns` are the attributes of
    the event that are read. Raise `SiddhiRuntimeError` `wrong-period` when anything else is read.
    """

    def __init__(
        self,
        aggregation: Aggregation,
        within: Sequence[model.TypedExpression],
        per: model.TypedExpression,
        context: OperatorContext,
        slot: int | None = None,
    ) -> None:
        compiler = ExpressionCompiler(context, several=slot is not None)
        self.aggregation = aggregation
        self._joined = slot is not None
        self.columns = compiler.columns
        self._within = [compiler.compile(bound) for bound in within]
        self._per = compiler.compile(per)
        self._last: tuple[object, dict[str, Column]] | None = None
        for column in self.columns:
            if slot is None or not column.startswith(f"{slot}."):
                message = f"the period in which '{aggregation.id}' is read depends on the rows that are to be read"
                hint = "use constants or, in a join, attributes of the other side"
                raise SiddhiRuntimeError(Problem("wrong-period", message, hint))

    def read(self, event: EventBatch) -> dict[str, Column]:
        """Return the rows for the single event in `event`: the columns of the aggregation's schema.

        Raise `SiddhiRuntimeError` when the period is invalid: `wrong-period`, `unknown-duration`, `duration-not-kept`.
        """
        bounds, _ = self._asked(event)
        return self._rows(bounds[0])

    def read_all(
        self, events: EventBatch, rows: Int64Array, *, in_order: bool
    ) -> Iterator[tuple[Int64Array, dict[str, Column] | SiddhiRuntimeError]]:
        """Yield the positions of events (those at `rows`) with the same period, and its rows or the error.

        Bounds within one second give the same buckets. With `in_order` the positions do not decrease.
        """
        if not len(rows):
            return
        bounds, numbers = self._asked(events)
        if len(bounds) == 1:
            yield rows, self._answer(bounds[0])
            return
        of_rows = numbers[rows]
        order = np.arange(len(rows)) if in_order else np.argsort(of_rows, kind="stable")
        cuts = np.flatnonzero(np.diff(of_rows[order])) + 1
        for places in np.split(order, cuts):
            yield rows[places], self._answer(bounds[of_rows[places[0]]])

    def _answer(self, bounds: _Bounds) -> dict[str, Column] | SiddhiRuntimeError:
        try:
            return self._rows(bounds)
        except SiddhiRuntimeError as error:
            return error

    def _rows(self, bounds: _Bounds) -> dict[str, Column]:
        """Return the rows of a period; those of the last period are cached while the aggregation does not change."""
        key = (self.aggregation.version, self.aggregation.pool.generation, bounds)
        if self._last is not None and self._last[0] == key:
            return self._last[1]
        *within, per = bounds
        if not isinstance(per, str):
            raise SiddhiRuntimeError(Problem("unknown-duration", "the duration of `per` is null"))
        period = within_bounds(within)
        rows = self.aggregation.find(period.start_ms, period.end_ms, parse_duration(per), joined=self._joined)
        self._last = key, rows
        return rows

    def _asked(self, events: EventBatch) -> tuple[list[_Bounds], Int64Array]:
        """Return the distinct periods of events, and the index of each event's period."""
        evaluation, pool = Evaluation(events), self.aggregation.pool
        nodes = (*self._within, self._per)
        values = [node.evaluate(evaluation) for node in nodes]
        firsts, numbers = np.zeros(1, dtype=np.int64), np.zeros(events.size, dtype=np.int64)
        columns = [to_column(value, node.type, pool, events.size) for value, node in zip(values, nodes, strict=True)]
        if any(value.values.ndim or value.valid is not None for value in values):
            keys = [column.values.astype(np.int64) for column in columns]
            if all(node.type is not AttributeType.STRING for node in self._within):
                start, end = (bound + -bound % _GRID_MS for bound in keys[:2])
                begins = start < end  # otherwise the bounds are used unchanged
                keys[:2] = [np.where(begins, start, keys[0]), np.where(begins, end, keys[1])]
            keys.extend(column.valid.astype(np.int64) for column in columns if column.valid is not None)
            _, firsts, numbers = np.unique(np.stack(keys), axis=1, return_index=True, return_inverse=True)
        known = [column.take(firsts).to_list() for column in columns]
        bounds = [
            tuple(one if isinstance(one, str | int) else None for one in period) for period in zip(*known, strict=True)
        ]
        return bounds, numbers.reshape(-1)
