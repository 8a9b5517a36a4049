"""Which topologies run, wait or start again; every move in every state; slots are never given twice."""

from __future__ import annotations

import itertools
from typing import get_args

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from random_examples import examples

from cep_common.ids import PlanKey
from cep_common.protocol.drivers import RunState, SubmitTopology
from topology.driver.lifecycle import (
    HOLDS_SLOTS,
    OVERBOOKED_MS,
    SETTLES_MS,
    SLOW_STORE_MS,
    TRANSITIONS,
    Instruction,
    TopologyAction,
    TopologyRun,
    TopologyRuns,
    TopologyTransition,
)

FIRST_MS, LONGEST_MS, START_MS = 500, 4_000, 60_000
STATES: tuple[RunState, ...] = get_args(RunState)


def key(name: str) -> PlanKey:
    return PlanKey(1, name)


def submission(name: str, epoch: int = 1, workers: int = 1, beside: bool = False, cores: int = 1) -> SubmitTopology:
    return SubmitTopology(key(name), epoch, "<query-plan/>", workers, beside, cores)


def shared(name: str, epoch: int = 1, tenant: int = 1) -> SubmitTopology:
    return SubmitTopology(PlanKey(tenant, name), epoch, "<query-plan/>", 1, host="shared")


def runs(slots: int = 4) -> TopologyRuns:
    return TopologyRuns((slots,), FIRST_MS, LONGEST_MS, START_MS)


def states(topologies: TopologyRuns) -> dict[str, str]:
    return {report.key.plan: report.state for report in topologies.reports()}


def reasons(topologies: TopologyRuns) -> dict[str, str]:
    return {report.key.plan: report.reason for report in topologies.reports()}


def started(instructions: list[Instruction]) -> list[str]:
    return [one.submission.key.plan for one in instructions if one.action is TopologyAction.START_JOB]


def running(*names: str, slots: int = 4) -> TopologyRuns:
    topologies = runs(slots)
    for name in names:
        topologies.submit(submission(name))
    topologies.on_time(0)
    for name in names:
        topologies.job_running(key(name), 1, 0)
    return topologies


# ---- the table -------------------------------------------------------------------------------------------------------


MOVES = [pair for pair in itertools.product(STATES, TopologyTransition) if pair != ("waiting", TopologyTransition.DUE)]
"""Time admits what waits: for that, DUE is ADMIT."""


@pytest.mark.parametrize(("state", "move"), MOVES)
def test_every_move_in_every_state_does_what_the_table_says_or_nothing(
    state: RunState, move: TopologyTransition
) -> None:
    topologies = runs()
    topologies.runs[key("p"), 1] = TopologyRun(submission("p"), state, draining=move is TopologyTransition.DRAINED)
    act = {
        TopologyTransition.ADMIT: lambda: topologies.on_time(-1),
        TopologyTransition.RUNNING: lambda: topologies.job_running(key("p"), 1, 0),
        TopologyTransition.ENDED: lambda: topologies.job_ended(key("p"), 1, "died", unfit=False, now_ms=0),
        TopologyTransition.UNFIT: lambda: topologies.job_ended(key("p"), 1, "unfit", unfit=True, now_ms=0),
        TopologyTransition.DUE: lambda: topologies.on_time(0),
        TopologyTransition.KILL: lambda: topologies.kill(key("p")),
        TopologyTransition.DRAIN: lambda: topologies.kill(key("p"), drain=True),
        TopologyTransition.DRAINED: lambda: topologies.drained(key("p"), 1, 0),
    }[move]
    instructions = act()
    expected, action = TRANSITIONS.get((state, move), (state, TopologyAction.NOTHING))
    if (
        move is TopologyTransition.DUE and state == "restarting"
    ):  # due, and admitted in the same turn, since there is room
        expected, action = TRANSITIONS["waiting", TopologyTransition.ADMIT]
    if action is TopologyAction.FORGET:
        assert states(topologies) == {}
        assert instructions == []
    else:
        assert states(topologies) == {"p": expected}
        assert [one.action for one in instructions] == ([] if action is TopologyAction.NOTHING else [action])


def test_the_table_leads_from_every_state_to_the_end() -> None:
    """A kill, and the end of the job if there is one, forgets a topology in whatever state it is."""
    for state in STATES:
        after, action = TRANSITIONS[state, TopologyTransition.KILL]
        assert after == "stopping"
        assert (
            action is TopologyAction.FORGET
            or TRANSITIONS["stopping", TopologyTransition.ENDED][1] is TopologyAction.FORGET
        )


def test_a_renamed_plan_is_told_of_under_its_present_name_and_goes_on_as_it_is() -> None:
    topologies = running("a", "b")
    renamed = PlanKey(key("a").tenant, "z", "a")
    topologies.rename(renamed)
    assert {(report.key.plan, report.state) for report in topologies.reports()} == {("z", "running"), ("b", "running")}
    assert topologies.submit(submission("a")) == [], "it is known, whatever it is called"
    (killed,) = topologies.kill(renamed)
    assert (killed.action, killed.submission.key.plan) == (TopologyAction.CANCEL_JOB, "z")


