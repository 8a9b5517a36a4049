"""The table of a plan's states: every state × every signal, and what each observation means."""

import itertools

import msgspec
import pytest
from manager_world import topology

from cep_common.protocol.drivers import RunState
from cep_manager.plans.state import MOVES, Observation, PlanState, StateSignal, read_signal

RUNNING = Observation(
    unusable="", driver_missing="", report=topology("running"), tasks_live=2, tasks_required=2, silent_tasks=()
)
STATES = [state for state in PlanState if state is not PlanState.DEGRADED]
"""Those that are kept; a degraded plan is an active one."""
LIVING = [state for state in STATES if state is not PlanState.KILLED]


def test_the_table_has_every_signal_and_every_state() -> None:
    assert {(signal, state) for signal, moves in MOVES.items() for state in moves} == set(
        itertools.product(StateSignal, STATES)
    )


@pytest.mark.parametrize("state", LIVING)
def test_a_plan_is_active_when_and_only_when_all_its_tasks_are_heard(state: PlanState) -> None:
    to_active = {signal for signal, moves in MOVES.items() if moves[state] is PlanState.ACTIVE}
    assert to_active == {StateSignal.COMPLETE}


@pytest.mark.parametrize("state", LIVING)
def test_a_plan_fails_only_when_it_is_unusable_or_given_up(state: PlanState) -> None:
    to_failed = {signal for signal, moves in MOVES.items() if moves[state] is PlanState.FAILED}
    assert to_failed == {StateSignal.UNUSABLE, StateSignal.GIVEN_UP}


@pytest.mark.parametrize("state", LIVING)
def test_every_state_can_reach_every_other(state: PlanState) -> None:
    reached = {state}
    for _ in STATES:
        reached |= {after for moves in MOVES.values() for known in reached if (after := moves[known]) is not None}
    assert reached == set(STATES)


def test_nothing_leads_out_of_killed_and_undeploying_leads_there_from_everywhere() -> None:
    assert {moves[PlanState.KILLED] for moves in MOVES.values()} == {None}
    assert {MOVES[StateSignal.UNDEPLOY][state] for state in LIVING} == {PlanState.KILLED}


def test_a_change_goes_on_while_its_topology_comes_up_and_must_not_be_crossed() -> None:
    for changing in (PlanState.UPDATING, PlanState.REBALANCING):
        for signal in (StateSignal.UNLISTED, StateSignal.STARTING, StateSignal.INCOMPLETE, StateSignal.ENDING):
            assert MOVES[signal][changing] is changing
    refused = {(signal, state) for signal in StateSignal for state in LIVING if MOVES[signal][state] is None}
    assert refused == {
        (StateSignal.REBALANCE, PlanState.UPDATING),
        (StateSignal.RESTART, PlanState.UPDATING),
        (StateSignal.RESTART, PlanState.REBALANCING),
    }


def test_a_complete_topology_without_intake_is_inactive_and_one_that_is_changed_says_how_far_it_is() -> None:
    paused = msgspec.structs.replace(RUNNING, intake=False)
    assert read_signal(paused)[0] is StateSignal.PAUSED
    assert {MOVES[StateSignal.PAUSED][state] for state in LIVING} == {PlanState.INACTIVE}
    changing = msgspec.structs.replace(paused, change="rebalance", change_reason="1 of 2 tasks have registered")
    assert read_signal(changing) == (StateSignal.REBALANCE, "1 of 2 tasks have registered")


def test_what_has_run_restarts_and_what_has_not_deploys() -> None:
    for signal in (StateSignal.STARTING, StateSignal.INCOMPLETE, StateSignal.ENDING):
        assert MOVES[signal][PlanState.ACTIVE] is PlanState.RESTARTING
        assert MOVES[signal][PlanState.RESTARTING] is PlanState.RESTARTING
        assert MOVES[signal][PlanState.WAITING] is PlanState.DEPLOYING
        assert MOVES[signal][PlanState.DEPLOYING] is PlanState.DEPLOYING


@pytest.mark.parametrize(
    ("reported", "signal"),
    [
        ("waiting", StateSignal.QUEUED),
        ("starting", StateSignal.STARTING),
        ("running", StateSignal.COMPLETE),
        ("restarting", StateSignal.RESTARTED),
        ("failed", StateSignal.GIVEN_UP),
        ("stopping", StateSignal.ENDING),
    ],
)
def test_the_drivers_word_is_the_signal_and_its_reason_is_shown(reported: RunState, signal: StateSignal) -> None:
    report = topology(reported, reason="" if reported == "running" else "because")
    observed = msgspec.structs.replace(RUNNING, report=report)
    assert read_signal(observed) == (signal, report.reason)
    silent_about_why = msgspec.structs.replace(RUNNING, report=topology(reported))
    assert bool(read_signal(silent_about_why)[1]) == (signal is not StateSignal.COMPLETE)


def test_running_is_not_enough_while_tasks_are_missing() -> None:
    observed = msgspec.structs.replace(RUNNING, tasks_live=1)
    assert read_signal(observed) == (StateSignal.INCOMPLETE, "1 of 2 tasks have registered")


def test_a_task_that_fell_silent_is_named() -> None:
    observed = msgspec.structs.replace(RUNNING, tasks_live=1, silent_tasks=("task 1 on b (process 7)",))
    assert read_signal(observed) == (StateSignal.INCOMPLETE, "no heartbeats from: task 1 on b (process 7)")


def test_without_a_driver_its_last_report_does_not_count() -> None:
    observed = msgspec.structs.replace(RUNNING, driver_missing="no driver has registered")
    assert read_signal(observed) == (StateSignal.NO_DRIVER, "no driver has registered")


def test_a_plan_that_cannot_be_compiled_is_unusable_whatever_else_is_seen() -> None:
    observed = msgspec.structs.replace(RUNNING, unusable="no such stream", driver_missing="no driver")
    assert read_signal(observed) == (StateSignal.UNUSABLE, "no such stream")
