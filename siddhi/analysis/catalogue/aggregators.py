"""The built-in aggregators."""

from __future__ import annotations

from siddhi.language.ast import AttributeType
from siddhi.parameters import ANY, BOOL, NUMERIC, OBJECT, STRING, takes, value
from siddhi.registry import Arguments, Declaration, Kind, Overload

_NUMBER = takes(value("value", NUMERIC, "what to aggregate"))


def _sum_type(arguments: Arguments) -> AttributeType:
    whole = arguments[0].type in {AttributeType.INT, AttributeType.LONG}
    return AttributeType.LONG if whole else AttributeType.DOUBLE


def _same_type(arguments: Arguments) -> AttributeType:
    return arguments[0].type


def _double(_arguments: Arguments) -> AttributeType:
    return AttributeType.DOUBLE


def _long(_arguments: Arguments) -> AttributeType:
    return AttributeType.LONG


def _bool(_arguments: Arguments) -> AttributeType:
    return AttributeType.BOOL


def _object(_arguments: Arguments) -> AttributeType:
    return AttributeType.OBJECT


def _aggregator(
    name: str, summary: str, result: object, *overloads: Overload, spelling_3x: str | None = None
) -> Declaration:
    return Declaration(Kind.AGGREGATOR, name, summary, overloads, result=result, spelling_3x=spelling_3x)  # type: ignore[arg-type]


AGGREGATORS: tuple[Declaration, ...] = (
    _aggregator("sum", "the sum; null when there is no value", _sum_type, _NUMBER),
    _aggregator("avg", "the mean; null when there is no value", _double, _NUMBER),
    _aggregator(
        "count",
        "the number of events",
        _long,
        takes(),
        takes(value("value", ANY, "any value, even null")),
        takes(value("value", ANY), repeats=True, only_3x=True),
    ),
    _aggregator(
        "distinctCount",
        "the number of different values",
        _long,
        takes(value("value", NUMERIC | STRING, "what to count")),
        spelling_3x="distinctcount",
    ),
    _aggregator("min", "the least value", _same_type, _NUMBER),
    _aggregator("max", "the greatest value", _same_type, _NUMBER),
    _aggregator("minForever", "the least value so far, whatever has left the window", _same_type, _NUMBER),
    _aggregator("maxForever", "the greatest value so far, whatever has left the window", _same_type, _NUMBER),
    _aggregator("stdDev", "the population's standard deviation", _double, _NUMBER, spelling_3x="stddev"),
    _aggregator("and", "true when all values are true", _bool, takes(value("value", BOOL, "what to combine"))),
    _aggregator("or", "true when some value is true", _bool, takes(value("value", BOOL, "what to combine"))),
    _aggregator("unionSet", "the union of sets", _object, takes(value("set", OBJECT, "sets from createSet"))),
)
