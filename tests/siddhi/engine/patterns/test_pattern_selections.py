"""The selection of a pattern's elements, and the matches that leave a query together."""

from __future__ import annotations

from typing import Any

import pytest

from siddhi.analysis.analyser import analyse
from siddhi.errors import SiddhiError
from siddhi.language.parser import parse
from siddhi.testing import Case, run_case

DEFINE = """
@app:playback
define stream A (k string, v int);
define stream X (a int, b string);
define stream Y (c int);
"""


def check(query: str, rows: list[tuple[str, int, list[Any]]], out: list[Any], schema: list[list[str]]) -> None:
    """Check that stream `Out` of `query` has `out` for these events (stream, time, data)."""
    document = {
        "id": "case",
        "app": DEFINE + query,
        "events": [{"stream": stream, "timestamp": time, "data": data} for stream, time, data in rows],
        "listen": {"streams": ["Out"], "queries": []},
        "expect": {"streams": {"Out": out}, "queries": {}, "schemas": {"Out": schema}},
    }
    assert run_case(Case("case", "", DEFINE + query, document)).differences == ()


TWO_AND_ONE = [("X", 100, [1, "a"]), ("X", 110, [2, "b"]), ("Y", 120, [3])]


@pytest.mark.parametrize(
    ("query", "values", "schema"),
    [
        ("e1=X<2> -> e2=Y select *", [1, "a", 3], [["a", "int"], ["b", "string"], ["c", "int"]]),
        ("e1=X<2> -> e2=Y select a, e1.a as all", [1, [1, 2]], [["a", "int"], ["all", "object"]]),
        ("X<2> -> Y select X.a as a, X[last].a as last", [1, 2], [["a", "int"], ["last", "int"]]),
        ("e1=X<2> -> e2=Y select sum(a) as n", [1], [["n", "long"]]),
        ("e1=X<2> -> e2=Y select c having e1.b == 'a'", [3], [["c", "int"]]),
        ("e1=X<2> -> e2=Y select eventTimestamp(e1) as t", [100], [["t", "long"]]),
        ("e1=X<2> -> e2=A<0:1> -> e3=Y select e2.k as k", [[]], [["k", "object"]]),
        ("X<2> -> Y[X.a == 2] select c", [3], [["c", "int"]]),
    ],
)
def test_a_reference_to_a_counted_element_means_what_it_means_in_siddhi(
    query: str, values: list[Any], schema: list[list[str]]
) -> None:
    check(f"from {query} insert into Out;", TWO_AND_ONE, [[120, values]], schema)


def test_a_star_gives_the_right_side_of_a_pair_first() -> None:
    rows = [("X", 100, [1, "a"]), ("Y", 110, [2])]
    check(
        "from e1=X and e2=Y select * insert into Out;",
        rows,
        [[110, [2, 1, "a"]]],
        [["c", "int"], ["a", "int"], ["b", "string"]],
    )


def test_a_name_alone_in_a_filter_is_an_attribute_of_its_own_element() -> None:
    with pytest.raises(SiddhiError) as caught:
        analyse(parse(f"{DEFINE} from e1=A -> e2=X[a > v] select e1.v as v insert into Out;"))
    (problem,) = caught.value.problems
    assert problem.code == "unknown-attribute"
    assert problem.hint == "write 'e1.v'"


@pytest.mark.parametrize(
    ("pattern", "rows", "counts"),
    [
        # A stream that feeds several elements: matches of one element leave as one chunk.
        (
            "every e1=A[v < 5] -> e2=A[v > 10] and e3=Y",
            [("A", 100, ["k", 1]), ("A", 110, ["k", 2]), ("Y", 120, [1]), ("A", 130, ["k", 11])],
            [2],
        ),
        (
            "every e1=A[v < 5] -> e2=A[v > 10] and e3=Y",
            [("A", 100, ["k", 1]), ("A", 110, ["k", 2]), ("A", 120, ["k", 11]), ("Y", 130, [1])],
            [1, 2],
        ),
        (
            "every e1=A[v < 5] -> e2=A[v > 10 and e1.v == 1] or e3=A[v > 10 and e1.v == 2]",
            [("A", 100, ["k", 1]), ("A", 110, ["k", 2]), ("A", 130, ["k", 11])],
            [1, 2],
        ),
    ],
)
def test_matches_leave_together_by_the_element_that_completes_them(
    pattern: str, rows: list[tuple[str, int, list[Any]]], counts: list[int]
) -> None:
    query = f"from {pattern} select e1.v as v insert into M;"
    check(
        query + "from M select count() as n insert into Out;",
        rows,
        [[130, [count]] for count in counts],
        [["n", "long"]],
    )


@pytest.mark.parametrize(
    ("query", "rows", "out", "schema"),
    [
        # The name of an event comes before that of an attribute, and vice versa with a dot.
        (
            "from every v=A -> e2=A[v > v.v] select v is null as n, v.v as first insert into Out;",
            [("A", 100, ["k", 1]), ("A", 110, ["k", 2])],
            [[110, [False, 1]]],
            [["n", "bool"], ["first", "int"]],
        ),
        ("from X[X is null] select a insert into Out;", [("X", 100, [1, "a"])], [], [["a", "int"]]),
        # `#f.a` is a function, which is ignored, if there is no such inner stream.
        ("from X[#f.a > 0] select #f.a insert into Out;", [("X", 100, [1, "a"])], [[100, [1]]], [["a", "int"]]),
    ],
)
def test_a_name_that_could_be_two_things_is_what_it_is_in_siddhi(
    query: str, rows: list[tuple[str, int, list[Any]]], out: list[Any], schema: list[list[str]]
) -> None:
    check(query, rows, out, schema)


def test_a_match_fails_that_is_asked_for_the_time_of_an_event_it_does_not_have() -> None:
    rows = [("X", 100, [1, "a"]), ("Y", 110, [2]), ("A", 120, ["k", 3])]
    query = "from every e1=X or e2=Y -> e3=A select eventTimestamp(e1) as t insert into Out;"
    check(query, rows, [[120, [100]]], [["t", "long"]])


def test_events_of_one_moment_are_grouped_by_what_the_query_reads_of_them() -> None:
    rows = [("X", 100, [1, "a"]), ("X", 100, [2, "a"]), ("X", 100, [1, "b"]), ("Y", 110, [2]), ("Y", 120, [3])]
    query = "from every e1=X -> every e2=Y select e1.a as a, count() as n group by e1 insert into Out;"
    out = [[110, [1, 1]], [110, [2, 1]], [110, [1, 2]], [120, [1, 3]], [120, [2, 2]], [120, [1, 4]]]
    check(query, rows, out, [["a", "int"], ["n", "long"]])
