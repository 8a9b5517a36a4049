"""Which rows of a table make a condition true, for one event at a time."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from siddhi.analysis import model
from siddhi.engine.arrays import Int64Array
from siddhi.engine.batch import EventBatch
from siddhi.engine.expressions.compiler import ExpressionCompiler, table_column
from siddhi.engine.expressions.evaluation import Evaluation, Node, Value, to_column
from siddhi.engine.pattern.references import walk
from siddhi.engine.tables.table import Table
from siddhi.language.ast import AttributeType


def conjuncts(expression: model.TypedExpression) -> list[model.TypedExpression]:
    """The conditions that `expression` joins with `and`."""
    if isinstance(expression, model.Logical) and expression.operator == "and":
        return [*conjuncts(expression.left), *conjuncts(expression.right)]
    return [expression]


class RowMatcher:
    """A condition over an event and a row of `table`.

    When it asks for equality on the whole primary key and no more, rows are found by key.
    """

    def __init__(self, condition: model.TypedExpression | None, table: Table, compiler: ExpressionCompiler) -> None:
        self.table = table
        self.node = None if condition is None else compiler.compile(condition)
        self.by_key = None if condition is None else _key_nodes(condition, table, compiler)

    def places(self, event: EventBatch, row: int, outputs: Mapping[str, Value] | None = None) -> Int64Array:
        """The places of the rows that match row `row` of `event`; `outputs` are the values of the query's output."""
        if self.by_key is not None:
            return self._found_by_key(event, row, outputs)
        places = self.table.places()
        if self.node is None or not len(places):
            return places
        size = len(places)
        columns = {table_column(self.table.id, name): c for name, c in self.table.columns(places).items()}
        picked = np.full(size, row)
        columns |= {name: column.take(picked) for name, column in event.columns.items()}
        evaluation = Evaluation(event.take(picked, ()).with_columns(columns))
        evaluation.outputs = {name: _repeated(value, row, size) for name, value in (outputs or {}).items()}
        matched = self.node.truth(evaluation)
        return places[matched]

    def _found_by_key(self, event: EventBatch, row: int, outputs: Mapping[str, Value] | None) -> Int64Array:
        one = event.take(np.array([row]))
        evaluation = Evaluation(one)
        evaluation.outputs = {name: _repeated(value, row, 1) for name, value in (outputs or {}).items()}
        key = tuple(
            to_column(node.evaluate(evaluation), node.type, self.table.pool, 1).to_list()[0]
            for node in self.by_key or ()
        )
        place = self.table.place_of(key)
        return np.array([] if place is None else [place], dtype=np.int64)


def _repeated(value: Value, row: int, size: int) -> Value:
    if value.values.ndim == 0:
        return value
    picked = np.full(size, row)
    return Value(value.values[picked], None if value.valid is None else value.valid[picked])


def _key_nodes(condition: model.TypedExpression, table: Table, compiler: ExpressionCompiler) -> list[Node] | None:
    """The nodes that give each part of the primary key, when `condition` says just that the key equals them."""
    if not table.primary_key:
        return None
    nodes: dict[str, Node] = {}
    for part in conjuncts(condition):
        if not isinstance(part, model.Comparison) or part.operator != "==":
            return None
        sides = (part.left, part.right)
        rows = [side for side in sides if isinstance(side, model.TableValue) and side.table == table.id]
        others = [side for side in sides if not _reads_table(side, table.id)]
        if len(rows) != 1 or len(others) != 1 or others[0].type is not rows[0].type:
            return None
        nodes[rows[0].name] = compiler.compile(others[0])
    if set(nodes) != set(table.primary_key):
        return None
    return [nodes[name] for name in table.primary_key]


def _reads_table(expression: model.TypedExpression, table: str) -> bool:
    return any(isinstance(part, model.TableValue) and part.table == table for part in walk(expression))


class InTableNode(Node):
    """`condition in table`: true where some row matches."""

    type = AttributeType.BOOL

    def __init__(self, matcher: RowMatcher) -> None:
        self.matcher = matcher

    def evaluate(self, evaluation: Evaluation) -> Value:
        batch = evaluation.batch
        active = range(batch.size) if evaluation.active is None else np.flatnonzero(evaluation.active).tolist()
        found = np.zeros(batch.size, dtype=np.bool_)
        for row in active:
            found[row] = len(self.matcher.places(batch, row, evaluation.outputs)) > 0
        return Value(found)
