"""The driver's coordinator at work: tasks over ZeroMQ, a store on disk, orders and what comes of them."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest
import zmq
from checkpoint_stores import KEY, plan_xml, store_of

from cep_common.clock import ManualClock, SystemClock
from cep_common.ids import Endpoint
from cep_common.protocol.checkpoints import (
    BeginCheckpoint,
    CompleteCheckpoint,
    JoinTopology,
    ReportPart,
    TopologyJoined,
)
from cep_common.protocol.codec import decode, encode
from cep_common.protocol.drivers import FORMER_SAVEPOINT
from cep_common.protocol.registry import Message, Rejected
from topology.checkpoint.coordination.archive import Archive
from topology.checkpoint.coordination.coordinator import Timing
from topology.checkpoint.coordination.instructions import Drained, Instruction, RestartTopology
from topology.checkpoint.coordination.runs import RunId
from topology.checkpoint.coordination.service import CheckpointService, RunOpened, RunRefused
from topology.checkpoint.storage.store import read_state
from topology.checkpoint.storage.writer import PartWriter

TIMING = Timing(
    interval_ms=100, timeout_ms=5_000, pause_ms=0, heartbeat_ms=50, lease_ms=2_000, join_ms=60_000, drain_ms=5_000
)
PATIENCE_S = 20.0
RUN = RunId(KEY, 1, 0)
Found = TypeVar("Found")


class FakeTask:
    """The one task of a run; it stores `state` for each checkpoint."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], endpoint: Endpoint, run: RunId, folder: Path) -> None:
        self.run = run
        self.store = store_of("directory", folder)
        self.writer = PartWriter(self.store, KEY, run.epoch, run.attempt, 0, None)
        self.state = b"nothing"
        self.told: list[Message] = []
        self.listening = socket.create_server(("127.0.0.1", 0))  # as long as its process is there
        self.exchange = Endpoint("127.0.0.1", self.listening.getsockname()[1])
        self.socket = context.socket(zmq.DEALER)
        self.socket.connect(endpoint.url())

    def work(self) -> None:
        """Beats, and does what it is told."""
        self.socket.send_multipart(encode(JoinTopology(KEY, self.run.epoch, self.run.attempt, 0, self.exchange)))
        while self.socket.poll(10):
            message = decode(self.socket.recv_multipart()).message
            self.told.append(message)
            if isinstance(message, BeginCheckpoint):
                part = self.writer.write(message.checkpoint, {"all#0": self.state})
                origin = (KEY, self.run.epoch, self.run.attempt, 0, message.checkpoint)
                report = ReportPart(*origin, part.states, part.packs, 1, part.stored_bytes)
                self.socket.send_multipart(encode(report))
            elif isinstance(message, CompleteCheckpoint):
                self.writer.complete(message.checkpoint)


@pytest.fixture
def service(zmq_context: zmq.Context[zmq.Socket[bytes]], tmp_path: Path) -> Iterator[CheckpointService]:
    archive = Archive(store_of("directory", tmp_path), retained=2)
    made = CheckpointService(zmq_context, "127.0.0.1", (14_000, 14_999), TIMING, archive, SystemClock())
    made.start()
    yield made
    made.close()


@pytest.fixture
def task(service: CheckpointService, zmq_context: zmq.Context[zmq.Socket[bytes]], tmp_path: Path) -> Iterator[FakeTask]:
    """The run has been opened."""
    service.open_run(RUN, plan_xml(), 1, "", beside=False)
    assert until(service.events) == [RunOpened(RUN)]
    service.job_runs(RUN)
    made = FakeTask(zmq_context, service.endpoint, RUN, tmp_path)
    yield made
    made.socket.close()
    made.listening.close()


def until(found: Callable[[], Found], working: FakeTask | None = None) -> Found:
    deadline = time.monotonic() + PATIENCE_S
    while True:
        answer = found()
        if answer:
            return answer
        assert time.monotonic() < deadline
        if working is not None:
            working.work()


