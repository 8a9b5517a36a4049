"""When checkpoints begin, end and fail: rule by rule, then in made-up worlds where messages and tasks get lost."""

from __future__ import annotations

import itertools
import random

import pytest

from cep_common.ids import Endpoint, PlanKey
from cep_common.protocol.checkpoints import (
    AbandonCheckpoint,
    BeginCheckpoint,
    CompleteCheckpoint,
    JoinTopology,
    ReportPart,
    StoredState,
    TopologyJoined,
)
from cep_common.protocol.registry import CheckpointSpan, Message, Rejected
from topology.checkpoint.coordination.coordinator import Coordinator, Timing
from topology.checkpoint.coordination.instructions import (
    Drained,
    Instruction,
    OpenRun,
    ProbeTask,
    Push,
    ReserveNumbers,
    RestartTopology,
    SavepointEnded,
    WriteManifest,
)
from topology.checkpoint.coordination.runs import TRANSITIONS, CheckpointedRun, Opening, Phase, RunId, RunTransition

KEY = PlanKey(-1234, "Delays")
TIMING = Timing(
    interval_ms=10_000, timeout_ms=5_000, drain_ms=9_000, pause_ms=500, heartbeat_ms=500, lease_ms=3_000, join_ms=60_000
)
RUN = RunId(KEY, 4, 1)
FIRST = Opening((), 20, 30)
LATER = Opening((CheckpointSpan(4, 0, 17),), 20, 30)


def joining(run: RunId, task: int, settled: int = 0) -> JoinTopology:
    return JoinTopology(run.key, run.epoch, run.attempt, task, exchange_of(task), settled)


def exchange_of(task: int) -> Endpoint:
    return Endpoint("127.0.0.1", 15_000 + task)


def without_probes(instructions: list[Instruction]) -> list[Instruction]:
    """Everything but the probes of silent tasks."""
    return [one for one in instructions if not isinstance(one, ProbeTask)]


class World:
    """A coordinator whose tasks all beat, at a time that only `pass_ms` moves."""

    def __init__(
        self,
        tasks: int = 2,
        takes: bool = True,
        timing: Timing = TIMING,
        opening: Opening = FIRST,
        query_plan: str = "",
    ) -> None:
        self.query_plan = query_plan
        self.coordinator = Coordinator(timing, takes)
        self.tasks = tasks
        self.now_ms = 0
        self.settled = 0
        self.done: list[Instruction] = []
        self.begin(RUN, opening)

    def begin(self, run: RunId, opening: Opening | None) -> None:
        self.done += self.coordinator.begin_run(run, self.tasks, opening, query_plan=self.query_plan)
        self.coordinator.job_runs(run, self.now_ms)

    def beat(self, run: RunId = RUN, tasks: tuple[int, ...] | None = None) -> list[Message]:
        return [
            self.coordinator.join(b"%d" % task, joining(run, task, self.settled), self.now_ms)
            for task in (range(self.tasks) if tasks is None else tasks)
        ]

    def pass_ms(self, milliseconds: int, beating: bool = True) -> list[Instruction]:
        """What was ordered meanwhile."""
        before = len(self.done)
        end_ms = self.now_ms + milliseconds
        while self.now_ms < end_ms:
            self.now_ms = min(end_ms, self.now_ms + 250)
            if beating:
                self.beat()
            self.done += self.coordinator.on_time(self.now_ms)
        return self.done[before:]

    def report(self, checkpoint: int, *tasks: int, error: str = "", run: RunId = RUN) -> list[Instruction]:
        found = []
        for task in tasks:
            states = (StoredState(f"all#{task}", 1, inline=b"x"),)
            part = ReportPart(run.key, run.epoch, run.attempt, task, checkpoint, states, (), 7, 100, error)
            found += self.coordinator.report(part, self.now_ms)
        self.done += found
        return found

    def written(self, checkpoint: int, error: str = "") -> list[Instruction]:
        found = self.coordinator.written(RUN, checkpoint, error, self.now_ms)
        self.done += found
        return found

    def run(self) -> CheckpointedRun:
        return self.coordinator.runs[KEY, 4]


def pushed(instructions: list[Instruction]) -> list[tuple[bytes, Message]]:
    return [(one.peer, one.message) for one in instructions if isinstance(one, Push)]


def to_both(message: Message) -> list[tuple[bytes, Message]]:
    return [(b"0", message), (b"1", message)]


