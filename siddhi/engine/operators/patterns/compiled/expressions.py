"""Conditions between events as small programs for the compiled loop.

Values that depend on one event only are computed for whole batches on arrival; the program combines them:

    price > e1.price * 1.1 and symbol == e2.symbol

    EVENT price    SLOT e1 "price * 1.1"    COMPARE >    EVENT symbol    SLOT e2 symbol    COMPARE ==    AND
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from siddhi.analysis import model
from siddhi.analysis.expression.walk import conjuncts, walk
from siddhi.engine.columnar.batch import EventBatch
from siddhi.engine.columnar.column import DTYPES
from siddhi.engine.columnar.strings import NULL_CODE
from siddhi.engine.jit.arrays import AnyArray, Int64Array
from siddhi.engine.operators.base.operator import OperatorContext
from siddhi.engine.operators.expressions.compiler import ExpressionCompiler
from siddhi.engine.operators.expressions.evaluation import Evaluation, ExpressionNode, as_type, broadcast
from siddhi.engine.operators.expressions.operators import NUMERIC
from siddhi.engine.operators.patterns.compiled.kernels import memory as at
from siddhi.language import ast
from siddhi.language.ast import AttributeType

FRACTIONS = frozenset({AttributeType.FLOAT, AttributeType.DOUBLE})
_SIGNS = {"+": at.PLUS, "-": at.MINUS, "*": at.TIMES, "/": at.DIVIDE, "%": at.REMAINDER}
_COMPARISONS = {
    "==": at.EQUAL,
    "!=": at.NOT_EQUAL,
    "<": at.LESS,
    "<=": at.LESS_EQUAL,
    ">": at.GREATER,
    ">=": at.GREATER_EQUAL,
}
_SWAPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_COMBINATIONS = (model.Comparison, model.Logical, model.Negation, model.IsNullValue, model.Arithmetic)


class NotCompilableError(Exception):
    """A condition that the compiled loop cannot evaluate; the text gives the reason."""


@dataclass(frozen=True, slots=True)
class FeedColumn:
    """A value of each event of a source: an attribute (`node` is None) or an expression."""

    number: int
    type: AttributeType
    name: str
    node: ExpressionNode | None

    def fill(self, target: AnyArray, nulls: Int64Array, bit: int, batch: EventBatch, evaluation: Evaluation) -> None:
        """Write the values of `batch` into `target`, and into `nulls` a bit for each that is null."""
        if self.node is None:
            column = batch.columns[self.name]
            values, valid = column.values, column.valid
        else:
            values, valid = broadcast(self.node.evaluate(evaluation), batch.size)
            values = as_type(values, self.type) if self.type in NUMERIC else values
        if self.type is AttributeType.STRING:
            valid = values >= 0
        target[:] = values
        if valid is not None:
            nulls |= (~valid).astype(np.int64) << bit


@dataclass
class Feed:
    """The values read from the events of one source; integers and fractions are numbered separately."""

    context: OperatorContext
    types: dict[str, AttributeType] = field(default_factory=dict)
    whole: list[FeedColumn] = field(default_factory=list)
    fractions: list[FeedColumn] = field(default_factory=list)
    _known: dict[object, FeedColumn] = field(default_factory=dict)

    def attribute(self, name: str, type_: AttributeType) -> FeedColumn:
        """Return the column of an attribute."""
        self.types[name] = type_
        return self._column(name, type_, name, None)

    def expression(self, expression: model.TypedExpression, type_: AttributeType) -> FeedColumn:
        """Return the column of an expression over one event."""
        if isinstance(expression, model.AttributeValue) and expression.type is type_:
            return self.attribute(expression.name, type_)
        compiler = ExpressionCompiler(self.context)
        node = compiler.compile(expression)
        if node.can_fail or node.stateful:
            raise NotCompilableError("a condition between events may fail or keeps state")
        self.types.update(compiler.columns)
        return self._column((expression, type_), type_, "", node)

    def _column(self, key: object, type_: AttributeType, name: str, node: ExpressionNode | None) -> FeedColumn:
        if type_ is AttributeType.OBJECT:
            raise NotCompilableError("it reads an attribute of type object")
        known = self._known.get(key)
        if known is None:
            columns = self.fractions if type_ in FRACTIONS else self.whole
            known = self._known[key] = FeedColumn(len(columns), type_, name, node)
            columns.append(known)
        return known


@dataclass
class Programs:
    """The conditions of all elements.

    `counted` marks the slots with several events, `bounds` are the first instruction and the end of the condition at
    each position, `texts` the strings whose codes are at these positions among the constants.
    """

    feeds: Sequence[Feed]
    feed_of_slot: Sequence[int]
    counted: Sequence[bool]
    places: Sequence[int]
    context: OperatorContext
    bounds: dict[int, tuple[int, int]] = field(default_factory=dict)
    texts: dict[int, str] = field(default_factory=dict)
    _code: list[tuple[int, int, int, int, int, int]] = field(default_factory=list)
    _constants: list[int] = field(default_factory=list)
    _fractions: list[float] = field(default_factory=list)

    @property
    def instructions(self) -> Int64Array:
        return np.array(self._code, dtype=np.int64).reshape(-1, at.INSTRUCTION_WIDTH)

    @property
    def constants(self) -> Int64Array:
        return np.array(self._constants, dtype=np.int64)

    @property
    def fraction_constants(self) -> AnyArray:
        return np.array(self._fractions, dtype=np.float64)

    @property
    def most_registers(self) -> int:
        return max((end - first for first, end in self.bounds.values()), default=0)

    def add(self, slot: int, condition: model.TypedExpression | None) -> None:
        """Add the condition of the element with `slot`, which also reads other slots.

        Raises:
            NotCompilableError: the loop cannot evaluate it.
        """
        first = len(self._code)
        for part in () if condition is None else conjuncts(condition):
            _ProgramWriter(self, slot, first).require(part)
        self.bounds[self.places[slot]] = (first, len(self._code))

    def emit(self, operation: int, *operands: int) -> int:
        """Add an instruction; returns its number among all."""
        padded = [*operands, 0, 0, 0, 0, 0][:5]
        self._code.append((operation, padded[0], padded[1], padded[2], padded[3], padded[4]))
        return len(self._code) - 1

    def whole_constant(self, value: int | str) -> int:
        """Return the place of a constant; that of a string gets its code before each step."""
        if isinstance(value, str):
            self.texts[len(self._constants)] = value
            value = NULL_CODE
        self._constants.append(int(value))
        return len(self._constants) - 1

    def fraction_constant(self, value: float) -> int:
        """Return the place of a constant."""
        self._fractions.append(float(value))
        return len(self._fractions) - 1


Event = tuple[int, ast.EventIndex | None]
"""A slot, and the index of an event in it."""


class _ProgramWriter:
    """Writes the program of one condition of the element with slot `own`; registers are numbered from `first` on."""

    def __init__(self, programs: Programs, own: int, first: int) -> None:
        self._programs = programs
        self._own = own
        self._first = first

    def require(self, expression: model.TypedExpression) -> None:
        """Add a condition that must be true."""
        if not self._match(expression):
            self._emit(at.REQUIRE, self.truth(expression))

    def _match(self, expression: model.TypedExpression) -> bool:
        """Write `expression` as one comparison of the event with that of a plain slot, if it has that form."""
        if not isinstance(expression, model.Comparison) or expression.operand_type is AttributeType.OBJECT:
            return False
        type_, operator = expression.operand_type, expression.operator
        sides = (expression.left, expression.right)
        if sides[0].type is not type_ or sides[1].type is not type_:
            return False
        if _events_in(sides[1]) == {(self._own, None)}:
            sides, operator = (sides[1], sides[0]), _SWAPPED.get(operator, operator)
        foreign = _events_in(sides[1])
        if _events_in(sides[0]) != {(self._own, None)} or len(foreign) != 1 or not _may_be_computed_before(sides[1]):
            return False
        slot, index = next(iter(foreign))
        if slot == self._own or index is not None or self._programs.counted[slot] or not _has_values(sides[0]):
            return False
        event = self._feed(self._own).expression(sides[0], type_)
        other = self._feed(slot).expression(sides[1], type_)
        operation = at.MATCH_FRACTION if type_ in FRACTIONS else at.MATCH_WHOLE
        place = self._programs.places[slot]
        self._emit(operation, _COMPARISONS[operator], event.number, place, other.number)
        return True

    def truth(self, expression: model.TypedExpression) -> int:
        """Add `expression`, of type bool; return the register of its value."""
        if expression.type is not AttributeType.BOOL:
            raise NotCompilableError("a condition is not of type bool")
        return self._value(expression)

    def _emit(self, operation: int, *operands: int) -> int:
        return self._programs.emit(operation, *operands) - self._first

    def _value(self, expression: model.TypedExpression) -> int:
        """Add `expression`; return the register of its value, which has its type."""
        events = _events_in(expression)
        if isinstance(expression, model.ConstantValue):
            return self._constant(expression)
        if isinstance(expression, model.IsEmptySlot):
            return self._empty(expression)
        if isinstance(expression, model.EventReference):
            return self._emit(at.SLOT_TIME, *self._picked((expression.slot, expression.index)))
        if events <= {(self._own, None)}:
            return self._of_event(expression)
        if len(events) == 1 and _may_be_computed_before(expression):
            return self._of_slot(expression, next(iter(events)))
        if not isinstance(expression, _COMBINATIONS):
            raise NotCompilableError(f"a condition between events has a {type(expression).__name__} of several of them")
        return self._combined(expression)

    def _constant(self, expression: model.ConstantValue) -> int:
        value = expression.value
        if expression.type in FRACTIONS:
            with np.errstate(over="ignore"):
                fraction = float(DTYPES[expression.type].type(value))
            return self._emit(at.CONSTANT_FRACTION, self._programs.fraction_constant(fraction))
        return self._emit(
            at.CONSTANT_WHOLE, self._programs.whole_constant(value if isinstance(value, str) else int(value))
        )

    def _picked(self, event: Event) -> tuple[int, int, int, int, int]:
        """Return the operands that select an event of a partial match; the fourth is for a column."""
        slot, index = event
        tested = slot == self._own and index is not None
        way = at.LAST_EVENT if index is None else at.FROM_LAST if index.from_last else at.FROM_FIRST
        return self._programs.places[slot], way, 0 if index is None else index.offset, 0, int(tested)

    def _empty(self, expression: model.IsEmptySlot) -> int:
        return self._emit(at.SLOT_EMPTY, *self._picked((expression.slot, expression.index)))

    def _feed(self, slot: int) -> Feed:
        return self._programs.feeds[self._programs.feed_of_slot[slot]]

    def _of_event(self, expression: model.TypedExpression) -> int:
        column = self._feed(self._own).expression(expression, expression.type)
        operation = at.EVENT_FRACTION if expression.type in FRACTIONS else at.EVENT_WHOLE
        return self._emit(operation, column.number)

    def _of_slot(self, expression: model.TypedExpression, event: Event) -> int:
        column = self._feed(event[0]).expression(expression, expression.type)
        place, way, offset, _, tested = self._picked(event)
        operation = at.SLOT_FRACTION if expression.type in FRACTIONS else at.SLOT_WHOLE
        return self._emit(operation, place, way, offset, column.number, tested)

    def _combined(self, expression: model.TypedExpression) -> int:
        if isinstance(expression, model.Comparison):
            return self._comparison(expression)
        if isinstance(expression, model.Arithmetic):
            return self._arithmetic(expression)
        if isinstance(expression, model.Logical):
            operation = at.AND if expression.operator == "and" else at.OR
            return self._emit(operation, self.truth(expression.left), self.truth(expression.right))
        if isinstance(expression, model.Negation):
            return self._emit(at.NOT, self.truth(expression.operand))
        if isinstance(expression, model.IsNullValue):
            return self._emit(at.IS_NULL, self._value(expression.operand))
        raise NotCompilableError(f"a condition between events has a {type(expression).__name__}")

    def _comparison(self, expression: model.Comparison) -> int:
        type_ = expression.operand_type
        if type_ is AttributeType.OBJECT:
            raise NotCompilableError("a condition between events compares objects")
        left, right = self._as(expression.left, type_), self._as(expression.right, type_)
        operation = at.COMPARE_FRACTION if type_ in FRACTIONS else at.COMPARE_WHOLE
        return self._emit(operation, _COMPARISONS[expression.operator], left, right)

    def _arithmetic(self, expression: model.Arithmetic) -> int:
        if expression.left.type not in NUMERIC or expression.right.type not in NUMERIC:
            raise NotCompilableError("a condition between events may fail")
        type_ = expression.type
        left, right = self._as(expression.left, type_), self._as(expression.right, type_)
        operation = {
            AttributeType.INT: at.ARITHMETIC_INT,
            AttributeType.LONG: at.ARITHMETIC_WHOLE,
            AttributeType.FLOAT: at.ARITHMETIC_SINGLE,
        }.get(type_, at.ARITHMETIC_FRACTION)
        return self._emit(operation, _SIGNS[expression.operator], left, right)

    def _as(self, expression: model.TypedExpression, type_: AttributeType) -> int:
        """Add `expression` converted to `type_`, as Java widens or narrows numbers."""
        register, own = self._value(expression), expression.type
        if own is type_:
            return register
        if type_ not in NUMERIC or own not in NUMERIC:
            raise NotCompilableError(f"a condition between events takes {own.value} as {type_.value}")
        if type_ in FRACTIONS:
            if own not in FRACTIONS:
                register = self._emit(at.TO_FRACTION, register)
            return self._emit(at.TO_SINGLE, register) if type_ is AttributeType.FLOAT else register
        if own in FRACTIONS:
            register = self._emit(at.TO_WHOLE, register)
        return self._emit(at.TO_INT, register) if type_ is AttributeType.INT else register


def _events_in(expression: model.TypedExpression) -> set[Event]:
    events: set[Event] = set()
    for part in walk(expression):
        if isinstance(part, model.AttributeValue):
            if part.all_events:
                raise NotCompilableError("a condition between events reads all events of a count")
            events.add((part.slot, part.index))
        elif isinstance(part, model.EventReference | model.IsEmptySlot):
            events.add((part.slot, part.index))
        elif isinstance(part, model.InTable | model.Aggregate):
            raise NotCompilableError(f"a condition between events has an {type(part).__name__}")
    return events


def _has_values(expression: model.TypedExpression) -> bool:
    """Return whether an expression reads only values of events."""
    return not any(isinstance(part, model.EventReference | model.IsEmptySlot) for part in walk(expression))


def _may_be_computed_before(expression: model.TypedExpression) -> bool:
    """Return whether an expression over an earlier event still has the value from that event's arrival."""
    for part in walk(expression):
        if isinstance(part, model.EventReference | model.IsEmptySlot):
            return False
        if isinstance(part, model.Call) and (part.script is not None or not part.arguments):
            return False
    return True
