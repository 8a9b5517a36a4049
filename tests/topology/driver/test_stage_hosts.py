"""Which plan runs in which stage host: every move in every state, and that orders are followed whatever is lost."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from random_examples import examples

from cep_common.ids import PlanKey
from cep_common.protocol.stage_hosts import Blame, HostedState, HostedTask
from topology.driver.stage_hosting import (
    END_MS,
    END_STARTING_MS,
    HOST_TRANSITIONS,
    IDLE_MS,
    LEASE_MS,
    REPEAT_MS,
    STANDBY_AGAIN_MS,
    STRIKES_MS,
    Host,
    HostAction,
    HostInstruction,
    HostMove,
    HostState,
    Seat,
    SeatId,
    StageHosts,
)

START_MS = 10_000
SLOTS = 8


def seat(name: str, tenant: int = 1, attempt: int = 0) -> SeatId:
    return SeatId(PlanKey(tenant, name), 1, attempt)


def told(one: SeatId, state: HostedState = "running", code: str = "") -> HostedTask:
    return HostedTask(one.key, one.epoch, one.attempt, state, code, "it failed" if code else "")


def actions(instructions: list[HostInstruction]) -> list[tuple[str, str, str]]:
    return [(one.action.name, one.host, one.seat.key.plan if one.seat else "") for one in instructions]


class Hosts:
    """The hosts of a driver whose cluster has so many slots."""

    def __init__(self, slots: int = SLOTS) -> None:
        self.state = StageHosts("d", START_MS)
        self.slots = slots
        self.now_ms = 0

    def place(self, *names: str, tenant: int = 1) -> list[HostInstruction]:
        for name in names:
            self.state.place(seat(name, tenant), self.now_ms)
        return self.tick()

    def tick(self, ms: int = 0, *, wanted: bool = False) -> list[HostInstruction]:
        self.now_ms += ms
        free = self.slots - self.state.slots
        return self.state.on_time(self.now_ms, self.slots, free, wanted=wanted)

    def beat(self, host: str, *tasks: HostedTask, blames: tuple[Blame, ...] = ()) -> list[HostInstruction]:
        return self.state.register(host, tasks, blames, self.now_ms)

    def where(self) -> dict[str, list[str]]:
        return {host.name: sorted(one.key.plan for one in host.seats) for host in self.state.hosts.values()}


def up(*names: str, slots: int = SLOTS) -> Hosts:
    """These plans run in hosts that have registered."""
    hosts = Hosts(slots)
    hosts.place(*names)
    for host in list(hosts.state.hosts.values()):
        hosts.beat(host.name)
        hosts.beat(host.name, *(told(one) for one in host.seats))
    return hosts


# ---- the table ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("state", "move"), list(itertools.product(HostState, HostMove)))
def test_a_host_makes_every_move_of_the_table_and_no_other(state: HostState, move: HostMove) -> None:
    host = Host("d-1", 1, since_ms=0, state=state)
    assert StageHosts("d", START_MS).move(host, move) == ((state, move) in HOST_TRANSITIONS)
    assert host.state is (HOST_TRANSITIONS.get((state, move)) or state)


@pytest.mark.parametrize(
    ("state", "since_ms", "heard_ms", "ending_ms", "reason"),
    [
        (HostState.STARTING, 0, 0, None, "its stage host did not start within 100 s"),
        (HostState.UP, 0, 100_000 - LEASE_MS, None, "its stage host was silent for 6 s"),
        (HostState.UP, 0, 100_000, 100_000 - END_MS, "its stage host was ended, since a plan in it did not stop"),
        (HostState.STARTING, 1, 0, None, ""),
        (HostState.UP, 0, 100_001 - LEASE_MS, 100_001 - END_MS, ""),
        (HostState.LEAVING, 0, 0, 0, ""),
    ],
)
def test_a_host_that_is_late_silent_or_hangs_is_ended_and_its_plans_say_why(
    state: HostState, since_ms: int, heard_ms: int, ending_ms: int | None, reason: str
) -> None:
    hosts = Hosts()
    hosts.state.start_timeout_ms = 100_000
    plan = seat("p")
    hosts.state.hosts["d-1"] = Host("d-1", 1, since_ms, state, heard_ms)
    hosts.state.hosts["d-1"].seats[plan] = Seat(plan, runs=True, ending_ms=ending_ms)
    assert actions(hosts.tick(100_000)) == ([("END_HOST", "d-1", "")] if reason else [])
    (ended,) = hosts.state.host_ended("d-1", "cancelled")
    assert ended.reason == (reason or "cancelled")


# ---- placement ------------------------------------------------------------------------------------------------------


def test_the_first_plans_get_a_host_each_and_the_ninth_of_eight_slots_shares() -> None:
    hosts = Hosts()
    instructions = hosts.place(*(f"p{number}" for number in range(9)))
    assert [one.action for one in instructions] == [HostAction.START_HOST] * 4
    assert sorted(len(plans) for plans in hosts.where().values()) == [2, 2, 2, 3]
    assert not hosts.state.waiting


def test_tenants_share_no_host_and_each_gets_one_while_there_are_slots() -> None:
    hosts = Hosts()
    hosts.place(*(f"p{number}" for number in range(20)))
    for tenant in range(2, 6):
        hosts.place("q", tenant=tenant)
    assert [host.tenant for host in hosts.state.hosts.values()] == [1, 1, 1, 1, 2, 3, 4, 5]
    assert hosts.place("q", tenant=6) == []
    assert list(hosts.state.waiting) == [seat("q", 6)], "no slot is left for its host"


# ---- standby --------------------------------------------------------------------------------------------------------


def standing_by(slots: int = SLOTS) -> Hosts:
    """A driver of a passive node whose standby host has registered."""
    hosts = Hosts(slots)
    hosts.state.keep(frozenset({1}), 0)
    assert actions(hosts.tick()) == [("START_HOST", "d-1", "")]
    hosts.beat("d-1")
    return hosts


def test_a_standby_host_stays_though_nothing_runs_in_it() -> None:
    hosts = standing_by()
    for _ in range(4):
        hosts.beat("d-1")
        assert hosts.tick(IDLE_MS) == []


def test_a_plan_starts_in_the_standby_host_at_once() -> None:
    hosts = standing_by()
    hosts.beat("d-1")
    hosts.state.keep(frozenset(), hosts.now_ms)
    assert actions(hosts.place("p")) == [("RUN_TASK", "d-1", "p")]


def test_a_host_that_is_no_longer_kept_ends_when_no_plan_comes() -> None:
    hosts = standing_by()
    hosts.tick(IDLE_MS)
    hosts.beat("d-1")
    hosts.state.keep(frozenset(), hosts.now_ms)
    assert hosts.tick(IDLE_MS - 1) == []
    hosts.beat("d-1")
    assert actions(hosts.tick(1)) == [("END_HOST", "d-1", "")]


def test_a_standby_host_gives_its_slot_to_topologies_that_wait_for_one() -> None:
    hosts = standing_by()
    assert actions(hosts.tick(wanted=True)) == [("END_HOST", "d-1", "")]
    hosts.state.host_ended("d-1", "cancelled")
    assert hosts.tick(STANDBY_AGAIN_MS, wanted=True) == []


def test_a_standby_host_that_fails_is_not_started_again_and_again() -> None:
    hosts = standing_by()
    hosts.state.host_ended("d-1", "its process died")
    assert hosts.tick(STANDBY_AGAIN_MS - 1) == []
    assert actions(hosts.tick(1)) == [("START_HOST", "d-2", "")]


def test_one_host_of_a_tenant_is_kept_and_no_second_one() -> None:
    hosts = up("p", "q")
    hosts.state.keep(frozenset({1}), hosts.now_ms)
    for name, plan in (("d-1", "p"), ("d-2", "q")):
        hosts.state.end(seat(plan), hosts.now_ms)
        hosts.beat(name, told(seat(plan), "ended"))
    for name in ("d-1", "d-2"):
        hosts.beat(name)
    assert actions(hosts.tick(IDLE_MS)) == [("END_HOST", "d-2", "")]


def test_no_standby_host_is_started_without_a_free_slot() -> None:
    hosts = Hosts(slots=0)
    hosts.state.keep(frozenset({1}), 0)
    assert hosts.tick() == []


def test_without_a_free_slot_plans_share_what_hosts_there_are() -> None:
    hosts = up("p")
    hosts.slots = 1
    assert actions(hosts.place("q")) == [("RUN_TASK", "d-1", "q")]


def test_while_others_want_slots_no_second_host_of_a_tenant_is_started() -> None:
    hosts = up("p")
    hosts.state.place(seat("q"), 0)
    hosts.state.place(seat("q", tenant=2), 0)
    assert actions(hosts.tick(wanted=True)) == [("RUN_TASK", "d-1", "q"), ("START_HOST", "d-2", "")]


def test_a_plan_goes_into_a_host_in_which_nothing_runs_rather_than_into_a_new_one() -> None:
    hosts = up("p")
    hosts.state.end(seat("p"), 0)
    hosts.beat("d-1", told(seat("p"), "ended"))
    assert actions(hosts.place("q")) == [("RUN_TASK", "d-1", "q")]


def test_a_host_with_nothing_to_do_leaves_after_a_while_or_at_once_when_others_want_its_slot() -> None:
    hosts = up("p")
    hosts.beat("d-1", told(seat("p"), "ended"))
    assert hosts.tick(IDLE_MS - 1) == []
    assert actions(hosts.tick(wanted=True)) == [("END_HOST", "d-1", "")]
    assert actions(hosts.place("q")) == [("START_HOST", "d-2", "")], "one that leaves takes nobody in"


def test_the_plans_of_a_host_that_died_are_spread_over_those_that_are_left() -> None:
    hosts = up(*(f"p{number}" for number in range(12)))
    lost = hosts.where()["d-1"]
    instructions = hosts.state.host_ended("d-1", "its stage host ended: killed")
    assert [(one.action, one.seat.key.plan, one.reason) for one in instructions if one.seat] == [
        (HostAction.TASK_ENDED, name, "its stage host ended: killed") for name in lost
    ]
    hosts.slots = 3
    hosts.place(*lost)
    assert sorted(len(plans) for plans in hosts.where().values()) == [4, 4, 4]


# ---- orders ---------------------------------------------------------------------------------------------------------


def test_an_order_is_repeated_until_the_host_shows_that_it_was_followed() -> None:
    hosts = Hosts()
    hosts.place("p")
    assert actions(hosts.beat("d-1")) == [("RUN_TASK", "d-1", "p")]
    assert hosts.beat("d-1") == []
    hosts.now_ms += REPEAT_MS
    assert actions(hosts.beat("d-1")) == [("RUN_TASK", "d-1", "p")], "it was lost"
    assert hosts.beat("d-1", told(seat("p"), "waiting")) == []
    assert actions(hosts.beat("d-1", told(seat("p"), "starting"))) == [("TASK_RUNS", "d-1", "p")]
    assert hosts.beat("d-1", told(seat("p"))) == []
    assert actions(hosts.state.end(seat("p"), hosts.now_ms)) == [("END_TASK", "d-1", "p")]
    assert hosts.state.end(seat("p"), hosts.now_ms) == [], "cancelled twice"
    hosts.now_ms += REPEAT_MS
    assert actions(hosts.beat("d-1", told(seat("p")))) == [("END_TASK", "d-1", "p")]
    assert actions(hosts.beat("d-1", told(seat("p"), "ended"))) == [("TASK_ENDED", "d-1", "p")]
    assert hosts.beat("d-1", told(seat("p"), "ended")) == [], "told again, since the answer was lost"


def test_a_task_that_is_ended_while_it_starts_may_take_as_long_as_starting_takes() -> None:
    """Ending the host would end all of its plans for one whose code is compiled on a busy machine."""
    hosts = Hosts(slots=1)
    hosts.place("p", "q")
    starting = told(seat("p"), "starting")
    hosts.beat("d-1", starting, told(seat("q")))
    hosts.state.end(seat("p"), hosts.now_ms)
    for _ in range((END_STARTING_MS - 1) // 1_000):
        hosts.now_ms += 1_000
        hosts.beat("d-1", starting, told(seat("q")))
        assert hosts.tick(0) == []
    hosts.now_ms += 1_000
    hosts.beat("d-1", starting, told(seat("q")))
    assert actions(hosts.tick(0)) == [("END_HOST", "d-1", "")]


def test_a_host_whose_heartbeats_are_seen_to_come_late_may_be_silent_for_longer() -> None:
    hosts = Hosts()
    hosts.place("p")
    hosts.beat("d-1", told(seat("p")))
    for _ in range(3):
        hosts.now_ms += LEASE_MS - 1_000
        assert hosts.tick(0) == []
        hosts.beat("d-1", told(seat("p")))
    assert hosts.tick(LEASE_MS + 1_000) == []
    assert actions(hosts.tick(3 * LEASE_MS)) == [("END_HOST", "d-1", "")]


def test_a_host_whose_process_loads_may_take_longer_than_one_without_a_process() -> None:
    hosts = Hosts(slots=1)
    hosts.place("p")
    assert hosts.state.overdue(hosts.now_ms) == []
    hosts.now_ms += START_MS
    assert hosts.state.overdue(hosts.now_ms) == ["d-1"]
    hosts.state.launched("d-1")
    assert hosts.tick(START_MS) == []
    assert actions(hosts.tick(START_MS)) == [("END_HOST", "d-1", "")]


def test_each_host_that_starts_too_slowly_gives_the_next_twice_the_time_up_to_eight_times() -> None:
    hosts = Hosts(slots=1)
    hosts.state.start_timeout_ms = START_MS
    for times in (1, 2, 4, 8, 8):
        hosts.place("p")
        (name,) = hosts.state.hosts
        assert hosts.tick(times * START_MS - 1) == []
        assert hosts.state.overdue(hosts.now_ms) == []
        assert actions(hosts.tick(1)) == [("END_HOST", name, "")]
        hosts.state.host_ended(name, "cancelled")
    hosts.place("p")
    (name,) = hosts.state.hosts
    hosts.beat(name)
    hosts.state.host_ended(name, "killed")
    hosts.place("p")
    assert actions(hosts.tick(START_MS)) == [("END_HOST", *hosts.state.hosts, "")], "one has started in time"


def test_a_host_with_a_process_is_never_waited_for_longer_than_eight_times() -> None:
    hosts = Hosts(slots=1)
    hosts.state.start_timeout_ms = START_MS
    for times in (3, 3, 4, 8, 8):
        hosts.place("p")
        (name,) = hosts.state.hosts
        hosts.state.launched(name)
        assert hosts.tick(times * START_MS - 1) == []
        assert actions(hosts.tick(1)) == [("END_HOST", name, "")]
        hosts.state.host_ended(name, "cancelled")


def test_hosts_that_start_at_the_same_time_double_the_limit_once() -> None:
    hosts = Hosts(slots=8)
    hosts.state.start_timeout_ms = START_MS
    hosts.place(*(f"p{number}" for number in range(4)))
    assert len(hosts.tick(START_MS)) == 4
    for name in list(hosts.state.hosts):
        hosts.state.host_ended(name, "cancelled")
    hosts.place("p")
    assert hosts.tick(2 * START_MS - 1) == []
    assert len(hosts.tick(1)) == 1


def test_a_host_that_registers_though_it_was_ended_is_ended_again() -> None:
    hosts = Hosts()
    hosts.place("p")
    assert actions(hosts.tick(START_MS)) == [("END_HOST", "d-1", "")]
    assert actions(hosts.beat("d-1", told(seat("p")))) == [("END_HOST", "d-1", "")]


def test_a_task_that_nobody_knows_is_ended() -> None:
    hosts = up("p")
    assert actions(hosts.beat("d-1", told(seat("p")), told(seat("old", attempt=3)))) == [("END_TASK", "d-1", "old")]


def test_a_plan_that_is_killed_before_it_has_a_seat_has_ended() -> None:
    hosts = Hosts(slots=0)
    hosts.place("p")
    assert actions(hosts.state.end(seat("p"), 0)) == [("TASK_ENDED", "", "p")]
    assert hosts.tick() == []


def test_one_plan_that_fails_ends_alone_and_says_why() -> None:
    hosts = up("p", "q", slots=2)
    (ended,) = hosts.beat("d-1", told(seat("p"), "ended", "ZeroDivisionError"), told(seat("q")))
    assert (ended.action, ended.seat, ended.ended and ended.ended.code) == (
        HostAction.TASK_ENDED,
        seat("p"),
        "ZeroDivisionError",
    )
    assert hosts.where() == {"d-1": ["q"]}


def test_a_plan_that_does_not_stop_ends_its_host_which_says_so() -> None:
    hosts = up("p", "q", slots=2)
    hosts.state.end(seat("p"), hosts.now_ms)
    hosts.now_ms += END_MS
    hosts.beat("d-1", told(seat("p")), told(seat("q")))
    assert actions(hosts.tick()) == [("END_HOST", "d-1", "")]
    reasons = {one.reason for one in hosts.state.host_ended("d-1", "cancelled")}
    assert reasons == {"its stage host was ended, since a plan in it did not stop"}


# ---- strikes --------------------------------------------------------------------------------------------------------


def test_the_plan_that_ended_two_hosts_gets_no_seat_any_more_and_nobody_else() -> None:
    hosts = up("p", "q", slots=2)
    blame = Blame("d-1", PlanKey(1, "p"), "it was running")
    hosts.beat("d-1", blames=(blame, blame, Blame("other-7", PlanKey(1, "q"), "of another driver")))
    assert not hosts.state.stands_alone(PlanKey(1, "p"), 0), "one host is held against it once"
    hosts.beat("d-1", blames=(Blame("d-9", PlanKey(1, "p"), "it was running"),))
    assert hosts.state.stands_alone(PlanKey(1, "p"), 0)
    assert not hosts.state.stands_alone(PlanKey(1, "q"), 0)
    assert not hosts.state.stands_alone(PlanKey(1, "p"), STRIKES_MS), "after a while it may try again"
    hosts.state.forget(PlanKey(1, "p"))
    assert not hosts.state.stands_alone(PlanKey(1, "p"), 0), "another plan of the name has done nothing"


# ---- whatever happens -----------------------------------------------------------------------------------------------


class HostsMachine(RuleBasedStateMachine):
    """A driver and its hosts, between which every message may be lost."""

    def __init__(self) -> None:
        super().__init__()
        self.hosts = Hosts(slots=4)
        self.attempts: dict[str, int] = {}
        self.wanted: dict[SeatId, str] = {}
        self.inside: dict[str, dict[SeatId, HostedTask]] = {}
        self.ended: list[SeatId] = []

    def do(self, instructions: list[HostInstruction], lost: bool) -> None:
        for one in instructions:
            if one.action is HostAction.START_HOST:
                self.inside[one.host] = {}
            elif one.action is HostAction.END_HOST:
                self.do(self.die(one.host), lost)
            elif one.action is HostAction.TASK_ENDED and one.seat is not None:
                assert self.wanted.pop(one.seat, "") or self.fail(one.seat)
                self.ended.append(one.seat)
            elif lost or one.host not in self.inside or one.seat is None:
                continue
            elif one.action is HostAction.RUN_TASK:
                self.inside[one.host].setdefault(one.seat, told(one.seat))
            elif one.action is HostAction.END_TASK:  # also of one that has never come
                self.inside[one.host][one.seat] = told(one.seat, "ended")

    def fail(self, one: SeatId) -> bool:
        raise AssertionError(f"{one} has ended twice, or was never given a seat")

    def die(self, host: str) -> list[HostInstruction]:
        self.inside.pop(host, None)
        return self.hosts.state.host_ended(host, "died")

    @rule(name=st.sampled_from("abcdef"), tenant=st.sampled_from((1, 2)))
    def start(self, name: str, tenant: int) -> None:
        if any(one.key == PlanKey(tenant, name) for one in self.wanted):
            return
        self.attempts[name] = self.attempts.get(name, 0) + 1
        one = seat(name, tenant, self.attempts[name])
        self.wanted[one] = name
        self.hosts.state.place(one, self.hosts.now_ms)

    @rule(data=st.data(), lost=st.booleans())
    def end(self, data: st.DataObject, lost: bool) -> None:
        if self.wanted:
            one = data.draw(st.sampled_from(sorted(self.wanted)))
            self.do(self.hosts.state.end(one, self.hosts.now_ms), lost)

    @rule(ms=st.sampled_from((0, 100, REPEAT_MS, IDLE_MS)), lost=st.booleans(), wanted=st.booleans())
    def time(self, ms: int, lost: bool, wanted: bool) -> None:
        self.do(self.hosts.tick(ms, wanted=wanted), lost)

    @rule(data=st.data(), lost=st.booleans(), answered=st.booleans())
    def beat(self, data: st.DataObject, lost: bool, answered: bool) -> None:
        if self.inside:
            host = data.draw(st.sampled_from(sorted(self.inside)))
            tasks = dict(self.inside[host])
            self.do(self.hosts.beat(host, *tasks.values()), lost)
            for one, task in tasks.items() if answered and host in self.inside else ():
                if task.state == "ended":
                    self.inside[host].pop(one, None)

    @rule(data=st.data())
    def kill_a_host(self, data: st.DataObject) -> None:
        if self.inside:
            self.do(self.die(data.draw(st.sampled_from(sorted(self.inside)))), lost=False)

    @invariant()
    def every_plan_has_one_place(self) -> None:
        state = self.hosts.state
        seats = [one for host in state.hosts.values() for one in host.seats]
        assert len(seats) == len(set(seats))
        assert set(seats) | set(state.waiting) == set(self.wanted)
        assert all(host.tenant == one.key.tenant for host in state.hosts.values() for one in host.seats)
        assert state.slots <= 4

    def teardown(self) -> None:
        """When messages come through again, every plan runs."""
        for _ in range(4):
            self.do(self.hosts.tick(REPEAT_MS), lost=False)
            for host in sorted(self.inside):
                tasks = dict(self.inside[host])
                self.do(self.hosts.beat(host, *tasks.values()), lost=False)
                for one, task in tasks.items():
                    if task.state == "ended":
                        self.inside.get(host, {}).pop(one, None)
        running = {one for tasks in self.inside.values() for one in tasks}
        assert {one for host in self.hosts.state.hosts.values() for one in host.seats} == running


TestHostsMachine = HostsMachine.TestCase
TestHostsMachine.settings = settings(max_examples=examples(40), stateful_step_count=25, deadline=None)


def test_a_heartbeat_without_a_list_repeats_what_the_last_list_did_not_show() -> None:
    hosts = up("a")
    (name,) = hosts.state.hosts
    assert hosts.state.beat(name, (), hosts.now_ms) == [], "all is as it was ordered"
    hosts.state.end(seat("a"), hosts.now_ms)
    assert hosts.state.beat(name, (), hosts.now_ms) == [], "the order may still be under way"
    hosts.now_ms += REPEAT_MS
    assert actions(hosts.state.beat(name, (), hosts.now_ms)) == [("END_TASK", name, "a")]
    assert actions(hosts.beat(name, told(seat("a"), "ended"))) == [("TASK_ENDED", name, "a")]
    hosts.now_ms += REPEAT_MS
    assert hosts.state.beat(name, (), hosts.now_ms) == []


def test_what_was_given_up_is_ended_with_each_heartbeat_until_the_host_no_longer_lists_it() -> None:
    hosts = up("a")
    (name,) = hosts.state.hosts
    stray = seat("a", attempt=7)
    ends = [("END_TASK", name, "a")]
    assert actions(hosts.beat(name, told(seat("a")), told(stray))) == ends
    assert actions(hosts.state.beat(name, (), hosts.now_ms)) == ends
    assert hosts.beat(name, told(seat("a")), told(stray, "ended")) == []
    assert hosts.state.beat(name, (), hosts.now_ms) == []


def test_heartbeats_without_a_list_keep_a_host() -> None:
    hosts = up("a")
    (name,) = hosts.state.hosts
    for _ in range(4):
        hosts.now_ms += LEASE_MS - 1
        assert hosts.state.beat(name, (), hosts.now_ms) == []
        assert hosts.tick() == []
    assert actions(hosts.tick(3 * LEASE_MS)) == [("END_HOST", name, "")]
    assert hosts.state.beat("d-9", (), hosts.now_ms) == [], "a host that is unknown"