@pytest.mark.parametrize(("interval_ms", "expected"), [(0, 0), (60_000, 10), (300_000, 2)])
def test_a_plan_with_an_interval_of_its_own_has_checkpoints_as_often(interval_ms: int, expected: int) -> None:
    """All plans have one second; this one has none, one each minute, or one in five minutes."""
    world = World()
    world.coordinator.begin_run(RUN, world.tasks, FIRST, interval_ms)
    world.coordinator.job_runs(RUN, world.now_ms)
    taken = 0
    for _ in range(601):
        begun = [one.message for one in world.pass_ms(1_000) if isinstance(one, Push)]
        for number in {one.checkpoint for one in begun if isinstance(one, BeginCheckpoint)}:
            world.report(number, 0, 1)
            world.written(number)
            taken += 1
        world.coordinator.numbers_reserved(RUN, 10_000)
    assert taken == expected


@pytest.mark.parametrize(("phase", "move"), list(itertools.product(Phase, RunTransition)))
def test_every_move_in_every_phase_does_what_the_table_says_or_nothing(phase: Phase, move: RunTransition) -> None:
    world = World()
    world.beat()
    run = world.run()
    if phase in (Phase.TAKING, Phase.WRITING):
        world.pass_ms(10_000)
        world.report(21, *((0, 1) if phase is Phase.WRITING or move is not RunTransition.REPORTED else (0,)))
    if move is RunTransition.JOINED:
        run.seen.clear()
        world.beat(tasks=(0,))
    run.phase = phase
    {
        RunTransition.JOINED: lambda: world.beat(tasks=(1,)),
        RunTransition.BEGIN: lambda: (setattr(run, "due_ms", 0), world.pass_ms(500, beating=False)),
        RunTransition.REPORTED: lambda: world.report(21, 1),
        RunTransition.FAILED: lambda: (world.report(21, 1, error="disk full"), world.written(21, "disk full")),
        RunTransition.WRITTEN: lambda: world.written(21),
    }[move]()
    assert run.phase is TRANSITIONS.get((phase, move), phase)


def test_tasks_that_have_not_reported_are_told_again_in_each_lease() -> None:
    world = World()
    world.beat()
    assert pushed(world.pass_ms(10_000)) == to_both(BeginCheckpoint(21))
    world.report(21, 0)
    assert pushed(world.pass_ms(2_750)) == []
    assert pushed(world.pass_ms(250)) == [(b"1", BeginCheckpoint(21))]
    assert pushed(world.pass_ms(1_750)) == []
    world.report(21, 1)
    world.written(21)
    assert pushed(world.pass_ms(5_000)) == []


def test_tasks_learn_where_the_others_listen_as_soon_as_all_have_joined() -> None:
    world = World()
    assert world.beat(tasks=(1,)) == [TopologyJoined(500, 3_000)]
    assert world.beat(tasks=(1,)) == [TopologyJoined(500, 3_000)]
    exchanges = (exchange_of(0), exchange_of(1))
    assert world.beat() == [TopologyJoined(500, 3_000, exchanges)] * 2


def test_a_task_that_comes_by_another_link_is_told_of_the_checkpoint_at_once() -> None:
    world = World(tasks=1)
    world.beat()
    world.pass_ms(10_000)
    world.coordinator.join(b"another", joining(RUN, 0), world.now_ms)
    assert pushed(world.coordinator.on_time(world.now_ms)) == [(b"another", BeginCheckpoint(21))]
    assert pushed(world.coordinator.on_time(world.now_ms)) == []


def test_a_checkpoint_begins_at_its_interval_is_complete_when_all_have_reported_and_the_manifest_is_written() -> None:
    world = World()
    world.beat()
    assert world.pass_ms(9_750) == []
    assert pushed(world.pass_ms(250)) == to_both(BeginCheckpoint(21))
    assert world.report(21, 0) == []
    (writing,) = world.report(21, 1)
    assert isinstance(writing, WriteManifest)
    assert [part.task for part in writing.parts] == [0, 1]
    assert pushed(world.pass_ms(1_000)) == []
    assert world.run().spans() == (CheckpointSpan(4, 1, 0),)
    assert pushed(world.written(21)) == to_both(CompleteCheckpoint(21))
    assert world.run().spans() == (CheckpointSpan(4, 1, 21),)
    done = world.run().history[-1]
    assert (done.state, done.duration_ms, done.size_bytes, done.stored_bytes, done.alignment_ms) == (
        "complete", 1_000, 2, 200, 7,
    )  # fmt: skip