def test_a_topology_that_takes_its_last_checkpoint_works_until_that_is_over() -> None:
    topologies = running("p")
    (drain,) = topologies.kill(key("p"), drain=True)
    assert (drain.action, drain.attempt) == (TopologyAction.DRAIN_JOB, 0)
    assert reasons(topologies) == {"p": "takes its last checkpoint"}
    assert topologies.job_running(key("p"), 1, 10) == []
    assert topologies.kill(key("p"), drain=True) == []
    assert topologies.drained(key("p"), 1, 7) == [], "that is another attempt"
    assert [one.action for one in topologies.drained(key("p"), 1, 0)] == [TopologyAction.CANCEL_JOB]
    assert topologies.drained(key("p"), 1, 0) == []
    topologies.job_ended(key("p"), 1, "cancelled", unfit=False, now_ms=20)
    assert states(topologies) == {}


def test_who_is_killed_while_it_takes_its_last_checkpoint_ends_at_once() -> None:
    topologies = running("p")
    topologies.kill(key("p"), drain=True)
    assert [one.action for one in topologies.kill(key("p"))] == [TopologyAction.CANCEL_JOB]


def test_a_topology_that_has_lost_a_task_starts_again_and_says_why() -> None:
    topologies = running("p")
    assert topologies.recall(key("p"), 1, 1, "another attempt") == []
    (cancel,) = topologies.recall(key("p"), 1, 0, "task 1 was silent for 3000 ms")
    assert cancel.action is TopologyAction.CANCEL_JOB
    topologies.job_ended(key("p"), 1, "cancelled", unfit=False, now_ms=0)
    assert (states(topologies), reasons(topologies)) == ({"p": "restarting"}, {"p": "task 1 was silent for 3000 ms"})
    (start,) = topologies.on_time(FIRST_MS)
    assert start.attempt == 1


def test_attempts_that_no_event_can_have_ended_are_remembered_and_others_are_not() -> None:
    topologies = running("p")
    now_ms = 0
    for attempt, (innocent, reason) in enumerate([(False, "died"), (True, "an executor was lost"), (False, "died")]):
        topologies.job_ended(key("p"), 1, reason, unfit=False, now_ms=now_ms, innocent=innocent)
        now_ms += 100_000
        topologies.on_time(now_ms)
        assert topologies.runs[key("p"), 1].restarts == attempt + 1
        topologies.job_running(key("p"), 1, now_ms)
    assert topologies.runs[key("p"), 1].cleared == (1,)
    topologies.recall(key("p"), 1, 3, "the process of task 0 has ended")
    topologies.job_ended(key("p"), 1, "cancelled", unfit=False, now_ms=now_ms)
    assert topologies.runs[key("p"), 1].cleared == (1,), "that may have been an event"
    now_ms += 100_000
    topologies.on_time(now_ms)
    topologies.job_running(key("p"), 1, now_ms)
    topologies.job_ended(key("p"), 1, "an executor was killed", unfit=False, now_ms=now_ms, doubtful=True)
    assert (topologies.runs[key("p"), 1].cleared, topologies.runs[key("p"), 1].doubtful) == ((1,), (4,))


def test_slots_are_held_exactly_while_there_may_be_a_job() -> None:
    assert set(HOLDS_SLOTS) == {"starting", "running", "stopping"}


# ---- plans that share stage hosts ------------------------------------------------------------------------------------


def test_plans_that_share_hosts_take_no_slots_and_wait_for_none_once_there_is_a_host() -> None:
    topologies = runs(slots=2)
    for number in range(20):
        topologies.submit(shared(f"p{number}"))
    assert len(started(topologies.on_time(0))) == 20
    assert topologies.slots_free() == 1, "for the tenant's first host, which is being started"
    topologies.hosts, topologies.hosts_open = {1: 1}, frozenset({1})
    assert topologies.slots_free() == 1
    topologies.submit(submission("own"))
    assert started(topologies.on_time(0)) == ["own"]
    topologies.submit(shared("q"))
    assert started(topologies.on_time(0)) == ["q"], "no slot is free, and none is needed"


def test_the_first_plan_of_a_tenant_waits_for_a_slot_for_its_host_and_is_not_overtaken() -> None:
    topologies = running("own", slots=1)
    topologies.submit(shared("p"))
    topologies.submit(submission("later"))
    assert topologies.on_time(0) == []
    assert reasons(topologies) == {
        "own": "",
        "p": "needs a slot for a stage host, 0 of 1 are free",
        "later": "waits for p[1], which was submitted first",
    }
    topologies.hosts, topologies.hosts_open = {1: 1}, frozenset({2})
    assert topologies.on_time(0) == [], "another tenant's host is not for it, nor one that leaves"
    topologies.hosts = {}
    topologies.kill(key("own"))
    topologies.job_ended(key("own"), 1, "cancelled", unfit=False, now_ms=0)
    assert started(topologies.on_time(0)) == ["p"]


