"""`math:` functions over whole columns. Java's Math differs from C's in the last digit at most."""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable
from typing import Any

import numpy as np

from siddhi.analysis import model
from siddhi.engine.columnar.java_text import parse_floating, parse_integer
from siddhi.engine.columnar.strings import StringPool
from siddhi.engine.jit.arrays import AnyArray
from siddhi.engine.operators.expressions.compiler import FUNCTIONS
from siddhi.engine.operators.expressions.evaluation import Evaluation, ExpressionNode, Value, both_valid, broadcast
from siddhi.engine.operators.expressions.leaves import scalar_or_none
from siddhi.engine.operators.functions.calls import CallNode
from siddhi.engine.operators.functions.conversion import number_as
from siddhi.engine.operators.functions.rows import (
    Nulls,
    RowError,
    RowFunction,
    column_function,
    constant_function,
    row_function,
)
from siddhi.language.ast import AttributeType

_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


def _atan(y: AnyArray, x: AnyArray | None = None) -> AnyArray:
    result: AnyArray = np.arctan(y) if x is None else np.arctan2(y, x)
    return result


def _power(value: AnyArray, exponent: AnyArray) -> AnyArray:
    """Return where Java's pow is NaN but C's is 1: 1 to any power, and -1 to an infinite one."""
    unknown = np.isnan(exponent) | ((np.abs(value) == 1) & np.isinf(exponent))
    result: AnyArray = np.where(unknown, np.nan, np.power(value, exponent))
    return result


def _exponent(values: AnyArray) -> AnyArray:
    """Return the unbiased exponent of a double as Java's getExponent does.

    It is 1024 for NaN and infinity, -1023 below the least normal number.
    """
    _, exponents = np.frexp(values)
    tiny = np.abs(values) < 2.0**-1022
    return np.where(np.isfinite(values), np.where(tiny, -1023, exponents - 1), 1024).astype(np.int32)


def _round(values: AnyArray) -> AnyArray:
    """Round half up, NaN to 0, with saturation."""
    target = AttributeType.INT if values.dtype == np.float32 else AttributeType.LONG
    wide = values.astype(np.float64)
    floor = np.floor(wide)
    return number_as(np.where(wide - floor >= 0.5, floor + 1, floor), target)


def _signum(values: AnyArray) -> AnyArray:
    return number_as(np.sign(values), AttributeType.INT)


_COLUMNS: dict[str, Callable[..., Any]] = {
    "abs": np.abs,
    "acos": np.arccos,
    "asin": np.arcsin,
    "atan": _atan,
    "cbrt": np.cbrt,
    "ceil": np.ceil,
    "copySign": np.copysign,
    "cos": np.cos,
    "cosh": np.cosh,
    "exp": np.exp,
    "floor": np.floor,
    "isInfinite": np.isinf,
    "isNan": np.isnan,
    "ln": np.log,
    "log10": np.log10,
    "log2": np.log2,
    "max": np.maximum,
    "min": np.minimum,
    "power": _power,
    "signum": _signum,
    "sin": np.sin,
    "sinh": np.sinh,
    "sqrt": np.sqrt,
    "tan": np.tan,
    "tanh": np.tanh,
    "toDegrees": np.degrees,
    "toRadians": np.radians,
}
for _name, _compute in _COLUMNS.items():
    column_function("math", _name, _compute)
column_function("math", "getExponent", _exponent)
column_function("math", "round", _round, operand=None)
constant_function("math", "e", math.e)
constant_function("math", "pi", math.pi)


@FUNCTIONS.register("log", "math")
class Logarithm(CallNode):
    """The logarithm in a base; a row with base 1 fails."""

    def __init__(self, call: model.Call, arguments: tuple[ExpressionNode, ...], pool: StringPool) -> None:
        super().__init__(call, arguments, pool)
        self.can_fail = True

    def evaluate(self, evaluation: Evaluation) -> Value:
        number, base = (broadcast(argument.evaluate(evaluation), evaluation.size) for argument in self.arguments)
        valid = both_valid(number.valid, base.valid)
        undefined = base.values == 1
        evaluation.fail(undefined if valid is None else undefined & valid, "'math:log': there is none in base 1")
        return Value(np.log(number.values.astype(np.float64)) / np.log(base.values.astype(np.float64)), valid)