def test_a_run_that_was_started_again_takes_its_first_checkpoint_soon_and_each_at_twice_the_distance() -> None:
    world = World(opening=LATER)
    assert began_after_ms(world, 32_000) == [500, 1_500, 3_500, 7_500, 15_500, 25_500]
    assert world.run().spans() == (CheckpointSpan(4, 0, 17), CheckpointSpan(4, 1, 26))


@pytest.mark.parametrize("span", [CheckpointSpan(3, 2, 17), CheckpointSpan(4, 0, 0)])
def test_a_new_epoch_keeps_the_interval_as_its_plan_may_still_go_back_to_the_former_text(span: CheckpointSpan) -> None:
    assert began_after_ms(World(opening=Opening((span,), 20, 30)), 22_000) == [10_000, 20_000]


@pytest.mark.parametrize(
    ("continues", "began"),
    [(("plan", 2), [500, 1_500, 3_500]), (("another plan", 2), []), (("plan", 3), []), (None, [])],
)
def test_a_new_epoch_of_the_same_plan_takes_its_first_checkpoint_soon(
    continues: tuple[str, int] | None, began: list[int]
) -> None:
    """Another node that takes over starts the plan under a new epoch; its exactly-once results wait for checkpoints."""
    opening = Opening((CheckpointSpan(3, 2, 17),), 20, 30, continues)
    assert began_after_ms(World(opening=opening, query_plan="plan"), 7_000) == began


def test_early_checkpoints_that_take_long_take_half_of_the_time_at_most() -> None:
    world = World(opening=LATER)
    assert began_after_ms(world, 25_000, takes_ms=1_500) == [500, 3_500, 6_500, 10_500, 18_500]


def test_an_early_checkpoint_that_fails_is_tried_again_at_the_next_distance() -> None:
    world = World(opening=LATER)
    assert began_after_ms(world, 2_000, error="No space left on device") == [500, 1_500]


def test_a_savepoint_that_is_asked_for_at_once_comes_before_the_first_checkpoint() -> None:
    world = World(opening=LATER)
    world.beat()
    world.coordinator.take_savepoint(KEY, 4, "kept")
    assert pushed(world.pass_ms(250)) == to_both(BeginCheckpoint(21))
    assert world.run().history[-1].trigger == "savepoint"
    world.report(21, 0, 1)
    world.written(21)
    assert pushed(world.pass_ms(750)) == []
    assert pushed(world.pass_ms(250)) == to_both(BeginCheckpoint(22))


def test_a_run_that_opens_beside_an_older_epoch_keeps_the_interval_from_when_its_tasks_joined() -> None:
    world = World()
    newer = RunId(KEY, 5, 0)
    world.coordinator.begin_run(newer, 1, None)
    world.coordinator.join(b"9", joining(newer, 0), world.now_ms)
    world.coordinator.end_run(RUN, "the newer one has taken over")
    (asked,) = world.coordinator.on_time(1_000)
    assert asked == OpenRun(newer)
    world.coordinator.open_run(newer, Opening((CheckpointSpan(4, 1, 17),), 20, 30))
    for now_ms in range(2_000, 12_000, 1_000):
        world.coordinator.join(b"9", joining(newer, 0), now_ms)
        assert pushed(world.coordinator.on_time(now_ms)) == ([(b"9", BeginCheckpoint(21))] if now_ms == 10_000 else [])


@pytest.mark.parametrize(("interval_ms", "began_ms"), [(250, [250, 500, 750, 1_000]), (0, [])])
def test_a_run_that_was_started_again_keeps_to_a_short_interval_and_to_none(
    interval_ms: int, began_ms: list[int]
) -> None:
    timing = Timing(interval_ms, 5_000, pause_ms=0, heartbeat_ms=500, lease_ms=3_000, join_ms=60_000)
    assert began_after_ms(World(timing=timing, opening=LATER), 1_000) == began_ms


def began_after_ms(world: World, milliseconds: int, takes_ms: int = 0, error: str = "") -> list[int]:
    """When checkpoints began after all tasks had joined; each takes so long, and is complete then or fails."""
    world.pass_ms(3_000, beating=False)
    world.beat()
    joined_ms = world.now_ms
    began_ms = []
    while world.now_ms < joined_ms + milliseconds:
        for _, message in pushed(world.pass_ms(250))[:1]:
            assert isinstance(message, BeginCheckpoint)
            began_ms.append(world.now_ms - joined_ms)
            world.pass_ms(takes_ms)
            world.report(message.checkpoint, 0, 1)
            world.written(message.checkpoint, error)
    return began_ms


