"""Whole topologies over real sockets in one process: tasks in threads, the worker's two ends in the test."""

from __future__ import annotations

import itertools
import json
import os
import signal
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import zmq
from topology_builders import EPOCH, KEY, numbers, rows_of, schema_of

from cep_common.clock import Clock, SystemClock
from cep_common.monitoring.latency import upper_bound_ms
from cep_common.protocol.links import MarkCheckpoint, OpenLink, StreamSchema
from cep_common.protocol.registry import EndpointAssigned, Rejected
from cep_common.protocol.tasks import ComponentReport, SampleOrder
from cep_common.security.roles import SocketKind
from query_plan.builder import build
from siddhi.analysis.analyser import analyse
from siddhi.language.parser import parse
from topology.errors import TopologyError
from topology.events.frames import encode_batch
from topology.events.watermarks import HEARD_OF, NO_WATERMARK
from topology.links.sender import LinkSender, LinkState
from topology.links.server import FrameArrived, LinkServer
from topology.model import Topology
from topology.stages.settings import StageSettings
from topology.stages.tasks import script_process
from topology.stages.tasks.task import Task

Context = zmq.Context[zmq.Socket[bytes]]
WINDOW = 64
PLAN = """@Plan:name('P') {header}
@Import('A:1.0.0') define stream A (number long);
@Import('B:1.0.0') define stream B (number long);
@Export('Out:1.0.0') define stream Out (number long);
@info(name='filtering') @dist(execGroup='filtering', parallel='2') from B[number >= 0] select number insert into M;
@info(name='first') @dist(execGroup='joined') from A select number insert into Out;
@info(name='second') @dist(execGroup='joined') from M select number insert into Out;
"""
Rows = list[tuple[int, int]]


@dataclass
class Running:
    """The tasks of one topology, and what the worker at its edge sends and gets."""

    context: Context
    drive: Callable[..., None]
    topology: Topology
    tasks: list[Task]
    threads: list[threading.Thread] = field(default_factory=list)
    failures: list[BaseException] = field(default_factory=list)
    senders: dict[str, LinkSender] = field(default_factory=dict)
    outflow: LinkServer | None = None
    out: list[tuple[int, int]] = field(default_factory=list)
    acknowledging: bool = True
    marks: list[int] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)

    def start(self, meeting: Sequence[int] | None = None) -> None:
        """All tasks work, and meet, or those of `meeting` alone."""

        def run(task: Task) -> None:
            try:
                task.run()
            except TopologyError as error:
                self.failures.append(error)

        self.threads = [threading.Thread(target=run, args=(task,)) for task in self.tasks]
        for thread in self.threads:
            thread.start()
        for task in range(len(self.tasks)) if meeting is None else meeting:
            self.meet(task)

    def meet(self, task: int) -> None:
        """That task learns where all listen."""
        self.tasks[task].meet([one.endpoint for one in self.tasks])

    def listen(self, worker: str = "worker", accept: Callable[[OpenLink], Rejected | None] = lambda _: None) -> None:
        """A worker is there for the publisher."""
        self.outflow = LinkServer.listen(self.context, SocketKind.OUTFLOW, "127.0.0.1", (20000, 60000), WINDOW, accept)
        for task in self.tasks:
            for publisher in task.publishers:
                task.assign(publisher.name, EndpointAssigned(self.outflow.endpoint, worker))

    def send(self, stream: str, rows: Rows, watermark_ms: int = NO_WATERMARK) -> None:
        self.link(stream).send(stream, encode_batch(numbers(stream, rows)), len(rows), watermark_ms)

    def link(self, stream: str) -> LinkSender:
        if stream not in self.senders:
            opening = OpenLink("worker", (schema_of(stream),), KEY, EPOCH, attempt=self.topology.attempt)
            self.senders[stream] = self.opened(opening)
            self.until(lambda: self.senders[stream].state is LinkState.OPEN)
            self.open_others()
        return self.senders[stream]

    def rest(self, stream: str) -> None:
        """The stream's sources have said that nothing more comes for now, perhaps before their first event."""
        self.send(stream, [], HEARD_OF)
        self.link(stream).mark_idle()

    def open_others(self) -> None:
        """Under the system clock a link for every stream is waited for, as each worker opens one."""
        for one in self.topology.plan.receiver.streams if self.topology.plan.playback is None else ():
            self.link(one.id)

    def opened(self, opening: OpenLink) -> LinkSender:
        receiver = next(receiver for task in self.tasks for receiver in task.receivers)
        return LinkSender(self.context, SocketKind.RECEIVER, receiver.server.endpoint, opening, 0)

    def step(self) -> None:
        for sender in self.senders.values():
            sender.handle()
        if self.outflow is None:
            return
        for event in self.outflow.receive(0):
            if isinstance(event, FrameArrived) and isinstance(event.message, MarkCheckpoint):
                self.marks.append(event.message.checkpoint)
                if self.acknowledging:
                    self.outflow.done(event.link, event.sequence)
            elif isinstance(event, FrameArrived) and event.batch is not None:
                self.out += rows_of(event.batch)
                self.positions.append(event.message.position)  # type: ignore[union-attr]
                if self.acknowledging:
                    self.outflow.done(event.link, event.sequence)
        self.outflow.flush()

    def until(self, reached: Callable[[], object]) -> None:
        sockets = [sender.socket for sender in self.senders.values()]
        self.drive(self.step, reached, [*sockets, self.outflow.socket] if self.outflow else sockets, within_ms=20_000)

    def until_every_task_has_ticked(self) -> None:
        before = [(task, task.reports) for task in self.tasks]
        self.until(lambda: all(task.reports is not old for task, old in before))

    def stop(self) -> None:
        for sender in self.senders.values():
            sender.close()
        for task in self.tasks:
            task.stop()
        for thread in self.threads:
            thread.join()
        if self.outflow is not None:
            self.outflow.close()


