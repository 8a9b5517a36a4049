"""Compile typed expressions of the model to executable nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Protocol

from siddhi.analysis import model
from siddhi.column_names import internal_name
from siddhi.engine.columnar.strings import StringPool
from siddhi.engine.operators.base.implementations import Implementations, not_supported
from siddhi.engine.operators.base.operator import OperatorContext, RemovalOrder
from siddhi.engine.operators.base.scope import column_of
from siddhi.engine.operators.expressions.aggregation import AggregateNode
from siddhi.engine.operators.expressions.batch_program import programmed
from siddhi.engine.operators.expressions.evaluation import ExpressionNode
from siddhi.engine.operators.expressions.leaves import (
    ColumnNode,
    ConstantNode,
    EmptySlotNode,
    OutputNode,
    StringConstantNode,
    TimestampNode,
)
from siddhi.engine.operators.expressions.operators import (
    ArithmeticNode,
    ComparisonNode,
    IsNullNode,
    LogicalNode,
    NotNode,
)
from siddhi.language.ast import AttributeType


class MembershipTest(Protocol):
    """Creates the node of `condition in table`; `compiler` is that of the enclosing expression."""

    def __call__(self, expression: model.InTable, compiler: ExpressionCompiler) -> ExpressionNode: ...


FunctionFactory = Callable[[model.Call, "tuple[ExpressionNode, ...]", StringPool], ExpressionNode]
FUNCTIONS: Implementations[FunctionFactory] = Implementations("function")
"""Scalar functions: each creates the node of a call from the nodes of its arguments."""

SCRIPT = ("define", "function")
"""Namespace and name of the implementation of functions that apps define themselves."""


class ExpressionCompiler:
    """A compiler of the expressions of one part of a query.

    It records the columns that they read and their aggregates. With `several`, rows are those of a join or a state
    machine; with `paired`, they are pairs of a join under evaluation, so that every slot has an event. `in_table`
    builds the nodes of `in`; without it an expression with `in` is refused. Calls that have nodes in `calls`, by their
    `id`, use these, together with the results that the nodes cache.
    """

    def __init__(
        self,
        context: OperatorContext,
        *,
        several: bool = False,
        paired: bool = False,
        in_table: MembershipTest | None = None,
        calls: Mapping[int, ExpressionNode] | None = None,
    ) -> None:
        self.context = context
        self.several = several
        self._paired = paired
        self.columns: dict[str, AttributeType] = {}
        self.aggregates: list[AggregateNode] = []
        self._in_table = in_table
        self._calls = calls or {}
        self.nodes: dict[int, ExpressionNode] = {}
        """The nodes of the compiled expressions, by the `id` of their parts, which the query keeps alive."""
        self._makers: Mapping[type, Callable[..., ExpressionNode]] = {
            model.ConstantValue: self._constant,
            model.AttributeValue: self._attribute,
            model.OutputValue: lambda e: OutputNode(e.name, e.type),
            model.EventReference: self._event,
            model.Call: self._call,
            model.Aggregate: self._aggregate,
            model.Arithmetic: lambda e: ArithmeticNode(*self._sides(e), e.type),
            model.Comparison: self._comparison,
            model.Logical: lambda e: LogicalNode(*self._sides(e)),
            model.Negation: lambda e: NotNode(self._node(e.operand)),
            model.IsNullValue: lambda e: IsNullNode(self._node(e.operand)),
            model.IsEmptySlot: self._empty_slot,
            model.TableValue: lambda e: self._column(table_column(e.table, e.name), e.type),
            model.InTable: self._membership,
        }

    def afresh(self) -> ExpressionCompiler:
        """Return a compiler for the same place that has not recorded any columns and aggregates."""
        return ExpressionCompiler(self.context, several=self.several, paired=self._paired, in_table=self._in_table)

    def of_pairs(self) -> ExpressionCompiler:
        """Return a compiler for the condition of the join whose selection this one compiles.

        Columns that it finds are also recorded here. Its aggregates keep every pair.
        """
        context = replace(self.context, removal_order=RemovalOrder.NEVER)
        other = ExpressionCompiler(context, several=True, paired=True, in_table=self._in_table)
        other.columns = self.columns
        return other

    def compile(self, expression: model.TypedExpression) -> ExpressionNode:
        """Return the node that evaluates `expression`.

        Raise `SiddhiRuntimeError` for a function or aggregate that the engine lacks.
        """
        return programmed(expression, self._node(expression), self.nodes)

    def nodes_of(self, expression: model.TypedExpression) -> Mapping[int, ExpressionNode]:
        """Compile `expression`; return the nodes of all expressions compiled so far and their parts, by `id`.

        Raise as `compile` does.
        """
        self._node(expression)
        return self.nodes

    def _node(self, expression: model.TypedExpression) -> ExpressionNode:
        """Return the node of a part of the expression that is being compiled."""
        node = self._makers[type(expression)](expression)  # calls too, because they read columns
        if isinstance(expression, model.Call):
            node = self._calls.get(id(expression), node)
        self.nodes[id(expression)] = node
        if node.can_fail and self.context.failing is not None:
            self.context.failing.add(type(expression).__name__)
        if node.by_row and isinstance(expression, model.Call | model.Aggregate):
            self.context.choices.row_calls[expression.name] = None
        return node

    def _sides(
        self, expression: model.Arithmetic | model.Comparison | model.Logical
    ) -> tuple[str, ExpressionNode, ExpressionNode]:
        return expression.operator, self._node(expression.left), self._node(expression.right)

    def _comparison(self, expression: model.Comparison) -> ExpressionNode:
        sign, left, right = self._sides(expression)
        return ComparisonNode(sign, left, right, expression.operand_type)

    def _constant(self, expression: model.ConstantValue) -> ExpressionNode:
        if isinstance(expression.value, str):
            return StringConstantNode(expression.value, self.context.pool)
        return ConstantNode(expression.value, expression.type)

    def _column(self, name: str, type_: AttributeType) -> ExpressionNode:
        self.columns[name] = type_
        return ColumnNode(name, type_)

    def _attribute(self, expression: model.AttributeValue) -> ExpressionNode:
        return self._column(column_of(expression, several=self.several), expression.type)

    def _event(self, expression: model.EventReference) -> ExpressionNode:
        """Return the timestamp of an event of a pattern or join, or of the row itself where there is one input."""
        if not self.several:
            return TimestampNode()
        return self._column(column_of(expression, several=True), AttributeType.LONG)

    def _empty_slot(self, expression: model.IsEmptySlot) -> ExpressionNode:
        if self._paired or not self.several:  # the only input is the row itself
            return ConstantNode(value=False, type_=AttributeType.BOOL)
        column = column_of(expression, several=True)
        self.columns[column] = AttributeType.BOOL
        return EmptySlotNode(column)

    def _call(self, expression: model.Call) -> ExpressionNode:
        member = (expression.namespace, expression.name) if expression.script is None else SCRIPT
        make = FUNCTIONS.find(*member, expression.syntax)
        arguments = tuple(self.compile(argument) for argument in expression.arguments)
        node = make(expression, arguments, self.context.pool)
        node.can_fail = node.can_fail or any(argument.can_fail for argument in arguments)
        node.stateful = node.stateful or any(argument.stateful for argument in arguments)
        return node

    def _aggregate(self, expression: model.Aggregate) -> ExpressionNode:
        arguments = tuple(self.compile(argument) for argument in expression.arguments)
        node = AggregateNode(expression, arguments, self.context)
        self.aggregates.append(node)
        return node

    def _membership(self, expression: model.InTable) -> ExpressionNode:
        if self._in_table is None:
            raise not_supported(f"'in {expression.table}' at this place", None)
        return self._in_table(expression, self)


def table_column(table: str, name: str) -> str:
    """Return the column of attribute `name` of table `table` if expressions read rows of both a query and a table."""
    return f"{table_columns(table)}{name}"


def table_columns(table: str) -> str:
    """Return the prefix that the columns of `table` have, and no other column."""
    return f"{internal_name(table)}."
