"""Real stage hosts under the driver's own code, without Spark: their processes are forked here."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
import zmq
from topology_builders import numbers, schema_of

from cep_common.clock import ManualClock, SystemClock
from cep_common.ids import Endpoint, PlanKey
from cep_common.protocol.links import OpenLink
from cep_common.protocol.registry import EndpointRegistered, Message, RegisterEndpoint, Rejected
from cep_common.protocol.stage_hosts import HostedTask, HostHeard
from cep_common.protocol.tasks import ComponentReport, ComponentState, RegisterTask, TaskRegistered
from cep_common.security.roles import SocketKind
from cep_common.sockets.transport import ControlServer
from query_plan.builder import build
from query_plan.xml import write_xml
from siddhi.analysis.analyser import analyse
from siddhi.language.parser import parse
from topology.events.frames import encode_batch
from topology.links.sender import LinkSender, LinkState
from topology.spark.driver_side import hosts as shell
from topology.spark.driver_side.config import DriverConfig
from topology.spark.driver_side.hosts import HostedJob, Hosts
from topology.spark.executor_side import stage_host
from topology.spark.reasons import Ending
from topology.stages.hosts import host_memory, host_trace
from topology.stages.settings import HostAssignment, StageSettings, TaskAssignment
from topology.stages.tasks.task import Task

PLAN = """@Plan:name('{name}')
@Import('A:1.0.0') define stream A (number long);
@Export('Out:1.0.0') define stream Out (number long);
from A select number insert into Out;
"""
ENDLESS = """@Plan:name('Endless')
@Import('A:1.0.0') define stream A (number long);
@Export('Out:1.0.0') define stream Out (number long);
define function forever[python] return long {
    n = 0
    while True:
        n = n + 1
    return n
};
from A select forever(number) as number insert into Out;
"""
SLOTS = 2
PATIENCE_S = 60.0


class ForkedHost:
    """In place of the Spark job of a host: a process that is forked from this one, which has all code loaded."""

    def __init__(self, _spark: Any, assignment: HostAssignment, _hosts: Any, ended: Callable[[Ending], None]) -> None:
        self.process = multiprocessing.get_context("fork").Process(target=_run, args=(assignment,))
        self._ended = ended

    def start(self) -> None:
        self.process.start()
        threading.Thread(target=self._wait, daemon=True).start()

    def cancel(self) -> None:
        self.process.kill()

    def _wait(self) -> None:
        self.process.join()
        self._ended(Ending("a stage process died", "process-died"))


def _run(assignment: HostAssignment) -> None:
    gc.freeze()  # what the parent holds is not this process's to close
    stage_host.run_host(msgspec.json.encode(assignment), 0, ())


@dataclass
class Desk:
    """The driver's part with hosts, and the manager at which tasks register."""

    hosts: Hosts
    server: ControlServer
    settings: StageSettings
    endings: dict[str, list[Ending]] = field(default_factory=dict)
    tasks: dict[str, RegisterTask] = field(default_factory=dict)
    stale: set[str] = field(default_factory=set)
    receivers: dict[str, Endpoint] = field(default_factory=dict)

    def run(self, name: str, attempt: int = 0, text: str = "", xml: str = "") -> HostedJob:
        xml = xml or write_xml(build(analyse(parse(text or PLAN.format(name=name)))))
        nobody = Endpoint("127.0.0.1", 9)
        assignment = TaskAssignment(PlanKey(1, name), 1, xml, 1, self.settings, nobody, attempt=attempt)
        job = HostedJob(self.hosts, assignment, self.endings.setdefault(name, []).append)
        job.start()
        return job

    def until(self, reached: Callable[[], object]) -> float:
        since_s = time.monotonic()
        while not reached():
            assert time.monotonic() - since_s < PATIENCE_S, (self.endings, self.hosts.reports())
            self.hosts.turn(lambda: self.settings, SLOTS, SLOTS - len(self.hosts.reports()), wanted=False)
            if self.server.socket.poll(5):
                peer, envelope = self.server.receive()
                self.server.send(peer, self._answer(envelope.message), envelope.correlation)
        return time.monotonic() - since_s

    def _answer(self, message: Message) -> Message:
        match message:
            case RegisterTask(key=key):
                if key.plan in self.stale:
                    return Rejected("stale-epoch", "epoch 1 is over")
                self.tasks[key.plan] = message
                return TaskRegistered(100, 3_000)
            case RegisterEndpoint(key=key, endpoint=endpoint):
                self.receivers[key.plan] = endpoint
                return EndpointRegistered(100, 3_000)
        return Rejected("no-endpoint", "there is no worker here")