def test_no_checkpoint_begins_before_all_tasks_have_joined() -> None:
    world = World()
    world.beat(tasks=(0,))
    world.coordinator.on_time(0)
    for now_ms in range(0, 50_000, 500):
        world.now_ms = now_ms
        world.beat(tasks=(0,))
        assert world.coordinator.on_time(now_ms) == []


def test_one_error_is_enough_and_the_next_checkpoint_has_another_number() -> None:
    world = World()
    world.pass_ms(10_250)
    world.report(21, 0)
    assert pushed(world.report(21, 1, error="No space left on device")) == to_both(AbandonCheckpoint(21))
    assert (world.run().history[-1].error, world.run().failures) == ("task 1: No space left on device", 1)
    assert world.report(21, 1) == []
    assert pushed(world.pass_ms(10_000)) == to_both(BeginCheckpoint(22))


def test_a_checkpoint_that_takes_too_long_is_abandoned_and_one_at_most_is_under_way() -> None:
    world = World(timing=Timing(1_000, 5_000, 500, 500, 3_000, 60_000))
    assert pushed(world.pass_ms(1_250)) == to_both(BeginCheckpoint(21))
    world.report(21, 0)
    assert pushed(world.pass_ms(4_750)) == [(b"1", BeginCheckpoint(21))], "told again, for it may not know"
    assert pushed(world.pass_ms(250)) == to_both(AbandonCheckpoint(21))
    assert world.run().history[-1].error == "not all tasks had reported within 5000 ms; missing: 1"
    told = world.run().history[-1]
    assert (told.state, told.acknowledged, told.tasks, told.trigger) == ("abandoned", 1, 2, "interval")
    assert world.report(21, 1) == []
    assert pushed(world.pass_ms(250)) == []
    assert pushed(world.pass_ms(500)) == to_both(BeginCheckpoint(22))


def test_a_manifest_that_cannot_be_written_makes_no_checkpoint() -> None:
    world = World()
    world.pass_ms(10_250)
    world.report(21, 0, 1)
    assert pushed(world.written(21, "the store does not answer")) == to_both(AbandonCheckpoint(21))
    assert world.run().last_complete == 0


def test_numbers_are_given_out_only_when_they_are_reserved() -> None:
    world = World(timing=Timing(1_000, 5_000, 0, 500, 3_000, 60_000))
    begun = []
    for _ in range(12):
        for _, message in pushed(world.pass_ms(1_000))[:1]:
            assert isinstance(message, BeginCheckpoint)
            begun.append(message.checkpoint)
            world.report(message.checkpoint, 0, 1)
            world.written(message.checkpoint)
    assert begun == list(range(21, 31))
    assert [one for one in world.done if isinstance(one, ReserveNumbers)] == [ReserveNumbers(RUN)]
    world.coordinator.numbers_reserved(RUN, 40)
    assert pushed(world.pass_ms(1_000)) == to_both(BeginCheckpoint(31))


def test_a_silent_task_is_lost_exactly_at_its_lease_and_told_of_once() -> None:
    world = World()
    world.beat()
    for now_ms in range(0, 3_000, 250):
        world.now_ms = now_ms
        world.beat(tasks=(0,))
        assert without_probes(world.coordinator.on_time(now_ms)) == []
    world.beat(tasks=(0,))
    assert world.coordinator.on_time(3_000) == [RestartTopology(RUN, "task 1 was silent for 3000 ms")]
    assert world.coordinator.on_time(3_250) == []
    assert not any(isinstance(one, Push) for one in world.pass_ms(20_000))


def test_a_task_that_is_silent_for_a_while_is_probed_once_in_each_heartbeat_interval() -> None:
    world = World()
    world.beat()
    probed_ms = []
    for now_ms in range(0, 3_000, 125):
        world.now_ms = now_ms
        world.beat(tasks=(0,))
        for one in world.coordinator.on_time(now_ms):
            assert one == ProbeTask(RUN, 1, world.coordinator.runs[KEY, 4].seen[1].exchange)
            probed_ms.append(now_ms)
    assert probed_ms == [1_250, 1_750, 2_250, 2_750]