def test_a_plan_that_leaves_its_host_ends_there_first_and_then_takes_a_slot_of_its_own() -> None:
    topologies = runs(slots=2)
    topologies.submit(shared("p"))
    topologies.on_time(0)
    topologies.hosts, topologies.hosts_open = {1: 1}, frozenset({1})
    topologies.job_running(key("p"), 1, 0)
    (cancelled,) = topologies.leave_hosts(key("p"), "it ended its host twice")
    assert cancelled.action is TopologyAction.CANCEL_JOB
    assert topologies.leave_hosts(key("p"), "it ended its host twice") == [], "once is enough"
    assert topologies.slots_free() == 1, "it is still in the host"
    topologies.job_ended(key("p"), 1, "cancelled", unfit=False, now_ms=0)
    assert reasons(topologies)["p"] == "it ended its host twice"
    assert topologies.runs[key("p"), 1].cleared == (0,), "no event has ended it: the driver has"
    assert started(topologies.on_time(FIRST_MS + SETTLES_MS)) == ["p"]
    assert topologies.slots_free() == 0


def test_a_plan_that_waits_takes_a_slot_of_its_own_at_once_when_it_may_not_share() -> None:
    topologies = running("own", slots=2)
    topologies.submit(shared("p"))
    assert topologies.leave_hosts(key("p"), "it ended its host twice") == []
    assert not topologies.slots_wanted or topologies.slots_free()
    assert started(topologies.on_time(0)) == ["p"]
    assert topologies.slots_free() == 0


# ---- slots -----------------------------------------------------------------------------------------------------------


def test_topologies_start_in_the_order_in_which_they_came_and_say_why_they_wait() -> None:
    topologies = runs(slots=3)
    for name, workers in (("a", 2), ("b", 2), ("c", 1)):
        topologies.submit(submission(name, workers=workers))
    assert started(topologies.on_time(0)) == ["a"]
    assert states(topologies) == {"a": "starting", "b": "waiting", "c": "waiting"}
    assert reasons(topologies) == {
        "a": "",
        "b": "needs 2 free slots, 1 of 3 are free",
        "c": "waits for b[1], which was submitted first",
    }


def test_freed_slots_go_to_who_waits_not_to_who_starts_again() -> None:
    topologies = running("a", slots=1)
    topologies.submit(submission("b"))
    topologies.on_time(0)
    topologies.job_ended(key("a"), 1, "died", unfit=False, now_ms=10)
    assert started(topologies.on_time(10)) == ["b"]
    assert started(topologies.on_time(10 + FIRST_MS)) == []
    assert states(topologies) == {"a": "waiting", "b": "starting"}


def test_a_topology_that_can_never_fit_says_so_and_holds_up_nobody() -> None:
    topologies = runs(slots=2)
    topologies.submit(submission("large", workers=3))
    topologies.submit(submission("small"))
    assert started(topologies.on_time(0)) == ["small"]
    assert reasons(topologies)["large"] == "needs 3 slots, the cluster has 2 in all"


def test_a_topology_starts_when_an_executor_joins_and_waits_when_one_was_lost() -> None:
    topologies = runs(slots=1)
    topologies.submit(submission("a", workers=2))
    assert topologies.on_time(0) == []
    assert reasons(topologies) == {"a": "needs 2 slots, the cluster has 1 in all"}
    topologies.executors = (1, 1)
    assert started(topologies.on_time(1)) == ["a"]
    topologies.job_running(key("a"), 1, 2)
    topologies.executors = (1,)
    topologies.job_ended(key("a"), 1, "an executor was lost on h", unfit=False, now_ms=3)
    topologies.on_time(3 + FIRST_MS)
    assert states(topologies) == {"a": "waiting"}
    assert reasons(topologies) == {"a": "needs 2 slots, the cluster has 1 in all"}
    topologies.executors = (1, 1)
    assert started(topologies.on_time(4 + FIRST_MS)) == ["a"]
    assert reasons(topologies) == {"a": "an executor was lost on h"}


def test_while_a_lost_executor_is_counted_out_nothing_is_admitted_to_slots_that_are_not_there() -> None:
    topologies = runs(slots=1)
    topologies.executors = (2, 2)
    topologies.submit(submission("a", workers=3))
    topologies.on_time(0)
    topologies.executors = (2,)
    topologies.submit(submission("b"))
    assert topologies.on_time(1) == []
    assert topologies.slots_free() == -1
    assert reasons(topologies)["b"] == "needs 1 free slots, 0 of 2 are free"


