"""`json:` functions, aggregators and stream functions."""

from __future__ import annotations

from typing import Any

import pytest
from extension_runs import DROPPED, Run, result_type, results

from siddhi.errors import SiddhiAnalysisError
from siddhi.extensions.json.path import PathError, json_path

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
    ("json:getString(s, '$.items[0,1,5].n')", ORDER, '["a","b"]'),
    ("json:getString(s, '$.a[1:3]')", '{"a": [1, 2, 3, 4]}', "[2,3]"),
    ("json:getString(s, '$.a[:2]')", '{"a": [1, 2, 3, 4]}', "[1,2]"),
    ("json:getString(s, '$.a[-1:]')", '{"a": [1, 2, 3, 4]}', "[4]"),
    ("json:getString(s, '$.a[:-3]')", '{"a": [1, 2, 3, 4]}', "[1]"),
    ("json:getString(s, '$.a[1:-1]')", '{"a": [1, 2, 3, 4]}', "[]"),
    ("json:getString(s, '$.a[-999999999999999999:1]')", '{"a": [1, 2]}', "[1,2,1]"),
    ("json:getString(s, '$.a[-3:-1]')", '{"a": [1, 2, 3, 4]}', "[2,3]"),
    ("json:getString(s, '$.a[1:9]')", '{"a": [1, 2]}', "[2]"),
    ("json:getString(s, ' $.id ')", ORDER, "7"),
    ("json:getString(s, '$.who')", None, DROPPED),
    ("json:getString(s, '$.who')", "{", DROPPED),
    ("json:getInt(s, '$.id')", ORDER, 7),
    ("json:getInt(s, '$.who.age')", ORDER, 31),
    ("json:getInt(s, '$.who.name')", ORDER, None),
    ("json:getInt(s, '$.ok')", ORDER, None),
    ("json:getInt(s, '$.items')", ORDER, None),
    ("json:getInt(s, '$.id')", '{"id": [7]}', 7),
    ("json:getInt(s, '$..id')", ORDER, 7),
    ("json:getDouble(s, '$.items[*].p')", ORDER, None),
    ("json:getLong(s, '$.id')", ORDER, 7),
    ("json:getDouble(s, '$.items[-1].p')", ORDER, 4.0),
    ("json:getFloat(s, '$.items[0].p')", ORDER, 1.5),
    ("json:getBool(s, '$.ok')", ORDER, True),
    ("json:getBool(s, '$.id')", ORDER, False),
    ("json:getBool(s, '$.none')", ORDER, False),
    ("json:getBool(s, '$.ok')", '{"ok": "TRUE"}', True),
    ("json:getString(s, '$.none[*]')", ORDER, None),
    ("json:getString(s, '$.name')", "{name: 'Ann', tags: [a, 2,], }", "Ann"),
    ("json:getString(s, '$.tags')", "{name: 'Ann', tags: [a b, 2, null,,], }", '["a b",2,null]'),
    ("json:getString(s, '$.a')", '{"a": "\\u0041\\n\\"", }', 'A\n"'),
    ("json:getString(s, '$.age')", '{name:"John", age:25,', DROPPED),
    ("json:getString(s, '$.a')", "[" * 100, DROPPED),
    ("json:getObject(s, '$.items[*].p')", ORDER, [1.5, 4]),
    ("json:getObject(s, '$.a')", '{"a": [{"b": 5}]}', {"b": 5}),
    ("json:getObject(s, '$.a')", '{"a": []}', []),
    ("json:isExists(s, '$.items[1]')", ORDER, True),
    ("json:isExists(s, '$.items[2]')", ORDER, False),
    ("json:isExists(s, '$..q')", ORDER, True),
    ("json:isExists(s, '$.q[*]')", ORDER, False),
    ("json:isExists(s, '$.a')", '{"a": []}', True),
    ("json:toString(json:setElement(s, '$.a', 2))", '{"a":1}', '{"a":2}'),
    ("json:toString(json:setElement(s, '$', 'x', 'b'))", '{"a":1}', '{"a":1,"b":"x"}'),
    ("json:toString(json:setElement(s, '$.b.c', 2))", '{"a":1}', '{"a":1}'),
    ("json:toString(json:setElement(s, '$.b', 2))", '{"a":1}', '{"a":1}'),
    ("json:toString(json:setElement(s, '$.b', 2, 'c'))", '{"a":1}', '{"a":1}'),
    ("json:toString(json:setElement(s, '$', 2))", '{"a":1}', DROPPED),
    ("json:toString(json:setElement(s, '$.a', 2, 'c'))", '{"a":"x"}', DROPPED),
    ("json:toString(json:setElement(s, '$.a', 'x'))", '{"a":[1]}', '{"a":[1,"x"]}'),
    ("json:toString(json:setElement(s, '$.a', 'x', 'b'))", '{"a":[1]}', '{"a":[1,"x"]}'),
    ("json:toString(json:setElement(s, '$..a', 'x', 'b'))", '{"a":1}', '{"a":1}'),
    ("json:toString(json:setElement(s, '$.a[0]', 'x'))", '{"a":[1]}', '{"a":["x"]}'),
    ("json:toString(json:setElement(s, '$', '{c: 2, d: [true]}', 'b'))", '{"a":1}', '{"a":1,"b":{"c":2.0,"d":[true]}}'),
    ("json:toString(json:toObject(s))", '{"a": [1, null]}', '{"a":[1,null]}'),
    ("json:toObject(s)", "{", None),
    ("json:toString(s)", "a", '"a"'),
    ("json:toString(s)", None, "null"),
    ("json:toString(json:toObject(s))", "{'a': '\\ud83d\\ude00\\u00e9'}", '{"a":"\U0001f600\u00e9"}'),
    ("json:toString(json:toObject(s))", "{'\\ud83d': '\\ude00'}", '{"?":"?"}'),
    ("json:toString(json:setElement('{}', '$', s, 'b'))", "[" + "9" * 400 + "]", '{"b":[null]}'),
    ("json:toString(json:setElement('{}', '$', s, 'b'))", "[-" + "9" * 400 + "]", '{"b":[null]}'),
    ("json:toString(json:toObject(s), true)", '{"a": "b"}', '"{\\"a\\":\\"b\\"}"'),
    ("json:toString(json:toObject(s), false)", '{"a": "b"}', '{"a":"b"}'),
]


