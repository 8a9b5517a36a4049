"""Every parameter of windows, functions, aggregators and stream functions has an effect.

`parameter_effects.txt` has two calls for each parameter, which differ in its argument alone and must give different
results. The registry is compared with that list, so a parameter that is declared but never read fails a test.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest

from siddhi.analysis.catalogue import builtin_registry
from siddhi.language import ast
from siddhi.language.parser import parse
from siddhi.registry import Kind
from siddhi.testing import Case, record_answers

STREAMS = (
    "@app:playback define stream S (i int, j int, l long, t long, f float, g float, p double, q double, b bool,"
    " c bool, s string, r string); define stream D (t long, u long, p double, q double); "
)
ROWS = [
    [1, 2, 1, 1000, 0.5, 1.5, 0.25, 4.0, True, False, "a", "ab"],
    [2, 2, 3, 1040, 1.5, 1.5, 0.5, 2.0, False, False, "b, c", "b"],
    [5, 1, 2, 1200, 2.5, 0.0, -0.75, 3.0, True, True, "asc", "c"],
    [3, 7, 9, 1210, -1.0, 2.0, 0.5, -1.0, True, False, "a", "a"],
    [3, 4, 2, 1900, -1.0, 9.0, 0.0, 7.0, False, True, "b, c", "a"],
    [4, 3, 5, 2600, 0.0, 1.0, 1.0, 0.0, False, True, "a", "c"],
]
EVENTS = [
    {"stream": "S", "timestamp": 1000, "data": ROWS[0]},
    {"stream": "S", "batch": [{"timestamp": 1050, "data": row} for row in ROWS[1:4]]},
    {"stream": "S", "timestamp": 1950, "data": ROWS[4]},
    {"stream": "S", "timestamp": 2650, "data": ROWS[5]},
    {"advance_time": 9000},
]
OUT_OF_ORDER = [
    {
        "stream": "D",
        "timestamp": 1000 + 10 * n,
        "data": [1000 + 10 * n - (n * 37 % 400 if n % 9 == 4 else 0), n, 5.0, float(n * 7919 % 101)],
    }
    for n in range(250)
]
"""Some of these come late by their first attribute, none by the second; `p` does not vary, `q` does."""

WITHOUT_EFFECT = {
    ("aggregator count", "value"): "rows are counted, whatever the value, as in Siddhi",
    ("function list:clear", "list"): "every list becomes an empty one",
    ("function map:clear", "map"): "every map becomes an empty one",
}
"""Parameters that cannot have an effect, each with the reason."""

DECLARATIONS = {f"{declaration.kind.value} {declaration.full_name}": declaration for declaration in builtin_registry()}


def _pairs() -> dict[tuple[str, str], tuple[str, str]]:
    lines = (Path(__file__).parent / "parameter_effects.txt").read_text().splitlines()
    parts = [line.split(" | ") for line in lines if line and not line.startswith("#")]
    return {(name, parameter): (one, other) for name, parameter, one, other in parts}


PAIRS = _pairs()
"""Two calls, or queries, by declaration and parameter."""
PARAMETERS = {
    (name, parameter.name)
    for name, declaration in DECLARATIONS.items()
    for overload in declaration.overloads_of(dialect_3x=False)
    for parameter in overload.parameters
}


def _query(kind: Kind, call: str) -> str:
    if call.startswith("from "):
        return call
    if kind is Kind.WINDOW:
        return f"from S#window.{call} select * insert all events into O;"
    if kind is Kind.STREAM_FUNCTION:
        return f"from S#{call} select * insert all events into O;"
    window = "#window.length(2)" if kind is Kind.AGGREGATOR else ""
    return f"from S{window} select {call} as x insert into O;"


def _results(query: str, caplog: pytest.LogCaptureFixture) -> tuple[str, list[tuple[str, str]]]:
    """Return the rows that a query gives, as text, and what `#log` writes."""
    events = OUT_OF_ORDER if query.startswith("from D") else EVENTS
    document: dict[str, Any] = {"events": events, "start_time": 900, "listen": {"streams": ["O"], "queries": []}}
    caplog.clear()
    answers = record_answers(Case("effect", "effect", STREAMS + query, document))
    logged = [(record.levelname, record.getMessage()) for record in caplog.records] if "#log(" in query else []
    return str(answers["streams"]["O"]), logged


def _call(node: Any, name: str) -> ast.FunctionCall | None:
    """Return the first call of that name in a syntax tree."""
    if isinstance(node, ast.FunctionCall) and f"{node.namespace}:{node.name}".removeprefix(":") == name:
        return node
    if isinstance(node, tuple):
        inner: Iterable[Any] = node
    elif is_dataclass(node):
        inner = [getattr(node, one.name) for one in fields(node)]
    else:
        return None
    return next((found for one in inner if (found := _call(one, name)) is not None), None)


def _changed_parameters(name: str, one: str, other: str) -> set[str]:
    """Return the parameters whose arguments differ between two queries that differ in nothing else."""
    declaration = DECLARATIONS[name]
    trees = [parse(STREAMS + query) for query in (one, other)]
    calls = [_call(tree.elements, declaration.full_name) for tree in trees]
    first, second = calls
    assert first is not None
    assert second is not None
    count = len(first.arguments)
    assert count == len(second.arguments)
    changed = [place for place in range(count) if first.arguments[place] != second.arguments[place]]
    overloads = [overload for overload in declaration.overloads_of(dialect_3x=False) if overload.takes(count)]
    assert len(changed) == 1, "one argument must differ"
    return {overload.parameter_at(changed[0]).name for overload in overloads}


def test_every_parameter_has_two_calls_or_a_reason() -> None:
    assert set(PAIRS) | set(WITHOUT_EFFECT) == PARAMETERS
    assert not set(PAIRS) & set(WITHOUT_EFFECT)


@pytest.mark.parametrize("name", sorted({name for name, _ in PAIRS}))
def test_calls_that_differ_in_one_argument_give_different_results(name: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    kind = DECLARATIONS[name].kind
    for (owner, parameter), calls in PAIRS.items():
        if owner == name:
            one, other = (_query(kind, call) for call in calls)
            assert parameter in _changed_parameters(name, one, other)
            assert _results(one, caplog) != _results(other, caplog), f"{parameter} has no effect: {calls}"


@pytest.mark.parametrize(("name", "parameter"), WITHOUT_EFFECT)
def test_parameters_without_effect_have_none(name: str, parameter: str, caplog: pytest.LogCaptureFixture) -> None:
    calls = {
        "aggregator count": ("count(i)", "count(s)"),
        "function list:clear": ("list:clear(list:create(i))", "list:clear(list:create(j, i))"),
        "function map:clear": ("map:clear(map:create('a', i))", "map:clear(map:create('b', j))"),
    }[name]
    one, other = (_query(DECLARATIONS[name].kind, call) for call in calls)
    assert _changed_parameters(name, one, other) == {parameter}
    assert _results(one, caplog) == _results(other, caplog)
