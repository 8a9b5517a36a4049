"""`str:` functions."""

from __future__ import annotations

from typing import Any

import pytest
from extension_runs import DROPPED, Run, result_type, results

from siddhi.errors import SiddhiAnalysisError

S = "s string"
CASES: list[tuple[str, str, list[Any], Any]] = [
    ("str:charAt(s, 1)", S, ["WSO2"], "S"),
    ("str:charAt(s, 4)", S, ["WSO2"], DROPPED),
    ("str:charFrequency(s, ',')", S, ["WSO2,ABM,NSFT"], 2),
    ("str:charFrequency(s, 'ab')", S, ["abab"], DROPPED),
    ("str:charFrequency(s, '')", S, ["abab"], DROPPED),
    ("str:coalesce(s, t, 'C')", "s string, t string", [None, "B"], "B"),
    ("str:concat(s, '-', n, d, b)", "s string, n int, d double, b bool", ["a", 1, 2e7, True], "a-12.0E7true"),
    ("str:concat(s, 'x')", S, [None], "x"),
    ("str:concat(s, f)", "s string, f float", ["a", 0.1], "a0.1"),
    ("str:contains(s, 'SO')", S, ["WSO2"], True),
    ("str:contains(s, 'SO')", S, [None], False),
    ("str:contains('SO', s)", S, [None], DROPPED),
    ("str:equalsIgnoreCase(s, 'wso2')", S, ["WSO2"], True),
    ("str:equalsIgnoreCase(s, 'wso2')", S, [None], DROPPED),
    ("str:equalsIgnoreCase('wso2', s)", S, [None], False),
    ("str:fillTemplate('{{1}} > 100 && {{ 2 }} < {{1}}', 200, s)", S, ["x"], "200 > 100 && x < 200"),
    ("str:fillTemplate('{{3}}', 200, s)", S, ["x"], DROPPED),
    (
        "str:fillTemplate('{{1}}: {{2}}, {{ 3 }}', f, d, s)",
        "f float, d double, s string",
        [111.11, 1e7, None],
        "111.11: 1.0E7,  3 ",
    ),
    ("str:hex(s)", S, ["MySQL"], "4d7953514c"),
    ("str:length(s)", S, ["Hello World"], 11),
    ("str:length(s)", S, [None], DROPPED),
    ("str:locate('@wso2.com', s)", S, ["streamin@wso2.com"], 8),
    ("str:locate('o', s, 5)", S, ["Hello World"], 7),
    ("str:locate('z', s)", S, ["Hello"], -1),
    ("str:locate('H', s, 2)", S, ["Hello"], 1),
    ("str:locate('H', s, 6)", S, ["Hello"], DROPPED),
    ("str:lower(s)", S, ["WSO2 cep "], "wso2 cep "),
    ("str:regexp(s, 'WSO(.*h)')", S, ["WSO2 abcdh"], True),
    ("str:regexp(s, 'WSO')", S, ["WSO2"], False),
    ("str:repeat(s, 3)", S, ["StRing 1"], "StRing 1StRing 1StRing 1"),
    ("str:replaceAll(s, '(l+)', '<$1>')", S, ["hello hello"], "he<ll>o he<ll>o"),
    ("str:replaceAll(s, 'l', '$1')", S, ["hello"], DROPPED),
    (f"str:replaceAll(s, '{'(.)' * 11}', '$11$1$12')", S, ["abcdefghijkl"], "kaa2l"),
    ("str:replaceFirst(s, 'l', 'L')", S, ["hello"], "heLlo"),
    ("str:reverse(s)", S, ["Hello"], "olleH"),
    ("str:split(s, ',', 1)", S, ["WSO2,ABM,NSFT"], "ABM"),
    ("str:split(s, ',', 2)", S, ["a,b,,"], DROPPED),
    ("str:strcmp(s, 'Hello')", S, ["AbCDefghiJ KLMN"], -7),
    ("str:strcmp(s, 'Hello')", S, ["Hell"], -1),
    ("str:substr(s, 4)", S, ["AbCDefghiJ KLMN"], "efghiJ KLMN"),
    ("str:substr(s, 2, 4)", S, ["AbCDefghiJ KLMN"], "CDef"),
    ("str:substr(s, 2, 4)", S, ["AbC"], DROPPED),
    ("str:substr(s, '^WSO2(.*)')", S, ["WSO2D efghiJ"], "WSO2D efghiJ"),
    ("str:substr(s, 'WSO2(.*)A(.*)', 2)", S, ["WSO2 cep WSO2 XX E hi hA WSO2 heAllo"], "llo"),
    ("str:substr(s, 'x', 0)", S, ["abc"], ""),
    ("str:trim(s)", S, ["\t a b \n"], "a b"),
    ("str:unhex(s)", S, ["4d7953514c"], "MySQL"),
    ("str:unhex(s)", S, ["4d7"], DROPPED),
    ("str:upper(s)", S, ["Hello World"], "HELLO WORLD"),
    ("str:upper(s)", S, [None], DROPPED),
]


@pytest.mark.parametrize(("expression", "attributes", "row", "expected"), CASES)
def test_a_str_function_gives_what_siddhi_gives(
    expression: str, attributes: str, row: list[Any], expected: Any
) -> None:
    (answer,) = results(expression, attributes, [row])
    assert answer == expected
    assert type(answer) is type(expected)


def test_equal_texts_of_a_large_batch_are_computed_once_and_nulls_fail_alone() -> None:
    rows = [[None if n % 10 == 0 else f"s{n % 7}", n % 3] for n in range(200)]
    expected = [DROPPED if text is None else text.upper() * times for text, times in rows]
    assert results("str:repeat(str:upper(s), n)", "s string, n int", rows) == expected


@pytest.mark.parametrize(
    "expression",
    ["str:upper(n)", "str:upper()", "str:concat(s)", "str:regexp(s, '(')", "str:coalesce(s, n)", "str:substr(s, 1, s)"],
)
def test_wrong_arguments_are_refused(expression: str) -> None:
    with pytest.raises(SiddhiAnalysisError, match="wrong-arguments"):
        result_type(expression, "s string, n int")


def test_a_text_is_cut_into_one_event_for_each_token() -> None:
    run = Run(
        "define stream In (s string, n int); "
        "@info(name='q') from In[n > 0]#str:tokenize(s, '[,;]', true)[token != 'c'] "
        "select n, token, count() as c insert into Out;"
    )
    run.send((0, ["a,b;a,c,", 1]), (0, [None, 2]), (0, ["x", 0]), (0, ["d", 3]))
    assert run.taken() == ["+1,a,1", "+1,b,2", "+3,d,3"]


def test_group_concat_follows_the_window_and_survives_a_restart() -> None:
    run = Run(
        "define stream In (k string); @info(name='q') from In#window.length(3) "
        "select str:groupConcat(k) as a, str:groupConcat(k, '-', true, 'DESC') as b insert into Out;"
    )
    run.send((0, ["B"]), (0, ["A"]), (0, ["B"]))
    run.restart()
    run.send((0, ["C"]), (0, [None]))
    assert run.taken() == ["+B,B", "+B,A,B-A", "+B,B,A,B-A", "+B,A,C,C-B-A", "+B,C,C-B"]