def test_after_a_job_has_ended_by_itself_nothing_is_admitted_until_executors_were_looked_up_again() -> None:
    """An executor may have been lost with it that is counted still."""
    topologies = runs()
    topologies.executors, topologies.seen_ms = (1, 1, 1), 0
    topologies.submit(submission("a", workers=2))
    topologies.on_time(0)
    topologies.job_running(key("a"), 1, 0)
    topologies.job_ended(key("a"), 1, "an executor was lost on h", unfit=False, now_ms=1_000)
    topologies.submit(submission("b"))
    topologies.seen_ms = 999 + SETTLES_MS
    assert topologies.on_time(1_000 + FIRST_MS) == []
    assert reasons(topologies) == {
        "a": "an executor was lost on h",
        "b": "waits until the remaining executors are known",
    }
    topologies.executors, topologies.seen_ms = (1,), 1_000 + SETTLES_MS
    assert started(topologies.on_time(1_000 + FIRST_MS)) == ["b"]
    assert reasons(topologies)["a"] == "needs 2 slots, the cluster has 1 in all"


def test_a_job_that_was_ended_on_purpose_leaves_no_doubt_of_the_executors() -> None:
    topologies = running("a", slots=1)
    topologies.seen_ms = 0
    topologies.submit(submission("b"))
    topologies.kill(key("a"))
    topologies.job_ended(key("a"), 1, "cancelled", unfit=False, now_ms=1_000)
    assert started(topologies.on_time(1_000)) == ["b"]


def test_who_lost_its_slots_before_it_started_is_taken_back_and_who_runs_is_let_be() -> None:
    """Spark would let its job wait, and nobody would know for what."""
    topologies = running("a")
    for now_ms, name in enumerate(("b", "c")):
        topologies.submit(submission(name))
        topologies.on_time(now_ms)
    topologies.executors = (2,)
    assert topologies.on_time(20) == []
    assert topologies.on_time(19 + OVERBOOKED_MS) == []
    (cancel,) = topologies.on_time(20 + OVERBOOKED_MS)
    assert (cancel.action, cancel.submission.key) == (TopologyAction.CANCEL_JOB, key("c"))
    topologies.job_ended(key("c"), 1, "cancelled", unfit=False, now_ms=20 + OVERBOOKED_MS)
    topologies.on_time(20 + OVERBOOKED_MS + FIRST_MS)
    assert states(topologies) == {"a": "running", "b": "starting", "c": "waiting"}
    assert reasons(topologies)["c"] == "needs 1 free slots, 0 of 2 are free"


def test_slots_that_are_missing_for_a_moment_end_nobody() -> None:
    topologies = runs(slots=2)
    topologies.submit(submission("a", workers=2))
    topologies.on_time(0)
    topologies.executors = (1,)
    topologies.on_time(1)
    topologies.executors = (2,)
    topologies.on_time(OVERBOOKED_MS)
    topologies.executors = (1,)
    assert topologies.on_time(1 + OVERBOOKED_MS) == []


def test_two_that_fit_alone_but_not_together_take_turns() -> None:
    topologies = runs(slots=3)
    for name in ("a", "b"):
        topologies.submit(submission(name, workers=2))
    assert started(topologies.on_time(0)) == ["a"]
    assert topologies.slots_free() == 1, "b holds no part of what it needs"
    topologies.job_running(key("a"), 1, 0)
    topologies.job_ended(key("a"), 1, "died", unfit=False, now_ms=1)
    assert started(topologies.on_time(1)) == ["b"]
    assert started(topologies.on_time(1 + FIRST_MS)) == []
    topologies.kill(key("b"))
    topologies.job_ended(key("b"), 1, "cancelled", unfit=False, now_ms=2 + FIRST_MS)
    assert started(topologies.on_time(2 + FIRST_MS)) == ["a"]


def test_a_task_that_takes_several_slots_takes_them_on_one_executor() -> None:
    topologies = runs()
    topologies.executors = (1, 1, 3)
    for name, workers in (("fits", 1), ("large", 2)):
        topologies.submit(submission(name, workers=workers, cores=2))
    assert started(topologies.on_time(0)) == ["fits"]
    assert topologies.slots_free() == 3
    assert reasons(topologies)["large"] == (
        "needs 4 slots (2 tasks of 2 each), the cluster has 5 in all, at most 3 on one executor"
    )
    topologies.executors = (1, 4)
    topologies.on_time(1)
    assert reasons(topologies)["large"] == "needs 4 free slots (2 tasks of 2 each), 3 of 5 are free"
    topologies.executors = (1, 4, 2)
    assert started(topologies.on_time(2)) == ["large"]


