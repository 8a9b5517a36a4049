"""Random apps and events: the same for the same seed, a planted fault is found and made small, and no way of playing
them changes the engine's answers."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import pytest

from siddhi.analysis.analyser import analyse
from siddhi.engine.fast_path.path import FastPath
from siddhi.engine.operators.patterns.chain.operator import ChainOperator
from siddhi.engine.operators.patterns.compiled.operator import CompiledMachineOperator
from siddhi.errors import SiddhiError
from siddhi.language.parser import parse
from siddhi.testing import Case, run_case
from tools.differential.cases import EVENTS_OF_ONE_APP, RandomCase, random_case
from tools.differential.draw import optional, optional_parts, plain
from tools.differential.known import KNOWN, reason_for
from tools.differential.minimise import minimise
from tools.differential.reference import slow_forms
from tools.differential.run import DifferentialRun
from tools.differential.variants import VARIANTS, as_case, changed_answers, own_answers, told

SEED = 28
STEP = EVENTS_OF_ONE_APP // 2
"""Every fifth case, so that each app is played with two lists of events."""
CASES = [
    *range(0, 40 * STEP, STEP),
    *(pytest.param(number, marks=pytest.mark.cluster) for number in range(40 * STEP, 120 * STEP, STEP)),
]


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Failing events are part of the apps, and not worth a line of the log each."""
    logging.disable(logging.ERROR)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.thorough
@pytest.mark.parametrize("number", CASES)
def test_no_way_of_playing_a_random_case_changes_the_answers(number: int) -> None:
    found = list(DifferentialRun(SEED, None, shrink=1).play(number))
    assert [(one.against, one.differences, told(one.document())) for one in found] == []


def test_a_seed_gives_the_same_cases_everywhere() -> None:
    cases = [random_case(1, number, peer=True) for number in range(40)]
    assert cases == [random_case(1, number, peer=True) for number in range(40)]
    assert len({case.template for case in cases}) == 40 / EVENTS_OF_ONE_APP
    assert len({json.dumps(case.events) for case in cases}) == 40


def test_most_apps_are_accepted_and_all_kinds_are_among_them() -> None:
    cases = [random_case(2, EVENTS_OF_ONE_APP * number, peer=False) for number in range(150)]
    kinds: Counter[str] = Counter()
    for case in cases:
        try:
            analyse(parse(case.document()["app"]))
        except SiddhiError:
            kinds["refused"] += 1
        else:
            kinds.update(kind.split(".")[0] for kind in case.kinds)
    assert kinds["refused"] < 30
    expected = {"filter", "window", "join", "table", "named-window", "pattern", "sequence", "partition", "aggregation"}
    assert expected | {"trigger", "failing"} <= set(kinds)


def test_parts_may_be_left_out_and_leave_no_marks() -> None:
    inside = optional(" and b")
    template = f"from S{optional(f'[i > 1{inside}]')} select i"
    (outer, inner) = optional_parts(template)
    assert plain(template) == "from S[i > 1 and b] select i"
    assert plain(template[: outer[0]] + template[outer[1] :]) == "from S select i"
    assert plain(template[: inner[0]] + template[inner[1] :]) == "from S[i > 1] select i"


def test_the_reference_uses_neither_compiled_patterns_nor_fast_paths() -> None:
    document = _case(
        "from every e1=S -> e2=S[i > e1.i] select e1.i as a, e2.i as b insert into O;", [1, 2, 3]
    ).document()
    fast = (
        patch.object(kind, "process", side_effect=AssertionError) for kind in (ChainOperator, CompiledMachineOperator)
    )
    with next(fast), next(fast), slow_forms():
        answers = own_answers(document)
    assert answers == own_answers(document)
    with patch.object(FastPath, "run", side_effect=AssertionError), slow_forms():
        assert run_case(as_case(document, answers), 1).passed


def _case(query: str, values: list[int]) -> RandomCase:
    events = [{"stream": "S", "timestamp": 1000 + place, "data": [value]} for place, value in enumerate(values)]
    template = f"@app:playback\ndefine stream S (i int);\n{query}"
    kinds = frozenset({"filter"})
    return RandomCase("planted", template, events, ("O", "P"), (), 1000, failing=False, late=False, kinds=kinds)


def test_a_planted_fault_is_found_and_made_small() -> None:
    queries = (
        optional("from S select i as x insert into P;") + f"from S{optional('[i > 0]')} select i{optional(' + 0')} as x"
    )
    case = _case(f"{queries} insert into O;", [1, 2, 3, 7, 4, 5, 6, 8])

    def faulty(played: Case, rows: int | None, between: object = None) -> list[str]:
        """Loses sevens when events come one by one."""
        expected = played.document["expect"]["streams"].get("O", [])
        return (
            ["a seven is lost"]
            if rows == 1 and between is None and any(values == [7] for _, values in expected)
            else []
        )

    with patch("tools.differential.variants._played", faulty):
        found = {name for name, _ in changed_answers(case.document(), list(VARIANTS))}
        assert found == {"one event a batch", "no fast paths", "slow reference, one event a batch"}
        small = minimise(case, lambda one: any(changed_answers(one.document(), ["one event a batch"])))
    assert plain(small.template).splitlines()[-1] == "from S select i as x insert into O;"
    assert [event["data"] for event in small.events] == [[7]]