def test_a_task_whose_process_is_gone_is_lost_at_once_and_told_of_once() -> None:
    world = World()
    world.beat()
    assert world.coordinator.task_ended(RUN, 1) == [RestartTopology(RUN, "the process of task 1 has ended")]
    assert world.coordinator.task_ended(RUN, 1) == []
    assert world.coordinator.task_ended(RunId(KEY, 4, RUN.attempt + 1), 1) == []


def test_while_heartbeats_come_late_a_silent_task_is_given_more_time() -> None:
    world = World()
    world.beat()
    world.now_ms = 2_000  # a gap of 2,000 ms where 500 are agreed
    world.beat()
    for now_ms in range(2_000, 2_000 + 3_000 + 2 * 1_500, 250):
        assert without_probes(world.coordinator.on_time(now_ms)) == []
    lost = world.coordinator.on_time(2_000 + 3_000 + 2 * 1_500)
    assert lost == [RestartTopology(RUN, "tasks 0, 1 were silent for 6000 ms")]


def test_a_task_that_never_joins_is_lost_too() -> None:
    world = World()
    for now_ms in range(0, 60_000, 1_000):
        world.now_ms = now_ms
        world.beat(tasks=(1,))
        assert world.coordinator.on_time(now_ms) == []
    world.beat(tasks=(1,))
    (lost,) = world.coordinator.on_time(60_000)
    assert lost == RestartTopology(RUN, "task 0 was never heard within 60 s")


def test_after_a_pause_of_the_driver_itself_no_task_is_taken_for_lost() -> None:
    world = World()
    world.pass_ms(1_000)
    world.now_ms += 60_000
    assert not any(isinstance(one, RestartTopology) for one in world.coordinator.on_time(world.now_ms))
    lost = [one for one in world.pass_ms(3_000, beating=False) if isinstance(one, RestartTopology)]
    assert lost == [RestartTopology(RUN, "tasks 0, 1 were silent for 3000 ms")]


@pytest.mark.parametrize(("epoch", "attempt"), [(3, 1), (5, 1), (4, 0), (4, 2)])
def test_tasks_of_another_epoch_or_attempt_are_refused_and_their_parts_do_not_count(epoch: int, attempt: int) -> None:
    world = World()
    world.pass_ms(10_250)
    other = RunId(KEY, epoch, attempt)
    (answer,) = world.beat(other, (0,))
    assert isinstance(answer, Rejected)
    assert answer.code == "stale-epoch"
    world.report(21, 0)
    assert world.report(21, 1, run=other) == []
    assert world.coordinator.written(other, 21, "", world.now_ms) == []


def test_without_a_store_tasks_are_watched_and_nothing_is_taken() -> None:
    world = World(takes=False)
    assert world.pass_ms(30_000) == []
    assert world.coordinator.take_savepoint(KEY, 4, "a") == [
        SavepointEnded(KEY, "a", "checkpoint.location in the driver's configuration is empty: nothing can be stored")
    ]
    assert any(isinstance(one, RestartTopology) for one in world.pass_ms(3_000, beating=False))


def test_a_savepoint_is_a_checkpoint_with_a_name_behind_the_one_that_is_under_way() -> None:
    world = World()
    world.pass_ms(10_250)
    assert world.coordinator.take_savepoint(KEY, 4, "before") == []
    assert pushed(world.pass_ms(500)) == []
    world.report(21, 0, 1)
    world.written(21)
    assert pushed(world.pass_ms(250)) == to_both(BeginCheckpoint(22))
    (writing,) = world.report(22, 0, 1)
    assert isinstance(writing, WriteManifest)
    assert writing.name == "before"
    assert SavepointEnded(KEY, "before", "") in world.written(22)


def test_a_savepoint_that_fails_says_why_also_when_its_topology_ends() -> None:
    world = World(timing=Timing(0, 5_000, 0, 500, 3_000, 60_000))
    world.pass_ms(1_000)
    world.coordinator.take_savepoint(KEY, 4, "one")
    world.coordinator.take_savepoint(KEY, 4, "two")
    world.pass_ms(250)
    assert SavepointEnded(KEY, "one", "task 0: broken") in world.report(21, 0, error="broken")
    assert world.coordinator.end_run(RUN, "cancelled") == [SavepointEnded(KEY, "two", "cancelled")]
    assert world.coordinator.take_savepoint(KEY, 4, "three") == [
        SavepointEnded(KEY, "three", "the topology does not run")
    ]