def test_checkpoints_are_taken_while_the_task_beats_and_the_next_attempt_begins_from_the_newest(
    service: CheckpointService, task: FakeTask
) -> None:
    task.state = b"the window" * 10_000
    until(lambda: service.view(KEY, 1).spans and service.view(KEY, 1).spans[-1].last >= 2, task)
    assert TopologyJoined(50, 2_000, (task.exchange,)) in task.told
    told = service.view(KEY, 1)
    assert {one.state for one in told.checkpoints} <= {"complete", "taking"}
    assert told.checkpoints[0].size_bytes == len(task.state)

    service.end_run(RUN, "a stage process died")
    again = RunId(KEY, 1, 1)
    service.open_run(again, plan_xml(), 1, "", beside=False)
    (opened,) = until(service.events)
    assert isinstance(opened, RunOpened)
    assert opened.number >= told.spans[-1].last
    manifest = task.store.read_manifest(opened.reference)
    assert read_state(task.store, manifest, "all#0") == task.state
    until(lambda: service.view(KEY, 1).begun_from == opened.number)
    task.told.clear()
    until(lambda: [one for one in task.told if isinstance(one, Rejected)], task)


def test_a_run_that_is_told_again_what_it_has_begun_from_goes_on_with_its_newest_checkpoint(
    service: CheckpointService, task: FakeTask
) -> None:
    until(lambda: service.view(KEY, 1).spans and service.view(KEY, 1).spans[-1].last, task)
    service.end_run(RUN, "the driver was lost")
    service.open_run(RunId(KEY, 2, 0), plan_xml(), 1, "none", beside=False, restore_epoch=1)
    (opened,) = until(service.events)
    assert isinstance(opened, RunOpened)
    assert opened.number


def test_what_another_plan_of_the_name_had_is_told_of_and_is_a_savepoint_at_once(
    service: CheckpointService, task: FakeTask
) -> None:
    until(lambda: service.view(KEY, 1).spans and service.view(KEY, 1).spans[-1].last, task)
    service.end_run(RUN, "its manager's database was replaced")
    deployed_later_ms = SystemClock().now_ms() + 60_000
    service.open_run(RunId(KEY, 1, 0, deployed_later_ms), plan_xml(), 1, "none", beside=False)
    assert until(service.events) == [RunOpened(RUN)]
    (kept,) = until(service.savepoints)
    assert (kept.name, kept.state) == (f"{FORMER_SAVEPOINT}{kept.checkpoint}", "stored")


def test_a_task_that_falls_silent_ends_its_run(service: CheckpointService, task: FakeTask) -> None:
    until(lambda: TopologyJoined(50, 2_000, (task.exchange,)) in task.told, task)
    (lost,) = until(service.events)
    assert isinstance(lost, RestartTopology)
    assert re.fullmatch(r"task 0 was silent for \d+ ms", lost.reason)


def test_a_task_whose_process_has_ended_ends_its_run_before_its_lease_is_over(
    service: CheckpointService, task: FakeTask
) -> None:
    until(lambda: TopologyJoined(50, 2_000, (task.exchange,)) in task.told, task)
    task.listening.close()
    assert until(service.events) == [RestartTopology(RUN, "the process of task 0 has ended")]


def test_a_savepoint_is_told_of_until_it_is_deleted(service: CheckpointService, task: FakeTask) -> None:
    until(lambda: task.told, task)
    service.take_savepoint(KEY, 1, "before")

    def states() -> list[tuple[str, str]]:
        return [(one.name, one.state) for one in service.savepoints()]

    until(lambda: states() == [("before", "stored")], task)
    service.take_savepoint(KEY, 9, "never")
    until(lambda: ("never", "failed") in states(), task)
    service.delete_savepoint(KEY, "before")
    service.delete_savepoint(KEY, "never")
    until(lambda: not states(), task)


