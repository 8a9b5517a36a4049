"""`map:` and `list:` functions, aggregators and stream functions."""

from __future__ import annotations

import json
from typing import Any

import pytest
from extension_runs import DROPPED, Run, result_type, results

from siddhi.errors import SiddhiAnalysisError

M = {"a": 1, "b": None}
L = [3, 1, 3]
CASES: list[tuple[str, Any, Any]] = [
    ("map:create('x', 1, 'y', o)", None, {"x": 1, "y": None}),
    ("map:create()", None, {}),
    ("map:put(map:create(), 'a', o)", M, {"a": M}),
    ("list:add(list:create(), o)", M, [M]),
    ("map:createFromJSON(json:toString(o))", M, M),
    ("map:createFromJSON('[1]')", None, DROPPED),
    ("map:get(o, 'a')", M, 1),
    ("map:get(o, 'z', 'none')", M, "none"),
    ("map:get(o, 'a')", None, DROPPED),
    ("map:put(o, 'c', 2, 'd', 3)", M, {"a": 1, "b": None, "c": 2, "d": 3}),
    ("map:putAll(o, map:create('a', 5))", M, {"a": 5, "b": None}),
    ("map:putIfAbsent(o, 'a', 5)", M, M),
    ("map:putIfAbsent(o, 'b', 5)", M, {"a": 1, "b": 5}),
    ("map:combineByKey(o, map:create('a', 5, 'c', 6))", M, {"a": [1, 5], "b": [None, None], "c": [None, 6]}),
    ("map:combineByKey(o, o, list:create())", M, DROPPED),
    ("map:get(o, map:get(map:create('k', 'a'), 'k'))", M, 1),
    ("map:remove(o, map:get(map:create('k', 'a'), 'k'))", M, {"b": None}),
    ("map:put(o, map:get(map:create('k', 'a'), 'k'), 2)", M, {"a": 2, "b": None}),
    ("map:create(o, 2)", "k", {"k": 2}),
    ("map:get(o, o)", M, DROPPED),
    ("map:remove(map:create('a', 1), o)", M, {"a": 1}),
    ("map:remove(o, 'a')", M, {"b": None}),
    ("map:replace(o, 'z', 5)", M, M),
    ("map:replaceAll(o, map:create('a', 5, 'z', 6))", M, {"a": 5, "b": None}),
    ("map:containsKey(o, 'b')", M, True),
    ("map:containsValue(o, 2)", M, False),
    ("map:containsValue(map:create('a', 1), true)", None, False),
    ("map:containsValue(map:create('a', 1, 'b', true), true)", None, True),
    ("map:keys(o)", M, ["a", "b"]),
    ("map:values(o)", M, [1, None]),
    ("map:size(o)", M, 2),
    ("map:isEmpty(map:clear(o))", M, True),
    ("map:isMap(o)", L, False),
    ("map:toJSON(map:clone(o))", M, '{"a":1,"b":null}'),
    ("map:toXML(o)", {"a": 1, "b": {"c": "x", "d": 2.5}, "e": True}, "<a>1</a><b><c>x</c><d>2.5</d></b><e>true</e>"),
    ("map:toXML(o, 'all')", {"a": "x"}, "<all><a>x</a></all>"),
    ("map:toXML(o)", M, DROPPED),
    ("map:toXML(o)", L, DROPPED),
    (
        "map:createFromXML('<s><a>19</a><b>1.45</b><c>true</c><d> x </d></s>')",
        None,
        {"a": 19, "b": 1.45, "c": True, "d": " x "},
    ),
    ("map:createFromXML('<s><o><x>-1</x><y/></o>gone<o><z>2.0</z></o></s>')", None, {"o": {"z": 2}}),
    (
        "map:createFromXML('<s><a>09</a><b>07</b><c>1e2</c><d>1E2</d><e>5L</e></s>')",
        None,
        {"a": "09", "b": 7, "c": 1, "d": 100, "e": 5},
    ),
    ("map:createFromXML('<s>alone</s>')", None, {}),
    *(
        (
            f"map:createFromXML(\"<?xml version='1.0' encoding='{encoding}'?><s><a>\u00e9</a></s>\")",
            None,
            {"a": "\u00e9"},
        )
        for encoding in ("utf-8", "ISO-8859-1", "shift_jis", "nonsense")
    ),
    (
        "map:createFromXML('<s><a>9223372036854775807</a><b>9223372036854775808</b></s>')",
        None,
        {"a": 2**63 - 1, "b": 2.0**63},
    ),
    (f"map:createFromXML('<s><a>{'9' * 5_000}</a></s>')", None, {"a": None}),
    (f"map:createFromXML('{'<a>' * 100}1{'</a>' * 100}')", None, DROPPED),
    ("map:createFromXML('<s><a>1</s>')", None, DROPPED),
    ("map:createFromXML('<!DOCTYPE s><s/>')", None, DROPPED),
    ("str:fillTemplate('{{a}}!{{ b }}', o)", M, "1! b "),
    ("str:fillTemplate('{{a}}', o)", {"a": {"x": [1, None], "y": 2.0}}, "{x=[1, null], y=2.0}"),
    ("str:fillTemplate('{{a}}', o)", L, DROPPED),
    ("list:create(1, 'x', o)", None, [1, "x", None]),
    ("list:add(o, 9)", L, [3, 1, 3, 9]),
    ("list:add(o, 9, 0)", L, [9, 3, 1, 3]),
    ("list:add(o, 9, 4)", L, DROPPED),
    ("list:addAll(o, list:create(1, 2), true)", L, [3, 1, 3, 2]),
    ("list:get(o, 1)", L, 1),
    ("list:get(o, 3)", L, None),
    ("list:setValue(o, 1, 7)", L, [3, 7, 3]),
    ("list:remove(o, 3)", L, [1, 3]),
    ("list:removeByIndex(o, 2)", L, [3, 1]),
    ("list:removeAll(o, list:create(3))", L, [1]),
    ("list:retainAll(o, list:create(3))", L, [3, 3]),
    ("list:contains(o, 1)", L, True),
    ("list:containsAll(o, list:create(1, 2))", L, False),
    ("list:containsAny(o, list:create(1, 2))", L, True),
    ("list:indexOf(o, 3)", L, 0),
    ("list:lastIndexOf(o, 3)", L, 2),
    ("list:indexOf(o, 8)", L, -1),
    ("list:indexOf(list:create(true, 1.0, 1), 1)", None, 2),
    ("list:lastIndexOf(list:create(1, true, 1.0), 1)", None, 0),
    ("list:contains(o, true)", L, False),
    ("list:contains(list:create(o, o), list:create(3, 1, 3))", L, True),
    ("list:contains(list:create(o), list:create(3, true, 3))", L, False),
    ("list:remove(list:create(true, 1), 1)", None, [True]),
    ("list:removeAll(list:create(1, 1.0), list:create(1))", None, [1.0]),
    ("list:retainAll(list:create(1, true), list:create(true))", None, [True]),
    ("list:addAll(o, list:create(3.0, 3), true)", L, [3, 1, 3, 3.0]),
    ("list:sort(o)", [2, 3, 1], [1, 3, 2]),
    ("list:sort(o, 'asc')", L, [1, 3, 3]),
    ("list:sort(o, 'asc')", ["b", "A", "a", "C"], ["A", "a", "b", "C"]),
    ("list:sort(o, 'desc')", ["b", "A", "a", "C"], ["C", "b", "a", "A"]),
    ("list:sort(o, 'asc')", [], []),
    ("list:sort(o, 'asc')", [True], DROPPED),
    ("list:sort(o, 'asc')", ["a", 1], DROPPED),
    ("list:create(o)", None, []),
    ("list:sort(o, 'DESC')", L, [3, 3, 1]),
    ("list:sort(o, 'asc')", [1, "a"], DROPPED),
    ("list:size(list:clear(list:clone(o)))", L, 0),
    ("list:isList(o)", L, True),
    ("list:isEmpty(o)", M, DROPPED),
]


