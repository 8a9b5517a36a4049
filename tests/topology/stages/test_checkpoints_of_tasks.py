"""Checkpoints of real tasks in threads, over real sockets: a topology that starts from one answers as if nothing had
been lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from test_stages_in_process import WINDOW, Context, Running, flow
from topology_builders import EPOCH, KEY, numbers, schema_of

from cep_common.clock import SystemClock
from cep_common.protocol.links import RESULTS_MISSING, OpenLink
from cep_common.protocol.registry import Rejected
from query_plan.builder import build
from siddhi.analysis.analyser import analyse
from siddhi.engine.snapshots.envelope import READABLE_FORMATS
from siddhi.language.parser import parse
from topology.errors import STATE_UNREADABLE, TopologyError
from topology.events.frames import encode_batch
from topology.links.sender import LinkState
from topology.model import Topology
from topology.stages.contract import Parts
from topology.stages.settings import StageSettings
from topology.stages.state.partial_checkpoint import TakenPart
from topology.stages.tasks.task import Task

PLAN = """@Plan:name('P') {header}
@Import('A:1.0.0') define stream A (number long);
@Import('B:1.0.0') define stream B (number long);
@Export('Out:1.0.0') define stream Out (number long);
@info(name='filtering') @dist(execGroup='filtering', parallel='2') from A[number >= 0] select number insert into M;
@info(name='total') @dist(execGroup='total') from M#window.length(1000) select sum(number) as number insert into Out;
@info(name='pass') @dist(execGroup='total') from B select number insert into Out;
"""
LOG = "log of worker"


class Logged(Running):
    """A worker that keeps what it sends in a log, at both ends of a topology."""

    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)  # type: ignore[arg-type]
        self.stopped = False

    def stop(self) -> None:
        if not self.stopped:
            self.stopped = True
            super().stop()

    def open_log(self, stream: str = "A") -> int:
        """The link stands; gives the position behind which the topology wants to continue."""
        opening = OpenLink("worker", (schema_of(stream),), KEY, EPOCH, attempt=self.topology.attempt, log=LOG)
        self.senders[stream] = self.opened(opening)
        self.until(lambda: self.senders[stream].state is LinkState.OPEN)
        self.open_others()
        return self.senders[stream].position

    def send_from_log(self, number: int) -> None:
        """Event `number` stands at position `number` of the log."""
        body = encode_batch(numbers("A", [(number, number)]))
        self.senders["A"].send("A", body, 1, number, position=number)

    def begin(self, checkpoint: int) -> None:
        for task in self.tasks:
            task.checkpointing.begin(checkpoint)

    def taken(self, checkpoint: int) -> dict[str, Parts]:
        """The states of all instances, when every task has done its part."""
        parts: dict[int, TakenPart] = {}

        def collect() -> bool:
            for index, task in enumerate(self.tasks):
                while not task.checkpointing.taken.empty():
                    part = task.checkpointing.taken.get()
                    assert not part.error
                    if part.checkpoint == checkpoint:
                        parts[index] = part
            return len(parts) == len(self.tasks)

        self.until(collect)
        return {name: state for part in parts.values() for name, state in part.states.items()}


Launch = Callable[..., Logged]


@pytest.fixture
def launch(zmq_context: Context, drive: Callable[..., None]) -> Iterator[Launch]:
    running: list[Logged] = []

    def start(
        tasks: int = 1, header: str = "", attempt: int = 0, states: dict[str, Parts] | None = None, receivers: int = 1
    ) -> Logged:
        header += f" @Plan:dist(receiverParallelism='{receivers}')"
        topology = Topology(KEY, EPOCH, build(analyse(parse(PLAN.format(header=header)))), tasks, attempt)
        stages = StageSettings(host="127.0.0.1", first_port=20000, last_port=60000, window_rows=WINDOW, idle_ms=60_000)
        made = [Task(topology, index, stages, zmq_context, SystemClock(), secures=True) for index in range(tasks)]
        for task in made:
            if states is not None:
                task.state.bring({name: states[name] for name in task.state.wants(states)})
        running.append(Logged(zmq_context, drive, topology, made))
        running[-1].start()
        return running[-1]

    yield start
    for one in running:
        one.stop()


@pytest.mark.parametrize(("before", "after"), [(1, 1), (1, 3), (3, 1), (2, 2)])
def test_a_lost_topology_goes_on_from_its_checkpoint_and_each_event_counts_once(
    launch: Launch, before: int, after: int
) -> None:
    running = launch(before)
    running.listen()
    assert running.open_log() == 0
    for number in range(1, 21):
        running.send_from_log(number)
    running.until(lambda: len(running.out) >= 10)
    running.begin(1)
    states = running.taken(1)
    for number in range(21, 31):
        running.send_from_log(number)
    running.until(lambda: len(running.out) == 30)
    running.stop()

    again = launch(after, attempt=1, states=states, receivers=2)
    again.listen()
    position = again.open_log()
    assert 10 <= position <= 20, "what the checkpoint holds need not come again"
    again.until(lambda: again.senders["A"].secured == position)
    for number in range(position + 1, 41):
        again.send_from_log(number)
    again.until(lambda: len(again.out) == 40 - position)
    assert [number for _, number in again.out] == [sum(range(1, last + 1)) for last in range(position + 1, 41)]


def test_a_task_with_receivers_settles_a_checkpoint_when_workers_know_what_it_holds(launch: Launch) -> None:
    """Otherwise a run that begins without state right after it would get those events again."""
    running = launch()
    running.listen()
    running.open_log()
    running.send_from_log(1)
    running.until(lambda: len(running.out) == 1)
    (task,) = running.tasks
    running.begin(1)
    running.until(lambda: not task.checkpointing.taken.empty())
    assert task.checkpointing.taken.get().settles
    assert (task.checkpointing.settled, running.senders["A"].secured) == (0, 0)

    task.checkpointing.complete(1)
    running.until(lambda: task.checkpointing.settled == 1)
    task.stop()

    running.until(lambda: running.senders["A"].secured == 1)


def test_a_frame_that_was_taken_already_is_acknowledged_and_not_counted_again(launch: Launch) -> None:
    running = launch()
    running.listen()
    running.open_log()
    for number in (1, 2, 2, 1, 3):
        running.send_from_log(number)
    running.until(lambda: not running.senders["A"].unacknowledged())
    assert [number for _, number in running.out] == [1, 3, 6]


def test_workers_learn_what_a_complete_checkpoint_holds(launch: Launch) -> None:
    running = launch(2)
    running.listen()
    running.open_log()
    running.send_from_log(1)
    running.until(lambda: running.out)
    running.begin(1)
    running.taken(1)
    running.send_from_log(2)
    running.until(lambda: len(running.out) == 2)
    assert running.senders["A"].secured == 0
    for task in running.tasks:
        task.checkpointing.complete(1)
    running.until(lambda: running.senders["A"].secured == 1)


def test_a_task_is_idle_when_all_retained_checkpoints_hold_what_it_has(launch: Launch) -> None:
    """Logs of accepted events reach back to the oldest one: a full log would stay full if no further one were taken."""
    running = launch()
    running.listen()
    running.open_log()
    running.begin(1)
    running.taken(1)
    running.send_from_log(1)
    running.until(lambda: running.out)
    checkpointing = running.tasks[0].checkpointing
    checkpointing.complete(1, 1)
    for checkpoint, oldest, idle in ((2, 1, False), (3, 1, False), (4, 2, True)):
        running.begin(checkpoint)
        running.taken(checkpoint)
        checkpointing.complete(checkpoint, oldest)
        running.until_every_task_has_ticked()
        assert checkpointing.idle is idle, f"after checkpoint {checkpoint}"


def test_what_was_only_handed_over_is_not_secured_before_the_next_checkpoint_holds_it(launch: Launch) -> None:
    former = launch()
    former.listen()
    former.open_log()
    former.send_from_log(1)
    former.until(lambda: former.out)
    former.begin(1)
    former.taken(1)
    former.tasks[0].checkpointing.complete(1)
    former.send_from_log(2)
    former.until(lambda: not former.senders["A"].unacknowledged())
    former.tasks[0].follow("give")
    former.until(lambda: former.tasks[0].state.step == "given")

    following = launch(states=former.tasks[0].state.given, receivers=2)
    following.listen()
    assert following.open_log() == 2, "what was handed over need not come again"
    following.until(lambda: following.senders["A"].secured == 1)
    following.send_from_log(3)
    following.until(lambda: [number for _, number in following.out] == [6])
    assert following.senders["A"].secured == 1, "if this topology is lost now, the next starts from checkpoint 1"
    following.begin(2)
    following.taken(2)
    following.tasks[0].checkpointing.complete(2)
    following.until(lambda: following.senders["A"].secured == 3)


def test_a_checkpoint_waits_until_the_worker_has_taken_the_results_before_it(launch: Launch) -> None:
    running = launch()
    running.acknowledging = False
    running.listen()
    running.open_log()
    running.send_from_log(1)
    running.until(lambda: running.out)
    running.begin(1)
    running.until_every_task_has_ticked()
    assert running.tasks[0].checkpointing.taken.empty()
    running.acknowledging = True
    for link in running.outflow.links.values() if running.outflow else ():
        running.outflow.done(link, link.inbox.received)
    running.taken(1)


def test_results_that_a_lost_worker_had_not_acknowledged_hold_their_checkpoint_up_until_another_has(
    launch: Launch,
) -> None:
    running = launch()
    running.acknowledging = False
    running.listen()
    running.open_log()
    running.send_from_log(1)
    running.until(lambda: running.out)
    running.begin(1)
    lost, running.outflow = running.outflow, None
    assert lost is not None
    lost.close()
    running.until(running.tasks[0].publishers[0].needs_worker)
    assert running.tasks[0].checkpointing.taken.empty()
    running.acknowledging = True
    running.listen()
    running.taken(1)
    assert [number for _, number in running.out] == [1, 1], "once for each worker"


@pytest.mark.parametrize("tasks", [1, 2])
def test_rows_that_wait_for_a_watermark_are_part_of_the_state(launch: Launch, tasks: int) -> None:
    running = launch(tasks, header="@app:playback")
    running.listen()
    running.link("B")
    running.open_log()
    for number in range(1, 11):
        running.send_from_log(number)
    running.until_every_task_has_ticked()
    assert running.out == [], "nobody has said yet that B has nothing earlier"
    running.begin(1)
    states = running.taken(1)
    running.stop()

    again = launch(tasks, header="@app:playback", attempt=1, states=states)
    again.listen()
    position = again.open_log()
    again.rest("B")
    for number in range(position + 1, 21):
        again.send_from_log(number)
    again.until(lambda: len(again.out) == 20)
    assert [number for _, number in again.out] == [sum(range(1, last + 1)) for last in range(1, 21)]


def test_a_task_that_stands_by_or_was_paused_takes_no_part(launch: Launch) -> None:
    running = launch()
    running.tasks[0].follow("pause")
    running.until(lambda: running.tasks[0].state.step == "quiet")
    running.begin(1)
    running.until(lambda: not running.tasks[0].checkpointing.taken.empty())
    assert "transfers its state" in running.tasks[0].checkpointing.taken.get().error


def test_a_plan_that_delivers_exactly_once_needs_checkpoints(zmq_context: Context) -> None:
    text = PLAN.format(header="@Plan:delivery('exactly-once')")
    topology = Topology(KEY, EPOCH, build(analyse(parse(text))), tasks=1)
    with pytest.raises(TopologyError, match=r"checkpoint\.location"):
        Task(topology, 0, StageSettings(host="127.0.0.1"), zmq_context, SystemClock())


def test_between_results_workers_are_told_where_checkpoints_lie(launch: Launch) -> None:
    running = launch(header="@Plan:delivery('exactly-once')")
    running.listen()
    running.open_log()
    running.send_from_log(1)
    running.until(lambda: running.out)
    running.begin(3)
    running.until(lambda: running.marks)
    assert running.marks == [3]
    running.taken(3)


@pytest.mark.parametrize("worker", ["worker", "another"])
def test_results_that_a_worker_may_have_go_to_that_worker_alone_or_the_topology_begins_anew(
    launch: Launch, worker: str
) -> None:
    running = launch(header="@Plan:delivery('exactly-once')")
    running.acknowledging = False
    running.listen()
    running.open_log()
    running.send_from_log(1)
    running.until(lambda: running.out)
    lost, running.outflow = running.outflow, None
    assert lost is not None
    lost.close()
    running.until(running.tasks[0].publishers[0].needs_worker)
    running.listen(worker)
    if worker == "another":
        running.until(lambda: running.failures)
        assert "must not be sent to another one" in str(running.failures[0])
    else:
        running.until(lambda: len(running.out) == 2)
        assert running.positions == [1, 1], "so it can tell that it had it"


@pytest.mark.parametrize("complete", [False, True])
def test_a_worker_that_comes_back_with_an_empty_disk_must_have_what_no_complete_checkpoint_holds(
    launch: Launch, complete: bool
) -> None:
    running = launch(header="@Plan:delivery('exactly-once')")
    running.listen()
    running.open_log()
    running.send_from_log(1)
    running.until(lambda: running.out)
    running.begin(3)
    running.taken(3)
    if complete:
        running.tasks[0].checkpointing.complete(3)
        running.until(lambda: running.senders["A"].secured == 1)
    lost, running.outflow = running.outflow, None
    assert lost is not None
    lost.close()
    running.until(running.tasks[0].publishers[0].needs_worker)
    required: list[int] = []

    def accept(opening: OpenLink) -> Rejected | None:
        required.append(opening.position)
        return Rejected(RESULTS_MISSING, "this disk is empty") if opening.position else None

    running.listen(accept=accept)
    if complete:
        running.until(running.tasks[0].publishers[0].is_connected)
        assert required == [0], "whether it was delivered is not the topology's business any more"
    else:
        running.until(lambda: running.failures)
        assert "worker worker has lost results" in str(running.failures[0])
        assert required == [1]


def test_nothing_is_taken_in_behind_the_last_marker(launch: Launch) -> None:
    running = launch(2)
    running.listen()
    running.open_log()
    running.send_from_log(1)
    running.until(lambda: running.out)
    for task in running.tasks:
        task.checkpointing.begin(1, final=True)
    running.taken(1)
    running.send_from_log(2)
    running.until_every_task_has_ticked()
    running.until_every_task_has_ticked()
    assert [number for _, number in running.out] == [1]
    assert len(running.senders["A"].unacknowledged()) == 1


def test_a_link_of_an_earlier_attempt_is_refused(launch: Launch) -> None:
    running = launch(attempt=2)
    running.senders["?"] = running.opened(OpenLink("worker", (schema_of("A"),), KEY, EPOCH, attempt=1))
    running.until(lambda: running.senders["?"].refusals)
    assert [refusal.code for refusal in running.senders["?"].refusals] == ["stale-epoch"]


def test_checkpoints_one_after_the_other_each_hold_what_came_before_them(launch: Launch) -> None:
    running = launch(3)
    running.listen()
    running.open_log()
    rows = iter([(number, number) for number in range(1_000)])
    for checkpoint in range(1, 6):
        flow(running, "B", rows, most=35)
        running.send_from_log(checkpoint)
        running.begin(checkpoint)
        states = running.taken(checkpoint)
        assert set(states) == {"EventReceiver#0", "filtering#0", "filtering#1", "total#0"}


@pytest.mark.parametrize("part", ["engine", "held"])
def test_a_task_that_cannot_read_its_state_says_so_before_it_works(part: str, zmq_context: Context) -> None:
    """Another version wrote it, or it is not state at all: to try again would be useless."""
    topology = Topology(KEY, EPOCH, build(analyse(parse(PLAN.format(header="")))), 1)
    task = Task(topology, 0, StageSettings(host="127.0.0.1"), zmq_context, SystemClock(), secures=True)
    task.state.bring({"total#0": {part: b"CEPS" + bytes([99, 0]) + bytes(100)}})
    with pytest.raises(TopologyError, match="cannot be read") as refused:
        task.run()
    assert refused.value.reason_code == STATE_UNREADABLE
    if part == "engine":
        assert f"it was written in format 99, and this engine reads {READABLE_FORMATS}" in str(refused.value)
