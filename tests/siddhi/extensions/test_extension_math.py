"""`math:` functions."""

from __future__ import annotations

import math
from typing import Any

import pytest
from extension_runs import DROPPED, Run, result_type, results

from siddhi.errors import SiddhiAnalysisError

A = "a double"
CASES: list[tuple[str, str, list[Any], Any]] = [
    ("math:abs(a)", A, [-3.5], 3.5),
    ("math:abs(a)", "a int", [-3], 3.0),
    ("math:abs(a)", A, [None], None),
    ("math:acos(a)", A, [0.5], 1.0471975511965979),
    ("math:acos(a)", A, [2.0], math.nan),
    ("math:acos(a)", A, [None], None),
    ("math:asin(a)", A, [0.5], 0.5235987755982989),
    ("math:asin(a)", A, [-2.0], math.nan),
    ("math:atan(a, b)", "a double, b double", [12.0, 5.0], 1.1760052070951352),
    ("math:atan(a)", A, [1.0], math.pi / 4),
    ("math:bin(a)", "a int", [9], "1001"),
    ("math:bin(a)", "a int", [-1], "1" * 32),
    ("math:bin(a)", "a long", [None], None),
    ("math:cbrt(a)", A, [-27.0], -3.0),
    ("math:ceil(a)", A, [423.187], 424.0),
    ("math:conv(a, 16, 10)", "a string", ["7f"], "127"),
    ("math:conv(a, 16, 10)", "a string", ["zz"], DROPPED),
    ("math:conv(a, 16, 10)", "a string", [None], None),
    ("math:conv(a, 16, 10)", "a string", ["0x1f"], DROPPED),
    ("math:conv(a, 10, 10)", "a string", ["\t5"], DROPPED),
    ("math:conv(a, 10, 40)", "a string", ["31"], "31"),
    ("math:conv(a, 40, 10)", "a string", ["31"], DROPPED),
    ("math:conv(a, 16, 2)", "a string", ["-fF"], "-11111111"),
    ("math:copySign(a, b)", "a double, b double", [5.6, -3.0], -5.6),
    ("math:exp(a)", A, [10.23], 27722.51006805505),
    ("math:floor(a)", A, [-10.23], -11.0),
    ("math:getExponent(a)", A, [60984.1], 15),
    ("math:getExponent(a)", A, [0.0], -1023),
    ("math:getExponent(a)", "a float", [1e-45], -149),
    ("math:getExponent(a)", "a float", [math.inf], 1024),
    ("math:getExponent(a)", A, [5e-324], -1023),
    ("math:hex(a)", "a int", [200], "c8"),
    ("math:hex(a)", "a long", [-1], "f" * 16),
    ("math:hex(a)", A, [1.0], "0x1.0p0"),
    ("math:hex(a)", "a float", [0.1], "0x1.99999ap-4"),
    ("math:hex(a)", "a float", [1e-45], "0x0.000002p-126"),
    ("math:isInfinite(a)", A, [math.inf], True),
    ("math:isNan(a)", A, [math.nan], True),
    ("math:isNan(a)", A, [None], False),
    ("math:ln(a)", A, [11.453], 2.438251704415579),
    ("math:log(a, 2f)", "a int", [34], 5.08746284125034),
    ("math:log(a, b)", "a double, b int", [5.0, 1], DROPPED),
    ("math:log(a, b)", "a double, b int", [None, 1], None),
    ("math:log(a, b)", "a double, b int", [5.0, None], None),
    ("math:log10(a)", A, [19.234], 1.2840696117100832),
    ("math:log2(a)", A, [91.0], 6.507794640198696),
    ("math:max(a, b)", "a double, b int", [123.67, 91], 123.67),
    ("math:min(a, b)", "a double, b int", [123.67, 91], 91.0),
    ("math:min(a, b)", "a double, b int", [123.67, None], None),
    ("math:oct(a)", "a long", [99], "143"),
    ("math:parseInt(a)", "a string", ["-12"], -12),
    ("math:parseInt(a)", "a string", ["1.5"], DROPPED),
    ("math:parseInt(a)", "a string", [None], None),
    ("math:parseLong(a)", "a string", [None], None),
    ("math:parseDouble(a)", "a string", [None], None),
    ("math:parseFloat(a)", "a string", [None], None),
    ("math:parseLong(a)", "a string", ["9223372036854775807"], 2**63 - 1),
    ("math:parseDouble(a)", "a string", ["1e3"], 1000.0),
    ("math:parseFloat(a)", "a string", ["123"], 123.0),
    ("math:power(a, b)", "a double, b double", [5.6, 3.0], 175.61599999999996),
    ("math:power(a, b)", "a double, b double", [1.0, math.nan], math.nan),
    ("math:power(a, b)", "a double, b double", [-1.0, math.inf], math.nan),
    ("math:power(a, b)", "a double, b double", [math.nan, 0.0], 1.0),
    ("math:round(a)", A, [3252.5], 3253),
    ("math:round(a)", A, [-2.5], -2),
    ("math:round(a)", A, [0.49999999999999994], 0),
    ("math:round(a)", A, [math.nan], 0),
    ("math:round(a)", A, [1e300], 2**63 - 1),
    ("math:round(a)", "a float", [None], None),
    ("math:signum(a)", A, [-6.32], -1),
    ("math:sinh(a)", A, [6.0], 201.71315737027922),
    ("math:sqrt(a)", A, [-1.0], math.nan),
    ("math:toDegrees(a)", A, [math.pi], 180.0),
    ("math:toRadians(a)", A, [180.0], math.pi),
    ("math:e() + math:pi()", A, [0.0], math.e + math.pi),
]


@pytest.mark.parametrize(("expression", "attributes", "row", "expected"), CASES)
def test_a_math_function_gives_what_siddhi_gives(
    expression: str, attributes: str, row: list[Any], expected: Any
) -> None:
    (answer,) = results(expression, attributes, [row])
    if isinstance(expected, float):
        assert answer == pytest.approx(expected, rel=1e-14, nan_ok=True)
    else:
        assert answer == expected
        assert type(answer) is type(expected)


def test_columns_of_numbers_with_nulls_are_computed_at_once() -> None:
    rows = [[float(n) if n % 3 else None] for n in range(100)]
    assert results("math:sqrt(a)", A, rows) == [None if n % 3 == 0 else math.sqrt(n) for n in range(100)]


def test_rounding_a_float_gives_an_int() -> None:
    assert result_type("math:round(a)", "a float") == "int"
    assert result_type("math:round(a)", "a double") == "long"


def test_a_seeded_series_is_java_util_randoms() -> None:
    rows: list[list[Any]] = [[0.0], [0.0]]
    assert results("math:rand(42)", A, rows) == [0.7275636800328681, 0.6832234717598454]


@pytest.mark.parametrize("expression", ["math:abs(s)", "math:abs()", "math:round(n)", "math:percentile(n, 101.0)"])
def test_wrong_arguments_are_refused(expression: str) -> None:
    with pytest.raises(SiddhiAnalysisError, match="wrong-arguments"):
        result_type(expression, "s string, n int")


def test_a_percentile_follows_the_window_and_survives_a_restart() -> None:
    run = Run(
        "define stream In (v double); @info(name='q') from In#window.length(4) "
        "select math:percentile(v, 50.0) as p insert into Out;"
    )
    run.send((0, [1.0]), (0, [3.0]), (0, [None]), (0, [2.0]))
    assert run.taken() == ["+1.0", "+2.0", "+2.0", "+2.0"]
    run.restart()
    run.send((0, [9.0]), (0, [9.0]))
    assert run.taken() == ["+3.0", "+9.0"]
