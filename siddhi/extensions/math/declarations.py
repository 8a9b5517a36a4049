"""`math:` functions."""

from __future__ import annotations

from siddhi.extensions.declaring import Result, aggregator, function
from siddhi.language.ast import AttributeType
from siddhi.parameters import DOUBLE, INT, NUMERIC, STRING, TIME, constant, takes, value
from siddhi.plugins.extension import Extension
from siddhi.registry import Arguments, CallError, Declaration

_FRACTION = frozenset({AttributeType.FLOAT, AttributeType.DOUBLE})
_NUMBER = takes(value("p1", NUMERIC))
_FLOATING = takes(value("p1", _FRACTION))
_WHOLE = takes(value("p1", TIME))
_TEXT = takes(value("p1", STRING))
_TWO = takes(value("p1", NUMERIC), value("p2", NUMERIC))


def _math(name: str, summary: str, overload: object, result: Result = AttributeType.DOUBLE) -> Declaration:
    return function("math", name, summary, result, overload)  # type: ignore[arg-type]


def _rounded(arguments: Arguments) -> AttributeType:
    return AttributeType.INT if arguments[0].type is AttributeType.FLOAT else AttributeType.LONG


def _check_percentile(arguments: Arguments) -> None:
    share = arguments[1].value
    if not isinstance(share, float) or not 0 < share <= 100:
        raise CallError("the percentile must be above 0 and at most 100", 1)


MATH = Extension(
    "math",
    (
        _math("abs", "the absolute value", _NUMBER),
        _math("acos", "the arc cosine in radians; NaN outside -1 to 1", _FLOATING),
        _math("asin", "the arc sine in radians; NaN outside -1 to 1", _FLOATING),
        function(
            "math",
            "atan",
            "the arc tangent in radians, of one value or of y and x",
            AttributeType.DOUBLE,
            _NUMBER,
            _TWO,
        ),
        _math("bin", "the number in base 2, without sign", _WHOLE, AttributeType.STRING),
        _math("cbrt", "the cube root", _NUMBER),
        _math("ceil", "the least whole number that is not less", _FLOATING),
        _math(
            "conv",
            "the whole number, written in one base, in another",
            takes(value("a", STRING), value("from.base", INT), value("to.base", INT)),
            AttributeType.STRING,
        ),
        _math("copySign", "the first argument's size with the sign of the second", _TWO),
        _math("cos", "the cosine of radians", _NUMBER),
        _math("cosh", "the hyperbolic cosine", _NUMBER),
        _math("e", "Euler's number", takes()),
        _math("exp", "Euler's number to that power", _NUMBER),
        _math("floor", "the greatest whole number that is not greater", _NUMBER),
        _math("getExponent", "the exponent in the number's binary form", _NUMBER, AttributeType.INT),
        _math(
            "hex", "the number in base 16, without sign; fractions as Java writes them", _NUMBER, AttributeType.STRING
        ),
        _math("isInfinite", "true when the value is infinite", _FLOATING, AttributeType.BOOL),
        _math("isNan", "true when the value is not a number", _FLOATING, AttributeType.BOOL),
        _math("ln", "the natural logarithm", _NUMBER),
        _math("log", "the logarithm in a base", takes(value("number", NUMERIC), value("base", NUMERIC))),
        _math("log10", "the logarithm in base 10", _NUMBER),
        _math("log2", "the logarithm in base 2", _NUMBER),
        _math("max", "the greater of two numbers", _TWO),
        _math("min", "the lesser of two numbers", _TWO),
        _math("oct", "the number in base 8, without sign", _WHOLE, AttributeType.STRING),
        _math("parseDouble", "the text as a double", _TEXT),
        _math("parseFloat", "the text as a float", _TEXT, AttributeType.FLOAT),
        _math("parseInt", "the text as an int", _TEXT, AttributeType.INT),
        _math("parseLong", "the text as a long", _TEXT, AttributeType.LONG),
        aggregator(
            "math",
            "percentile",
            "the p-th percentile of the values",
            AttributeType.DOUBLE,
            takes(value("arg", NUMERIC), constant("p", DOUBLE, "above 0, at most 100")),
            check=_check_percentile,
        ),
        _math("pi", "the number π", takes()),
        _math("power", "the value to a power", takes(value("value", NUMERIC), value("to.power", NUMERIC))),
        function(
            "math",
            "rand",
            "a random number from 0 up to 1, of java.util.Random's series with a seed",
            AttributeType.DOUBLE,
            takes(),
            takes(constant("seed", TIME)),
        ),
        _math("round", "the nearest whole number, half upwards: int of a float, long of a double", _FLOATING, _rounded),
        _math("signum", "-1, 0 or 1", _NUMBER, AttributeType.INT),
        _math("sin", "the sine of radians", _NUMBER),
        _math("sinh", "the hyperbolic sine", _NUMBER),
        _math("sqrt", "the square root", _NUMBER),
        _math("tan", "the tangent of radians", _NUMBER),
        _math("tanh", "the hyperbolic tangent", _NUMBER),
        _math("toDegrees", "radians as degrees", _NUMBER),
        _math("toRadians", "degrees as radians", _NUMBER),
    ),
    ("siddhi.extensions.math.functions", "siddhi.extensions.math.percentile"),
)
