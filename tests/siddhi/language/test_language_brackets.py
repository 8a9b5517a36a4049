"""Brackets in patterns and sequences are allowed as in Siddhi's grammar, which has special rules for `not`."""

from __future__ import annotations

import pytest

from siddhi.errors import SiddhiParseError
from siddhi.language import ast
from siddhi.language.parser import parse, parse_query
from siddhi.language.printer import print_element

DEFINE = "define stream S (k int);"
NOT = "not S for 1 sec"


@pytest.mark.parametrize(
    "query",
    [
        "(a=S) -> b=S",
        "every (a=S) -> b=S",
        "(every a=S) -> b=S",
        "every ((a=S) -> b=S) -> c=S",
        "a=S -> every (b=S -> c=S)",
        f"({NOT})",
        f"every ({NOT} -> a=S)",
        f"a=S -> every ({NOT} -> b=S)",
        f"every (a=S -> {NOT}) -> b=S",
        f"every (every a=S -> {NOT})",
        f"({NOT} -> a=S) -> {NOT}",
        "every (not S and a=S) -> b=S",
        "every (not S and a=S), b=S",
        "a=S, (b=S, c=S)",
        "a=S, (b=S and c=S)",
        f"every (a=S, {NOT}), b=S",
        f"({NOT}), b=S",
        f"every a=S, ({NOT}, b=S), c=S",
        f"a=S, ({NOT})",
    ],
)
def test_brackets_group_what_siddhi_groups(query: str) -> None:
    parse(f"{DEFINE} from {query} select 1 as x insert into O")


@pytest.mark.parametrize(
    "query",
    [
        f"({NOT}) -> a=S",
        f"every ({NOT}) -> a=S",
        f"a=S -> ({NOT})",
        f"every ({NOT} -> a=S) -> b=S",
        f"a=S -> every (b=S -> {NOT})",
        "(a=S), b=S",
        "every (a=S), b=S",
        "(a=S, b=S), c=S",
        "(a=S, b=S)",
        "((a=S, b=S))",
        "every (a=S and b=S), c=S",
        f"a=S, ({NOT}), b=S",
    ],
)
def test_other_brackets_are_refused_as_siddhi_refuses_them(query: str) -> None:
    text = f"from {query} select 1 as x insert into O"
    with pytest.raises(SiddhiParseError) as caught:
        parse(f"{DEFINE} {text}")
    assert [problem.code for problem in caught.value.problems] == ["misplaced-brackets"]
    parse(f"@Plan:name('plan') {DEFINE} {text}")  # the 3.x dialect takes brackets anywhere


@pytest.mark.parametrize("text", ["(S)", "((S))", "(S[k > 1])", "(S) within 1 sec"])
def test_a_stream_in_brackets_is_a_pattern(text: str) -> None:
    query = parse_query(f"from {text} select k insert into O")
    assert isinstance(query.input, ast.StateInput)
    assert parse_query(print_element(query)) == query


def test_a_long_chain_of_brackets_is_read_in_time() -> None:
    chain = " -> ".join(f"(e{number}=S -> {NOT} -> f{number}=S)" for number in range(900))
    parse(f"{DEFINE} from {chain} select 1 as x insert into O")
