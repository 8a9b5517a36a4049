"""Functions that an app defines in JavaScript."""

from __future__ import annotations

import threading
import time
from functools import partial
from typing import Any

import pytest
from script_answers import FAILED, script_answers

from siddhi.analysis.analyser import analyse
from siddhi.engine.app_runtime import AppRuntime
from siddhi.errors import Problem, SiddhiAnalysisError
from siddhi.language.parser import parse
from siddhi.registry import Registry
from siddhi.scripts import javascript
from siddhi.scripts.installed import script_languages
from siddhi.scripts.javascript import JavaScriptError, compile_javascript
from siddhi.testing import record_batch

answers = partial(script_answers, "JavaScript")


def refusal(body: str) -> Problem:
    text = f"define function f[javascript] return int {{{body}}}; define stream S (a int); from S insert into O;"
    with pytest.raises(SiddhiAnalysisError) as refused:
        analyse(parse(text))
    (problem,) = refused.value.problems
    return problem


def test_a_script_gets_its_arguments_in_data_and_one_failing_event_does_not_touch_the_others() -> None:
    body = """
        var parts = data.slice(0, 2);           // what is to be joined
        if (data[2] === null) throw new Error('no number');
        return parts.concat(data[2]).join("|");
    """
    rows = (["a", None, 1.5], ["b", "c", None], ["d", "\u00e9\U0001f600", 2.0], ["a", None, 1.5])
    assert answers(body, "string", "a string, b string, n double", *rows) == [
        *("a||1.5", FAILED, "d|\u00e9\U0001f600|2", "a||1.5"),
    ]


@pytest.mark.parametrize(
    ("result", "body", "given", "expected"),
    [
        ("int", "return data[0] * 2;", 2.75, 5),
        ("long", "return data[0] * 1e10;", 1.0, 10_000_000_000),
        ("double", "return 3;", 1.0, 3.0),
        ("double", "return data[0] / 0;", 1.0, float("inf")),
        ("bool", "return data[0] > 1;", 2.0, True),
        ("bool", "return 1;", 2.0, FAILED),
        ("string", "return undefined;", 2.0, None),
        ("string", "return typeof data;", 2.0, "object"),
        ("string", "return data[0].nothing.more;", 2.0, FAILED),
        ("string", "return String.fromCharCode(0);", 2.0, FAILED),
        ("long", "return 10n;", 2.0, FAILED),
        ("object", "return function() {};", 2.0, FAILED),
        ("object", "return Promise.resolve(1);", 2.0, FAILED),
        ("object", "return new Map([[1, 2]]);", 2.0, FAILED),
        ("object", "return {all: new Array(400000).fill('x')};", 2.0, FAILED),
        ("string", "return 'a\\ud800';", 2.0, FAILED),
        ("string", "return new Date(1e12);", 2.0, "2001-09-09T01:46:40.000Z"),
    ],
)
def test_what_a_script_gives_becomes_the_declared_type_or_the_event_fails(
    result: str, body: str, given: float, expected: object
) -> None:
    assert answers(f"\n {body}\n", result, "a double", [given]) == [expected]


@pytest.mark.parametrize("value", [0, -1, 2**31 - 1, -(2**31), 2**31, 1_700_000_000_000, 2**53, -(2**53)])
def test_longs_are_exact_as_far_as_numbers_of_javascript_are(value: int) -> None:
    assert answers("return data[0];", "long", "a long", [value]) == [value]
    if abs(value) > 2**40:
        assert answers("return new Date(data[0]).getTime();", "long", "a long", [value]) == [
            value if abs(value) < 8.64e15 else FAILED
        ]


def test_objects_come_and_go_as_what_they_hold() -> None:
    app = analyse(
        parse(
            "define stream S (a int); define function grow[javascript] return object {\n"
            " return {all: data[0].concat([null, data[0].length]), first: data[0][0]};\n};"
            "from S select grow(list:create(a, 'x')) as grown insert into M;"
            "from M select map:get(grown, 'first') as first, list:size(map:get(grown, 'all')) as size insert into Out;"
        )
    )
    runtime = AppRuntime(app)
    rows: list[dict[str, Any]] = []
    runtime.add_stream_callback("Out", lambda batch: rows.extend(batch.to_pylist()))
    runtime.start(0)
    runtime.send("S", record_batch(app.streams["S"].schema, [{"timestamp": 1, "data": [7]}]), 1)
    assert [row["size"] for row in rows] == [4]


