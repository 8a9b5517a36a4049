"""Numbers as Java writes them."""

from __future__ import annotations

import pytest

from siddhi.engine.columnar.java_text import floating_text


@pytest.mark.parametrize(
    ("value", "double", "single"),
    [
        (5.0, "5.0", "5.0"),
        (1e-3, "0.001", "0.001"),
        (-1e7, "-1.0E7", "-1.0E7"),
        (1e23, "1.0E23", "1.0E23"),
        (5e-324, "4.9E-324", "0.0"),
        (-1.4e-45, "-1.4E-45", "-1.4E-45"),
        (1e-44, "1.0E-44", "9.8E-45"),
    ],
)
def test_a_fraction_has_two_digits_at_least_and_the_nearest_of_these(value: float, double: str, single: str) -> None:
    assert floating_text(value, single=False) == double
    assert floating_text(value, single=True) == single
