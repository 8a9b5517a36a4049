"""Functions that an app defines itself."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from script_answers import FAILED, script_answers

from siddhi.analysis.analyser import analyse
from siddhi.analysis.catalogue import builtin_registry
from siddhi.analysis.query.on_demand import analyse_on_demand_query
from siddhi.engine.app_runtime import AppRuntime
from siddhi.errors import Problem, SiddhiAnalysisError
from siddhi.language.parser import parse, parse_on_demand_query
from siddhi.scripts.language import Script, ScriptError, ScriptLanguage, ScriptPolicy
from siddhi.testing import record_batch

READER = "define stream S (a int); from S select f(a) as b insert into O"


answers = partial(script_answers, "Python")


def refusal(text: str, scripts: ScriptPolicy | None = None, *languages: ScriptLanguage) -> Problem:
    registry = builtin_registry() if scripts is None else builtin_registry(scripts)
    for language in languages:
        registry.add_script_language(language)
    with pytest.raises(SiddhiAnalysisError) as refused:
        analyse(parse(text), registry)
    (problem,) = refused.value.problems
    return problem


def test_a_script_gets_its_arguments_in_data_and_gives_back_the_declared_type() -> None:
    body = """
        total = 0.0
        for price, share in zip(data[:2], (0.25, 0.75)):
            total += price * share
        if data[2] is None:
            return None
        return math.sqrt(total) if data[2] == 'root' else total
    """
    rows = ([16.0, 16.0, "root"], [8.0, 16.0, "sum"], [1.0, 1.0, None])
    assert answers(body, "double", "a double, b float, how string", *rows) == [4.0, 14.0, None]


@pytest.mark.parametrize(
    ("result", "body", "given", "expected"),
    [
        ("int", "return data[0]", 2.9, 2),
        ("int", "return data[0] * 1e10", 1.0, FAILED),
        ("long", "return data[0] * 1e10", 1.0, 10_000_000_000),
        ("int", "return 'x'", 1.0, FAILED),
        ("int", "return float('nan')", 1.0, FAILED),
        ("double", "return int(data[0])", 3.7, 3.0),
        ("double", "return 10 ** 400", 1.0, FAILED),
        ("string", "return data[0]", 1e10, "1.0E10"),
        ("string", "return data[0] > 1", 2.0, "true"),
        ("string", "return data", 2.0, FAILED),
        ("bool", "return data[0] > 1", 2.0, True),
        ("bool", "return 1", 2.0, FAILED),
        ("object", "return {'a': [data[0], None], 'b': (1, 2)}", 2.0, {"a": [2.0, None], "b": [1, 2]}),
        ("object", "return lambda: 1", 2.0, FAILED),
        ("double", "return 1 / (data[0] - 2)", 2.0, FAILED),
        ("string", "return '{0.imag}'.format(data[0])", 2.0, FAILED),
        ("double", "math.pi = 3\n return math.pi", 2.0, FAILED),
    ],
)
def test_what_a_script_gives_becomes_the_declared_type_or_the_event_fails(
    result: str, body: str, given: float, expected: object
) -> None:
    assert answers(f"\n {body}\n", result, "a double", [given]) == [expected]


def test_one_failing_event_does_not_touch_the_others() -> None:
    assert answers("return 10 // data[0]\n", "int", "a int", [5], [0], [2], [5], *[[1]] * 40) == [
        *(2, FAILED, 5, 2),
        *[10] * 40,
    ]


def test_a_script_cannot_change_the_objects_that_it_is_given() -> None:
    app = analyse(
        parse(
            "define stream S (a int); define function grow[python] return int {\n data[0].append(1)\n"
            " return len(data[0])\n}; from S select list:create(a, a) as both insert into M;"
            "from M select grow(both) as first, grow(both) as second, list:size(both) as size insert into Out;"
        )
    )
    runtime = AppRuntime(app)
    rows: list[dict[str, Any]] = []
    runtime.add_stream_callback("Out", lambda batch: rows.extend(batch.to_pylist()))
    runtime.start(0)
    runtime.send("S", record_batch(app.streams["S"].schema, [{"timestamp": 1, "data": [7]}]), 1)
    assert [(row["first"], row["second"], row["size"]) for row in rows] == [(3, 3, 2)]


def test_a_script_serves_on_demand_queries_too() -> None:
    app = analyse(
        parse(
            "define stream S (a int); define table T (a int); "
            "define function twice[python] return int { return 2 * data[0] }; from S select a insert into T;"
        )
    )
    runtime = AppRuntime(app)
    runtime.start(0)
    runtime.send("S", record_batch(app.streams["S"].schema, [{"timestamp": 1, "data": [7]}]), 1)
    query = analyse_on_demand_query(parse_on_demand_query("from T select twice(a) as b"), app)
    found = runtime.query(query)
    assert found is not None
    assert found["b"].to_pylist() == [14]


@pytest.mark.parametrize(
    ("body", "words", "line"),
    [
        ("\n import os\n return 1\n", "cannot import", 2),
        ("\n x = 1\n return open('f')\n", "no 'open' in a script", 3),
        ("\n\n return data.__class__\n", "starts with", 3),
        ("\n return (x for x in data).gi_frame\n", "restricted name", 2),
        ("\n if data[0]\n  return 1\n", "expected ':'", 2),
        ("\n global x\n return 1\n", "no global names", 2),
        ("\n class A:\n  pass\n return 1\n", "cannot define classes", 2),
        ("\n yield 1\n return 1\n", "returns one value", 2),
        ("\n nonlocal x\n return 1\n", "no binding for nonlocal 'x'", 2),
        ("\n print(1)\n return 1\n", "no 'print' in a script", 2),
        ("data[0] + 1", "returns nothing", 1),
    ],
)
def test_a_script_that_is_not_allowed_is_refused_at_its_line(body: str, words: str, line: int) -> None:
    text = f"define function f[python] return int {{{body}}}; {READER}"
    problem = refusal(text)
    assert problem.code == "wrong-script"
    assert words in problem.message
    assert problem.span is not None
    assert problem.span.line == line
    if line > 1:
        assert text[problem.span.start : problem.span.end] == body.split("\n")[line - 1].strip()


def test_other_languages_need_an_engine_and_switched_off_ones_name_their_key() -> None:
    text = "define function f[lua] return int { return data[1] }; define stream S (a int); from S insert into O;"
    problem = refusal(text)
    assert problem.code == "unknown-script-language"
    assert problem.hint is not None
    assert problem.hint.startswith("known here: python")
    assert problem.hint.endswith("an extension can add a language")
    language = ScriptLanguage("lua", lambda _: len)
    analyse(parse(text), _registry_with(language))
    problem = refusal(text, ScriptPolicy.switched({"python": True}, "script.{language}: true"), language)
    assert problem.code == "script-language-off"
    assert "script.lua: true" in (problem.hint or "")


def test_an_installed_language_makes_functions_and_refuses_texts() -> None:
    def compile_count(body: str) -> Script:
        if body.strip() != "count":
            raise ScriptError("write count", 1)
        return len

    language = ScriptLanguage("counting", compile_count)
    text = (
        "define function n[Counting] return int { count }; define stream S (a int, b int);"
        "from S select n(a, b) as n insert into O;"
    )
    app = analyse(parse(text), _registry_with(language))
    runtime = AppRuntime(app)
    rows: list[dict[str, Any]] = []
    runtime.add_stream_callback("O", lambda batch: rows.extend(batch.to_pylist()))
    runtime.start(0)
    runtime.send("S", record_batch(app.streams["S"].schema, [{"timestamp": 1, "data": [1, None]}]), 1)
    assert rows[0]["n"] == 2
    problem = refusal(text.replace("{ count }", "{ sum }"), ScriptPolicy(), language)
    assert problem.message == "the script of 'n' is refused: write count"


def _registry_with(language: ScriptLanguage) -> Any:
    registry = builtin_registry()
    registry.add_script_language(language)
    return registry
