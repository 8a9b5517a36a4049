"""Queries that run together, the inputs and outputs of groups, and how instances share their inputs."""

from __future__ import annotations

import pytest

from query_plan.builder import build
from query_plan.model import QueryPlan, stage_app
from siddhi.analysis.analyser import analyse
from siddhi.analysis.model import AnalysedPartition
from siddhi.language import ast
from siddhi.language.parser import parse

STREAMS = """@Plan:name('P')
@Import('A:1.0.0') define stream A (k string, v int);
@Import('C:1.0.0') define stream C (k string, v int);
@Export('B:1.0.0') define stream B (k string, v int);
"""


def planned(queries: str, header: str = STREAMS) -> QueryPlan:
    return build(analyse(parse(header + queries)))


def names(plan: QueryPlan) -> list[str]:
    return [stage.name for stage in plan.processors]


def ins(plan: QueryPlan, stage: str) -> list[str]:
    return [one.stream.id for one in plan.processor(stage).inputs]


def outs(plan: QueryPlan, stage: str) -> list[str]:
    return [one.id for one in plan.processor(stage).outputs]


def groupings(plan: QueryPlan, stage: str) -> dict[str, str]:
    return {
        one.stream.id: one.grouping.kind.value + (f"({one.grouping.key})" if one.grouping.key else "")
        for one in plan.processor(stage).inputs
    }


def test_a_plan_without_dist_is_one_group_named_like_the_plan() -> None:
    plan = planned("@name('x') from A select * insert into M; from M#window.length(2) select k, v insert into B;")
    assert names(plan) == ["P"]
    assert ins(plan, "P") == ["A"]
    assert outs(plan, "P") == ["B"]


def test_in_a_plan_with_dist_each_query_without_exec_group_is_a_group_of_its_own_in_text_order() -> None:
    plan = planned("""
        from A[v > 1] select * insert into M;
        @info(name='second') @dist(parallel='2') from M[v > 2] select * insert into N;
        @name('third') from N select * insert into B;
    """)
    assert names(plan) == ["A_to_M", "second", "third"]
    assert [stage.parallel for stage in plan.processors] == [1, 2, 1]


def test_members_of_a_group_run_in_text_order_and_what_only_they_use_stays_inside() -> None:
    plan = planned("""
        @info(name='one') @dist(execGroup='g') from A select * insert into M;
        @info(name='two') @dist(execGroup='h') from C select * insert into N;
        @info(name='three') @dist(execGroup='g') from M#window.length(2) select k, v insert into O;
        @info(name='four') @dist(execGroup='h') from O join N#window.length(1) on O.k == N.k
          select O.k as k, N.v as v insert into B;
    """)
    assert names(plan) == ["g", "h"]
    assert (ins(plan, "g"), outs(plan, "g")) == (["A"], ["O"])
    assert (ins(plan, "h"), outs(plan, "h")) == (["C", "O"], ["B"])
    assert [query.annotations[0].value("name") for query in plan.processor("g").elements] == ["one", "three"]


def test_neither_an_edit_nor_a_new_query_renames_the_others() -> None:
    first = "@dist(parallel='2') from A select * insert into B;"
    edited = "@dist(parallel='2') from A[v < 9] select k, v insert into B;"
    last = "from C[v > 1] select * insert into B;"
    assert names(planned(first + last)) == ["A_to_B", "C_to_B"]
    assert names(planned(edited + last)) == ["A_to_B", "C_to_B"]
    between = "from C select * insert into M; from M select * insert into B;"
    assert names(planned(first + between + last)) == ["A_to_B", "C_to_M", "M_to_B", "C_to_B"]


def test_names_of_one_place_are_numbered_and_never_take_a_name_that_the_plan_gives() -> None:
    plan = planned("""
        @dist(parallel='2') from A select * insert into B;
        from A[v > 1] select * insert into B;
        @info(name='A_to_B_2') from C select * insert into B;
    """)
    assert names(plan) == ["A_to_B", "A_to_B_3", "A_to_B_2"]


def test_inputs_stand_in_order_of_definition_whatever_the_query_reads_first() -> None:
    plan = planned("from every e1=C -> e2=A select e1.k as k, e2.v as v insert into B;")
    assert ins(plan, "P") == ["A", "C"]


def test_queries_that_share_a_table_are_brought_together() -> None:
    plan = planned(
        """@dist(parallel='2') from A[v > 1] select * insert into M;
        @name('fill') from M select * insert into T;
        @name('look') from C join T on C.k == T.k select C.k as k, T.v as v insert into B;""",
        STREAMS + "define table T (k string, v int);",
    )
    assert names(plan) == ["A_to_M", "fill"]
    assert [table.id for table in plan.processor("fill").tables] == ["T"]
    assert plan.processor("fill").enforce_parallel
    assert not plan.processor("A_to_M").enforce_parallel


def test_a_query_without_exec_group_joins_the_group_that_uses_its_table() -> None:
    plan = planned(
        """@name('fill') from A select * insert into T;
        @dist(execGroup='g') from C join T on C.k == T.k select C.k as k, T.v as v insert into B;""",
        STREAMS + "define table T (k string, v int);",
    )
    assert names(plan) == ["g"]


def test_a_table_that_asks_for_a_store_has_one_owner_like_any_other() -> None:
    plan = planned(
        """@dist(parallel='2') from A select * insert into M;
        from M select * insert into T;
        @dist(execGroup='g') from C join T on C.k == T.k select C.k as k, T.v as v insert into B;""",
        STREAMS + "@store(type='rdbms', datasource='D') define table T (k string, v int);",
    )
    assert [[table.id for table in stage.tables] for stage in plan.processors] == [[], ["T"]]


