"""The meaning of ambiguous names and stars, as in Siddhi."""

from __future__ import annotations

import pytest

from siddhi.analysis import model
from siddhi.analysis.analyser import analyse
from siddhi.errors import SiddhiAnalysisError
from siddhi.language.ast import AttributeType, EventIndex
from siddhi.language.parser import parse

INT = AttributeType.INT
DEFINITIONS = "define stream S (a int, S int); define stream T (b int); define stream U (b int);"


def selected(source: str, expression: str) -> model.TypedExpression:
    (query,) = analyse(parse(f"{DEFINITIONS} from {source} select {expression} as x insert into O;")).elements
    assert isinstance(query, model.AnalysedQuery)
    return query.selection.attributes[0].expression


@pytest.mark.parametrize("source", ["S as s join T as t", "s=S -> t=T"])
def test_a_star_in_a_call_stands_for_the_attributes_of_all_inputs(source: str) -> None:
    call = selected(source, "maximum(*)")
    assert isinstance(call, model.Call)
    assert call.arguments == (
        model.AttributeValue(0, "a", INT),
        model.AttributeValue(0, "S", INT),
        model.AttributeValue(1, "b", INT),
    )


def test_a_star_in_a_call_cannot_stand_for_two_attributes_of_one_name() -> None:
    with pytest.raises(SiddhiAnalysisError, match="ambiguous-attribute"):
        selected("T as t join U as u", "maximum(*)")


@pytest.mark.parametrize("source", ["S", "S as x join T", "T -> S", "S=T -> S"])
def test_whether_a_name_is_null_asks_for_the_input_before_the_attribute(source: str) -> None:
    test = selected(source, "`S` is null")
    if source == "S as x join T":  # no input is called S any more
        assert test == model.IsNullValue(model.AttributeValue(0, "S", INT))
    else:
        assert isinstance(test, model.IsEmptySlot)


def test_an_input_that_comes_later_leaves_its_name_to_the_attribute() -> None:
    app = analyse(parse(f"{DEFINITIONS} from e=S[a is null] -> a=T select e.a as x insert into O;"))
    (query,) = app.elements
    assert isinstance(query, model.AnalysedQuery)
    assert isinstance(query.input, model.StateMachine)
    (step,) = query.input.slots[0].input.before
    assert step == model.FilterStep(model.IsNullValue(model.AttributeValue(0, "a", INT)))


@pytest.mark.parametrize("name", ["a[1]", "a[last]", "!a"])
def test_no_index_and_no_mark_is_looked_at_where_an_attribute_is_asked_for_null(name: str) -> None:
    assert selected("S", f"{name} is null") == model.IsNullValue(model.AttributeValue(0, "a", INT))


def test_a_name_behind_a_hash_that_is_no_inner_stream_is_not_looked_at() -> None:
    assert selected("S", "#F.a") == model.AttributeValue(0, "a", INT)
    assert selected("s=S<2> -> T", "#F.b") == model.AttributeValue(1, "b", INT)
    assert selected("s=S<2> -> T", "s[1]#F.a") == model.AttributeValue(0, "a", INT, EventIndex(1))


@pytest.mark.parametrize(
    "side", ["S[S.a > 1]", "S[a > 1]", "S#window.sort(2, S.a)", "S[s is null]", "S[Tb.a == s.a in Tb]"]
)
def test_in_front_of_an_alias_a_stream_is_known_by_its_own_name(side: str) -> None:
    table = "define table Tb (a int);"
    analyse(parse(f"{DEFINITIONS} {table} from {side} as s join T as t on s.a == t.b select s.a insert into O;"))


@pytest.mark.parametrize("side", ["S[s.a > 1]", "S#window.sort(2, s.a)", "S[S.a is null]#pol2Cart(1.0 * s.a, 1.0)"])
def test_in_front_of_an_alias_the_alias_is_not_known(side: str) -> None:
    with pytest.raises(SiddhiAnalysisError, match="unknown-reference"):
        analyse(parse(f"{DEFINITIONS} from {side} as s join T as t on s.a == t.b select s.a insert into O;"))


@pytest.mark.parametrize(
    "query",
    [
        "from S select eventTimestamp(S) as x insert into O;",
        "from S[eventTimestamp(S) > 1L] select a insert into O;",
        "partition with (eventTimestamp(S) of S) begin from S select a insert into O; end;",
    ],
)
def test_one_input_alone_gives_calls_no_event(query: str) -> None:
    with pytest.raises(SiddhiAnalysisError, match="unknown-attribute"):
        analyse(parse(DEFINITIONS.replace(", S int", "") + query))


@pytest.mark.parametrize("source", ["S as s join T as t", "every s=S", "s=S -> t=T"])
def test_joins_and_patterns_give_calls_their_events(source: str) -> None:
    call = selected(source, "eventTimestamp(s)")
    assert isinstance(call, model.Call)
    assert call.arguments == (model.EventReference(0),)


def test_having_and_order_by_know_the_output_by_name_behind_one_input_only() -> None:
    behind = "select {0}a as x having O.x > 1 order by O.x insert into O;"
    analyse(parse(f"{DEFINITIONS} from S {behind.format('')}"))
    for source in ("S as s join T as t", "s=S -> t=T"):
        with pytest.raises(SiddhiAnalysisError, match="unknown-reference"):
            analyse(parse(f"{DEFINITIONS} from {source} {behind.format('s.')}"))