def test_a_script_sees_the_language_alone() -> None:
    names = ("require", "process", "std", "os", "print", "console", "fetch", "setTimeout")
    body = " + ".join(f"typeof {name}" for name in names)
    assert compile_javascript(f"return {body};")([]) == "undefined" * len(names)


@pytest.fixture
def little_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(javascript, "TIME_LIMIT_S", 0.2)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "body",
    [
        "while (true) {}",
        "return {toJSON() { while (true); }};",
        "return {get a() { while (true); }};",
        "return new Proxy({}, {ownKeys() { while (true); }});",
        "throw {toString() { while (true); }};",
        "var error = new Error('x'); Object.defineProperty(error, 'message', {get() { while (true); }}); throw error;",
        "Object.prototype[Symbol.toPrimitive] = () => { while (true); }; while (true);",
        "Error.prototype.toString = () => { while (true); }; while (true);",
        "Error.prepareStackTrace = () => { while (true); }; while (true);",
        "Object.defineProperty(Object.prototype, 'stack', {get() { while (true); }}); while (true);",
        "Object.prototype.toString = () => { while (true); }; return {};",
    ],
)
@pytest.mark.usefixtures("little_time")
def test_nothing_of_a_script_runs_outside_of_its_bounded_call(body: str) -> None:
    script = compile_javascript(f"if (data[0]) {{ {body} }}; return 5;")
    with pytest.raises(javascript.JavaScriptError, match=r"it took more than 0\.2 s"):
        script([True])
    assert script([False]) == 5


@pytest.mark.usefixtures("little_time")
def test_nothing_of_a_script_runs_while_it_is_checked() -> None:
    endless = "(function() { while (true); })()"
    for body in (f"}}), {endless}, (function() {{", f"}}; {endless}; function again() {{"):
        with pytest.raises(javascript.ScriptError):
            compile_javascript(body)
    with pytest.raises(javascript.ScriptError, match="more than 65536 characters"):
        compile_javascript("let a = 1;" * 10_000)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("\n  var nothing;\n  return nothing.more;", "TypeError: cannot read property 'more' of undefined, line 3"),
        ("throw new RangeError('too far');", "RangeError: too far, line 1"),
        ("throw 'text';", "text"),
        ("throw '';", "it threw an empty text"),
        ("throw Symbol('s');", r"Symbol\(s\)"),
        ("throw {toString() { throw 1; }};", "it threw what has no text"),
        ("throw 'x'.repeat(1e6);", "^x{300}$"),
        ("\n\n  return JSON.parse('{');", "^SyntaxError: [^,]*$"),
        ("return {half: '\\ud83d'};", "an object with half a character"),
        ("Error.stackTraceLimit = {valueOf() { throw 'looked'; }}; throw new Error('x');", "^Error: x"),
    ],
)
def test_what_a_script_throws_is_told_in_few_words(body: str, words: str) -> None:
    with pytest.raises(javascript.JavaScriptError, match=words):
        compile_javascript(body)([])


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("var all = []; while (true) all.push('x' + all.length);", "it needs more than 32 MiB"),
        ("return 'x'.repeat(1e8);", "it needs more than 32 MiB"),
        ("function again() { return again(); } return again();", "call stack"),
    ],
)
def test_a_call_that_takes_too_much_fails_and_the_next_one_does_not(body: str, words: str) -> None:
    script = compile_javascript(f"if (data[0]) {{ {body} }}; return 5;")
    assert script([False]) == 5
    with pytest.raises(javascript.JavaScriptError, match=words):
        script([True])
    assert script([False]) == 5


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("return new Array(1e8).join('abc').length;", "join would take too long"),
        ("return Array.prototype.indexOf.call({length: 4e9}, 1);", "indexOf would take too long"),
        ("return Array.from({length: 1e9}).length;", "from would take too long"),
        ("return 'a'.repeat(4e6).indexOf('a'.repeat(2e6) + 'b');", "indexOf would take too long"),
        ("return 'a'.repeat(4e6).split('a'.repeat(2e6) + 'b').length;", "split would take too long"),
        ("let a = [1]; for (let i = 0; i < 40; i++) a = [a, a]; return JSON.stringify(a).length;", "it took more than"),
        ("let a = {b: 1}; for (let i = 0; i < 40; i++) a = {b: a, c: a}; return JSON.stringify(a, ['b', 'c']).length;",
         "it took more than"),
        ("let a = [1]; for (let i = 0; i < 40; i++) a = [a, a]; return a;", "it took more than"),
        ("let a = []; for (let i = 0; i < 24; i++) a = [a, a]; return a.flat(Infinity).length;", "it took more than"),
        ("return new Array(4294967295);", "it took more than"),
        ("let a = new Array(1e6).fill(0); while (true) a.includes(1);", "it took more than"),
        ("let o = {}; for (let i = 0; i < 2e4; i++) o['k' + i] = i; while (true) Object.keys(o);", "it took more than"),
        ("let s = 'a'.repeat(1e6); while (true) s.indexOf('aaaaaaaaab');", "it took more than"),
    ],
)  # fmt: skip
@pytest.mark.usefixtures("little_time")
def test_functions_of_the_engine_take_no_longer_than_a_script_may(body: str, words: str) -> None:
    began_s = time.process_time()
    with pytest.raises(JavaScriptError, match=words):
        compile_javascript(body)([])
    assert time.process_time() - began_s < 3.0


