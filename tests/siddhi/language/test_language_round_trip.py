"""parse(print(x)) == x, for whole plans, for names of any kind and for generated expressions."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_examples import examples

from siddhi.analysis.analyser import analyse
from siddhi.language import ast
from siddhi.language.ast import AttributeType
from siddhi.language.parser import parse, parse_definition, parse_expression, parse_query
from siddhi.language.print_expressions import print_expression
from siddhi.language.printer import (
    print_app,
    print_definition,
    print_element,
)

PLANS = sorted((Path(__file__).parent / "plans").glob("*.siddhiql"))
KEYWORDS = """
    aggregate aggregation all and as asc at begin bool by current define delete desc double end events every expired
    false first float for from full function group having in inner insert int into is join last left limit long month
    not null object of offset on or order outer output overwrite partition per raw return right sec select set snapshot
    stream string table trigger true unidirectional update window with within year
"""


@pytest.mark.parametrize("path", PLANS, ids=lambda path: path.stem)
def test_a_printed_plan_reads_back_as_the_same_plan(path: Path) -> None:
    app = parse(path.read_text(encoding="utf-8"))
    printed = print_app(app)
    assert parse(printed) == app
    assert print_app(parse(printed)) == printed


@pytest.mark.parametrize("path", PLANS, ids=lambda path: path.stem)
def test_every_sample_plan_passes_analysis(path: Path) -> None:
    analyse(parse(path.read_text(encoding="utf-8")))


@pytest.mark.parametrize(
    "pattern", ["every (every not A for 1 sec)", "A -> every (every (not B for 1 sec -> every A))"]
)
def test_an_every_in_an_every_keeps_its_brackets(pattern: str) -> None:
    query = parse_query(f"from {pattern} select 1 as x insert into O")
    assert parse_query(print_element(query)) == query


@pytest.mark.parametrize("name", [*KEYWORDS.split(), "Not", "two words", "名前", "5"])
def test_any_name_can_stand_wherever_a_name_can(name: str) -> None:
    definition = ast.StreamDefinition(name, (ast.AttributeDefinition(name, AttributeType.INT),))
    assert parse_definition(print_definition(definition)) == definition
    trigger = ast.TriggerDefinition(name)
    assert parse_definition(print_definition(trigger)) == trigger
    attribute = ast.Attribute(name)
    qualified = ast.Attribute(name, ast.SourceReference(name, index=ast.EventIndex(1, from_last=True)))
    call = ast.FunctionCall(name, name, (attribute, qualified))
    selection = ast.Selection(
        (ast.OutputAttribute(attribute), ast.OutputAttribute(call, name)),
        group_by=(attribute,),
        having=ast.In(attribute, name),
        order_by=(ast.OrderBy(attribute, descending=True),),
    )
    handlers = (
        ast.StreamFunction(call),
        ast.FilterHandler(ast.IsNull(attribute)),
        ast.StreamFunction(ast.FunctionCall("", name)),
    )
    single = ast.SingleInput(name, handlers)
    join = ast.JoinInput(single, ast.SingleInput(name, alias=name), ast.JoinKind.INNER, on=attribute)
    element = ast.StreamElement(ast.SingleInput(name, alias=name), 1, 2)
    absent = ast.AbsentElement(ast.SingleInput(name), ast.TimeConstant(((1, "sec"),), 1000))
    state = ast.StateInput(ast.NextElement((ast.EveryElement(element), absent)), sequence=False)
    update = ast.Update(name, attribute, (ast.SetAssignment(qualified, attribute),))
    for source in (single, join, state):
        for output in (ast.InsertInto(name), ast.InsertInto(name, inner=True), update, ast.Delete(name, attribute)):
            annotations = (ast.Annotation(name, (ast.AnnotationElement(name, "x"),)),)
            query = ast.Query(source, output, selection, annotations=annotations)
            assert parse_query(print_element(query)) == query


_NAMES = st.sampled_from(["a", "b", "order", "true", "e1"])
_LEAVES = st.one_of(
    st.integers(-(2**31), 2**31 - 1).map(lambda value: ast.Constant(value, AttributeType.INT)),
    st.integers(-(2**63), 2**63 - 1).map(lambda value: ast.Constant(value, AttributeType.LONG)),
    st.floats(allow_nan=False).map(lambda value: ast.Constant(value, AttributeType.DOUBLE)),
    st.floats(allow_nan=False).map(lambda value: ast.Constant(value, AttributeType.FLOAT)),
    st.booleans().map(lambda value: ast.Constant(value, AttributeType.BOOL)),
    st.text(st.characters(exclude_characters='"')).map(lambda value: ast.Constant(value, AttributeType.STRING)),
    st.integers(0, 99).map(lambda n: ast.TimeConstant(((n, "hour"), (1, "sec")), n * 3_600_000 + 1000)),
    _NAMES.map(ast.Attribute),
    st.builds(ast.Attribute, _NAMES, st.builds(ast.SourceReference, _NAMES, inner=st.booleans())),
)
_OPERATORS = st.sampled_from(["+", "-", "*", "/", "%", "<", "<=", ">", ">=", "==", "!=", "and", "or"])
_EXPRESSIONS = st.recursive(
    _LEAVES,
    lambda inner: st.one_of(
        st.builds(ast.Binary, _OPERATORS, inner, inner),
        st.builds(ast.Not, inner),
        st.builds(ast.In, inner, _NAMES),
        st.builds(ast.IsNull, _NAMES.map(ast.Attribute)),
        st.builds(ast.FunctionCall, st.sampled_from(["", "math"]), _NAMES, st.lists(inner, max_size=3).map(tuple)),
    ),
    max_leaves=12,
)


@settings(max_examples=examples(150), deadline=None, derandomize=True)
@given(_EXPRESSIONS)
def test_a_printed_expression_reads_back_as_the_same_expression(expression: ast.Expression) -> None:
    assert parse_expression(print_expression(expression)) == expression