def test_a_loop_of_queries_without_exec_group_is_one_group() -> None:
    plan = planned("""
        @dist(parallel='2') from C select * insert into B;
        @name('start') from A select * insert into M;
        @name('forth') from M[v > 0] select k, v - 1 as v insert into N;
        @name('back') from N select * insert into M;
        @name('end') from N select * insert into B;
    """)
    assert names(plan) == ["C_to_B", "start", "forth", "end"]
    assert ins(plan, "forth") == ["M"]
    assert outs(plan, "forth") == ["N"]


def test_a_stream_that_a_group_receives_and_writes_for_itself_keeps_both_kinds_of_events() -> None:
    plan = planned("""
        @dist(execGroup='g') from A select * insert into M;
        @dist(execGroup='h') from C select * insert into M;
        @dist(execGroup='h') from M#window.length(2) select k, v insert into B;
    """)
    assert ins(plan, "h") == ["C", "M"]
    assert outs(plan, "h") == ["B"]
    assert ("g", "M", "h") in [(link.producer, link.stream, link.consumer) for link in plan.links()]
    assert all(link.producer != link.consumer for link in plan.links())


def test_streams_that_are_imported_and_written_come_from_both() -> None:
    plan = planned("""
        @dist(execGroup='g') from A select * insert into C;
        @dist(execGroup='h') from C#window.length(2) select k, v insert into B;
    """)
    assert plan.producers("C") == ("EventReceiver", "g")


BY_K = "partition with (k of A) begin from A select * insert into B; end;"
BY_V = "partition with (v of A) begin from A select * insert into B; end;"


def by_k(window: str) -> str:
    return f"partition with (k of A) begin from A#window.{window} select k, v insert into B; end;"


MATCH = "from every e1=A -> e2=C select e1.k as k, e2.v as v insert into B;"


@pytest.mark.parametrize(
    ("queries", "grouping", "enforced"),
    [
        ("from A[v > 1] select * insert into B;", {"A": "shuffle"}, False),
        ("from A#window.length(2) select k, v insert into B;", {"A": "global"}, True),
        ("from A select k, max(v) as v insert into B; from C insert into B;", {"A": "global", "C": "shuffle"}, True),
        (BY_K, {"A": "fields(k)"}, False),
        (f"partition with (k of A) begin {MATCH} end;", {"A": "fields(k)", "C": "all"}, False),
        (f"partition with (k of A, v of C) begin {MATCH} end;", {"A": "fields(k)", "C": "fields(v)"}, False),
        ("partition with (v % 2 of A) begin from A select * insert into B; end;", {"A": "expression"}, False),
        ("partition with (v > 2 as 'x' or v < 2 as 'y' of A) begin from A insert into B; end;", {"A": "ranges"}, False),
        (f"{BY_K} from A select k, max(v) as v group by k insert into B;", {"A": "fields(k)"}, False),
        (f"{BY_K} from A select k, v group by k having max(v) > 0 insert into B;", {"A": "global"}, True),
        ("from A select k, max(v) as v group by k insert into B;", {"A": "global"}, True),
        (f"from A[v > 1] select * insert into B; {BY_K}", {"A": "fields(k)"}, False),
        (f"{BY_K} {BY_V}", {"A": "global"}, True),
        (by_k("expression('count() < 3')"), {"A": "fields(k)"}, True),
        (by_k("expressionBatch(k)"), {"A": "fields(k)"}, True),
        (by_k("expression('last.v - first.v < 3')"), {"A": "fields(k)"}, False),
    ],
)  # fmt: skip
def test_readers_decide_how_instances_share_a_stream(queries: str, grouping: dict[str, str], enforced: bool) -> None:
    plan = planned(queries)
    assert groupings(plan, "P") == grouping
    assert plan.processor("P").enforce_parallel is enforced


def test_triggers_fire_once_for_the_plan_and_are_plain_streams_in_stages() -> None:
    plan = planned(
        """@dist(execGroup='g') from Tick select 'g' as k, 1 as v insert into B;
        @dist(execGroup='h', parallel='2') from Tick select 'h' as k, 2 as v insert into B;""",
        STREAMS + "define trigger Tick at every 500 millisec;",
    )
    assert [trigger.name for trigger in plan.triggers] == ["Tick"]
    assert ins(plan, "g") == ins(plan, "h") == ["Tick"]
    assert not any(isinstance(one, ast.TriggerDefinition) for one in stage_app(plan, plan.processor("g")).definitions)


def test_queries_keep_their_names_inside_their_stage() -> None:
    plan = planned("""
        from A select * insert into B;
        @dist(execGroup='late') from C select * insert into B;
        partition with (k of A) begin from A select * insert into #I; from #I select * insert into B; end;
    """)
    late = analyse(stage_app(plan, plan.processor("late")))
    assert [element.name for element in late.elements] == ["C_to_B"]
    (partition,) = analyse(stage_app(plan, plan.processor("A_by_k"))).elements
    assert isinstance(partition, AnalysedPartition)
    assert [query.name for query in partition.queries] == ["A_by_k.A_to_I", "A_by_k.I_to_B"]


def test_parallelism_of_receiver_publisher_and_workers_comes_from_the_header() -> None:
    header = "@Plan:dist(receiverParallelism='2', publisherParallelism='3', workers='4')\n" + STREAMS
    plan = planned("from A select * insert into B;", header)
    assert (plan.receiver.parallel, plan.publisher.parallel, plan.workers) == (2, 3, 4)
