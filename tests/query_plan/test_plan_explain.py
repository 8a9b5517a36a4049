"""Explanations of query plans, and hints about slow parts."""

from __future__ import annotations

from pathlib import Path

import pytest
from write_golden import EXPLAINED

from query_plan.builder import build
from query_plan.explain import explain
from query_plan.hints import hints
from query_plan.xml import read_xml
from siddhi.analysis.analyser import analyse
from siddhi.language.parser import parse

GOLDEN = Path(__file__).parent / "golden"
STREAMS = """@Import('A:1.0.0') define stream A (k string, v int);
@Import('C:1.0.0') define stream C (k string, v int);
@Export('B:1.0.0') define stream B (k string, v int);
"""
FILTER = "@info(name='filter') @dist(parallel='3') from A[v > 0] select k, v insert into M;"
AFTER = "@info(name='after') @dist(parallel='2') from N[v > 0] select k, v insert into B;"


@pytest.mark.parametrize("name", EXPLAINED)
def test_the_words_name_every_stage_and_how_it_is_fed(name: str) -> None:
    words = explain(read_xml((GOLDEN / f"{name}.xml").read_text(encoding="utf-8")))
    assert words + "\n" == (GOLDEN / f"{name}.txt").read_text(encoding="utf-8")


def hinted(queries: str, header: str = "") -> list[tuple[str, str]]:
    plan = build(analyse(parse(f"@Plan:name('P') {header} {STREAMS} {queries}")))
    return [(hint.message, hint.change) for hint in hints(plan)]


@pytest.mark.parametrize(
    ("middle", "change"),
    [
        (
            "from M#window.length(5) select k, v insert into N;",
            "put its queries into a partition by their key, with @dist(parallel='3')",
        ),
        ("from M select k, v insert into N;", "write @dist(parallel='3') on it: its queries keep no state"),
        (
            "from M select k, v insert into T; from M[(k == T.k) in T] select k, v insert into N;",
            "move queries that do not use T into execution groups of their own",
        ),
    ],
)
def test_one_instance_in_a_parallel_chain_is_a_hot_spot(middle: str, change: str) -> None:
    queries = f"define table T (k string, v int); {FILTER} @dist(execGroup='core') " + middle + AFTER
    assert hinted(queries) == [("hot spot: core has one instance between filter and after", change)]


def test_every_stage_of_one_instance_in_a_chain_is_told_of_not_only_neighbours_of_parallel_ones() -> None:
    chain = "@name('x') from M#window.length(5) select k, v insert into O; @name('y') from O select k, v insert into N;"
    found = [message for message, _ in hinted(FILTER + chain + AFTER)]
    assert found[:2] == [f"hot spot: {name} has one instance between filter and after" for name in "xy"]


def test_a_stream_that_every_instance_gets_is_told_of() -> None:
    partition = """@name('p') @dist(parallel='4') partition with (k of A) begin
    from every a=A -> c=C select a.k as k, c.v as v insert into B; end;"""
    assert hinted(partition) == [
        (
            "broadcast: every event of C goes to all 4 instances of p",
            "if its events have the partition's key, name it in 'partition with (… of C)'",
        )
    ]


SAME_KEY = """@name('p') @dist(parallel='2') partition with (k of A) begin from A select k, v insert into M; end;
@name('q') @dist(parallel='2') partition with (k of M) begin from M#window.length(2) select k, v insert into B; end;"""
ONE_BY_ONE = """@name('p') @dist(execGroup='p') from A#window.length(5) select k, v insert into M;
@name('q') @dist(execGroup='q') from M#window.length(2) select k, v insert into B;"""


def test_stages_that_could_be_one_are_told_of_where_the_plan_may_have_several_slots() -> None:
    assert hinted(SAME_KEY) == [
        (
            "between slots: p and q both distribute events by k, one after the other",
            "put the queries of both into one partition, with #M between them",
        )
    ]
    assert hinted(ONE_BY_ONE, "@Plan:dist(workers='2')") == [
        (
            "between slots: q reads only from p, one instance each",
            "give both the same execGroup: then M stays in one engine",
        )
    ]
    assert hinted(ONE_BY_ONE, "@Plan:dist(workers='1')") == []


def test_publishers_that_nobody_would_feed_are_told_of() -> None:
    three = "@Plan:dist(publisherParallelism='3')"
    one = "@dist(parallel='2') from A select k, v insert into B;"
    message = "idle: EventPublisher has 3 instances, but results come from {}, each of which keeps to one publisher"
    assert hinted(one, three) == [(message.format("1 instance"), "write publisherParallelism='1'")]
    two = "@dist(parallel='2') partition with (k of A) begin from A select k, v insert into B; end;"
    assert hinted(two, three) == [(message.format("2 instances"), "write publisherParallelism='2'")]
    assert hinted(two + "from C select k, v insert into B;", three) == []