def test_a_savepoint_that_a_plan_has_nothing_else_to_begin_from_is_kept_and_says_so(
    service: CheckpointService, task: FakeTask
) -> None:
    until(lambda: task.told, task)
    service.take_savepoint(KEY, 1, "before")
    until(service.savepoints, task)
    until(lambda: service.savepoints()[0].state == "stored", task)
    service.end_run(RUN, "killed")
    service.open_run(RunId(KEY, 2, 0), plan_xml(), 1, "before", beside=False)
    service.delete_savepoint(KEY, "before")
    until(lambda: service.savepoints()[0].error)
    (kept,) = service.savepoints()
    assert kept.state == "stored"
    assert kept.error == "not deleted: Delays was started from before and has no checkpoint yet; wait for one"


def test_a_run_that_is_drained_takes_a_last_checkpoint(service: CheckpointService, task: FakeTask) -> None:
    until(lambda: task.told, task)
    service.drain(RUN)
    assert until(service.events, task) == [Drained(RUN, "")]
    finals = [one for one in task.told if isinstance(one, BeginCheckpoint) and one.final]
    assert [one.checkpoint for one in finals] == [service.view(KEY, 1).spans[-1].last]


def test_a_run_that_can_begin_from_nothing_that_it_was_told_is_refused(service: CheckpointService) -> None:
    service.open_run(RUN, plan_xml(), 1, "no such", beside=False)
    (refused,) = until(service.events)
    assert refused == RunRefused(RUN, "Delays has no savepoint named no such", unfit=True)


def test_bytes_that_are_no_message_are_refused_and_nothing_ends(service: CheckpointService, task: FakeTask) -> None:
    for garbage in ([b""], [b"CEP1"], [b"CEP1\x03abc", b"more"], encode(BeginCheckpoint(1))):
        task.socket.send_multipart(garbage)
    until(lambda: len([one for one in task.told if isinstance(one, Rejected)]) == 4, task)
    until(lambda: any(isinstance(one, CompleteCheckpoint) for one in task.told), task)


def test_without_a_store_runs_begin_and_tasks_are_watched(zmq_context: zmq.Context[zmq.Socket[bytes]]) -> None:
    service = CheckpointService(zmq_context, "127.0.0.1", (14_000, 14_999), TIMING, None, SystemClock())
    service.start()
    service.open_run(RUN, plan_xml(), 1, "", beside=False)
    assert until(service.events) == [RunOpened(RUN)]
    service.drain(RUN)
    (drained,) = until(service.events)
    assert isinstance(drained, Drained)
    assert "nothing can be stored" in drained.error
    service.close()


def test_time_behind_a_look_counts_as_absence_like_time_behind_the_planned_wait(
    zmq_context: zmq.Context[zmq.Socket[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ManualClock()
    service = CheckpointService(zmq_context, "127.0.0.1", (14_000, 14_999), TIMING, None, clock)
    away_ms: list[int] = []

    def look(now_ms: int, planned_ms: int | None) -> list[Instruction]:
        away_ms.append(now_ms - (now_ms if planned_ms is None else planned_ms))
        return []

    monkeypatch.setattr(service._coordinator, "on_time", look)
    service._turn()
    clock.advance(3_000)  # as a slow end of the turn takes
    clock.advance(service._wait_ms())
    service._turn()
    clock.advance(service._wait_ms() + 40)
    service._turn()
    service.close()
    assert away_ms == [0, 3_000, 40]


def test_the_driver_is_woken_when_savepoints_change(zmq_context: zmq.Context[zmq.Socket[bytes]]) -> None:
    service = CheckpointService(zmq_context, "127.0.0.1", (14_000, 14_999), TIMING, None, SystemClock())
    woken: list[int] = []
    service.happened = lambda: woken.append(len(service.savepoints()))
    service.take_savepoint(KEY, 1, "before")  # of a topology that does not run: it has failed at once
    service._turn()
    service._turn()
    service.close()
    assert woken == [1]