def test_tasks_that_do_not_start_in_time_are_recalled_and_others_come_first() -> None:
    topologies = runs(slots=2)
    topologies.submit(submission("a", workers=2))
    topologies.on_time(0)
    topologies.job_given(key("a"), 1, 0)
    topologies.submit(submission("b"))
    assert topologies.on_time(START_MS - 1) == []
    (cancel,) = topologies.on_time(START_MS)
    assert (cancel.action, cancel.submission.key) == (TopologyAction.CANCEL_JOB, key("a"))
    assert topologies.on_time(START_MS + 1) == [], "one cancel is enough for now"
    topologies.job_ended(key("a"), 1, "cancelled", unfit=False, now_ms=START_MS + 2)
    assert started(topologies.on_time(START_MS + 2)) == ["b"]
    assert states(topologies)["a"] == "restarting"
    assert reasons(topologies)["a"] == "its tasks did not start within 60 s, though there are slots"


def test_each_start_that_takes_too_long_gives_the_next_twice_the_time_up_to_eight_times() -> None:
    topologies = runs()
    topologies.submit(submission("a"))
    now_ms = 0
    for times in (1, 2, 4, 8, 8, 1):
        now_ms += 20_000
        assert started(topologies.on_time(now_ms)) == ["a"]
        topologies.job_given(key("a"), 1, now_ms)
        if times == 8:
            assert topologies.on_time(now_ms + 8 * START_MS - 1) == []
        now_ms += times * START_MS
        assert topologies.on_time(now_ms - 1) == []
        (cancel,) = topologies.on_time(now_ms)
        assert cancel.action == TopologyAction.CANCEL_JOB
        topologies.job_ended(key("a"), 1, "cancelled", unfit=False, now_ms=now_ms)
        if times == 8 and topologies.runs[key("a"), 1].restarts == 5:  # a start that succeeds
            now_ms += 20_000
            topologies.on_time(now_ms)
            topologies.job_running(key("a"), 1, now_ms)
            topologies.job_ended(key("a"), 1, "killed", unfit=False, now_ms=now_ms)


def test_a_slow_checkpoint_store_takes_nothing_of_the_time_in_which_tasks_start_and_is_told_of() -> None:
    topologies = runs()
    topologies.submit(submission("a"))
    topologies.on_time(0)
    topologies.on_time(SLOW_STORE_MS - 1)
    assert reasons(topologies) == {"a": ""}
    late_ms = 2 * START_MS
    assert topologies.on_time(late_ms) == []
    assert reasons(topologies) == {"a": "waits for the checkpoint store to determine its starting state"}
    topologies.job_given(key("a"), 1, late_ms)
    assert (states(topologies), reasons(topologies)) == ({"a": "starting"}, {"a": ""})
    assert topologies.on_time(late_ms + START_MS - 1) == []
    assert [one.action for one in topologies.on_time(late_ms + START_MS)] == [TopologyAction.CANCEL_JOB]


def test_a_topology_that_waits_in_a_stage_host_behind_others_is_never_late() -> None:
    topologies = runs()
    topologies.submit(submission("a"))
    topologies.on_time(0)
    topologies.job_queued(key("a"), 1)
    late_ms = 100 * START_MS
    assert topologies.on_time(late_ms) == []
    assert reasons(topologies) == {"a": "waits for its turn to start in a stage host"}
    topologies.job_running(key("a"), 1, late_ms)
    assert (states(topologies), reasons(topologies)) == ({"a": "running"}, {"a": ""})
    # An attempt that waits for the store again is not taken for one that waits in a host.
    topologies.job_ended(key("a"), 1, "died", unfit=False, now_ms=late_ms)
    topologies.on_time(late_ms + START_MS)
    topologies.on_time(late_ms + START_MS + SLOW_STORE_MS)
    assert (states(topologies), reasons(topologies)) == (
        {"a": "starting"},
        {"a": "waits for the checkpoint store to determine its starting state"},
    )


def test_what_a_slow_checkpoint_store_says_against_the_start_is_the_reason() -> None:
    topologies = runs()
    topologies.submit(submission("a"))
    topologies.on_time(0)
    topologies.on_time(2 * START_MS)
    topologies.job_ended(key("a"), 1, "no bucket of that name", unfit=False, now_ms=2 * START_MS)
    assert reasons(topologies) == {"a": "no bucket of that name"}
    topologies.on_time(3 * START_MS)
    topologies.on_time(3 * START_MS + 1)
    assert (states(topologies), reasons(topologies)) == ({"a": "starting"}, {"a": "no bucket of that name"})


def test_a_topology_that_was_recalled_and_runs_after_all_stays() -> None:
    topologies = runs()
    topologies.submit(submission("a"))
    topologies.on_time(0)
    topologies.job_given(key("a"), 1, 0)
    topologies.on_time(START_MS)
    topologies.job_running(key("a"), 1, START_MS)
    topologies.job_ended(key("a"), 1, "died", unfit=False, now_ms=START_MS + 1)
    assert reasons(topologies) == {"a": "died"}


