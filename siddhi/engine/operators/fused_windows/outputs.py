"""The output of a fused selection: attributes of the rows, aggregates, and expressions over both."""

from __future__ import annotations

from collections.abc import Sequence

from siddhi.analysis import model
from siddhi.column_names import internal_name
from siddhi.engine.columnar.batch import EventBatch
from siddhi.engine.columnar.column import Column
from siddhi.engine.columnar.strings import StringPool
from siddhi.engine.jit.arrays import Int64Array
from siddhi.engine.operators.aggregates.accumulators import AnyValues
from siddhi.engine.operators.expressions.compiler import ExpressionCompiler
from siddhi.engine.operators.expressions.evaluation import Evaluation, ExpressionNode, Value, to_column
from siddhi.engine.operators.expressions.leaves import ColumnNode, OutputNode


def aggregate_column(number: int) -> str:
    """Return the name by which expressions read an aggregate."""
    return internal_name(str(number))


class OutputCompiler(ExpressionCompiler):
    """Compiles expressions in which aggregates are already computed: each is looked up under its name in `calls`."""

    calls: dict[str, model.Aggregate]

    def _aggregate(self, expression: model.Aggregate) -> ExpressionNode:
        name = aggregate_column(len(self.calls))
        self.calls[name] = expression
        return OutputNode(name, expression.type)


class Outputs:
    """The outputs and the condition of `having` of a selection."""

    def __init__(self, selection: model.AnalysedSelection, compiler: OutputCompiler) -> None:
        compiler.calls = {}
        self.outputs = [(o.name, o.type, compiler.compile(o.expression)) for o in selection.attributes]
        self.having = None if selection.having is None else compiler.compile(selection.having)
        self.calls = compiler.calls
        self.columns = compiler.columns
        numbers = {name: number for number, name in enumerate(self.calls)}
        self.direct = [
            (name, node.column, -1, type_) if isinstance(node, ColumnNode) else (name, "", numbers[node.name], type_)
            for name, type_, node in self.outputs
            if isinstance(node, ColumnNode) or (isinstance(node, OutputNode) and node.name in numbers)
        ]
        """(name, attribute of the row, number of the aggregate or -1, type) of each output that is an attribute or an
        aggregate."""
        self.computed = len(self.direct) < len(self.outputs) or self.having is not None
        """Whether there are other outputs than these, or a condition."""

    @property
    def nodes(self) -> list[ExpressionNode]:
        """Yield all expressions."""
        return [node for _, _, node in self.outputs] + ([] if self.having is None else [self.having])

    def of(
        self, batch: EventBatch, aggregates: Sequence[AnyValues], pool: StringPool
    ) -> tuple[EventBatch, Int64Array | None]:
        """Return the rows of `batch` with the outputs as columns, for these values of the aggregates.

        Also return which rows pass `having`, None for all.
        """
        if self.computed:
            return self._evaluated(batch, aggregates, pool)
        columns: dict[str, Column] = {}
        source = batch.columns
        for name, column, number, type_ in self.direct:
            if number < 0:
                columns[name] = source[column]
            else:
                values, valid = aggregates[number]
                columns[name] = Column(type_, pool, values, valid)
        return batch.with_columns(columns), None

    def _evaluated(
        self, batch: EventBatch, aggregates: Sequence[AnyValues], pool: StringPool
    ) -> tuple[EventBatch, Int64Array | None]:
        evaluation = Evaluation(batch)
        evaluation.outputs.update(zip(self.calls, (Value(*values) for values in aggregates), strict=True))
        columns: dict[str, Column] = {}
        for name, type_, node in self.outputs:
            value = evaluation.outputs[name] = node.evaluate(evaluation)
            if isinstance(node, ColumnNode):
                columns[name] = batch.columns[node.column]
            else:
                columns[name] = to_column(value, type_, pool, batch.size)
        passed = None if self.having is None else self.having.truth(evaluation).nonzero()[0]
        return batch.with_columns(columns), passed
