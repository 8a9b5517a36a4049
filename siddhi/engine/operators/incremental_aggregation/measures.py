"""Derive from the selection of an aggregation the stored values and the outputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from siddhi.analysis import model
from siddhi.analysis.expression.walk import has_aggregate
from siddhi.engine.operators.base.implementations import not_supported
from siddhi.engine.operators.base.operator import OperatorContext
from siddhi.engine.operators.expressions.compiler import ExpressionCompiler
from siddhi.engine.operators.expressions.evaluation import ExpressionNode
from siddhi.engine.operators.incremental_aggregation.accumulators import (
    Accumulator,
    Averages,
    Counts,
    DistinctCounts,
    Latest,
    LatestValues,
    Maxima,
    Measure,
    Minima,
    Sums,
)
from siddhi.language.ast import AttributeType


@dataclass(frozen=True, slots=True)
class Measures:
    """The values that an aggregation stores and outputs.

    `taken` are the values computed for each event, by column; `accumulators` aggregate them, `columns` are the values
    of each slot, and `outputs` the attributes of a row, computed from these columns.
    """

    taken: Mapping[str, ExpressionNode]
    accumulators: Mapping[str, Accumulator]
    columns: Mapping[str, Measure]
    outputs: tuple[tuple[str, AttributeType, ExpressionNode], ...]


def build_measures(
    selection: model.AnalysedSelection, compiler: ExpressionCompiler, context: OperatorContext
) -> Measures:
    """Return the measures of `selection`; `compiler` compiles what reads the events."""
    builder = _MeasuresBuilder(compiler, context)
    outside = ExpressionCompiler(context)
    outputs = []
    for output in () if selection.star else selection.attributes:
        if has_aggregate(output.expression):
            shown = builder.over_columns(output.expression)
        else:
            shown = builder.latest(output.name, output.expression)
        outputs.append((output.name, output.type, outside.compile(shown)))
    return builder.build(tuple(outputs))


class _MeasuresBuilder:
    """Builds the measures; equal aggregates, and aggregates with equal parts, share accumulators."""

    def __init__(self, compiler: ExpressionCompiler, context: OperatorContext) -> None:
        self.compiler = compiler
        self.pool = context.pool
        self.taken: dict[str, ExpressionNode] = {}
        self.accumulators: dict[str, Accumulator] = {}
        self.columns: dict[str, Measure] = {}
        self.latest_types: dict[str, AttributeType] = {}

    def build(self, outputs: tuple[tuple[str, AttributeType, ExpressionNode], ...]) -> Measures:
        if self.latest_types:
            values = LatestValues(self.latest_types, self.pool)
            self.accumulators["latest"] = values
            self.columns |= {name: Latest(values, name) for name in self.latest_types}
        return Measures(self.taken, self.accumulators, self.columns, outputs)

    def over_columns(self, expression: model.TypedExpression) -> model.TypedExpression:
        """Return `expression` over the columns of the measures: aggregates, and latest values of plain attributes."""
        match expression:
            case model.Aggregate():
                return self._aggregate(expression)
            case model.AttributeValue():
                return self.latest(f"latest {expression.name}", expression)
            case model.Call():
                return replace(expression, arguments=tuple(map(self.over_columns, expression.arguments)))
            case model.Arithmetic() | model.Comparison() | model.Logical():
                left, right = self.over_columns(expression.left), self.over_columns(expression.right)
                return replace(expression, left=left, right=right)
            case model.Negation() | model.IsNullValue():
                return replace(expression, operand=self.over_columns(expression.operand))
            case _:
                return expression

    def latest(self, name: str, expression: model.TypedExpression) -> model.AttributeValue:
        """Return the column with `expression` of the latest event."""
        self.taken[name] = self.compiler.compile(expression)
        self.latest_types[name] = expression.type
        return model.AttributeValue(0, name, expression.type)

    def _aggregate(self, call: model.Aggregate) -> model.AttributeValue:
        """Return the column with the result of `call`."""
        argument, argument_type = "", AttributeType.LONG
        if call.arguments and call.name != "count":
            taken = call.arguments[0]
            argument_type = taken.type
            argument = f"argument {taken.name}" if isinstance(taken, model.AttributeValue) else ""
            self.taken[argument] = self.compiler.compile(taken)
        name = f"{call.name}({argument})"
        if name not in self.columns:
            self.columns[name] = self._measure(call, argument, argument_type)
        return model.AttributeValue(0, name, call.type)

    def _measure(self, call: model.Aggregate, argument: str, argument_type: AttributeType) -> Measure:
        match call.name:
            case "count":
                return self._counts()
            case "sum":
                return self._sums(argument, argument_type)
            case "avg":
                return Averages(self._sums(argument, argument_type), self._counts())
            case "min":
                minima = Minima(argument, argument_type, call.type, self.pool)
                self.accumulators[f"min({argument})"] = minima
                return minima
            case "max":
                maxima = Maxima(argument, argument_type, call.type, self.pool)
                self.accumulators[f"max({argument})"] = maxima
                return maxima
            case "distinctCount":
                distinct = DistinctCounts(argument, self.pool)
                self.accumulators[f"distinctCount({argument})"] = distinct
                return distinct
            case _:
                span = None if call.syntax is None else call.syntax.span
                raise not_supported(f"the aggregator '{call.name}' in an aggregation", span)

    def _counts(self) -> Counts:
        counts = self.accumulators.setdefault("count", Counts(self.pool))
        assert isinstance(counts, Counts)  # noqa: S101 - what the name says
        return counts

    def _sums(self, argument: str, argument_type: AttributeType) -> Sums:
        whole = argument_type in (AttributeType.INT, AttributeType.LONG)
        type_ = AttributeType.LONG if whole else AttributeType.DOUBLE
        sums = self.accumulators.setdefault(f"sum({argument})", Sums(argument, argument_type, type_, self.pool))
        assert isinstance(sums, Sums)  # noqa: S101 - what the name says
        return sums
