"""Numbers in the plan's text."""

from __future__ import annotations

import warnings

from siddhi.engine.operators.expressions.leaves import ConstantNode
from siddhi.language.ast import AttributeType


def test_a_float_that_is_too_large_is_infinite_without_a_word() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        node = ConstantNode(3.5e39, AttributeType.FLOAT)
    assert node.value.values == float("inf")
