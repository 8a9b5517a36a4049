"""A group with shared state in many instances, after failures, and beside a rule that is divided by key."""

from __future__ import annotations

from collections import Counter

import pytest
from in_process_topology import InProcessTopology
from test_shared_state import BODIES, SHARED, batch, events, feed, plan_of, run

from query_plan.builder import build
from query_plan.xml import write_xml
from siddhi.analysis.analyser import analyse
from siddhi.language.parser import parse
from topology.stages.settings import StageSettings
from topology.stages.state.restoring import initial_states

ALONE = "@dist(execGroup='g')"
SEED = 7
EVERY = 6
"""Checkpoints are tried after every sixth event."""


@pytest.fixture
def settings() -> StageSettings:
    return StageSettings(host="127.0.0.1", first_port=20000, last_port=60000, window_rows=1_000, idle_ms=60_000)


@pytest.mark.parametrize("instances", [5, 8])
def test_many_instances_answer_as_one_engine_and_several_of_them_give_results(
    instances: int, settings: StageSettings
) -> None:
    alone = run(plan_of(BODIES["sequence"], ALONE, ""), SEED, settings, by_clock=True)
    plan = plan_of(BODIES["sequence"], SHARED.replace("3", str(instances)), "")
    shared = run(plan, SEED, settings, by_clock=True)
    states = [state["engine"] for name, state in shared.snapshot().items() if name.startswith("g#")]
    assert alone.out
    assert [row[1:] for _, row in shared.out] == [row[1:] for _, row in alone.out]
    assert (len(states), len(set(states))) == (instances, 1)
    assert len(set(shared.givers)) > 1


@pytest.mark.parametrize("kind", ["sequence", "pattern", "groups"])
def test_after_a_failure_the_results_behind_the_checkpoint_come_again_and_no_others(
    kind: str, settings: StageSettings
) -> None:
    """One run fails at its last event, whatever it had given since its checkpoint; another begins from that."""
    made = events(SEED)
    alone = run(plan_of(BODIES[kind], ALONE, ""), SEED, settings, by_clock=True)
    expected = [row[1:] for _, row in alone.out]
    given_again = 0
    for kept in range(EVERY, len(made), EVERY):
        failed = InProcessTopology(plan_of(BODIES[kind], SHARED, ""), settings)
        feed(failed, made[:kept])
        checkpoint, complete = failed.snapshot(), len(failed.out)
        for name, now_ms, rows in made[kept : kept + EVERY]:
            failed.advance(now_ms)
            failed.send(name if name in failed.topology.streams else "A", batch(rows), now_ms)
        lost = [row[1:] for _, row in failed.out[complete:]]
        failed.close()
        again = InProcessTopology(plan_of(BODIES[kind], SHARED, ""), settings)
        begun = initial_states(again.topology, tuple(again.snapshot_names()), checkpoint, settings.scripts)
        assert begun.left == ()
        feed(again, made[kept:], begun.states)
        repeated = [row[1:] for _, row in again.out]
        assert [row[1:] for _, row in failed.out[:complete]] + repeated == expected
        assert repeated[: len(lost)] == lost
        given_again += len(lost)
    assert given_again, "no run had given anything since its checkpoint"


def test_a_rule_with_a_key_gives_the_same_with_shared_state_and_divided_by_key(settings: StageSettings) -> None:
    found = []
    for dist in (SHARED, "@dist(execGroup='g', parallel='3')"):
        text = f"""@app:name('P')
define stream A (id int, temp double, room string);
define stream B (id int, temp double, room string);
@sink(type='log') define stream Out (x double, y double);
{dist} partition with (room of A) begin
@info(name='q') {BODIES["sequence"]}
end;
"""
        topology = InProcessTopology(write_xml(build(analyse(parse(text)))), settings)
        feed(topology, [("A", now_ms, rows) for _, now_ms, rows in events(SEED)])
        found.append(Counter(row[1:] for _, row in topology.out))
    assert found[0] == found[1]
    assert found[0]
