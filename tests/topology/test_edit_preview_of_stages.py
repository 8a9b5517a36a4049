"""What an edit keeps is told as the stages of the edited plan would find it: after their groups and instances."""

import pytest

from query_plan.examination import examine
from query_plan.xml import write_xml
from siddhi.analysis.catalogue import builtin_registry
from siddhi.scripts.language import ScriptPolicy
from topology.edit_preview.messages import EditFates, EditRefused, EditRequest
from topology.edit_preview.run import run_preview

PLAN = """@Plan:name('P')
@Import('stS:1.0.0') define stream S (k string, v int);
@Export('stA:1.0.0') define stream A (k string, v long);
@Export('stB:1.0.0') define stream B (v long);
define table T (k string);
@dist(execGroup='one') @info(name='sums') from S#window.length(9) select k, sum(v) as v group by k insert into A;
@dist(execGroup='two') from S#window.length(8) select sum(v) as v insert into B;
@dist(execGroup='two') @info(name='plain') from S select k insert into T;
@dist(execGroup='three', parallel='4') @info(name='par') partition with (k of S)
  begin from S#window.length(3) select k, sum(v) as v insert into A; end;
"""


def query_plan(text: str) -> str:
    compiled = examine(text, builtin_registry(ScriptPolicy())).compiled
    assert compiled is not None
    return write_xml(compiled.plan)


def fates(edited: str, text: str = PLAN) -> dict[str, tuple[bool, str]]:
    answer = run_preview(EditRequest(query_plan(text), query_plan(edited)))
    assert isinstance(answer, EditFates)
    return {f"{one.stage} {one.kind} {one.name}": (one.kept, one.reason) for one in answer.parts}


KEPT = dict.fromkeys(
    (
        "one query sums",
        "two table T",
        "two query S_to_B",
        "three partition par",
        "three query par.S_to_A",
    ),
    (True, ""),
)


def test_the_same_text_keeps_everything() -> None:
    assert fates(PLAN) == KEPT


def test_what_moves_to_another_stage_is_reset() -> None:
    moved = PLAN.replace("@dist(execGroup='two') from", "@dist(execGroup='one') from")
    why = "it was in stage two and is in stage one now"
    assert fates(moved) == KEPT | {"two query S_to_B": (False, why)}


@pytest.mark.thorough
def test_a_stage_is_found_under_another_name_and_in_other_instances() -> None:
    renamed = PLAN.replace("execGroup='three', parallel='4'", "execGroup='drei', parallel='2'")
    assert fates(PLAN.replace("parallel='4'", "parallel='2'")) == KEPT
    lost = fates(renamed)
    gone = [part for part, (kept, _) in lost.items() if not kept]
    assert gone == [
        "three partition par",
        "three query par.S_to_A",
    ]
    assert fates(PLAN.replace("'three'", "'drei'")) == KEPT


OTHERWISE = (False, "its definition changed")
COMPUTED = (True, "its aggregates are computed from its rows")
OTHER_KEYS = (False, "the keys of its partition changed")


@pytest.mark.parametrize(
    ("before", "after", "reset"),
    [
        ("length(9)", "length(10)", {"one query sums": OTHERWISE}),
        ("define table T", "@PrimaryKey('k') define table T", {"two table T": OTHERWISE}),
        ("select k, sum(v) as v group by k", "select k, sum(v) as v group by k having v > 3L", {}),
        ("sum(v) as v group by k", "count() as v group by k", {"one query sums": COMPUTED}),
        ("(k of S)", "(v of S)", {"three partition par": OTHERWISE, "three query par.S_to_A": OTHER_KEYS}),
    ],
)
def test_what_is_defined_otherwise_is_reset(before: str, after: str, reset: dict[str, tuple[bool, str]]) -> None:
    assert fates(PLAN.replace(before, after)) == KEPT | reset


def test_a_query_that_is_gone_is_told_of() -> None:
    told = fates(PLAN.replace("@dist(execGroup='two') from S#window.length(8) select sum(v) as v insert into B;", ""))
    assert told["two query S_to_B"] == (False, "the app has nothing with that name")


def test_rows_in_databases_stay_there() -> None:
    stored = PLAN.replace("define table", "@store(type='rdbms', jdbc.url='jdbc:sqlite:/tmp/t.db') define table")
    assert fates(stored, stored)["two table T"] == (True, "its rows stay in their database")
    why = "its rows stay in a database that the text does not name"
    assert fates(PLAN, stored)["two table T"] == (False, why)
    assert fates(stored)["two table T"] == (False, "its rows are in a database from now on")


def test_a_plan_that_no_stage_can_run_is_refused_in_words() -> None:
    broken = query_plan(PLAN).replace("window.length", "window.nothing")
    answer = run_preview(EditRequest(query_plan(PLAN), broken))
    assert isinstance(answer, EditRefused)
    assert "nothing" in answer.message


SHARED = """@Plan:name('P')
@Import('stS:1.0.0') define stream S (k string, v int);
@Export('stA:1.0.0') define stream A (k string, v int);
{dist} @info(name='rise') from every e1=S, e2=S[e1.v < v] select e2.k, e2.v insert into A;
"""


@pytest.mark.parametrize(("before", "after"), [("3", "4"), ("3", "2"), ("", "3"), ("3", "")])
def test_a_shared_state_is_kept_in_other_numbers_of_instances(before: str, after: str) -> None:
    texts = [
        SHARED.format(dist=f"@dist(execGroup='g', parallel='{one}', state='shared')" if one else "@dist(execGroup='g')")
        for one in (before, after)
    ]
    told = fates(texts[1], texts[0])
    assert {name: kept for name, (kept, _) in told.items()} == {"g query rise": True}
