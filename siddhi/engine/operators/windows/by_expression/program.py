"""The expression of a window as programs for the compiled loop.

Values that depend on one event only are computed for whole batches on arrival, and stored with the event:

    count() <= 20 and last.price - first.price < 5      side 0    AGGREGATE count    CONSTANT 20   MOST_I
                                                        side 1    LAST price    FIRST price    SUB_F    CONSTANT 5  …

An aggregate behind `and` or `or` processes no event for which the left side decides, so each side is a separate
program, with the next side if it is true and if it is false.
"""

from __future__ import annotations

import numpy as np

from siddhi.analysis import model
from siddhi.analysis.expression.walk import has_aggregate, walk
from siddhi.engine.columnar.batch import EventBatch
from siddhi.engine.columnar.strings import NULL_CODE
from siddhi.engine.jit.arrays import BoolArray, Int64Array
from siddhi.engine.operators.aggregates.accumulators import Accumulation, accumulation_of
from siddhi.engine.operators.base.operator import RemovalOrder
from siddhi.engine.operators.base.scope import EVENT_TIMESTAMP
from siddhi.engine.operators.expressions import register_kernel as code
from siddhi.engine.operators.expressions.compiler import ExpressionCompiler
from siddhi.engine.operators.expressions.evaluation import Evaluation, ExpressionNode, Value, as_type
from siddhi.engine.operators.expressions.leaves import ConstantNode
from siddhi.engine.operators.expressions.operators import NUMERIC
from siddhi.engine.operators.expressions.register_program import (
    FRACTIONS,
    NoProgramError,
    RegisterProgram,
    put_values,
)
from siddhi.engine.operators.windows.by_expression.layout import (
    AGGREGATE,
    CONSTANT,
    FALSE,
    FIRST,
    LAST,
    OWN,
    TRUE,
)
from siddhi.language.ast import AttributeType

Line = tuple[ExpressionNode, AttributeType]
"""An expression over one event, and its type."""