def test_what_can_never_run_here_has_failed_and_holds_no_slot() -> None:
    topologies = runs()
    topologies.submit(submission("a"), "wants hosts labelled gpu")
    assert topologies.on_time(0) == []
    assert (states(topologies), reasons(topologies)) == ({"a": "failed"}, {"a": "wants hosts labelled gpu"})
    assert topologies.slots_free() == 4


def test_why_it_waited_is_forgotten_when_it_starts() -> None:
    topologies = running("a", slots=1)
    topologies.submit(submission("b"))
    topologies.on_time(0)
    assert reasons(topologies)["b"]
    topologies.kill(key("a"))
    topologies.job_ended(key("a"), 1, "cancelled", unfit=False, now_ms=1)
    topologies.on_time(1)
    assert (states(topologies), reasons(topologies)) == ({"b": "starting"}, {"b": ""})


# ---- restarts --------------------------------------------------------------------------------------------------------


def test_the_delay_before_a_restart_doubles_up_to_the_longest() -> None:
    topologies = running("a")
    now_ms, delays = 0, []
    for restarts in range(1, 7):
        topologies.job_ended(key("a"), 1, "died", unfit=False, now_ms=now_ms)
        assert topologies.reports()[0].restarts == restarts
        due_ms = topologies.runs[key("a"), 1].due_ms
        assert started(topologies.on_time(due_ms - 1)) == []
        assert started(topologies.on_time(due_ms)) == ["a"]
        delays.append(due_ms - now_ms)
        now_ms = due_ms
        topologies.job_running(key("a"), 1, now_ms)
    assert delays == [500, 1_000, 2_000, 4_000, 4_000, 4_000]


@pytest.mark.parametrize(("ran_ms", "delay_ms"), [(LONGEST_MS - 1, 4_000), (LONGEST_MS, FIRST_MS)])
def test_one_that_ran_for_as_long_as_the_longest_delay_is_given_the_first_again(ran_ms: int, delay_ms: int) -> None:
    topologies = running("a")
    for _ in range(3):
        topologies.job_ended(key("a"), 1, "died", unfit=False, now_ms=0)
        topologies.on_time(LONGEST_MS)
        topologies.job_running(key("a"), 1, 0)
    topologies.job_ended(key("a"), 1, "died", unfit=False, now_ms=ran_ms)
    assert topologies.runs[key("a"), 1].due_ms == ran_ms + delay_ms


def test_the_reason_of_a_restart_is_told_until_it_runs_again() -> None:
    topologies = running("a")
    topologies.job_ended(key("a"), 1, "a stage process died", unfit=False, now_ms=0)
    assert reasons(topologies) == {"a": "a stage process died"}
    topologies.on_time(FIRST_MS)
    assert reasons(topologies) == {"a": "a stage process died"}
    topologies.job_running(key("a"), 1, FIRST_MS)
    assert reasons(topologies) == {"a": ""}


def test_a_plan_that_cannot_run_fails_and_is_not_tried_again() -> None:
    topologies = running("a")
    topologies.job_ended(key("a"), 1, "no such window", unfit=True, now_ms=0)
    assert topologies.on_time(10 * LONGEST_MS) == []
    (report,) = topologies.reports()
    assert (report.state, report.reason, report.restarts) == ("failed", "no such window", 0)
    topologies.submit(submission("a", epoch=2))
    assert started(topologies.on_time(0)) == ["a"]


# ---- replacing and killing -------------------------------------------------------------------------------------------


def test_a_newer_epoch_stops_the_older_behind_its_last_checkpoint_and_then_takes_its_place() -> None:
    topologies = running("a", slots=1)
    (drain,) = topologies.submit(submission("a", epoch=2))
    assert (drain.action, drain.submission.epoch) == (TopologyAction.DRAIN_JOB, 1)
    assert started(topologies.on_time(0)) == []
    (cancel,) = topologies.drained(key("a"), 1, 0)
    assert (cancel.action, cancel.submission.epoch) == (TopologyAction.CANCEL_JOB, 1)
    assert started(topologies.on_time(0)) == []
    topologies.job_ended(key("a"), 1, "cancelled", unfit=False, now_ms=0)
    (start,) = topologies.on_time(0)
    assert (start.action, start.submission.epoch) == (TopologyAction.START_JOB, 2)


def test_the_same_or_an_older_epoch_changes_nothing() -> None:
    topologies = running("a")
    topologies.submit(submission("b", epoch=5))
    for again in (submission("a"), submission("b", epoch=4), submission("b", epoch=5)):
        assert topologies.submit(again) == []
    assert {report.key.plan: report.epoch for report in topologies.reports()} == {"a": 1, "b": 5}


