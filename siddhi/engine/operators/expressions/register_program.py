"""Typed expressions as programs for `siddhi.engine.operators.expressions.register_kernel`."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from siddhi.analysis import model
from siddhi.engine.jit.arrays import AnyArray, Int64Array
from siddhi.engine.operators.expressions import register_kernel as code
from siddhi.engine.operators.expressions.evaluation import Value, broadcast
from siddhi.engine.operators.expressions.operators import NUMERIC
from siddhi.language.ast import AttributeType

WHOLE = frozenset({AttributeType.INT, AttributeType.LONG})
FRACTIONS = frozenset({AttributeType.FLOAT, AttributeType.DOUBLE})
DIVISIONS = (code.DIV_I, code.MOD_I, code.DIV_F, code.MOD_F)
"""Instructions that give null for a divisor of zero."""
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
    """The loop does not support the expression; the message gives the reason."""


class RegisterProgram(ABC):
    """Instructions that combine the registers that `leaf` returns for the parts of an expression."""

    def __init__(self) -> None:
        self._lines: list[tuple[int, int, int]] = []

    @property
    def lines(self) -> Int64Array:
        """The instructions, (n, 3): operation and two operands. Instruction i writes register i."""
        return np.array(self._lines or np.zeros((0, 3)), dtype=np.int64).reshape(-1, 3)

    def __len__(self) -> int:
        return len(self._lines)

    @abstractmethod
    def leaf(self, expression: model.TypedExpression) -> int | None:
        """Return the register of an expression that is a leaf, None for one that has to be decomposed."""

    def asks(self, condition: model.TypedExpression) -> None:
        """Add instructions whose last register is the truth of `condition`."""
        if condition.type is not AttributeType.BOOL:
            raise NoProgramError("a condition is not of type bool")
        self.truth(condition)

    def put(self, do: int, first: int = 0, second: int = 0) -> int:
        """Add an instruction; return its register."""
        self._lines.append((do, first, second))
        return len(self._lines) - 1

    def truth(self, expression: model.TypedExpression) -> int:
        """Return the register of a bool in which null is false."""
        register = self.register(expression)
        if isinstance(expression, model.Comparison | model.Logical | model.Negation | model.IsNullValue):
            return register
        return self.put(code.TRUTH, register)

    def register(self, expression: model.TypedExpression) -> int:
        """Return the register of the value of `expression`."""
        leaf = self.leaf(expression)
        if leaf is not None:
            return leaf
        if isinstance(expression, model.Arithmetic):
            return self._arithmetic(expression)
        if isinstance(expression, model.Comparison):
            return self._comparison(expression)
        if isinstance(expression, model.Logical):
            left, right = self.truth(expression.left), self.truth(expression.right)
            return self.put(code.AND if expression.operator == "and" else code.OR, left, right)
        if isinstance(expression, model.Negation):
            return self.put(code.NOT, self.truth(expression.operand))
        if isinstance(expression, model.IsNullValue):
            return self.put(code.IS_NULL, self.register(expression.operand))
        raise NoProgramError(f"it has a {type(expression).__name__} of values that are not of one event")

    def _arithmetic(self, expression: model.Arithmetic) -> int:
        type_ = expression.type
        registers = []
        for side in (expression.left, expression.right):
            if side.type not in NUMERIC:
                raise NoProgramError("it may fail")
            registers.append(self.converted(self.register(side), side.type, type_))
        register = self.put(_ARITHMETIC[expression.operator][type_ in FRACTIONS], *registers)
        if type_ is AttributeType.INT:
            return self.put(code.TO_I32, register)
        return self.put(code.TO_F32, register) if type_ is AttributeType.FLOAT else register

    def _comparison(self, expression: model.Comparison) -> int:
        type_ = expression.operand_type
        sides = expression.left, expression.right
        if type_ not in NUMERIC:
            if type_ is AttributeType.OBJECT or any(side.type is not type_ for side in sides):
                raise NoProgramError("it compares objects or values of several types")
            return self.put(_COMPARISONS[expression.operator][0], *(self.register(side) for side in sides))
        if any(side.type not in NUMERIC for side in sides):
            raise NoProgramError("it compares a number with something else")
        left, right = (self.converted(self.register(side), side.type, type_) for side in sides)
        return self.put(_COMPARISONS[expression.operator][type_ in FRACTIONS], left, right)

    def converted(self, register: int, type_: AttributeType, wanted: AttributeType) -> int:
        """Return the register of the number in `register` converted to another type, as Java widens or truncates it."""
        if type_ is wanted or (type_ is AttributeType.INT and wanted is AttributeType.LONG):
            return register
        if type_ in WHOLE:
            steps = {AttributeType.INT: code.TO_I32, AttributeType.FLOAT: code.I_TO_F32}
            return self.put(steps.get(wanted, code.I_TO_F64), register)
        if wanted in WHOLE:
            raise NoProgramError("it takes a fraction as a whole number")
        return self.put(code.TO_F32, register) if wanted is AttributeType.FLOAT else register


def put_values(line: Int64Array, value: Value, type_: AttributeType, size: int) -> None:
    """Write values of `type_` into `line` in the form of inputs.

    Integers, codes and bools are written unchanged, others as the bits of a double.
    """
    values: AnyArray = broadcast(value, size).values
    if type_ in FRACTIONS:
        line.view(np.float64)[:] = values
    else:
        line[:] = values