def test_what_was_taken_before_a_restart_is_told_of_after_it() -> None:
    world = World()
    world.pass_ms(10_250)
    world.coordinator.end_run(RUN, "a stage process died")
    world.begin(RunId(KEY, 4, 2), LATER)
    told = world.run().history[-1]
    assert (told.checkpoint, told.state) == (21, "abandoned")
    assert told.error == "the topology ended: a stage process died"
    assert world.run().failures == 0, "the store is well"
    world.coordinator.end_run(RunId(KEY, 4, 2), "killed")
    world.coordinator.forget(KEY, 4)
    world.begin(RunId(KEY, 4, 3), LATER)
    assert not world.run().history


def test_a_topology_that_is_to_end_takes_a_final_checkpoint_and_no_other() -> None:
    world = World()
    world.pass_ms(1_000)
    assert world.coordinator.drain(RUN, world.now_ms) == []
    assert pushed(world.pass_ms(250)) == to_both(BeginCheckpoint(21, final=True))
    world.report(21, 0, 1)
    assert Drained(RUN, "") in world.written(21)
    assert world.pass_ms(30_000) == []


def test_a_topology_with_stored_tables_ends_when_they_are_written_or_late() -> None:
    for settled, ends in ((21, ""), (20, "its last checkpoint was not settled in time")):
        world = World()
        world.pass_ms(1_000)
        world.coordinator.drain(RUN, world.now_ms)
        world.pass_ms(250)
        for task in (0, 1):
            part = ReportPart(RUN.key, RUN.epoch, RUN.attempt, task, 21, settles=task == 1)
            world.coordinator.report(part, world.now_ms)
        assert not any(isinstance(one, Drained) for one in world.written(21))
        assert world.pass_ms(1_000) == []
        world.settled = settled
        assert world.pass_ms(250) == ([] if ends else [Drained(RUN, "")])
        assert world.pass_ms(7_500) == ([Drained(RUN, ends)] if ends else [])
        assert world.pass_ms(9_000) == []


def test_the_end_waits_for_a_final_checkpoint_only_so_long() -> None:
    world = World()
    world.pass_ms(10_250)
    world.coordinator.drain(RUN, world.now_ms)
    world.coordinator.drain(RUN, world.now_ms)
    drained = [one for one in world.pass_ms(9_000) if isinstance(one, Drained)]
    assert drained == [Drained(RUN, "its last checkpoint was not complete in time")]
    joining = World()
    assert joining.coordinator.drain(RUN, 0) == [Drained(RUN, "its tasks are not running")]
    joining.coordinator.end_run(RUN, "gone")
    assert joining.coordinator.drain(RUN, 0) == [Drained(RUN, "the topology does not run")]


def test_a_newer_epoch_takes_checkpoints_when_the_older_one_has_ended() -> None:
    world = World()
    newer = RunId(KEY, 5, 0)
    world.beat()
    world.begin(newer, None)
    assert world.coordinator.take_savepoint(KEY, 5, "a") == [
        SavepointEnded(KEY, "a", "another epoch of the plan still runs")
    ]

    def pass_s(seconds: int) -> list[Instruction]:
        found: list[Instruction] = []
        for _ in range(seconds):
            world.beat(newer)
            found += world.pass_ms(1_000)
        return found

    assert pushed(pass_s(11)) == to_both(BeginCheckpoint(21))
    world.coordinator.end_run(RUN, "killed")
    assert pass_s(1) == [OpenRun(newer)]
    world.coordinator.open_run(newer, Opening((CheckpointSpan(4, 1, 0),), 30, 40))
    assert pushed(pass_s(1)) == to_both(BeginCheckpoint(31))


# ---- made-up worlds --------------------------------------------------------------------------------------------------