def test_of_several_newer_epochs_the_newest_is_started() -> None:
    topologies = running("a")
    for epoch in (2, 4, 3):
        topologies.submit(submission("a", epoch))
    topologies.job_ended(key("a"), 1, "cancelled", unfit=False, now_ms=0)
    assert [one.submission.epoch for one in topologies.on_time(0)] == [4]


def test_a_newer_epoch_replaces_one_that_waits_at_once() -> None:
    topologies = running("a", slots=1)
    topologies.submit(submission("b"))
    assert topologies.submit(submission("b", epoch=2)) == []
    assert [report.epoch for report in topologies.reports()] == [1, 2]


def test_a_kill_while_the_job_starts_cancels_it_again_once_it_runs() -> None:
    """The first order may have come before Spark knew of the job."""
    topologies = runs()
    topologies.submit(submission("a"))
    topologies.on_time(0)
    assert [one.action for one in topologies.kill(key("a"))] == [TopologyAction.CANCEL_JOB]
    assert [one.action for one in topologies.job_running(key("a"), 1, 0)] == [TopologyAction.CANCEL_JOB]
    topologies.job_ended(key("a"), 1, "cancelled", unfit=False, now_ms=0)
    assert topologies.reports() == ()
    assert topologies.slots_free() == 4


def test_a_newer_epoch_takes_over_the_slots_of_its_own_plan_before_others_that_wait() -> None:
    topologies = running("a", slots=1)
    topologies.submit(submission("b"))
    topologies.submit(submission("a", epoch=2))
    topologies.on_time(0)
    topologies.job_ended(key("a"), 1, "cancelled", unfit=False, now_ms=0)
    (start,) = topologies.on_time(0)
    assert (start.submission.key, start.submission.epoch) == (key("a"), 2)
    assert reasons(topologies)["b"] == "needs 1 free slots, 0 of 1 are free"


def test_a_newer_epoch_may_start_beside_the_older_one_and_either_can_be_killed_alone() -> None:
    for killed, left in ((1, 2), (2, 1)):
        topologies = running("a", slots=2)
        assert topologies.submit(submission("a", epoch=2, beside=True)) == []
        assert [one.submission.epoch for one in topologies.on_time(0)] == [2]
        topologies.job_running(key("a"), 2, 0)
        assert {report.epoch: report.state for report in topologies.reports()} == {1: "running", 2: "running"}
        (cancel,) = topologies.kill(key("a"), killed)
        assert (cancel.action, cancel.submission.epoch) == (TopologyAction.CANCEL_JOB, killed)
        topologies.job_ended(key("a"), killed, "cancelled", unfit=False, now_ms=0)
        assert [report.epoch for report in topologies.reports()] == [left]


def test_one_that_waits_beside_the_older_one_starts_first_when_that_is_killed_for_it() -> None:
    topologies = running("a", slots=1)
    topologies.submit(submission("b"))
    topologies.submit(submission("a", epoch=2, beside=True))
    assert topologies.on_time(0) == []
    topologies.kill(key("a"), 1)
    topologies.job_ended(key("a"), 1, "cancelled", unfit=False, now_ms=0)
    assert [(one.submission.key, one.submission.epoch) for one in topologies.on_time(0)] == [(key("a"), 2)]


def test_a_kill_takes_the_successor_with_it_and_a_submission_after_it_counts() -> None:
    topologies = running("a")
    topologies.submit(submission("a", epoch=2))
    topologies.kill(key("a"))
    topologies.submit(submission("a", epoch=2))
    topologies.kill(key("a"))
    topologies.job_ended(key("a"), 1, "cancelled", unfit=False, now_ms=0)
    assert topologies.reports() == ()
    assert topologies.kill(key("a")) == []


def test_news_of_another_epoch_or_of_nobody_are_ignored() -> None:
    topologies = running("a")
    assert topologies.job_ended(key("a"), 0, "old", unfit=True, now_ms=0) == []
    assert topologies.job_ended(key("nobody"), 1, "old", unfit=True, now_ms=0) == []
    assert topologies.job_running(key("nobody"), 1, 0) == []
    assert states(topologies) == {"a": "running"}


# ---- any story -------------------------------------------------------------------------------------------------------

SLOTS = 4
NAMES = st.sampled_from(["a", "b", "c", "d"])


