"""Declarations of what plans may call."""

import pytest

from siddhi.analysis.analyser import analyse
from siddhi.analysis.catalogue import builtin_registry
from siddhi.errors import SiddhiAnalysisError
from siddhi.language.ast import AttributeType
from siddhi.language.parser import parse
from siddhi.parameters import NUMERIC, takes, value
from siddhi.registry import Declaration, Kind

TWICE = Declaration(
    Kind.FUNCTION,
    "twice",
    "the value, doubled",
    (takes(value("x", NUMERIC)),),
    namespace="math",
    result=lambda arguments: arguments[0].type,
)


def test_a_registry_takes_functions_of_its_users() -> None:
    registry = builtin_registry()
    registry.add(TWICE)
    text = "define stream S (a float); from S select math:twice(a) as x insert into O"
    assert analyse(parse(text), registry).streams["O"].schema.attributes == (("x", AttributeType.FLOAT),)
    with pytest.raises(SiddhiAnalysisError, match="math:twice"):
        analyse(parse(text))


def test_a_place_can_be_taken_once() -> None:
    registry = builtin_registry()
    registry.add(TWICE)
    with pytest.raises(ValueError, match="math:twice"):
        registry.add(TWICE)


def test_signatures_are_written_for_people() -> None:
    registry = builtin_registry()
    maximum = registry.find(Kind.FUNCTION, "", "maximum")
    assert maximum is not None
    assert maximum.signatures() == ("maximum(value: int | long | float | double, …)",)


def test_every_builtin_says_what_it_does_and_what_it_gives() -> None:
    for declaration in builtin_registry():
        assert declaration.summary
        assert declaration.overloads
        assert (declaration.result is not None) == (declaration.kind in {Kind.FUNCTION, Kind.AGGREGATOR})
        assert (declaration.appends is not None) == (declaration.kind is Kind.STREAM_FUNCTION)