class Simulation:
    """A plan whose tasks die and hang, over a network that drops, delays and repeats; the driver restarts it. After
    each step the promises are checked."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)  # noqa: S311 - the same in each run
        self.coordinator = Coordinator(Timing(1_000, 2_000, 100, 250, 1_500, 4_000), takes=True)
        self.now_ms = 0
        self.attempt = -1
        self.alive: set[int] = set()
        self.mail: list[tuple[int, int, Message, int]] = []
        """When each letter comes, a number of its own, the letter, and the task that it goes to (-1: the driver)."""
        self.number = itertools.count()
        self.reserved = 0
        self.given: set[int] = set()
        self.stored_parts: set[tuple[int, int, int]] = set()
        self.manifests: dict[int, int] = {}
        self.told_complete: set[int] = set()
        self.under_way: int | None = None
        self.spans: tuple[CheckpointSpan, ...] = ()
        self.restart()

    def restart(self) -> None:
        if self.attempt >= 0:
            self.do(self.coordinator.end_run(RunId(KEY, 1, self.attempt), "lost"))
            last = max((number for number, attempt in self.manifests.items() if attempt == self.attempt), default=0)
            self.spans = (*self.spans, CheckpointSpan(1, self.attempt, last))
        self.attempt += 1
        self.under_way = None
        self.alive = set(range(3))
        opening = Opening(self.spans, self.reserved, self.reserved + 3)
        self.reserved += 3
        run = RunId(KEY, 1, self.attempt)
        self.do(self.coordinator.begin_run(run, 3, opening))
        self.coordinator.job_runs(run, self.now_ms)

    def post(self, message: Message, to: int = -1) -> None:
        if self.dice.random() < 0.03:
            return
        for _ in range(2 if self.dice.random() < 0.03 else 1):
            delay_ms = self.dice.choice((0, 10, 50, 300)) if self.dice.random() < 0.99 else 3_000
            self.mail.append((self.now_ms + delay_ms, next(self.number), message, to))

    def step(self) -> None:
        self.now_ms += 50
        if self.dice.random() < 0.002:
            self.alive.discard(self.dice.randrange(3))
        if self.now_ms % 250 == 0:
            for task in self.alive:
                self.post(joining(RunId(KEY, 1, self.attempt), task))
        for letter in sorted(one for one in self.mail if one[0] <= self.now_ms):
            self.mail.remove(letter)
            self.deliver(letter[2], letter[3])
        self.do(self.coordinator.on_time(self.now_ms))

    def deliver(self, message: Message, to: int) -> None:
        match message:
            case JoinTopology(task=task):
                answer = self.coordinator.join(b"%d" % task, message, self.now_ms)
                assert isinstance(answer, TopologyJoined) == (message.attempt == self.attempt)
            case ReportPart():
                self.do(self.coordinator.report(message, self.now_ms))
            case BeginCheckpoint(checkpoint=checkpoint) if to in self.alive:
                broken = "broken" if self.dice.random() < 0.02 else ""
                if not broken:
                    self.stored_parts.add((self.attempt, to, checkpoint))
                self.post(ReportPart(KEY, 1, self.attempt, to, checkpoint, error=broken))

    def do(self, instructions: list[Instruction]) -> None:
        for one in instructions:
            match one:
                case Push(peer=peer, message=BeginCheckpoint(checkpoint=checkpoint) as begin):
                    if checkpoint != self.under_way:
                        assert checkpoint not in self.given, "a number is never used twice"
                        assert checkpoint <= self.reserved, "a number is reserved before it is used"
                        assert self.under_way is None, "one at most is under way"
                        self.given.add(checkpoint)
                        self.under_way = checkpoint
                    self.post(begin, int(peer))
                case Push(message=CompleteCheckpoint(checkpoint=checkpoint)):
                    assert checkpoint in self.manifests, "complete only with a manifest"
                    self.told_complete.add(checkpoint)
                    self.under_way = None
                case Push(message=AbandonCheckpoint(checkpoint=checkpoint)):
                    assert checkpoint not in self.told_complete
                    assert checkpoint not in self.manifests
                    self.under_way = None
                case WriteManifest(run=run, checkpoint=checkpoint):
                    assert {(run.attempt, task, checkpoint) for task in range(3)} <= self.stored_parts
                    assert run.attempt == self.attempt
                    refused = self.dice.random() < 0.1
                    if not refused:
                        self.manifests[checkpoint] = run.attempt
                    self.do(self.coordinator.written(run, checkpoint, "full" if refused else "", self.now_ms))
                case ReserveNumbers(run=run):
                    self.reserved += 3
                    self.coordinator.numbers_reserved(run, self.reserved)
                case RestartTopology():
                    self.restart()


@pytest.mark.thorough
def test_in_two_hundred_made_up_worlds_no_promise_is_broken() -> None:
    completed = restarts = 0
    for seed in range(200):
        world = Simulation(seed)
        for _ in range(600):
            world.step()
        completed += len(world.told_complete)
        restarts += world.attempt
    assert completed > 1_000
    assert restarts > 100


def hosted(settled: int = 0, *, idle: bool = False) -> JoinTopology:
    return JoinTopology(KEY, 4, 1, 0, exchange_of(0), settled, hosted=True, idle=idle)


def test_a_task_in_a_stage_host_is_heard_seldom_and_is_not_taken_for_lost() -> None:
    world = World(tasks=1)
    answer = world.coordinator.join(b"0", hosted(), world.now_ms)
    assert isinstance(answer, TopologyJoined)
    assert answer.heartbeat_ms == 60_000
    assert world.pass_ms(9_500, beating=False) == []
    world.coordinator.join(b"0", hosted(), world.now_ms)
    lost = [one for one in world.pass_ms(370_000, beating=False) if isinstance(one, RestartTopology)]
    assert len(lost) == 1


def test_without_news_the_next_checkpoint_waits_for_some_or_for_an_order() -> None:
    world = World(tasks=1)
    world.coordinator.join(b"0", hosted(idle=True), world.now_ms)
    assert pushed(world.pass_ms(10_500, beating=False)) == [(b"0", BeginCheckpoint(21))], "the first is always taken"
    world.report(21, 0)
    world.written(21)
    world.coordinator.join(b"0", hosted(idle=True), world.now_ms)
    assert pushed(world.pass_ms(14_000, beating=False)) == [], "longer than an interval"
    world.coordinator.take_savepoint(KEY, 4, "mine")
    assert pushed(world.pass_ms(500, beating=False)) == [(b"0", BeginCheckpoint(22))]
    world.report(22, 0)
    world.written(22)
    world.coordinator.join(b"0", hosted(idle=True), world.now_ms)
    assert pushed(world.pass_ms(12_000, beating=False)) == []
    world.coordinator.join(b"0", hosted(), world.now_ms)
    assert pushed(world.pass_ms(1_250, beating=False)) == [(b"0", BeginCheckpoint(23))], "it has been due for long"
    world.report(23, 0)
    world.written(23)
    world.coordinator.join(b"0", hosted(idle=True), world.now_ms)
    assert pushed(world.pass_ms(14_000, beating=False)) == []
    world.coordinator.changed.clear()
    assert pushed(world.pass_ms(10 * TIMING.interval_ms, beating=False)) == [], "the former ones hold all of it"
    assert world.coordinator.runs[KEY, 4].is_current()
    world.coordinator.join(b"0", hosted(), world.now_ms)
    assert world.coordinator.changed == {(KEY, 4)}
    assert not world.coordinator.runs[KEY, 4].is_current()
    assert pushed(world.pass_ms(1_250, beating=False)) == [(b"0", BeginCheckpoint(24))]


def test_a_topology_without_news_is_not_looked_at_and_one_with_news_gets_its_checkpoint_soon() -> None:
    world = World(tasks=1)
    world.coordinator.join(b"0", hosted(idle=True), world.now_ms)
    assert pushed(world.pass_ms(10_500, beating=False)) == [(b"0", BeginCheckpoint(21))]
    world.report(21, 0)
    world.written(21)
    world.coordinator.join(b"0", hosted(idle=True), world.now_ms)
    world.coordinator.on_time(world.now_ms)
    assert world.coordinator.due_ms - world.now_ms > 10 * TIMING.interval_ms, "only its silence is left to be noticed"
    world.pass_ms(9 * TIMING.interval_ms, beating=False)
    world.coordinator.join(b"0", hosted(), world.now_ms)
    assert world.coordinator.due_ms <= world.now_ms, "it is looked at now"
    world.coordinator.on_time(world.now_ms)
    assert world.coordinator.due_ms - world.now_ms <= 1_000
    assert pushed(world.pass_ms(1_250, beating=False)) == [(b"0", BeginCheckpoint(22))]


def test_time_that_the_coordinator_planned_to_wait_is_no_absence() -> None:
    lease_ms = TIMING.lease_ms
    planned, away = World(tasks=1), World(tasks=1)
    for world in (planned, away):
        world.beat()
        world.coordinator.on_time(world.now_ms)
        world.now_ms = 2 * lease_ms
    silent = [
        one for one in planned.coordinator.on_time(2 * lease_ms, 2 * lease_ms) if isinstance(one, RestartTopology)
    ]
    assert len(silent) == 1, "the task did not send a heartbeat though it was listened to"
    assert without_probes(away.coordinator.on_time(2 * lease_ms, 10)) == [], "its heartbeats may have been missed"