MANY_KEYS = "let o = {}; for (let i = 0; i < 2e4; i++) o['k' + i] = i; const e = Object.entries(o);"


@pytest.mark.parametrize(
    ("prepared", "call"),
    [
        (MANY_KEYS, "Object.assign({}, o)"),
        (MANY_KEYS, "Object.getOwnPropertyNames(o)"),
        (MANY_KEYS, "Object.getOwnPropertySymbols(o)"),
        (MANY_KEYS, "Object.getOwnPropertyDescriptors(o)"),
        (MANY_KEYS, "Object.fromEntries(e)"),
        (MANY_KEYS, "Object.freeze(o)"),
        (MANY_KEYS, "Object.isFrozen(o)"),
        (MANY_KEYS, "Reflect.ownKeys(o)"),
        ("const t = '[' + '1,'.repeat(3e5) + '1]';", "JSON.parse(t)"),
        ("const b = (1n << 100000n) - 1n;", "b.toString()"),
        ("const a = new Float64Array(1e6).fill(3);", "a.sort()"),
        ("const a = new Uint8Array(1e6);", "a.join()"),
        ("const s = 'a'.repeat(4e5);", "s.toUpperCase()"),
        ("const s = 'a'.repeat(4e6);", "s.padStart(5e6, 'ab')"),
        ("const s = 'ab';", "s.repeat(2e6)"),
        ("const s = '\u00e9'.repeat(1e5);", "s.normalize('NFD')"),
        ("let s = 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa';", "/(a+)+b/.test(s)"),
        ("function* endless() { while (true) yield 1; }", "[...endless()].length"),
        ("const a = Array.from({length: 1e5}, (_, i) => -i);", "a.sort((x, y) => x - y).reverse()"),
        ("", "outer: for (;;) for (;;) continue outer"),
    ],
)
@pytest.mark.thorough
@pytest.mark.usefixtures("little_time")
def test_built_in_functions_in_a_loop_end_with_the_time_of_the_call(prepared: str, call: str) -> None:
    began_s = time.process_time()
    with pytest.raises(JavaScriptError, match=r"it took more than|it needs more than"):
        compile_javascript(f"{prepared} while (true) {{ {call}; }}")([])
    assert time.process_time() - began_s < 3.0


def test_what_charges_built_in_functions_for_their_work_changes_none_of_their_answers() -> None:
    body = """
        const mark = Symbol("m"), one = {a: 1, [mark]: 2}, copy = Object.assign({}, one, null, "xy", [7]);
        return [Object.keys(copy), copy[mark], Object.getOwnPropertyNames("ab"), Reflect.ownKeys(one).length,
                Object.getOwnPropertySymbols(one).length, Object.fromEntries(new Map([["k", 5]])).k,
                Object.getOwnPropertyDescriptors(one).a.value, Object.isFrozen(Object.freeze(one)), Object.isFrozen(1),
                JSON.parse("[1,2]", (_, it) => Array.isArray(it) ? it : it + 1), JSON.parse(5), (255n).toString(16),
                new Uint8Array([3, 1]).sort().join("-"), "ab".toUpperCase(), "a".padStart(3, "-"), " b ".trim(),
                "abc".slice(-2), "a".localeCompare("b"), String.prototype.concat.call(1, 2)].join(" ");
    """
    assert compile_javascript(body)([]) == "0,1,a 2 0,1,length 2 1 5 1 true true 2,3 5 ff 1-3 AB --a b bc -1 12"