@pytest.mark.parametrize(("expression", "text", "expected"), CASES)
def test_a_json_function_gives_what_siddhi_gives(expression: str, text: Any, expected: Any) -> None:
    (answer,) = results(expression, "s string", [[text]])
    assert answer == expected
    assert type(answer) is type(expected)


def test_an_object_attribute_is_taken_as_it_is() -> None:
    assert results("json:getInt(o, '$.a[1]')", "o object", [[{"a": [1, 2]}], [None]]) == [2, DROPPED]


@pytest.mark.parametrize(
    "expression",
    [
        "json:getInt(s, '')",
        "json:getInt(s, \"$['a','b']\")",
        "json:getInt(s, '$[:]')",
        "json:getInt(s, '$[')",
        "json:getInt(s)",
        "json:getInt(1, '$')",
    ],
)
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
        '+[{"x":1},null],{"all":[{"x":1},null]}',
    ]


def test_equal_elements_stand_side_by_side_in_a_group() -> None:
    run = Run("define stream In (s string); @info(name='q') from In select json:group(s) as a insert into Out;")
    run.send((0, ['{"x":1}']), (0, ['{"x":2}']), (0, ['{"x":1}']))
    assert run.taken()[-1] == '+[{"x":1},{"x":1},{"x":2}]'


def test_a_list_becomes_one_event_for_each_element() -> None:
    run = Run(
        "define stream In (s string); @info(name='q') from In#json:tokenize(s, '$.items') "
        "select json:getString(jsonElement, '$.n') as n insert into Out;"
    )
    run.send((0, [ORDER]), (0, ["{}"]), (0, ['{"items": {"n": 5}}']))
    assert run.taken() == ["+a", "+b", "+5"]
    run.send((0, ['{"items": 5}']), (0, ['{"items": null}']))
    assert run.taken() == []
    run = Run(
        "define stream In (s string, p string); @info(name='q') from In#json:tokenize(s, p) "
        "select jsonElement insert into Out;"
    )
    run.send((0, ['{"a": "x", "b": ["x", 2]}', "$.a"]), (0, ['{"a": "x", "b": ["x", 2]}', "$.b"]))
    run.send((0, ['{"a": [1, 2], "b": {"a": [3]}}', "$..a"]))
    assert run.taken() == ["+x", '+"x"', "+2", "+[1,2]", "+[3]"]
    kept = Run(
        "define stream In (s string); @info(name='q') from In#json:tokenizeAsObject(s, '$.items', false) "
        "select jsonElement is null as missing insert into Out;"
    )
    kept.send((0, [ORDER]), (0, ["{}"]))
    assert kept.taken() == ["+False", "+False", "+True"]


@pytest.mark.parametrize("place", ["9" * 5_000, f"0,{'9' * 5_000}", f"{'9' * 5_000}:"])
def test_a_path_with_an_endless_number_is_none(place: str) -> None:
    with pytest.raises(PathError, match="it is not understood from character 4 on"):
        json_path(f"$.a[{place}]")