class ConditionProgram(RegisterProgram):
    """The programs of all sides of a window's expression.

    `values` are computed for each event, `constants` for each step, `members` are the aggregates, whose arguments are
    the values at `arguments`. `sides` are (n, 8): the bounds of the aggregates, loads and instructions of each side,
    and the next sides if it is true and false. `loads` are (n, 2): the source of an input, and its number.

    Raises:
        NoProgramError: the loop cannot evaluate the expression.
    """

    def __init__(self, expression: model.TypedExpression, compiler: ExpressionCompiler) -> None:
        super().__init__()
        self._compiler = compiler
        self.values: list[Line] = []
        self.constants: list[Line] = []
        self.members: list[Accumulation] = []
        self.arguments: list[int] = []
        self._loads: list[tuple[int, int]] = []
        self._sides: list[list[int]] = []
        self._known: dict[object, int] = {}
        self._write(expression, TRUE, FALSE)
        self.sides: Int64Array = np.array(self._sides, dtype=np.int64)
        self.loads: Int64Array = np.array(self._loads or np.zeros((0, 2)), dtype=np.int64).reshape(-1, 2)

    def _write(self, expression: model.TypedExpression, when_true: int, when_false: int) -> None:
        """Add the sides of `expression`, the first one next."""
        if isinstance(expression, model.Logical) and has_aggregate(expression.right):
            behind = len(self._sides) + _sides_of(expression.left)
            outcomes = (behind, when_false) if expression.operator == "and" else (when_true, behind)
            self._write(expression.left, *outcomes)
            self._write(expression.right, when_true, when_false)
            return
        if any(isinstance(part, model.Logical) and has_aggregate(part.right) for part in walk(expression)):
            raise NoProgramError("an aggregate follows 'and' or 'or' inside another operator")
        began = (len(self.members), len(self._loads), len(self))
        self.asks(expression)
        side = [number for pair in zip(began, (len(self.members), len(self._loads), len(self)), strict=True)
                for number in pair]  # fmt: skip
        self._sides.append([*side, when_true, when_false])

    def leaf(self, expression: model.TypedExpression) -> int | None:
        if isinstance(expression, model.Aggregate):
            return self._load(AGGREGATE, self._aggregate(expression), expression.type)
        events = _events_in(expression)
        if has_aggregate(expression) or len(events) > 1:
            return None
        if not events or isinstance(expression, model.IsEmptySlot):
            return self._load(CONSTANT, self._constant(expression), expression.type)
        return self._load(next(iter(events)), self._value(expression), expression.type)

    def _load(self, source: int, number: int, type_: AttributeType) -> int:
        self._loads.append((source, number))
        return self.put(code.INPUT_F if type_ in FRACTIONS else code.INPUT_I, len(self._loads) - 1)

    def _constant(self, expression: model.TypedExpression) -> int:
        empty = isinstance(expression, model.IsEmptySlot)
        node = ConstantNode(value=False, type_=AttributeType.BOOL) if empty else self._node(expression)
        self.constants.append((node, expression.type))
        return len(self.constants) - 1

    def _value(self, expression: model.TypedExpression) -> int:
        key: object = expression
        if isinstance(expression, model.AttributeValue):
            key = expression.name
        elif isinstance(expression, model.EventReference):
            key = EVENT_TIMESTAMP
        known = self._known.get(key)
        if known is None:
            self.values.append((self._node(expression), expression.type))
            known = self._known[key] = len(self.values) - 1
        return known

    def _node(self, expression: model.TypedExpression) -> ExpressionNode:
        if expression.type is AttributeType.OBJECT:
            raise NoProgramError("it reads a value of type object")
        for part in walk(expression):
            if isinstance(part, model.Call) and (part.script is not None or not part.arguments):
                raise NoProgramError(f"'{part.name}' returns varying values")
        node = self._compiler.compile(expression)
        if node.can_fail or node.stateful:
            raise NoProgramError("it may fail or keeps state")
        return node

    def _aggregate(self, call: model.Aggregate) -> int:
        member = accumulation_of(call, RemovalOrder.IN_ANY_ORDER)
        if member is None or len(call.arguments) > 1:
            raise NoProgramError(f"'{call.name}' runs in Python")
        argument = 0
        if member.argument is not None:
            if not _events_in(call.arguments[0]) <= {OWN} or has_aggregate(call.arguments[0]):
                raise NoProgramError("the argument of an aggregate reads 'first' or 'last'")
            argument = self._value(call.arguments[0])
        self.members.append(member)
        self.arguments.append(argument)
        return len(self.members) - 1

    def compute(self, batch: EventBatch, slots: Int64Array, values: Int64Array, valid: BoolArray) -> None:
        """Write the values of the events of `batch` at `slots`."""
        evaluation = Evaluation(batch)
        for place, (node, type_) in enumerate(self.values):
            values[place, slots], valid[place, slots] = _computed(node, type_, evaluation)

    def constant_values(self, batch: EventBatch) -> tuple[Int64Array, BoolArray]:
        """Return the constants, and a mask of those that are not null; codes of strings may change between steps."""
        one = Evaluation(batch.slice(0, 1))
        found = [_computed(node, type_, one) for node, type_ in self.constants]
        values: Int64Array = np.array([line[0] for line, _ in found], dtype=np.int64)
        return values, np.array([known[0] for _, known in found], dtype=np.bool_)


def _computed(node: ExpressionNode, type_: AttributeType, evaluation: Evaluation) -> tuple[Int64Array, BoolArray]:
    line: Int64Array = np.empty(evaluation.size, dtype=np.int64)
    values, valid = node.evaluate(evaluation)
    values = as_type(values, type_) if type_ in NUMERIC else values
    put_values(line, Value(values), type_, evaluation.size)
    if type_ is AttributeType.STRING:
        return line, line != NULL_CODE
    return line, np.ones(evaluation.size, dtype=np.bool_) if valid is None else valid


def _sides_of(expression: model.TypedExpression) -> int:
    if isinstance(expression, model.Logical) and has_aggregate(expression.right):
        return _sides_of(expression.left) + _sides_of(expression.right)
    return 1


def _events_in(expression: model.TypedExpression) -> set[int]:
    """Return which of a window's events `expression` reads: the event under test, the first, the last."""
    events: set[int] = set()
    for part in walk(expression):
        if isinstance(part, model.InTable) or (isinstance(part, model.AttributeValue) and part.all_events):
            raise NoProgramError("it reads a table or all events")
        if isinstance(part, model.AttributeValue | model.EventReference):
            events.add(OWN if part.index is None else LAST if part.index.from_last else FIRST)
    return events