class AnyStory(RuleBasedStateMachine):
    """A driver that does what it is told, jobs that end when they like, and everything that a manager may send."""

    def __init__(self) -> None:
        super().__init__()
        self.topologies = runs(SLOTS)
        self.topologies.seen_ms = 0
        self.jobs: dict[tuple[str, int], SubmitTopology] = {}
        self.now_ms = 0
        self.epoch = 0

    def obey(self, instructions: list[Instruction]) -> None:
        for one in instructions:
            job = (one.submission.key.plan, one.submission.epoch)
            if one.action is TopologyAction.START_JOB:
                assert self.topologies.slots_free() >= 0, "started on slots that are not there"
                older = [epoch for name, epoch in self.jobs if name == job[0] and epoch < job[1]]
                assert one.submission.beside or not older, "started before an older topology of its plan had ended"
                self.jobs[job] = one.submission
            else:
                assert one.action in (TopologyAction.CANCEL_JOB, TopologyAction.DRAIN_JOB)
                assert self.jobs[job] == one.submission

    @rule(name=NAMES, workers=st.integers(1, SLOTS + 1), beside=st.booleans(), cores=st.integers(1, 2))
    def submit(self, name: str, workers: int, beside: bool, cores: int) -> None:
        self.epoch += 1
        self.obey(self.topologies.submit(submission(name, self.epoch, workers, beside, cores)))

    @rule(executors=st.lists(st.integers(1, SLOTS), max_size=3))
    def executors_join_and_leave(self, executors: list[int]) -> None:
        """The jobs that ran on what was lost end in their own time."""
        self.topologies.executors, self.topologies.seen_ms = tuple(executors), self.now_ms

    @rule(name=NAMES, drain=st.booleans())
    def kill(self, name: str, drain: bool) -> None:
        self.obey(self.topologies.kill(key(name), drain=drain))

    @precondition(lambda self: self.topologies.runs)
    @rule(data=st.data())
    def last_checkpoint_is_complete(self, data: st.DataObject) -> None:
        plan, epoch = data.draw(st.sampled_from(sorted(self.topologies.runs)))
        self.obey(self.topologies.drained(plan, epoch, self.topologies.runs[plan, epoch].restarts))

    @precondition(lambda self: self.topologies.runs)
    @rule(data=st.data())
    def a_task_is_lost(self, data: st.DataObject) -> None:
        plan, epoch = data.draw(st.sampled_from(sorted(self.topologies.runs)))
        self.obey(self.topologies.recall(plan, epoch, self.topologies.runs[plan, epoch].restarts, "lost"))

    @precondition(lambda self: self.topologies.runs)
    @rule(data=st.data())
    def kill_one_epoch(self, data: st.DataObject) -> None:
        plan, epoch = data.draw(st.sampled_from(sorted(self.topologies.runs)))
        self.obey(self.topologies.kill(plan, epoch))

    @rule(milliseconds=st.integers(0, 2 * LONGEST_MS))
    def time_goes_by(self, milliseconds: int) -> None:
        self.now_ms += milliseconds
        self.obey(self.topologies.on_time(self.now_ms))

    @precondition(lambda self: self.jobs)
    @rule(data=st.data())
    def job_is_given_to_spark(self, data: st.DataObject) -> None:
        job = self.jobs[data.draw(st.sampled_from(sorted(self.jobs)))]
        self.topologies.job_given(job.key, job.epoch, self.now_ms)

    @precondition(lambda self: self.jobs)
    @rule(data=st.data())
    def job_runs(self, data: st.DataObject) -> None:
        job = self.jobs[data.draw(st.sampled_from(sorted(self.jobs)))]
        self.obey(self.topologies.job_running(job.key, job.epoch, self.now_ms))

    @precondition(lambda self: self.jobs)
    @rule(data=st.data(), unfit=st.booleans())
    def job_ends(self, data: st.DataObject, unfit: bool) -> None:
        job = self.jobs.pop(data.draw(st.sampled_from(sorted(self.jobs))))
        self.obey(self.topologies.job_ended(job.key, job.epoch, "ended", unfit=unfit, now_ms=self.now_ms))

    @invariant()
    def slots_are_never_given_twice(self) -> None:
        used = sum(job.workers * job.cores for job in self.jobs.values())
        assert self.topologies.slots_free() == sum(self.topologies.executors) - used

    @invariant()
    def whoever_waits_knows_why(self) -> None:
        self.obey(self.topologies.on_time(self.now_ms))
        assert all(report.reason for report in self.topologies.reports() if report.state == "waiting")

    def teardown(self) -> None:
        """Nothing waits forever: when every job that is cancelled or runs ends in time, all that fit have run."""
        self.topologies.executors = (SLOTS,)
        ran: set[tuple[str, int]] = set()
        for _ in range(20):
            self.now_ms += LONGEST_MS
            self.topologies.seen_ms = self.now_ms
            self.obey(self.topologies.on_time(self.now_ms))
            for job_id, job in list(self.jobs.items()):
                ran.add(job_id)
                del self.jobs[job_id]
                self.obey(self.topologies.job_ended(job.key, job.epoch, "ended", unfit=False, now_ms=self.now_ms))
        left = {
            (plan.plan, epoch)
            for (plan, epoch), run in self.topologies.runs.items()
            if run.submission.workers <= SLOTS // run.submission.cores and run.state != "failed"
        }
        assert left <= ran


TestAnyStory = AnyStory.TestCase
TestAnyStory.settings = settings(max_examples=examples(60), stateful_step_count=25, deadline=None)
