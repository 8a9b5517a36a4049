"""The meaning of texts, and the positions of their parts."""

import pytest

from siddhi.errors import SiddhiParseError
from siddhi.language import ast
from siddhi.language.ast import AttributeType
from siddhi.language.parser import parse, parse_expression, parse_query, parse_stream_definition, parse_time


def test_precedence_is_that_of_siddhi() -> None:
    assert parse_expression("not a == b or c + d * e > f and g in T") == parse_expression(
        "((not a) == b) or (((c + (d * e)) > f) and (g in T))"
    )


def test_any_operator_may_follow_in_which_takes_all_before_it() -> None:
    for text, grouped in (
        ("T.k == k in T == true", "((T.k == k) in T) == true"),
        ("a or b + c in T < d in U", "a or ((((b + c) in T) < d) in U)"),
        ("a == b in T + c * d", "((a == b) in T) + (c * d)"),
    ):
        assert parse_expression(text) == parse_expression(grouped)


def test_a_sign_belongs_to_a_number_only_where_no_operand_stands_before() -> None:
    one = ast.Constant(1, AttributeType.INT)
    minus_one = ast.Constant(-1, AttributeType.INT)
    assert parse_expression("a-1") == ast.Binary("-", ast.Attribute("a"), one)
    assert parse_expression("a - -1") == ast.Binary("-", ast.Attribute("a"), minus_one)


def test_a_time_is_a_number_of_milliseconds_and_keeps_its_parts() -> None:
    assert parse_time("1 Hour 30 minutes") == ast.TimeConstant(((1, "hour"), (30, "min")), 5_400_000)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_a_comment_ends_with_its_line_whoever_wrote_the_file(end: str) -> None:
    text = f"-- the input{end}define stream S (a int); -- and now{end}from S insert into O"
    assert len(parse(text).elements) == 1


def test_numbers_have_the_digits_of_ascii_only() -> None:
    with pytest.raises(SiddhiParseError):
        parse_expression("\N{ARABIC-INDIC DIGIT THREE}")


def test_spans_point_at_the_text_of_each_node() -> None:
    text = "-- a comment\nfrom S[price >\n 5] select sum(price) as total insert into Out"
    query = parse_query(text)
    assert isinstance(query.input, ast.SingleInput)
    condition = query.input.handlers[0]
    assert isinstance(condition, ast.FilterHandler)
    assert text[condition.condition.span.start : condition.condition.span.end] == "price >\n 5"
    assert (condition.condition.span.line, condition.condition.span.column) == (2, 8)
    assert (condition.condition.span.end_line, condition.condition.span.end_column) == (3, 3)
    assert query.selection is not None
    assert query.selection.attributes is not None
    call = query.selection.attributes[0].expression
    assert text[call.span.start : call.span.end] == "sum(price)"


@pytest.mark.parametrize("between", ["", " -- @in front\n/* of */ "])
@pytest.mark.parametrize("statement", ["define stream S (a int);", "@Import('S:1.0.0') define stream S (a int);"])
def test_the_first_statement_begins_behind_the_annotations_of_the_app(between: str, statement: str) -> None:
    text = f"@Plan:name('p')\n@Plan:trace('false'){between}  {statement}"
    span = parse(text).definitions[0].span
    assert text[span.start : span.end] == statement.rstrip(";")
    assert text.split("\n")[span.line - 1][span.column - 1 :] == statement


def test_a_within_at_the_end_bounds_the_whole_pattern() -> None:
    query = parse_query("from every a=A -> b=B within 5 sec insert into Out")
    assert isinstance(query.input, ast.StateInput)
    assert query.input.within == parse_time("5 sec")
    assert query.input.element == ast.NextElement(
        (
            ast.EveryElement(ast.StreamElement(ast.SingleInput("A", alias="a"))),
            ast.StreamElement(ast.SingleInput("B", alias="b")),
        )
    )


def test_a_stream_alone_is_no_pattern_but_a_counted_one_is() -> None:
    assert isinstance(parse_query("from S[a > 1] insert into Out").input, ast.SingleInput)
    assert isinstance(parse_query("from S<2> insert into Out").input, ast.StateInput)


def test_variables_are_replaced_before_parsing_and_missing_ones_are_all_named() -> None:
    text = "define stream ${NAME} (a int, b ${TYPE})"
    assert parse(text, {"NAME": "S", "TYPE": "long"}).definitions == (
        parse_stream_definition("define stream S (a int, b long)"),
    )
    with pytest.raises(SiddhiParseError) as refused:
        parse(text)
    assert [problem.code for problem in refused.value.problems] == ["unknown-variable", "unknown-variable"]


def test_a_script_keeps_its_text_whatever_braces_it_holds() -> None:
    body = ' var s = "}"; // } and -- no comment\n if (x) { return {a: 1}; } return i--; '
    app = parse(f"define function f[javascript] return object {{{body}}}; define stream S (a int)")
    definition = app.definitions[0]
    assert isinstance(definition, ast.FunctionDefinition)
    assert definition.body == body


def test_insert_overwrite_is_the_older_name_of_update_or_insert() -> None:
    assert parse_query("from S insert overwrite T on T.a == a") == parse_query(
        "from S update or insert into T on T.a == a"
    )


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("from (A -> B within 1 sec) -> A insert into Out", "within-inside-pattern"),
        ("from A insert all raw events into Out", "only-in-3x"),
        ("from A insert expired into Out", "only-in-3x"),
    ],
)
def test_what_only_the_older_dialect_has_needs_a_plan_annotation(query: str, code: str) -> None:
    text = f"define stream A (a int); define stream B (a int); {query}"
    with pytest.raises(SiddhiParseError) as refused:
        parse(text)
    assert [problem.code for problem in refused.value.problems] == [code]
    parse(f"@Plan:name('P') {text}")


def test_an_execution_plan_may_hold_queries_alone_but_an_app_may_not() -> None:
    parse("@Plan:name('P') from S insert into T")
    with pytest.raises(SiddhiParseError, match="no-definition"):
        parse("from S insert into T")
