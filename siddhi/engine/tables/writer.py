"""What queries do to tables: insert, delete, update, update or insert."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from siddhi.analysis import model
from siddhi.engine.batch import Column, EventBatch
from siddhi.engine.expressions.compiler import ExpressionCompiler, table_column
from siddhi.engine.expressions.evaluation import Evaluation, Value, to_column
from siddhi.engine.kinds import EXPIRED
from siddhi.engine.operator import OperatorContext
from siddhi.engine.tables.matching import RowMatcher
from siddhi.engine.tables.table import Table


class TableWriter:
    """Carries the output of a query into its table, event by event in order."""

    def __init__(self, output: model.AnalysedOutput, table: Table, context: OperatorContext) -> None:
        self.table = table
        self.action = output.action
        self.names = output.schema.names()
        compiler = ExpressionCompiler(context)
        self.matcher = RowMatcher(output.on, table, compiler)
        self.assignments = [(a.attribute, compiler.compile(a.value)) for a in output.assignments]
        self.plain = [name for name in self.names if name in table.types]

    def write(self, batch: EventBatch) -> int:
        """The events of `batch` have done their work; returns how many the table refused (their primary key was in
        use)."""
        events = batch.kinds <= EXPIRED
        if not events.all():
            batch = batch.take(np.flatnonzero(events))
        if not batch.size:
            return 0
        if self.action == "insert":
            return self.table.insert(self._as_rows(batch.columns))
        outputs = {name: Value(column.values, column.valid) for name, column in batch.columns.items()}
        bare = batch.with_columns({})
        refused = 0
        missed: list[int] = []
        for row in range(batch.size):
            places = self.matcher.places(bare, row, outputs)
            if self.action == "delete":
                self.table.delete(places.tolist())
            elif len(places):
                refused += self._update(places.tolist(), batch, row)
            else:
                missed.append(row)
        if self.action == "update or insert":
            refused += self._insert_missed(missed, batch, bare, outputs)
        return refused

    def _insert_missed(self, rows: list[int], batch: EventBatch, bare: EventBatch, outputs: Mapping[str, Value]) -> int:
        """Events of the chunk that found no row: the first of a kind is inserted, later ones update it."""
        refused = 0
        for row in rows:
            places: Sequence[int] = () if row == rows[0] else self.matcher.places(bare, row, outputs).tolist()
            if len(places):
                refused += self._update(places, batch, row)
            else:
                one = batch.take(np.array([row]))
                refused += self.table.insert(self._as_rows(one.columns))
        return refused

    def _as_rows(self, columns: Mapping[str, Column]) -> dict[str, Column]:
        """The output's columns under the names of the table's attributes, which stand in the same order."""
        return dict(zip(self.table.types, (columns[name] for name in self.names), strict=True))

    def _update(self, places: Sequence[int], batch: EventBatch, row: int) -> int:
        return sum(not self._update_row(place, batch, row) for place in places)

    def _update_row(self, place: int, batch: EventBatch, row: int) -> bool:
        """One assignment after the other, each seeing what those before it did."""
        one = batch.take(np.array([row]))
        if not self.assignments:
            changes = {name: _cell(one.columns[name]) for name in self.plain}
            return self.table.update(place, changes)
        stored = self.table.columns(np.array([place]))
        changes = {}
        for name, node in self.assignments:
            columns = {table_column(self.table.id, key): column for key, column in stored.items()}
            evaluation = Evaluation(one.with_columns(columns))
            evaluation.outputs = {key: Value(column.values, column.valid) for key, column in one.columns.items()}
            type_ = self.table.types[name]
            value = to_column(node.evaluate(evaluation), node.type, self.table.pool, 1)
            stored[name] = value if node.type is type_ else Column.of(type_, self.table.pool, value.to_list())
            changes[name] = _cell(stored[name])
        return self.table.update(place, changes)


def _cell(column: Column) -> tuple[object, bool]:
    valid = column.valid
    return column.values[0], True if valid is None else bool(valid[0])
