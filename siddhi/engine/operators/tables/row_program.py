"""The condition and the changes of a write, as a program for `siddhi.engine.operators.tables.write_kernels`.

    K.price < price and K.n > 3           0  LOAD_F64   price of the row
                                          1  INPUT_F    price of the event        (evaluated for all events before)
                                          2  LESS_F     0, 1
                                          3  …

A part that does not read the row is evaluated for all events together and is an input. What the loop cannot do
(functions of the row's values, conditions that may fail) has no program.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from siddhi.analysis import model
from siddhi.analysis.expression.walk import walk
from siddhi.engine.columnar.batch import EventBatch
from siddhi.engine.columnar.strings import NULL_CODE
from siddhi.engine.jit.arrays import AnyArray, BoolArray, Int64Array
from siddhi.engine.operators.base.scope import EVENT_TIMESTAMP
from siddhi.engine.operators.expressions.compiler import ExpressionCompiler
from siddhi.engine.operators.expressions.evaluation import Evaluation, ExpressionNode, Value, broadcast
from siddhi.engine.operators.expressions.leaves import TimestampNode
from siddhi.engine.operators.expressions.operators import NUMERIC
from siddhi.engine.operators.tables import write_kernels as code
from siddhi.engine.operators.tables.table import Table
from siddhi.language.ast import AttributeType

_WHOLE = frozenset({AttributeType.INT, AttributeType.LONG})
_BROKEN = frozenset({AttributeType.FLOAT, AttributeType.DOUBLE})
_LOADS = {
    AttributeType.INT: code.LOAD_I32,
    AttributeType.LONG: code.LOAD_I64,
    AttributeType.FLOAT: code.LOAD_F32,
    AttributeType.DOUBLE: code.LOAD_F64,
    AttributeType.BOOL: code.LOAD_BOOL,
    AttributeType.STRING: code.LOAD_CODE,
}
_STORES = {
    AttributeType.INT: code.STORE_I32,
    AttributeType.LONG: code.STORE_I64,
    AttributeType.FLOAT: code.STORE_F32,
    AttributeType.DOUBLE: code.STORE_F64,
    AttributeType.BOOL: code.STORE_BOOL,
    AttributeType.STRING: code.STORE_CODE,
}
_ARITHMETIC = {
    "+": (code.ADD_I, code.ADD_F),
    "-": (code.SUB_I, code.SUB_F),
    "*": (code.MUL_I, code.MUL_F),
    "/": (code.DIV_I, code.DIV_F),
    "%": (code.MOD_I, code.MOD_F),
}
_COMPARISONS = {
    "<": (code.LESS_I, code.LESS_F),
    "<=": (code.MOST_I, code.MOST_F),
    ">": (code.MORE_I, code.MORE_F),
    ">=": (code.LEAST_I, code.LEAST_F),
    "==": (code.EQUAL_I, code.EQUAL_F),
    "!=": (code.DIFFER_I, code.DIFFER_F),
}


class NoProgramError(Exception):
    """The loop cannot do what is asked for."""


class RowProgram:
    """Instructions over an event's inputs and a row of `table`; `asks` and `sets` compile into it."""

    def __init__(self, table: Table, compiler: ExpressionCompiler) -> None:
        self._table = table
        self._compiler = compiler
        self._lines: list[tuple[int, int, int]] = []
        self.inputs: list[tuple[ExpressionNode, AttributeType]] = []

    @property
    def lines(self) -> Int64Array:
        """The instructions, (n, 3): what to do, and two operands. Instruction i writes register i."""
        return np.array(self._lines or np.zeros((0, 3)), dtype=np.int64).reshape(-1, 3)

    def __len__(self) -> int:
        return len(self._lines)

    def asks(self, condition: model.TypedExpression) -> None:
        """Add instructions after which the last register holds whether `condition` is true."""
        if condition.type is not AttributeType.BOOL:
            raise NoProgramError
        self._truth(condition)

    def sets(self, name: str, value: model.TypedExpression) -> None:
        """Attribute `name` of the row becomes `value`."""
        wanted = self._table.types[name]
        register = self._register(value)
        if value.type in NUMERIC and wanted in NUMERIC:
            if value.type in _BROKEN and wanted in _WHOLE:
                raise NoProgramError
            register = self._converted(register, value.type, wanted)
        elif value.type is not wanted:
            raise NoProgramError
        self._put(self._of_type(_STORES, wanted), register, self._table.line_of(name))

    def sets_time(self) -> None:
        """Add an instruction that gives the row the time of the event."""
        self.inputs.append((TimestampNode(), AttributeType.LONG))
        register = self._put(code.INPUT_I, len(self.inputs) - 1)
        self._put(code.STORE_I64, register, self._table.line_of(EVENT_TIMESTAMP))

    def values(self, batch: EventBatch, outputs: dict[str, Value]) -> tuple[Int64Array, BoolArray]:
        """Return the inputs of all events of `batch`, (inputs, events), and where they are not null."""
        size = batch.size
        inputs: Int64Array = np.zeros((max(len(self.inputs), 1), size), dtype=np.int64)
        valid: BoolArray = np.ones((max(len(self.inputs), 1), size), dtype=np.bool_)
        evaluation = Evaluation(batch)
        evaluation.outputs = outputs
        for place, (node, type_) in enumerate(self.inputs):
            value = node.evaluate(evaluation)
            put_values(inputs[place], value, type_, size)
            if type_ is AttributeType.STRING:
                valid[place] = inputs[place] != NULL_CODE
            elif value.valid is not None:
                valid[place] = value.valid
        return inputs, valid

    def _put(self, do: int, first: int = 0, second: int = 0) -> int:
        self._lines.append((do, first, second))
        return len(self._lines) - 1

    def _truth(self, expression: model.TypedExpression) -> int:
        """Return the register of a bool in which null is false."""
        register = self._register(expression)
        if isinstance(expression, model.Comparison | model.Logical | model.Negation | model.IsNullValue):
            return register
        return self._put(code.TRUTH, register)

    def _register(self, expression: model.TypedExpression) -> int:
        if not self._looks(expression):
            return self._input(expression)
        if isinstance(expression, model.TableValue):
            return self._put(self._of_type(_LOADS, expression.type), self._table.line_of(expression.name))
        if isinstance(expression, model.Arithmetic):
            return self._arithmetic(expression)
        if isinstance(expression, model.Comparison):
            return self._comparison(expression)
        if isinstance(expression, model.Logical):
            left, right = self._truth(expression.left), self._truth(expression.right)
            return self._put(code.AND if expression.operator == "and" else code.OR, left, right)
        if isinstance(expression, model.Negation):
            return self._put(code.NOT, self._truth(expression.operand))
        if isinstance(expression, model.IsNullValue):
            return self._put(code.IS_NULL, self._register(expression.operand))
        raise NoProgramError

    def _looks(self, expression: model.TypedExpression) -> bool:
        """Return whether `expression` looks at rows of the table."""
        return any(isinstance(one, model.TableValue) and one.table == self._table.id for one in walk(expression))

    def _input(self, expression: model.TypedExpression) -> int:
        node = self._compiler.compile(expression)
        if node.can_fail or node.stateful or expression.type is AttributeType.OBJECT:
            raise NoProgramError
        self.inputs.append((node, expression.type))
        return self._put(code.INPUT_F if expression.type in _BROKEN else code.INPUT_I, len(self.inputs) - 1)

    def _arithmetic(self, expression: model.Arithmetic) -> int:
        type_ = expression.type
        registers = []
        for side in (expression.left, expression.right):
            if side.type not in NUMERIC:
                raise NoProgramError
            registers.append(self._converted(self._register(side), side.type, type_))
        register = self._put(_ARITHMETIC[expression.operator][type_ in _BROKEN], *registers)
        if type_ is AttributeType.INT:
            return self._put(code.TO_I32, register)
        return self._put(code.TO_F32, register) if type_ is AttributeType.FLOAT else register

    def _comparison(self, expression: model.Comparison) -> int:
        type_ = expression.operand_type
        sides = expression.left, expression.right
        if type_ not in NUMERIC:
            if type_ is AttributeType.OBJECT or any(side.type is not type_ for side in sides):
                raise NoProgramError
            return self._put(_COMPARISONS[expression.operator][0], *(self._register(side) for side in sides))
        if any(side.type not in NUMERIC for side in sides):
            raise NoProgramError
        left, right = (self._converted(self._register(side), side.type, type_) for side in sides)
        return self._put(_COMPARISONS[expression.operator][type_ in _BROKEN], left, right)

    def _converted(self, register: int, type_: AttributeType, wanted: AttributeType) -> int:
        """Return the register of the number in `register` as another type, as Java widens or cuts it."""
        if type_ is wanted or (type_ is AttributeType.INT and wanted is AttributeType.LONG):
            return register
        if type_ in _WHOLE:
            steps = {AttributeType.INT: code.TO_I32, AttributeType.FLOAT: code.I_TO_F32}
            return self._put(steps.get(wanted, code.I_TO_F64), register)
        if wanted in _WHOLE:
            raise NoProgramError
        return self._put(code.TO_F32, register) if wanted is AttributeType.FLOAT else register

    @staticmethod
    def _of_type(codes: dict[AttributeType, int], type_: AttributeType) -> int:
        if type_ not in codes:
            raise NoProgramError
        return codes[type_]


def put_values(line: Int64Array, value: Value, type_: AttributeType, size: int) -> None:
    """Write values of `type_` into `line` in the form of inputs.

    Whole numbers, codes and bools are written as they are, others as the bits of a double.
    """
    values: AnyArray = broadcast(value, size).values
    if type_ in _BROKEN:
        line.view(np.float64)[:] = values
    else:
        line[:] = values


def compile_program(
    table: Table,
    compiler: ExpressionCompiler,
    condition: model.TypedExpression | None,
    assignments: Sequence[tuple[str, model.TypedExpression]],
    *,
    timed: bool,
) -> tuple[RowProgram, int] | None:
    """Return the program of a write, and how many of its instructions test the condition; None when there is none.

    With `timed` a changed row gets the time of the event.
    """
    program = RowProgram(table, compiler)
    try:
        if condition is not None:
            program.asks(condition)
        asking = len(program)
        for name, value in assignments:
            program.sets(name, value)
        if timed:
            program.sets_time()
    except NoProgramError:
        return None
    return program, asking
