"""`json:` functions, aggregators and stream functions."""

from __future__ import annotations

from typing import Any

import pytest
from extension_runs import DROPPED, Run, result_type, results

from siddhi.errors import SiddhiAnalysisError

ORDER = (
    '{"id": 7, "ok": true, "who": {"name": "Ann", "age": "31"}, "items": [{"n": "a", "p": 1.5}, {"n": "b", "p": 4}]}'
)
CASES: list[tuple[str, Any, Any]] = [
    ("json:getString(s, '$.who.name')", ORDER, "Ann"),
    ("json:getString(s, '$.who')", ORDER, '{"name":"Ann","age":"31"}'),
    ("json:getString(s, '$.none')", ORDER, None),
    ("json:getString(s, \"$['who']['name']\")", ORDER, "Ann"),
    ("json:getString(s, '$..n')", ORDER, '["a","b"]'),
    ("json:getString(s, '$.items[?(@.p > 2)].n')", ORDER, '["b"]'),
    ("json:getString(s, '$.who')", None, DROPPED),
    ("json:getString(s, '$.who')", "{", DROPPED),
    ("json:getInt(s, '$.id')", ORDER, 7),
    ("json:getInt(s, '$.who.age')", ORDER, 31),
    ("json:getInt(s, '$.who.name')", ORDER, DROPPED),
    ("json:getInt(s, '$.ok')", ORDER, DROPPED),
    ("json:getLong(s, '$.id')", ORDER, 7),
    ("json:getDouble(s, '$.items[-1].p')", ORDER, 4.0),
    ("json:getFloat(s, '$.items[0].p')", ORDER, 1.5),
    ("json:getBool(s, '$.ok')", ORDER, True),
    ("json:getObject(s, '$.items[*].p')", ORDER, [1.5, 4]),
    ("json:isExists(s, '$.items[1]')", ORDER, True),
    ("json:isExists(s, '$.items[2]')", ORDER, False),
    ("json:isExists(s, '$..q')", ORDER, False),
    ("json:toString(json:setElement(s, '$.a', 2))", '{"a":1}', '{"a":2}'),
    ("json:toString(json:setElement(s, '$', 'x', 'b'))", '{"a":1}', '{"a":1,"b":"x"}'),
    ("json:toString(json:setElement(s, '$.b.c', 2))", '{"a":1}', '{"a":1}'),
    ("json:toString(json:toObject(s))", '{"a": [1, null]}', '{"a":[1,null]}'),
]


@pytest.mark.parametrize(("expression", "text", "expected"), CASES)
def test_a_json_function_gives_what_siddhi_gives(expression: str, text: Any, expected: Any) -> None:
    (answer,) = results(expression, "s string", [[text]])
    assert answer == expected
    assert type(answer) is type(expected)


def test_an_object_attribute_is_taken_as_it_is() -> None:
    assert results("json:getInt(o, '$.a[1]')", "o object", [[{"a": [1, 2]}], [None]]) == [2, DROPPED]


@pytest.mark.parametrize("expression", ["json:getInt(s, '$[')", "json:getInt(s)", "json:getInt(1, '$')"])
def test_wrong_arguments_are_refused(expression: str) -> None:
    with pytest.raises(SiddhiAnalysisError, match="wrong-arguments"):
        result_type(expression, "s string")


def test_elements_are_grouped_over_a_window_and_across_a_restart() -> None:
    run = Run(
        "define stream In (s string); @info(name='q') from In#window.length(2) "
        "select json:group(s) as a, json:group(s, 'all', true) as b insert into Out;"
    )
    run.send((0, ['{"x":1}']), (0, ['{"x":1}']))
    run.restart()
    run.send((0, [None]))
    assert run.taken() == [
        '+[{"x":1}],{"all":[{"x":1}]}',
        '+[{"x":1},{"x":1}],{"all":[{"x":1}]}',
        '+[{"x":1}],{"all":[{"x":1}]}',
    ]


def test_a_list_becomes_one_event_for_each_element() -> None:
    run = Run(
        "define stream In (s string); @info(name='q') from In#json:tokenize(s, '$.items') "
        "select json:getString(jsonElement, '$.n') as n insert into Out;"
    )
    run.send((0, [ORDER]), (0, ["{}"]), (0, ['{"items": {"n": 5}}']))
    assert run.taken() == ["+a", "+b", "+5"]
    kept = Run(
        "define stream In (s string); @info(name='q') from In#json:tokenizeAsObject(s, '$.items', false) "
        "select jsonElement is null as missing insert into Out;"
    )
    kept.send((0, [ORDER]), (0, ["{}"]))
    assert kept.taken() == ["+False", "+False", "+True"]