def test_what_guards_the_functions_of_the_engine_changes_nothing_else() -> None:
    body = """
        const found = [[3, 1, 2].sort().join("-"), "a,b".split(",").length, "abcb".replace("b", (x) => x + x)];
        const nested = {a: [1, {b: null}], toJSON() { return {c: this.a}; }};
        return [...found, JSON.stringify(nested), JSON.stringify({a: 1, b: 2}, ["a"]), JSON.stringify([1], null, 1),
                Array.from("ab", (x) => x + x).length, [[1, [2]]].flat().length, String([[1, [2]], 3]),
                Object.keys({a: 1, b: 2}), Object.values("ab"), Object.entries({a: 1}),
                ...[0, "2", NaN, Infinity].map((depth) => [[1, , [[2]]], , "3"].flat(depth).length)].join(" ");
    """
    assert (
        compile_javascript(body)([])
        == '1-2-3 2 abbcb {"c":[1,{"b":null}]} {"a":1} [\n 1\n] 2 2 1,2,3 a,b a,b a,1 2 3 2 3'
    )


def test_the_thread_that_calls_a_script_may_change() -> None:
    script = compile_javascript("function depth(n) { return n ? 1 + depth(n - 1) : 0; } return depth(data[0]);")
    found: list[object] = [script([100])]

    def call(depth: int) -> None:
        found.append(script([depth]))
        with pytest.raises(javascript.JavaScriptError, match="call stack"):
            script([100_000])

    for depth in (101, 102):
        thread = threading.Thread(target=call, args=(depth,))
        thread.start()
        thread.join()
    assert [*found, script([103])] == [100, 101, 102, 103]


def test_apps_that_run_at_the_same_time_have_scripts_of_their_own() -> None:
    app = analyse(
        parse(
            "define stream S (a int); define function sum[javascript] return int {\n var sum = 0;\n"
            " for (var i = 0; i <= data[0]; i++) sum += i % 2;\n return sum;\n};"
            "from S select sum(a) as b insert into Out;"
        )
    )
    found: list[tuple[int, int]] = []

    def run(number: int) -> None:
        runtime = AppRuntime(app)
        runtime.add_stream_callback("Out", lambda batch: found.extend((number, b) for b in batch["b"].to_pylist()))
        runtime.start(0)
        for _ in range(20):
            events = [{"timestamp": 1, "data": [40_000 + number]}]
            runtime.send("S", record_batch(app.streams["S"].schema, events), 1)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == sorted((number, (40_001 + number) // 2) for number in range(4) for _ in range(20))


@pytest.mark.parametrize(
    ("body", "words", "line"),
    [
        ("\n var a = 1;\n return data[0;\n", "Unexpected token ';'", 3),
        ("\n return 1 +\n", "unexpected token", 3),
        ("\n return '\0';\n", "the character 0", 2),
        ("\n return {;\n };\n", "invalid property name", 2),
    ],
)
def test_a_script_that_cannot_be_read_is_refused_at_its_line(body: str, words: str, line: int) -> None:
    problem = refusal(body)
    assert problem.code == "wrong-script"
    assert words in problem.message
    assert problem.span is not None
    assert problem.span.line == line


def test_a_text_that_ends_its_function_and_begins_another_one_is_refused() -> None:
    with pytest.raises(javascript.ScriptError, match="its braces do not match"):
        compile_javascript("}); (function() { return 5")
    both_ways = compile_javascript("}[x] = function() {")
    with pytest.raises(javascript.JavaScriptError, match="its braces do not match"):
        both_ways([])


def test_where_the_engine_is_not_installed_it_is_told_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(javascript, "find_spec", lambda _: None)
    text = "define function f[javascript] return int { return 1; }; define stream S (a int); from S insert into O;"
    with pytest.raises(SiddhiAnalysisError) as refused:
        analyse(parse(text), Registry((), script_languages()))
    (problem,) = refused.value.problems
    assert (problem.code, problem.hint) == (
        "unknown-script-language",
        "known here: python; `pip install 'cep-on-spark[javascript]'` brings it",
    )
