"""`math:` functions over whole columns. Java's Math differs from C's in the last digit at most."""

from __future__ import annotations

import math
import secrets
from typing import Any

import numpy as np

from siddhi.analysis import model
from siddhi.engine.arrays import AnyArray, BoolArray
from siddhi.engine.expressions.compiler import FUNCTIONS
from siddhi.engine.expressions.evaluation import Evaluation, Node, Value
from siddhi.engine.expressions.leaves import scalar_or_none
from siddhi.engine.functions.calls import CallNode
from siddhi.engine.functions.conversion import number_as
from siddhi.engine.java_text import parse_floating, parse_integer
from siddhi.engine.strings import StringPool
from siddhi.extensions.rows import Nulls, RowError, RowFunction, column_function, constant_function, row_function
from siddhi.language.ast import AttributeType

_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


def _within_one(compute: Any) -> Any:
    def limited(values: AnyArray) -> tuple[AnyArray, BoolArray]:
        inside = np.abs(values) <= 1
        return compute(np.where(inside, values, 0.0)), inside

    return limited


def _atan(y: AnyArray, x: AnyArray | None = None) -> AnyArray:
    result: AnyArray = np.arctan(y) if x is None else np.arctan2(y, x)
    return result


def _log(number: AnyArray, base: AnyArray) -> AnyArray:
    result: AnyArray = np.log(number) / np.log(base)
    return result


def _exponent(values: AnyArray) -> AnyArray:
    """The unbiased exponent as Java's getExponent: of float64 or float32, 1 above the highest for NaN and infinity."""
    single = values.dtype == np.float32
    highest, lowest = (127, -127) if single else (1023, -1023)
    wide = values.astype(np.float64)
    _, exponents = np.frexp(wide)
    tiny = np.abs(wide) < 2.0 ** (lowest + 1)
    result = np.where(np.isfinite(wide), np.where(tiny, lowest, exponents - 1), highest + 1)
    return result.astype(np.int32)


def _round(values: AnyArray) -> AnyArray:
    """Half upwards, NaN to 0, saturating."""
    target = AttributeType.INT if values.dtype == np.float32 else AttributeType.LONG
    wide = values.astype(np.float64)
    floor = np.floor(wide)
    return number_as(np.where(wide - floor >= 0.5, floor + 1, floor), target)


def _signum(values: AnyArray) -> AnyArray:
    return number_as(np.sign(values), AttributeType.INT)


for _name, _compute in {
    "abs": np.abs,
    "acos": _within_one(np.arccos),
    "asin": _within_one(np.arcsin),
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
    "log": _log,
    "log10": np.log10,
    "log2": np.log2,
    "max": np.maximum,
    "min": np.minimum,
    "power": np.power,
    "signum": _signum,
    "sin": np.sin,
    "sinh": np.sinh,
    "sqrt": np.sqrt,
    "tan": np.tan,
    "tanh": np.tanh,
    "toDegrees": np.degrees,
    "toRadians": np.radians,
}.items():
    column_function("math", _name, _compute)
column_function("math", "getExponent", _exponent, operand=None)
column_function("math", "round", _round, operand=None)
constant_function("math", "e", math.e)
constant_function("math", "pi", math.pi)


def _in_base(number: int, base: int) -> str:
    digits = ""
    rest = abs(number)
    while rest or not digits:
        rest, digit = divmod(rest, base)
        digits = _DIGITS[digit] + digits
    return f"-{digits}" if number < 0 else digits


def _unsigned(base: int) -> Any:
    """Writes ints as 32 bits and longs as 64."""

    def make(call: model.Call, arguments: tuple[Node, ...], pool: StringPool) -> Node:
        bits = 32 if arguments[0].type is AttributeType.INT else 64
        mask = (1 << bits) - 1
        fractions = arguments[0].type in (AttributeType.FLOAT, AttributeType.DOUBLE)

        def written(number: Any) -> str:
            return _hexadecimal_fraction(number) if fractions else _in_base(number & mask, base)

        return RowFunction(call, arguments, pool, compute=written, nulls=Nulls.NULL)

    return make


def _hexadecimal_fraction(number: float) -> str:
    """`Double.toHexString`."""
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "Infinity" if number > 0 else "-Infinity"
    mantissa, power = number.hex().split("p")
    mantissa = mantissa.rstrip("0") if "." in mantissa else f"{mantissa}."
    return f"{mantissa}{'0' if mantissa.endswith('.') else ''}p{int(power)}"


def _convert_base(text: str, source: int, target: int) -> str:
    if not (2 <= source <= 36 and 2 <= target <= 36):
        raise RowError("a base must be from 2 to 36")
    try:
        number = int(text, source) if text.strip(" _") == text and "_" not in text else None
    except ValueError:
        number = None
    if number is None or not -(1 << 31) <= number < 1 << 31:
        raise RowError(f"'{text}' is no int in base {source}")
    return _in_base(number, target)


def _parsed(type_name: str, parse: Any) -> Any:
    def parsed(text: str) -> object:
        number = parse(text)
        if number is None:
            raise RowError(f"'{text}' is no {type_name}")
        return number

    return parsed


for _name, _base in {"bin": 2, "oct": 8, "hex": 16}.items():
    FUNCTIONS.register(_name, "math")(_unsigned(_base))
row_function("math", "conv", _convert_base)
row_function("math", "parseInt", _parsed("int", lambda text: parse_integer(text, 32)))
row_function("math", "parseLong", _parsed("long", lambda text: parse_integer(text, 64)))
row_function("math", "parseDouble", _parsed("double", parse_floating))
row_function("math", "parseFloat", _parsed("float", parse_floating))


@FUNCTIONS.register("rand", "math")
class Rand(CallNode):
    """The next number of a linear congruential series with 48 bits, that of `java.util.Random`; without a seed, from
    the system's randomness. A restored app starts its series anew."""

    stateful = True

    def __init__(self, call: model.Call, arguments: tuple[Node, ...], pool: StringPool) -> None:
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