class AdjustedClock(SystemClock):
    """The machine's clock, whose time of day somebody sets."""

    ahead_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.ahead_ms


@pytest.fixture
def launch(zmq_context: Context, drive: Callable[..., None]) -> Iterator[Callable[..., Running]]:
    running: list[Running] = []

    def start(
        tasks: int = 1,
        header: str = "",
        text: str = PLAN,
        clock: Clock | None = None,
        meeting: Sequence[int] | None = None,
    ) -> Running:
        plan = build(analyse(parse(text.format(header=header))))
        topology = Topology(KEY, EPOCH, plan, tasks)
        stages = StageSettings(
            host="127.0.0.1", first_port=20000, last_port=60000, window_rows=WINDOW, idle_ms=60_000, store_urls=True,
            script={"python": True},
        )  # fmt: skip
        made = Running(
            zmq_context,
            drive,
            topology,
            [Task(topology, index, stages, zmq_context, clock or SystemClock()) for index in range(tasks)],
        )
        running.append(made)
        made.start(meeting)
        return made

    yield start
    for one in running:
        one.stop()


def flow(running: Running, stream: str, rows: Iterator[tuple[int, int]], most: int = 10_000) -> int:
    """Sends batches of up to 7 rows while there is room; gives how many rows went."""
    sent = 0
    while running.link(stream).has_room() and sent < most:
        batch = list(itertools.islice(rows, 7))
        if not batch:
            break
        running.send(stream, batch, watermark_ms=batch[-1][0])
        sent += len(batch)
    return sent


def send_all(running: Running, stream: str, rows: Iterator[tuple[int, int]]) -> None:
    """Sends all rows, as the window lets it."""
    running.until(lambda: not flow(running, stream, rows) and running.link(stream).has_room())


@pytest.mark.parametrize("tasks", [1, 2, 3])
def test_events_pass_a_parallel_stage_and_come_out_in_order(launch: Callable[..., Running], tasks: int) -> None:
    running = launch(tasks)
    running.listen()
    expected = [(number, number) for number in range(500)]
    send_all(running, "B", iter(expected))
    running.until(lambda: len(running.out) == len(expected))
    assert [number for _, number in running.out] == [number for _, number in expected]
    running.until(lambda: not running.link("B").unacknowledged())


@pytest.mark.parametrize("late", [0, 1])
def test_a_task_that_has_not_met_the_others_yet_is_waited_for(launch: Callable[..., Running], late: int) -> None:
    running = launch(2, meeting=(1 - late,))
    running.listen()
    opening = OpenLink("worker", (schema_of("B"),), KEY, EPOCH, attempt=running.topology.attempt)
    link = running.senders["B"] = running.opened(opening)
    running.until_every_task_has_ticked()
    receives = next(index for index, task in enumerate(running.tasks) if task.receivers)
    if late != receives:
        running.until(link.has_room)
        running.send("B", [(1, 1)])
        running.until_every_task_has_ticked()
    assert not running.out
    running.meet(late)
    running.until(link.has_room)
    running.open_others()
    running.send("B", [(2, 2)])
    running.until(lambda: (2, 2) in running.out)
    assert running.out == sorted(running.out)


