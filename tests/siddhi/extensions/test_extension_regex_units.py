"""`regex:` and `unitconversion:` functions."""

from __future__ import annotations

from typing import Any

import pytest
from extension_runs import DROPPED, result_type, results

from siddhi.errors import SiddhiAnalysisError
from siddhi.extensions.unitconversion.declarations import SIZES

T = r"'\d\d(.*)WSO2'"
TEXT = "21 products are produced by WSO2 currently"


@pytest.mark.parametrize(
    ("expression", "row", "expected"),
    [
        (f"regex:find({T}, s)", TEXT, True),
        (f"regex:find({T}, s, 4)", TEXT, False),
        (f"regex:find({T}, s)", None, False),
        ("regex:find(s, 'a')", None, DROPPED),
        ("regex:find(s, 'a')", "(", DROPPED),
        (f"regex:matches({T}, s)", TEXT, False),
        (r"regex:matches('WSO2(.*)middleware(.*)', s)", "WSO2 is a middleware company", True),
        (f"regex:lookingAt({T}, s)", TEXT, True),
        (f"regex:lookingAt({T}, s)", f"x{TEXT}", False),
        (f"regex:group({T}, s, 1)", TEXT, " products are produced by "),
        (f"regex:group({T}, s, 1)", "none", None),
        (f"regex:group({T}, s, 2)", TEXT, None),
        (f"regex:group({T}, s, -1)", TEXT, DROPPED),
        (f"regex:group({T}, s, 1)", None, DROPPED),
    ],
)
def test_a_regex_function_gives_what_siddhi_gives(expression: str, row: Any, expected: Any) -> None:
    assert results(expression, "s string", [[row]]) == [expected]


@pytest.mark.parametrize("expression", ["regex:find('(', s)", "regex:group('a', s)", "regex:matches('a', 1)"])
def test_wrong_arguments_are_refused(expression: str) -> None:
    with pytest.raises(SiddhiAnalysisError, match="wrong-arguments"):
        result_type(expression, "s string")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("cmToft", 0.03280839895013123),
        ("kmTomi", 0.621371192237334),
        ("MmTokm", 1000.0),
        ("kgTolb", 1 / 0.4535924),
        ("kgTooz", 1 / 0.02834952),
        ("kgToLT", 0.000984207),
        ("kgToST", 0.00110231),
        ("kgTost", 0.157473),
        ("hTos", 3600.0),
        ("sTons", 1e9),
        ("m3Tol", 1000.0),
        ("mlTol", 0.001),
    ],
)
def test_one_unit_is_so_much_of_the_other(name: str, expected: float) -> None:
    assert results(f"unitconversion:{name}(a)", "a int", [[1], [None], [-2]]) == [
        pytest.approx(expected, rel=1e-14),
        DROPPED,
        pytest.approx(-2 * expected, rel=1e-14),
    ]


def test_there_are_the_48_conversions() -> None:
    assert len(SIZES) == 48
