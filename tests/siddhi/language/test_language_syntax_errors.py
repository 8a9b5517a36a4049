"""Rejected texts: their messages, and that only SiddhiParseError is raised."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_examples import examples

from siddhi.errors import SiddhiParseError
from siddhi.language.parser import MAXIMUM_DEPTH, parse, parse_expression, parse_on_demand_query

DEFINE = "define stream S (a int, b string);\n"


def refusal(text: str) -> SiddhiParseError:
    with pytest.raises(SiddhiParseError) as refused:
        parse(text)
    return refused.value


def test_a_problem_is_shown_with_its_line_a_caret_and_a_hint() -> None:
    text = DEFINE + "from S[a = 5]\nselect a insert into Out;"
    assert refusal(text).render(text) == (
        "line 2, column 10: '=' is not allowed here: an operator, ']', 'is', ':', '.', '#', '(' or '[' expected "
        "[syntax-error]\n"
        "    from S[a = 5]\n"
        "             ^\n"
        "hint: compare with `==`"
    )


@pytest.mark.parametrize(
    ("query", "code", "words"),
    [
        ("from S selct a insert into O", "syntax-error", "did you mean 'select'?"),
        ("@info() from S select a insert into O", "syntax-error", "')' is not allowed here"),
        ("from S[a is not null] insert into O", "syntax-error", "write `not (x is null)`"),
        ("from S select a, insert into O", "syntax-error", "'insert' was taken as a name here"),
        ("from S select -a as x insert into O", "syntax-error", "write `0 - x`"),
        ("from S select (a + 1 as x insert into O", "syntax-error", "')'"),
        ("from S[b == 'x] insert into O", "unclosed-text", "does not end"),
        ("from S select a + 1 insert into O", "output-without-name", "as <name>"),
        ("from S select (a) insert into O", "output-without-name", "as <name>"),
        ("from S select a", "syntax-error", "ends too early"),
        ("from S select sum(a", "syntax-error", "the '(' in line 2, column 18 has no ')'"),
        ("from S[a > 1 select a insert into O", "syntax-error", "the '[' in line 2, column 7 has no ']'"),
        ("from S[a > 1)] select a insert into O", "syntax-error", "there is no matching '('"),
        ("from S select a insert O", "syntax-error", "write `insert into O`"),
        ("from S select a b insert into O", "syntax-error", "write `,` between two outputs"),
        ("from S select *, a insert into O", "syntax-error", "write `*` alone"),
        ("from S -> S within 5 select * insert into O", "syntax-error", "a time needs a unit"),
        ("from S select a output every 1day insert into O", "syntax-error", "'1day' is not allowed here"),
        ("from S#window.time(1day) select a insert into O", "syntax-error", "write `1 day`: `1d` is a number"),
        ("from S -> S within 2days select * insert into O", "syntax-error", "write `2 days`: `2d` is a number"),
        ("@foo define trigger T at 'start'", "annotation-not-here", "no annotations"),
        ("@foo('x') define function f[python] return int { return 1 };", "annotation-not-here", "no annotations"),
        ('define stream X (`a"b` int);', "name-characters", "control characters"),
        ("define stream X (`a\\b` int);", "name-characters", "control characters"),
        ("define stream `a\tb` (a int);", "name-characters", "control characters"),
        ("define table X (`a\x00b` int);", "name-characters", "control characters"),
        ("from S select a as `x\ny` insert into O", "name-characters", "control characters"),
        ("from S select a insert into `x\u2028y`", "name-characters", "control characters"),
        ("define trigger Events at 'start';", "keyword-as-name", "`Events`"),
        ("define aggregation order from S select sum(a) as s aggregate every sec;", "keyword-as-name", "`order`"),
        ("define function set[python] return int { return 1 };", "keyword-as-name", "`set`"),
        ("define trigger T at every 5;", "syntax-error", "a time needs a unit"),
        ("define window W (a int);", "syntax-error", "name its window"),
        ("define table T (a itn);", "syntax-error", "did you mean 'int'?"),
        ("@info(name=q) from S select a insert into O", "syntax-error", "texts are written in quotes: 'q'"),
        ("from S[b == 'it''s'] select a insert into O", "syntax-error", "holds no quotes"),
        ("select a from S insert into O", "syntax-error", "a query begins with `from`"),
        ("insert into O from S select a", "syntax-error", "a query begins with `from`"),
        ("from S as x select a insert into O", "syntax-error", "leave `as …` out"),
        ("from x=S => y=S select * insert into O", "syntax-error", "write `->`"),
        ("from x=S, y=S -> z=S select * insert into O", "syntax-error", "a sequence has `,`"),
        ("@PrimaryKey(a) define table T (a int);", "syntax-error", "texts are written in quotes: 'a'"),
        ("partition by a begin from S insert into O; end", "syntax-error", "`partition with ("),
        ("partition with (a of S) begin define stream T (a int); end", "syntax-error", "before all queries"),
        ("from S select a insert into O from S insert into P", "syntax-error", "a ';' is missing"),
        ("from S select a insert into 'O'", "syntax-error", "names are written without quotes"),
        (
            "from S -> not S for '5 min' select * insert into O",
            "syntax-error",
            "a time is written without quotes: 5 min",
        ),
        ("from S select a insert into my-stream", "syntax-error", "back-quotes: `my-stream`"),
        ("define stream 2S (a int);", "syntax-error", "begins with a letter"),
        ("define stream T (a varchar);", "syntax-error", "use string"),
        ("from S select sum(a) n insert into O", "syntax-error", "`as` before a new name"),
        ("from S select a insert all-events into O", "syntax-error", "write `all events`"),
        ("from S select a insert into O for expired-events", "syntax-error", "write `insert expired events into …`"),
        ("from S#transform.math:f(a) select * insert into O", "syntax-error", "write `#name(…)`"),
        ("from S select sum(a) as n groupBy b insert into O", "syntax-error", "write `group by`"),
        ("define table T (a int) from ('table.name'='t');", "syntax-error", "`@From(…) define table …`"),
        ("from S insert into O a, b;", "syntax-error", "`select … insert into …`"),
        ("from S[b contains 'x'] select a insert into O", "syntax-error", "write `str:contains(text, part)`"),
        ("from S#window.length(2) outer join S#window.length(2) select * insert into O", "syntax-error", "`left outer"),
        ("from S[a > $least] select a insert into O", "syntax-error", "a variable is written `${least}`"),
        ("create table T (a int);", "syntax-error", "definitions begin with `define`"),
        ("from S select 1 sec 1 min as x insert into O", "time-units-out-of-order", "largest first"),
        ("from S select 2147483648 as x insert into O", "number-out-of-range", "2147483648L"),
        ("from every (every S -> S) insert into O", "nested-every", "every"),
        ("from S -> not S insert into O", "absent-without-time", "for <time>"),
        ("from S -> not S for 1 sec and not S insert into O", "absent-without-time", "for <time>"),
        ("from S, every S insert into O", "every-in-sequence", "first element"),
        ("from every (a=S, b=S), c=S insert into O", "every-in-sequence", "one element"),
        ("from not S for 1 sec, S, not S for 1 sec insert into O", "absent-at-both-ends", "with `->`"),
        ("from S+ -> S insert into O", "repetition-in-pattern", "<1:>"),
        ("from (S, S) -> S insert into O", "mixed-pattern-and-sequence", "two queries"),
        ("from a=S#window.length(1) -> S insert into O", "window-in-pattern", "separate query"),
        ("from S insert into O; define stream T (a int)", "definition-after-query", "before the first query"),
    ],
)
def test_each_mistake_has_its_code_and_a_way_out(query: str, code: str, words: str) -> None:
    error = refusal(DEFINE + query)
    assert [problem.code for problem in error.problems] == [code]
    assert words in error.render(DEFINE + query)


@pytest.mark.parametrize(
    ("annotations", "code"),
    [
        ("@info('x') @app:name('y')", "misplaced-app-annotation"),
        ("@app:name('x') @info('x') @app:playback", "misplaced-app-annotation"),
        ("@app:statistics(@info('x'))", "nested-annotation"),
        ("@sys:name('y')", "unknown-annotation"),
    ],
)
def test_annotations_of_the_app_stand_in_front_of_all_others(annotations: str, code: str) -> None:
    assert [problem.code for problem in refusal(f"{annotations} {DEFINE}").problems] == [code]


def test_whoever_brings_xml_is_told_what_of_it_is_a_text() -> None:
    text = "<executionPlan name='p'>\n<queryExpressions>from S insert into O;</queryExpressions></executionPlan>"
    assert "of XML only the text in <queryExpressions> is SiddhiQL" in refusal(text).render(text)


def test_all_problems_of_form_are_told_at_once_in_text_order() -> None:
    error = refusal("define stream S (a int, a int); from S select a + 1, 3 insert into O")
    assert [(problem.code, problem.span.column) for problem in error.problems if problem.span] == [
        ("duplicate-attribute", 25),
        ("output-without-name", 47),
        ("output-without-name", 54),
    ]


@pytest.mark.thorough
@pytest.mark.parametrize(
    "text",
    [
        "not " * 5000 + "true",
        " or ".join(["a"] * 5000),
        "f(" * 5000 + "a" + ")" * 5000,
        "a + (" * 4000 + "a" + ")" * 4000,
    ],
)
def test_texts_deeper_than_any_stack_are_refused_in_words(text: str) -> None:
    with pytest.raises(SiddhiParseError, match=f"more than {MAXIMUM_DEPTH} levels"):
        parse_expression(text)


def test_parentheses_that_mean_nothing_have_no_depth() -> None:
    assert parse_expression("(" * 5000 + "a" + ")" * 5000) == parse_expression("a")


_WORDS = """
    from S select a insert into O every -> , ; ( ) [ ] < > <2:3> * # ! @ . 'a' " ` ${X} { } 1. 1e 5L sec \x00 é
"""
_PIECES = st.sampled_from(_WORDS.split())


@settings(max_examples=examples(300), deadline=None, derandomize=True)
@given(st.one_of(st.text(), st.lists(_PIECES).map(" ".join)))
def test_no_text_raises_anything_but_a_parse_error(text: str) -> None:
    for whole in (text, DEFINE + text, f"{DEFINE}from S[{text}] select {text} as x insert into O"):
        try:
            parse(whole)
        except SiddhiParseError as error:
            error.render(whole)


@pytest.mark.parametrize(
    "text",
    [
        "select 'a' as k insert all events into T",
        "select 'a' as k insert into #T",
        "select 'a' as k insert into !T",
        "delete T for expired events on T.k == 'a'",
        "update T for all events set T.v = 1 on T.k == 'a'",
        "select 'a' as k update or insert into T for all events on T.k == k",
    ],
)
def test_an_on_demand_query_changes_tables_and_has_no_events_to_choose_from(text: str) -> None:
    with pytest.raises(SiddhiParseError):
        parse_on_demand_query(text)