@pytest.mark.parametrize(("expression", "given", "expected"), CASES)
def test_a_collection_function_gives_what_siddhi_gives(expression: str, given: Any, expected: Any) -> None:
    assert results(expression, "o object", [[given]]) == [expected]


@pytest.mark.parametrize(
    "expression", ["map:create('a')", "map:put(o, 'a')", "map:get('a', 'b')", "list:sort(o, 'up')", "list:get(o, 'a')"]
)
def test_wrong_arguments_are_refused(expression: str) -> None:
    with pytest.raises(SiddhiAnalysisError, match="wrong-arguments"):
        result_type(expression, "o object")


def test_values_are_collected_over_a_window_and_across_a_restart() -> None:
    run = Run(
        "define stream In (k string, v int); @info(name='q') from In#window.length(2) "
        "select map:collect(k, v) as m, list:collect(v, true) as l, map:merge(map:create(k, v)) as mm, "
        "list:merge(list:create(v, v)) as ll insert into Out;"
    )
    run.send((0, ["a", 1]), (0, ["a", 2]))
    run.restart()
    run.send((0, ["b", 2]))
    found = [[json.loads(item) for item in row] for _, _, row in run.emitted]
    assert found == [
        [{"a": 1}, [1], {"a": 1}, [1, 1]],
        [{"a": 2}, [1, 2], {"a": 2}, [1, 1, 2, 2]],
        [{"b": 2}, [2], {"b": 2}, [2, 2, 2, 2]],
    ]


def test_what_is_collected_once_goes_with_the_first_event_that_brought_it() -> None:
    run = Run(
        "define stream In (k string); @info(name='q') from In#window.length(2) "
        "select list:collect(k, true) as l, list:merge(list:create(k, 'x')) as ll, "
        "list:merge(list:create(k, 'x'), true) as ld insert into Out;"
    )
    run.send((0, ["Harry"]), (0, ["Harry"]), (0, ["Henry"]))
    found = [[json.loads(item) for item in row] for _, _, row in run.emitted]
    assert found == [
        [["Harry"], ["Harry", "x"], ["Harry", "x"]],
        [["Harry"], ["Harry", "x", "Harry", "x"], ["Harry", "x"]],
        [["Henry"], ["Henry", "x"], ["Henry", "x"]],
    ]