TRIGGERED = """@Plan:name('Routed') {header}
@Import('A:1.0.0') define stream A (number long);
@Export('Out:1.0.0') define stream Out (number long);
define trigger Ticks at every 20 millisec;
@info(name='times') @dist(execGroup='times', parallel='2') from Ticks select triggered_time as number insert into Out;
"""


@pytest.mark.parametrize("late", [0, 1])
def test_a_trigger_fires_only_when_its_task_has_met_the_others(launch: Callable[..., Running], late: int) -> None:
    running = launch(2, text=TRIGGERED, meeting=())
    running.listen()
    running.until_every_task_has_ticked()
    for task in (1 - late, late):
        running.meet(task)
    running.until(lambda: running.out)
    assert all(time == number for time, number in running.out)
    assert all(thread.is_alive() for thread in running.threads)


@pytest.mark.parametrize("tasks", [1, 2])
@pytest.mark.parametrize("ahead", ["A", "B"])
def test_by_event_time_the_answer_is_the_same_whichever_connection_is_ahead(
    launch: Callable[..., Running], drive: Callable[..., None], tasks: int, ahead: str
) -> None:
    """The one that is ahead fills its window many times over; the other comes only then. Nobody is taken for idle."""
    running = launch(tasks, header="@app:playback")
    running.listen()
    everything = {
        "A": [(1_000 + time // 3, 2 * time) for time in range(400)],
        "B": [(1_000 + time // 2, 2 * time + 1) for time in range(400)],
    }
    rows = {stream: iter(of_stream) for stream, of_stream in everything.items()}
    behind = "B" if ahead == "A" else "A"
    running.link(behind)
    while flow(running, ahead, rows[ahead]):
        running.step()
    assert running.out == []
    expected = sorted(
        ((time, rank, number) for rank, stream in enumerate("AB") for time, number in everything[stream]),
        key=lambda row: row[:2],
    )
    finished: set[str] = set()

    def push() -> None:
        for stream in {ahead, behind} - finished:
            if not flow(running, stream, rows[stream], most=21) and running.link(stream).has_room():
                running.rest(stream)
                finished.add(stream)
        running.step()

    drive(push, lambda: len(finished) == 2, [running.link("A").socket, running.link("B").socket])
    running.until(lambda: len(running.out) == len(expected))
    assert running.out == [(time, number) for time, _, number in expected]


@pytest.mark.parametrize("tasks", [1, 2])
@pytest.mark.parametrize("stream", ["A", "B"])
def test_sources_of_one_connection_may_be_further_apart_than_its_window(
    launch: Callable[..., Running], tasks: int, stream: str
) -> None:
    """All of one source comes first, as with a partition of a topic: event time waits for the other one behind it."""
    running = launch(tasks, header="@app:playback")
    running.listen()
    running.rest("B" if stream == "A" else "A")
    ahead = [(1_000 + time, 2 * time) for time in range(4 * WINDOW)]
    behind = [(1_000 + time, 2 * time + 1) for time in range(4 * WINDOW)]
    frames = [(ahead[first : first + 8], HEARD_OF) for first in range(0, len(ahead), 8)]
    frames += [(rows, rows[-1][0]) for rows in (behind[first : first + 8] for first in range(0, len(behind), 8))]
    waiting = iter(frames)

    def sent_all() -> bool:
        while running.link(stream).has_room():
            frame = next(waiting, None)
            if frame is None:
                return True
            running.send(stream, *frame)
        return False

    running.until(sent_all)
    running.until(lambda: len(running.out) == len(ahead) + len(behind))
    assert [time for time, _ in running.out] == [time for time, _ in sorted(ahead + behind)]
    assert sorted(running.out) == sorted(ahead + behind)
    running.until(lambda: not running.link(stream).unacknowledged())


FOLLOWED = """@Plan:name('P') {header}
@Import('A:1.0.0') define stream A (number long);
@Export('Out:1.0.0') define stream Out (number long);
@info(name='last') @dist(execGroup='first') from A#window.length(1) select number insert into X;
@info(name='raw') @dist(execGroup='second') from A select number insert into Out;
@info(name='derived') @dist(execGroup='second') from X select number + 1000000 as number insert into Out;
"""


@pytest.mark.parametrize("tasks", [1, 2])
def test_results_that_wait_for_events_of_the_same_time_do_not_stop_the_connection_of_these_events(
    launch: Callable[..., Running], tasks: int
) -> None:
    """The result at the time of the watermark waits for A, whose window is full of rows of a source that is ahead."""
    running = launch(tasks, header="@app:playback", text=FOLLOWED)
    running.listen()
    ahead = [(10_000 + time, time) for time in range(4 * WINDOW)]
    behind = [(1_000 + time, 10_000 + time) for time in range(4 * WINDOW)]
    frames = [(behind[:1], 1_000)]
    frames += [(ahead[first : first + 8], 1_000) for first in range(0, len(ahead), 8)]
    frames += [(rows, rows[-1][0]) for rows in (behind[first : first + 8] for first in range(1, len(behind), 8))]
    waiting = iter(frames)

    def sent_all() -> bool:
        while running.link("A").has_room():
            frame = next(waiting, None)
            if frame is None:
                return True
            running.send("A", *frame)
        return False

    running.until(sent_all)
    running.rest("A")
    rows = sorted(ahead + behind)
    running.until(lambda: len(running.out) == 2 * len(rows))
    assert running.out == [one for time, number in rows for one in ((time, number), (time, number + 1_000_000))]
    running.until(lambda: not running.link("A").unacknowledged())


@pytest.mark.parametrize("tasks", [1, 2])
def test_without_a_worker_no_more_than_the_windows_is_taken_in_and_nothing_is_lost_when_one_comes(
    launch: Callable[..., Running], tasks: int
) -> None:
    running = launch(tasks)
    rows = iter([(number, number) for number in range(1_000)])
    sent = flow(running, "A", rows)
    assert WINDOW <= sent < WINDOW + 7
    running.step()
    assert len(running.link("A").unacknowledged()) == -(-sent // 7)
    running.listen()
    send_all(running, "A", rows)
    running.until(lambda: len(running.out) == 1_000)
    assert [number for _, number in running.out] == list(range(1_000))


def test_links_stand_when_somebody_sets_the_time_of_day(launch: Callable[..., Running]) -> None:
    clock = AdjustedClock()
    running = launch(2, clock=clock)
    running.listen()
    running.send("B", [(1, 1)])
    running.until(lambda: len(running.out) == 1)
    for ahead_ms in (3_600_000, -3_600_000):
        clock.ahead_ms = ahead_ms
        running.until_every_task_has_ticked()
        running.until_every_task_has_ticked()
    running.send("B", [(2, 2)])
    running.until(lambda: len(running.out) == 2)
    assert running.link("B").state is LinkState.OPEN
    assert not running.failures


def test_what_a_lost_worker_did_not_take_goes_to_the_next(launch: Callable[..., Running]) -> None:
    running = launch()
    running.listen()
    running.acknowledging = False
    running.send("A", [(1, 1), (2, 2)])
    running.until(lambda: len(running.out) == 2)
    lost = running.outflow
    assert lost is not None
    running.outflow = None
    lost.close()
    publisher = running.tasks[0].publishers[0]
    running.until(publisher.needs_worker)
    assert running.tasks[0].asks.is_set()
    running.out.clear()
    running.acknowledging = True
    running.listen()
    running.until(lambda: [number for _, number in running.out] == [1, 2])


@pytest.mark.parametrize(
    ("opening", "code"),
    [
        (OpenLink("w", (schema_of("A"),), KEY, EPOCH - 1), "stale-epoch"),
        (OpenLink("w", (schema_of("A"),), None, EPOCH), "stale-epoch"),
        (OpenLink("w", (schema_of("M"),), KEY, EPOCH), "schema-mismatch"),
        (OpenLink("w", (StreamSchema("A", (("number", "int"),)),), KEY, EPOCH), "schema-mismatch"),
    ],
)
def test_a_receiver_refuses_links_of_another_epoch_and_streams_that_are_not_imported_like_that(
    launch: Callable[..., Running], opening: OpenLink, code: str
) -> None:
    running = launch()
    running.senders["?"] = running.opened(opening)
    running.until(lambda: running.senders["?"].refusals)
    assert [refusal.code for refusal in running.senders["?"].refusals] == [code]


def test_a_task_that_loses_another_ends_with_an_error(launch: Callable[..., Running]) -> None:
    running = launch(2)
    running.send("A", [(1, 1)])
    running.tasks[1].stop()
    running.until(lambda: running.failures)
    (failure,) = running.failures
    assert isinstance(failure, TopologyError)
    assert failure.reason_code == "task-lost"


def test_a_task_that_is_stopped_too_does_not_mind_that_another_has_ended_first(launch: Callable[..., Running]) -> None:
    running = launch(2)
    first, second = running.tasks
    look = first.exchange.on_senders_readable

    def look_and_be_stopped() -> None:
        try:
            look()
        except TopologyError:
            first.stop()  # the order comes in the middle of a turn, which continues with the broken link
            raise

    first.exchange.on_senders_readable = look_and_be_stopped  # type: ignore[method-assign]
    second.stop()
    for thread in running.threads:
        thread.join()
    assert running.failures == []


def test_a_task_that_is_stopped_for_a_reason_ends_with_it(launch: Callable[..., Running]) -> None:
    running = launch()
    running.tasks[0].stop(TopologyError("stale-epoch", "replaced"))
    running.threads[0].join()
    assert [str(failure) for failure in running.failures] == ["replaced"]


def test_counters_tell_what_every_instance_took_and_gave(launch: Callable[..., Running]) -> None:
    running = launch()
    running.listen()
    running.send("B", [(1, 1), (2, -2), (3, 3)])
    running.until(lambda: len(running.out) == 2)
    reports = lambda: {report.instance: report for report in running.tasks[0].reports}  # noqa: E731
    running.until(lambda: reports() and reports()["EventPublisher#0"].emitted)
    counted = {
        name: (sum(one.events for one in report.received), sum(one.events for one in report.emitted))
        for name, report in reports().items()
    }
    assert counted["EventReceiver#0"] == (3, 3)
    assert sorted(counts for name, counts in counted.items() if name.startswith("filtering")) == [(0, 0), (3, 2)]
    assert counted["joined#0"] == counted["EventPublisher#0"] == (2, 2)
    assert reports()["EventPublisher#0"].peers == ("worker",)


def test_a_store_that_cannot_be_used_is_told_even_when_nothing_is_counted(
    launch: Callable[..., Running], tmp_path: Path
) -> None:
    store = f"@Store(type='rdbms', url='sqlite:///{tmp_path}/stored.db', refresh.interval='20')"
    table = f"{store} define table T (number long);\n@Export"
    running = launch(text=PLAN.replace("@Export", table) + "@dist(execGroup='kept') from B insert into T;")
    running.tasks[0].count("off")
    running.until((tmp_path / "stored.db").exists)
    running.until(lambda: running.tasks[0].reports != ())
    with sqlite3.connect(tmp_path / "stored.db", timeout=10) as database:
        database.execute("drop table T")
    database.close()
    running.until(lambda: "no such table: T" in "".join(one.last_error for one in running.tasks[0].reports))


def test_the_latency_of_an_event_lasts_from_its_arrival_until_its_result_is_with_a_worker(
    launch: Callable[..., Running],
) -> None:
    running = launch()

    def received() -> ComponentReport | None:
        reports = [report for task in running.tasks for report in task.reports if report.kind == "receiver"]
        return reports[0] if reports and reports[0].received else None

    running.link("A")
    sent_ns = time.perf_counter_ns()
    running.send("A", [(1, 1), (2, 2)])
    running.until(received)
    arrived_ns = time.perf_counter_ns()
    running.until_every_task_has_ticked()
    waited_ms = (time.perf_counter_ns() - arrived_ns) / 1e6
    running.listen()
    running.until(lambda: len(running.out) == 2)
    running.until(lambda: (report := received()) is not None and report.latencies)
    most_ms = (time.perf_counter_ns() - sent_ns) / 1e6
    report = received()
    assert report is not None
    ((index, events),) = report.latencies
    assert events == 2
    assert waited_ms < upper_bound_ms(index)
    assert upper_bound_ms(index - 1) < most_ms
    assert waited_ms <= report.stay_ms / 2 + 1
    assert report.stay_ms / 2 <= most_ms


@pytest.mark.parametrize("tasks", [1, 2])
def test_bundles_that_one_turn_has_no_time_for_come_in_the_next(
    launch: Callable[..., Running], monkeypatch: pytest.MonkeyPatch, tasks: int
) -> None:
    monkeypatch.setattr("topology.stages.tasks.task.TURN_MS", 0)
    running = launch(tasks)
    running.listen()
    sent = [(number, number) for number in range(1, 41)]
    for row in sent:
        running.send("A", [row])
    running.until(lambda: len(running.out) == len(sent))
    assert running.out == sent


@pytest.mark.parametrize("tasks", [1, 2])
def test_what_goes_through_a_stage_can_be_seen_while_it_is_sampled(launch: Callable[..., Running], tasks: int) -> None:
    running = launch(tasks)
    running.listen()
    running.send("B", [(1, 1)])
    running.until(lambda: len(running.out) == 1)
    for task in running.tasks:
        assert task.sampler.take() == ()
        task.sample((SampleOrder("joined", 100, 60_000),))
    running.send("B", [(2, 2)])
    running.until(lambda: len(running.out) == 2)
    seen = [event for task in running.tasks for event in task.sampler.take()]
    assert [(event.instance, event.direction, event.stream) for event in seen] == [
        ("joined#0", "in", "M"),
        ("joined#0", "out", "Out"),
    ]
    assert [json.loads(event.event)["number"] for event in seen] == [2, 2]


SCRIPTED = """@Plan:name('Scripted') {header}
@Import('A:1.0.0') define stream A (number long);
@Export('Out:1.0.0') define stream Out (number long);
define function same[python] return long {{
    while data[0] == 3:
        pass
    return data[0]
}};
@info(name='calling') from A select same(number) as number insert into Out;
"""


def test_a_stopped_call_of_a_script_is_one_error_of_its_stage(launch: Callable[..., Running]) -> None:
    running = launch(text=SCRIPTED)
    running.listen()
    running.send("A", [(number, number) for number in range(6)])
    running.until(lambda: len(running.out) == 5)

    def report() -> ComponentReport:
        return next(one for one in running.tasks[0].reports if one.kind == "processor")

    running.until(lambda: running.tasks[0].reports and len(report().failures) == 2)
    assert {(one.code, one.count) for one in report().failures} == {("events-dropped", 1), ("script-stopped", 1)}
    assert report().errors == 1
    assert report().last_error.startswith("stream A, query calling: ")


SCRIPT_AND_PLAIN = """@Plan:name('P') {header}
@Import('A:1.0.0') define stream A (number long);
@Import('B:1.0.0') define stream B (number long);
@Export('Out:1.0.0') define stream Out (number long);
define function same[python] return long {{ return data[0] }};
@info(name='first') @dist(execGroup='first') from A select same(number) as number insert into Out;
@info(name='second') @dist(execGroup='second') from B select number insert into Out;
"""


def test_links_of_a_task_beat_while_it_waits_for_its_scripts(
    launch: Callable[..., Running], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch of slow calls may take minutes; a peer forgets a link that was silent for a minute."""
    monkeypatch.setattr(script_process, "WALL_S", 60.0)
    running = launch(1, text=SCRIPT_AND_PLAIN)
    running.listen()
    running.send("A", [(1, 1)])
    running.until(lambda: len(running.out) == 1)
    (task,) = running.tasks
    process_id = task._scripts.process_id
    assert process_id is not None
    assert running.outflow is not None
    os.kill(process_id, signal.SIGSTOP)
    running.send("A", [(2, 2)])
    (link,) = running.outflow.links.values()
    running.until(lambda: running.link("A").outbox.pending)
    received, beats = link.inbox.received, 0
    server = running.outflow
    now_ms = 0

    def beaten() -> bool:
        nonlocal beats, now_ms
        now_ms += 1
        list(server.receive(now_ms))
        beats += link.heard_ms == now_ms
        return beats >= 3

    running.drive(lambda: None, beaten, [server.socket], within_ms=20_000)
    assert link.inbox.received == received, "the script still runs"
    os.kill(process_id, signal.SIGCONT)
    running.until(lambda: len(running.out) == 2)
    assert list(running.outflow.links.values()) == [link]
    assert running.out == [(1, 1), (2, 2)]