def _in_base(number: int, base: int) -> str:
    digits = ""
    rest = abs(number)
    while rest or not digits:
        rest, digit = divmod(rest, base)
        digits = _DIGITS[digit] + digits
    return f"-{digits}" if number < 0 else digits


def _unsigned(base: int) -> Any:
    """Return integers as unsigned: ints in 32 bits, longs in 64."""

    def make(call: model.Call, arguments: tuple[ExpressionNode, ...], pool: StringPool) -> ExpressionNode:
        bits = 32 if arguments[0].type is AttributeType.INT else 64
        mask = (1 << bits) - 1
        fractions = arguments[0].type in (AttributeType.FLOAT, AttributeType.DOUBLE)
        single = arguments[0].type is AttributeType.FLOAT

        def written(number: Any) -> str:
            return _hexadecimal_fraction(number, single=single) if fractions else _in_base(number & mask, base)

        return RowFunction(call, arguments, pool, compute=written, nulls=Nulls.NULL)

    return make


def _hexadecimal_fraction(number: float, *, single: bool) -> str:
    """Return `Double.toHexString`, or `Float.toHexString` when `single`."""
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "Infinity" if number > 0 else "-Infinity"
    if single and 0 < abs(number) < 2.0**-126:
        return _hexadecimal_fraction(number * 2.0**-896, single=False).replace("p-1022", "p-126")
    mantissa, power = number.hex().split("p")
    mantissa = mantissa.rstrip("0") if "." in mantissa else f"{mantissa}."
    return f"{mantissa}{'0' if mantissa.endswith('.') else ''}p{int(power)}"


def _convert_base(text: str, source: int, target: int) -> str:
    """Return the int written in another base; an invalid base counts as 10, as in Java's Integer.toString."""
    if not 2 <= source <= 36:
        raise RowError("the base of a text must be from 2 to 36")
    number = int(text, source) if _is_number(text, source) else None
    if number is None or not -(1 << 31) <= number < 1 << 31:
        raise RowError(f"'{text}' is not an int in base {source}")
    return _in_base(number, target if 2 <= target <= 36 else 10)


def _is_number(text: str, base: int) -> bool:
    """Return whether `text` is an optional sign and digits of the base.

    Blanks, underscores and prefixes such as 0x are not allowed.
    """
    digits = text[1:] if text[:1] in {"+", "-"} else text
    return bool(digits) and all(digit in _DIGITS[:base] for digit in digits.lower())


def _parsed(type_name: str, parse: Any) -> Any:
    def parsed(text: str) -> object:
        number = parse(text)
        if number is None:
            raise RowError(f"'{text}' is no {type_name}")
        return number

    return parsed


for _name, _base in {"bin": 2, "oct": 8, "hex": 16}.items():
    FUNCTIONS.register(_name, "math")(_unsigned(_base))
row_function("math", "conv", _convert_base, Nulls.NULL)
row_function("math", "parseInt", _parsed("int", lambda text: parse_integer(text, 32)), Nulls.NULL)
row_function("math", "parseLong", _parsed("long", lambda text: parse_integer(text, 64)), Nulls.NULL)
row_function("math", "parseDouble", _parsed("double", parse_floating), Nulls.NULL)
row_function("math", "parseFloat", _parsed("float", parse_floating), Nulls.NULL)


@FUNCTIONS.register("rand", "math")
class Rand(CallNode):
    """The next number of the 48-bit linear congruential generator of `java.util.Random`.

    Without a seed it is seeded from the system's randomness. A restored app restarts its series.
    """

    stateful = True

    def __init__(self, call: model.Call, arguments: tuple[ExpressionNode, ...], pool: StringPool) -> None:
        super().__init__(call, arguments, pool)
        seed = scalar_or_none(arguments[0]) if arguments else secrets.randbits(48)
        self.state = (int(seed) ^ 0x5DEECE66D) & ((1 << 48) - 1)

    def _bits(self, count: int) -> int:
        self.state = (self.state * 0x5DEECE66D + 0xB) & ((1 << 48) - 1)
        return self.state >> (48 - count)

    def evaluate(self, evaluation: Evaluation) -> Value:
        numbers = np.zeros(evaluation.size, dtype=np.float64)
        rows = range(evaluation.size) if evaluation.active is None else np.flatnonzero(evaluation.active).tolist()
        for row in rows:
            numbers[row] = ((self._bits(26) << 27) + self._bits(27)) / (1 << 53)
        return Value(numbers)