@pytest.mark.parametrize(
    ("schema", "key", "text"),
    [("k string", None, "null"), ("k bool", True, "true"), ("k double", 2.5, "2.5"), ("k string", "k", "k")],
)
def test_keys_of_any_kind_leave_the_engine_as_texts(schema: str, key: Any, text: str) -> None:
    for expression in ("map:create(k, 1)", "map:put(map:create(), k, 1)", "map:collect(k, 1)"):
        assert results(expression, schema, [[key]]) == [{text: 1}], expression
    assert results("json:toString(map:create(k, 1))", schema, [[key]]) == [f'{{"{text}":1}}']


def test_what_should_be_merged_and_cannot_be_fails() -> None:
    run = Run("define stream In (o object); @info(name='q') from In select map:merge(o) as m insert into Out;")
    run.send((0, [{"a": 1}]), (0, [None]), (0, [[1]]), (0, [{"b": 1}]))
    assert run.taken() == ["+b'{\"a\":1}'", '+b\'{"a":1,"b":1}\'']
    other = Run("define stream In (o object); @info(name='q') from In select list:merge(o) as l insert into Out;")
    other.send((0, [[1]]), (0, [{"a": 1}]), (0, [[2]]))
    assert other.taken() == ["+b'[1]'", "+b'[1,2]'"]


@pytest.mark.parametrize(("call", "given"), [("map", {"a": 1, "b": 2, "c": 3}), ("list", [1, 2, 3])])
def test_what_a_chunk_is_taken_apart_into_stays_one_chunk(call: str, given: Any) -> None:
    run = Run(
        f"define stream In (o object); @info(name='q') from In#{call}:tokenize(o) select count() as n insert into Out;"
    )
    run.send((0, [given]), (0, [given]))
    assert run.taken() == ["+3", "+6"]


def test_collections_are_taken_apart() -> None:
    run = Run(
        "define stream In (o object); "
        "@info(name='q') from In#map:tokenize(o) select cast(key, 'string') as k, value insert into Out;"
    )
    run.send((0, [{"a": 1, "b": 2}]), (0, [[1]]))
    assert run.taken() == ["+a,b'1'", "+b,b'2'"]
    other = Run("define stream In (o object); @info(name='q') from In#list:tokenize(o) select index insert into Out;")
    other.send((0, [["x", "y"]]))
    assert other.taken() == ["+0", "+1"]
    several = Run(
        "define stream In (o object); @info(name='q') from In#list:tokenize(o, list:create(3)) "
        "select index, value insert into Out;"
    )
    several.send((0, [["x", "y"]]))
    assert several.taken() == ["+0,b'[\"x\",3]'", "+1,b'[\"y\",null]'"]
    maps = Run(
        "define stream In (o object); @info(name='q') from In#map:tokenize(o, map:create('a', 3)) "
        "select value insert into Out;"
    )
    maps.send((0, [{"b": 1, "a": 2}]))
    assert maps.taken() == ["+b'[1,null]'", "+b'[2,3]'"]


_EACH_ROW = (
    "list:get(list:create(v, n, s), 0)", "list:create(v)", "list:create(s, v)", "list:create()",
    "list:size(list:create(v))", "list:isEmpty(list:create(v))", "list:get(list:create(v, 1), n)",
    "list:get(list:add(list:create(v), 2), 1)", "list:get(list:create(v), 5)", "list:get(o, 0)", "list:size(o)",
    "map:create(s, v)", "map:create('a', v, s, n)", "map:create(s, n, s, v)", "map:create()", "map:get(o, 'a')",
    "map:get(map:create(s, v), 'a')", "map:get(map:create(s, v), s, n)", "map:get(map:create(s, v), 'a', s)",
    "map:size(map:create(s, v, 'b', 1))", "map:isEmpty(map:create(s, v))", "map:create(o, v)", "map:create(s, o)",
    "map:size(o)", "list:isEmpty(o)", "sizeOfSet(createSet(s))", "sizeOfSet(o)",
)  # fmt: skip


@pytest.mark.parametrize("expression", _EACH_ROW)
def test_many_rows_at_once_give_what_each_gives_alone(expression: str) -> None:
    values = [[1.5, 0, "a", "{}"], [None, 1, "b", "[]"], [2.0, None, None, '{"a": [1]}'], [0.0, 2, "a", None]]
    rows = [values[(number * number + number // 3) % 4] for number in range(40)]
    found = []
    for size in (1, 40):
        source = "define stream In (v double, n int, s string, t string); from In select v, n, s, json:toObject(t) as o"
        run = Run(f"{source} insert into Mid; @info(name='q') from Mid select {expression} as r insert into Out;")
        for start in range(0, 40, size):
            run.send(*((0, row) for row in rows[start : start + size]))
        found.append(run.taken())
    assert found[0] == found[1]