def test_known_differences_are_those_of_the_table() -> None:
    page = (Path(__file__).parents[2] / "docs" / "siddhiql" / "differences.md").read_text(encoding="utf-8")
    assert {known.name for known in KNOWN if known.in_table and f"\n| {known.name} |" not in page} == set()
    assert all(known.reason for known in KNOWN)


def test_a_known_difference_is_found_by_what_the_app_has() -> None:
    joins = _case("from S#window.lengthBatch(2) join S as b select b.i as x insert into O;", [1]).document()
    known = reason_for(joins)
    assert known is not None
    assert known.name == "joined-batches-end"
    assert reason_for(_case("from S#window.lengthBatch(2) select i as x insert into O;", [1]).document()) is None


@pytest.mark.parametrize(("table", "known"), [("", True), ("@Index('i')\n", False)])
def test_deletions_on_demand_are_known_to_lose_rows_of_plain_tables(table: str, known: bool) -> None:
    document = _case("from S select i insert into Kept;", [1]).document()
    app = document["app"].replace("define stream S", f"{table}define table Kept (i int);\ndefine stream S")
    deletion = {"query": "select 1 as i delete Kept on Kept.i == i"}
    found = reason_for({**document, "app": app, "events": [*document["events"], deletion]})
    assert (found is not None and found.name == "deleted-last-row") == known


@pytest.mark.parametrize(("value", "known"), [("f", True), ("(l + f)", True), ("(l + p)", False)])
def test_texts_of_floats_are_known_to_differ_with_java(value: str, known: bool) -> None:
    found = reason_for(_case(f"from S select convert({value}, 'string') as x insert into O;", [1]).document())
    assert (found is not None and found.name == "float-as-text") == known


def test_what_is_found_is_a_case_that_can_be_played() -> None:
    case = _case("from S select convert('NaN', 'double') + i as x insert into O;", [1])
    line = told({**case.document(), "expect": own_answers(case.document())})
    document = json.loads(line)
    assert document["expect"]["streams"] == {"O": [[1000, ["NaN"]]]}
    assert run_case(Case(document["id"], document["feature"], document["app"], document)).passed


def test_silences_of_chunks_are_a_known_difference_only_behind_a_window_or_rate() -> None:
    streams = "define stream S (k int); define stream T (k int); "
    silence = f"{streams}from every e=S -> not T for 1 sec select e.k as k insert into M; "
    rows = [{"timestamp": 1000, "data": [1]}, {"timestamp": 5000, "data": [2]}]
    plain, delayed = (
        silence + "from M select k insert into O;",
        silence + "from M#window.delay(1000) select k insert into O;",
    )
    chunk, alone = [{"stream": "S", "batch": rows}], [{"stream": "S", **row} for row in rows]
    known = reason_for({"app": delayed, "events": chunk})
    assert known is not None
    assert known.name == "silences-end-with-their-chunk"
    assert reason_for({"app": plain, "events": chunk}) is None
    assert reason_for({"app": delayed, "events": alone}) is None


@pytest.mark.parametrize(
    ("machine", "known"),
    [
        ("every e1=S*, not T for 1 sec", "silences-begin-with-their-attempt"),
        ("e1=S[k > 2]<0:1> -> not T for 1 sec", "silences-begin-with-their-attempt"),
        ("e1=S<0:1> -> not T for 1 sec or e2=S", "silences-keep-their-timers"),
        ("e1=S<1:2> -> not T for 1 sec", "silences-keep-their-timers"),
        ("e1=S -> not T for 1 sec", None),
    ],
)
def test_silences_behind_optional_elements_are_a_known_difference(machine: str, known: str | None) -> None:
    app = f"define stream S (k int); define stream T (k int); from {machine} select e1.k as k insert into O;"
    found = reason_for({"app": app, "events": []})
    assert (None if found is None else found.name) == known


def test_chunks_of_partitions_are_a_known_difference_only_where_the_output_is_read() -> None:
    streams = "define stream S (k int); define stream T (k int); "
    inside = f"{streams}partition with (k of S) begin from S select k insert into M; end; "
    behind = inside + "from M select k insert into O;"
    rows = [{"timestamp": 1000, "data": [1]}, {"timestamp": 1000, "data": [2]}]
    chunk, alone = [{"stream": "S", "batch": rows}], [{"stream": "S", **row} for row in rows]
    known = reason_for({"app": behind, "events": chunk})
    assert known is not None
    assert known.name == "partitions-hand-on-all"
    assert reason_for({"app": inside, "events": chunk}) is None
    assert reason_for({"app": behind, "events": alone}) is None
    assert reason_for({"app": behind, "events": [{**chunk[0], "stream": "T"}]}) is None


def test_chunks_for_partitions_are_a_known_difference_only_where_others_read_them() -> None:
    query = "define stream S (k int); from S select k insert into M; "
    app = query + "partition with (k of M) begin from M select k insert into O; end; "
    other, listen = "from M select k insert into P;", {"streams": ["M"], "queries": []}
    for document in ({"app": app + other, "events": []}, {"app": app, "events": [], "listen": listen}):
        known = reason_for(document)
        assert known is not None
        assert known.name == "partitions-leave-chunks-whole"
    assert reason_for({"app": app, "events": [], "listen": {"streams": ["O"], "queries": []}}) is None
    assert reason_for({"app": app.replace("k of M", "k of S"), "events": [], "listen": listen}) is None