@pytest.fixture
def desk(
    zmq_context: zmq.Context[zmq.Socket[bytes]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Desk]:
    monkeypatch.setattr(shell, "HostJob", ForkedHost)
    monkeypatch.setattr(stage_host, "default_folder", lambda _host: tmp_path / "traces")
    server = ControlServer(zmq_context, "127.0.0.1", 0)
    endpoint = server.socket.getsockopt_string(zmq.LAST_ENDPOINT).removeprefix("tcp://")
    config = DriverConfig(managers=(endpoint,))
    settings = msgspec.structs.replace(config.stage_settings(), host="127.0.0.1", script={"python": True})
    hosts = Hosts(config, zmq_context, None, dict, SystemClock(), 1)  # type: ignore[arg-type]
    desk = Desk(hosts, server, settings)
    yield desk
    jobs: list[Any] = list(hosts._jobs.values())
    hosts.close()
    for job in jobs:
        job.process.join()
    server.close()


def test_plans_come_and_go_in_one_process_and_each_ends_for_itself(desk: Desk) -> None:
    jobs = {name: desk.run(name) for name in ("P", "Q", "R")}
    desk.until(lambda: all(job.is_running() for job in jobs.values()) and len(desk.tasks) == 3)
    (report,) = desk.hosts.reports()
    assert (report.plans, report.state, report.tenant) == (3, "up", 1)
    assert {one.process_id for one in desk.tasks.values()} == {report.process_id}
    assert {one.stage_host for one in desk.tasks.values()} == {report.host}
    shares = [one.memory_bytes for one in desk.tasks.values()]
    assert sum(shares) < 2 * report.memory_bytes, "the process's memory is divided among them"

    jobs["S"] = desk.run("S")
    assert desk.until(jobs["S"].is_running) < 5, "no process is started for it"

    jobs["Q"].cancel()
    desk.until(lambda: desk.endings["Q"])
    assert desk.endings["Q"] == [Ending("cancelled")]

    desk.stale.add("R")  # its task is refused by the manager, and stops with that error
    desk.until(lambda: desk.endings["R"])
    (ending,) = desk.endings["R"]
    assert (ending.code, ending.reason, ending.process_id) == ("TopologyError", "epoch 1 is over", report.process_id)

    unfit = desk.run("T", xml="<nothing/>")
    desk.until(lambda: desk.endings["T"])
    assert desk.endings["T"][0].unfit
    assert not unfit.is_running()
    assert jobs["P"].is_running()
    assert jobs["S"].is_running()
    assert desk.endings["P"] == desk.endings["S"] == []


def test_a_host_that_is_killed_takes_its_plans_with_it_and_they_come_back_in_another(desk: Desk) -> None:
    jobs = [desk.run("P"), desk.run("Q")]
    desk.until(lambda: all(job.is_running() for job in jobs))
    (report,) = desk.hosts.reports()
    os.kill(report.process_id, signal.SIGKILL)
    desk.until(lambda: desk.endings["P"] and desk.endings["Q"])
    assert [(one.code, one.reason, one.process_id) for one in desk.endings["P"]] == [
        ("process-died", "a stage process died", report.process_id)
    ]
    again = [desk.run("P", attempt=1), desk.run("Q", attempt=1)]
    desk.until(lambda: all(job.is_running() for job in again))
    (another,) = desk.hosts.reports()
    assert another.process_id != report.process_id


def test_a_script_without_end_is_stopped_and_its_neighbours_go_on(
    desk: Desk, zmq_context: zmq.Context[zmq.Socket[bytes]]
) -> None:
    jobs = [desk.run("Endless", text=ENDLESS), desk.run("Q")]
    desk.until(lambda: all(job.is_running() for job in jobs) and len(desk.receivers) == 2)
    links = {
        name: LinkSender(
            zmq_context,
            SocketKind.RECEIVER,
            desk.receivers[name],
            OpenLink("w", (schema_of("A"),), PlanKey(1, name), 1),
            0,
        )
        for name in ("Endless", "Q")
    }

    def counted(name: str, what: str) -> int:
        for link in links.values():
            link.handle()
        found = [one for one in desk.tasks[name].components if one.kind == "processor"]
        return sum(one.errors if what == "errors" else sum(each.events for each in one.received) for one in found)

    desk.until(lambda: not any(counted(name, "errors") for name in links) and all(
        link.state is LinkState.OPEN for link in links.values()
    ))  # fmt: skip
    for link in links.values():
        link.send("A", encode_batch(numbers("A", [(1, 1)])), 1, 1)
    desk.until(lambda: counted("Endless", "errors") >= 1 and counted("Q", "received") == 1)
    assert all(job.is_running() for job in jobs)
    assert desk.endings == {"Endless": [], "Q": []}
    assert {one.process_id for one in desk.tasks.values()} == {desk.hosts.reports()[0].process_id}
    for link in links.values():
        link.close()


def test_a_turn_that_does_not_come_back_ends_the_host_and_the_second_time_its_plan_gets_no_place(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stage_host, "HANG_MS", 300)
    turn = Task.turn

    def hangs(self: Task, readable: set[Any]) -> None:
        if self.topology.key.plan == "Hang":
            time.sleep(PATIENCE_S)  # as a loop in native code does
        turn(self, readable)

    monkeypatch.setattr(Task, "turn", hangs)
    for attempt in range(2):
        desk.run("Q", attempt)
        desk.run("Hang", attempt)
        desk.until(lambda ends=attempt + 1: len(desk.endings["Q"]) == len(desk.endings["Hang"]) == ends)
    assert PlanKey(1, "Q") not in desk.hosts.stand_alone()
    desk.run("Q", attempt=2)
    desk.until(lambda: PlanKey(1, "Hang") in desk.hosts.stand_alone())
    assert PlanKey(1, "Q") not in desk.hosts.stand_alone()


def test_a_host_that_can_open_no_more_files_takes_no_more_plans_and_says_so(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_memory, "FILES_OF_A_TASK", 2**40)
    desk.run("P")
    desk.until(lambda: desk.endings["P"])
    (ending,) = desk.endings["P"]
    assert "raise the limit of open files" in ending.reason
    assert not ending.unfit, "another host may have room"


def test_the_plan_with_the_largest_state_goes_when_the_host_holds_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    class Holding:
        """A task that has measured so many bytes of state."""

        def __init__(self, size: int) -> None:
            held = (ComponentState("window", "w", bytes=size),)
            self.reports = (ComponentReport("a#0", "a", "processor", held=held),)
            self.stopping = False
            self.failure: BaseException | None = None

        def stop(self, failure: BaseException) -> None:
            self.stopping, self.failure = True, failure

    monkeypatch.setattr(host_memory, "memory_bytes", lambda: 300 * 2**20)
    small, large = Holding(2**20), Holding(200 * 2**20)
    tasks: Any = [small, large]
    assert host_memory.HostMemory(0).look(0, tasks, 1) is None, "there is no limit"
    assert host_memory.HostMemory(300 * 2**20).look(0, tasks, 1) is None
    memory = host_memory.HostMemory(256 * 2**20)
    assert memory.due_ms(1) == 0
    assert memory.look(0, tasks, 1) is large
    assert str(large.failure).startswith("the stage host of 2 plans held 300m, ")
    assert memory.look(host_memory.AGAIN_MS - 1, tasks, 1) is None, "its memory has yet to become free"
    assert memory.look(host_memory.AGAIN_MS, tasks, 1) is small, "no turn is needed for that"
    assert memory.look(2 * host_memory.AGAIN_MS, tasks, 1) is None


def test_a_host_without_turns_does_not_look_what_it_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[int] = []

    def held() -> int:
        looks.append(1)
        return 2**20

    monkeypatch.setattr(host_memory, "memory_bytes", held)
    memory = host_memory.HostMemory(256 * 2**20)
    assert memory.look(0, [], 7) is None
    assert memory.due_ms(7) is None, "it waits for another turn"
    assert not memory.is_due(60_000, 7)
    assert memory.look(60_000, [], 7) is None
    assert len(looks) == 1
    assert memory.due_ms(8) == host_memory.LOOK_MS
    assert memory.look(60_000, [], 8) is None
    assert len(looks) == 2


def test_who_was_at_work_in_a_host_that_died_is_known_to_the_next_one(tmp_path: Path) -> None:
    traces = tmp_path / "traces"
    key = PlanKey(1, "P")
    busy, idle = host_trace.HostTrace("d-1", traces), host_trace.HostTrace("d-2", traces)
    for trace in (busy, idle):
        trace.note(PlanKey(2, "before, with a longer name"))
        trace.note(None)
    busy.note(key)
    assert list(host_trace.left_behind(traces)) == [], "both live"
    for trace in (busy, idle):
        trace._memory.close()  # as the death of its process does
        os.close(trace._file)
    assert list(host_trace.left_behind(traces)) == [("d-1", key)]
    assert list(host_trace.left_behind(traces)) == [], "told once"
    assert list(traces.iterdir()) == []
    assert list(host_trace.left_behind(tmp_path / "nowhere")) == []


def die(trace: host_trace.HostTrace) -> None:
    """Let go of the file, as the death of its process does."""
    trace._memory.close()
    os.close(trace._file)


def test_hosts_of_another_driver_neither_read_nor_delete_the_trace_of_a_dead_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    mine, other = (host_trace.default_folder(f"{name}-1") for name in ("main-1700000000000", "main-1700000000001"))
    assert host_trace.default_folder("main-1700000000000-2") == mine, "hosts of one driver share a folder"
    dead = host_trace.HostTrace("main-1700000000000-1", mine)
    alive = host_trace.HostTrace("main-1700000000001-1", other)
    assert [folder.stat().st_mode & 0o777 for folder in (mine, other, mine.parent)] == [0o700] * 3
    dead.note(PlanKey(1, "P"))
    die(dead)
    assert list(host_trace.left_behind(other)) == []
    host_trace.remove_stale(other)
    assert list(host_trace.left_behind(mine)) == [("main-1700000000000-1", PlanKey(1, "P"))]
    alive.close()


def test_a_host_that_registers_again_and_again_still_checks_for_dead_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    checked_ms: list[int] = []
    clock = ManualClock(0)

    def left_behind(_: object) -> list[tuple[str, PlanKey]]:
        checked_ms.append(clock.monotonic_ms())
        return []

    monkeypatch.setattr(stage_host, "left_behind", left_behind)
    host: Any = object.__new__(stage_host.StageHost)
    host._clock, host._socket, host._folder, host._exit_ms, host._watch = clock, None, None, None, lambda _: None
    host._memory, host._loop = SimpleNamespace(due_ms=lambda _: None), SimpleNamespace(turns=0)
    host._lease_ms, host._next_beat_ms, host._next_trace_ms = 6_000, 0, clock.monotonic_ms()

    def register(now_ms: int) -> None:
        host._changed, host._next_beat_ms = False, now_ms + stage_host.TRACE_MS

    host._register = register
    first_ms = clock.monotonic_ms()
    for _ in range(10):
        host._changed = True  # plans start one after the other
        host._each_turn(set())
        clock.advance(stage_host.TRACE_MS // 4)
    assert [at_ms - first_ms for at_ms in checked_ms] == [0, 1_000, 2_000]


def test_folders_that_no_host_uses_any_more_are_removed(tmp_path: Path) -> None:
    mine, used, stale, held = (tmp_path / name for name in ("mine", "used", "stale", "held"))
    traces = [host_trace.HostTrace(folder.name, folder) for folder in (mine, used, stale, held)]
    for trace in traces[1:3]:
        die(trace)
    assert list(host_trace.left_behind(used)) == []
    for folder in (mine, used, stale, held):
        os.utime(folder, (0, 0))
    assert list(host_trace.left_behind(used)) == []  # it is empty by now, and looking at it is a use
    host_trace.remove_stale(mine)
    assert sorted(folder.name for folder in tmp_path.iterdir()) == ["held", "mine", "used"]
    assert [path.name for path in held.iterdir()] == ["held"], "its host lives"
    for trace in (traces[0], traces[3]):
        trace.close()


def test_a_task_that_ended_is_listed_until_the_driver_has_that_list() -> None:
    host: Any = object.__new__(stage_host.StageHost)
    key = PlanKey(1, "P")
    ended = stage_host._Hosted(key, ended=HostedTask(key, 1, 0, "ended"), reported=5)
    host._lock, host._hosted = threading.Lock(), {(key, 1, 0): ended}
    host._obey(HostHeard(heartbeat_ms=500, lease_ms=6_000, knows=3))  # list 5 was lost, a later heartbeat was heard
    assert list(host._hosted) == [(key, 1, 0)]
    host._obey(HostHeard(heartbeat_ms=500, lease_ms=6_000, knows=7))
    assert host._hosted == {}
