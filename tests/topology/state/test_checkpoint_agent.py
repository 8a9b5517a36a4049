"""A task speaks with its driver about checkpoints: over a real socket, into a real store."""

from __future__ import annotations

import queue
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import zmq
from test_checkpoints_of_tasks import Launch, Logged, launch
from topology_builders import EPOCH, KEY

from cep_common.clock import SystemClock
from cep_common.ids import Endpoint
from cep_common.protocol.checkpoints import (
    AbandonCheckpoint,
    BeginCheckpoint,
    CompleteCheckpoint,
    JoinTopology,
    ReportPart,
    TopologyJoined,
)
from cep_common.protocol.codec import decode, encode
from cep_common.protocol.registry import Message, Rejected
from topology.checkpoint.model import Manifest, new_pack
from topology.checkpoint.storage.store import CheckpointStore, open_store
from topology.checkpoint.storage.writer import PartWriter
from topology.stages.state import stored_states
from topology.stages.tasks import checkpoint_agent
from topology.stages.tasks.checkpoint_agent import CheckpointAgent

__all__ = ["launch"]


class Coordinator:
    """The driver's end of the socket."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]]) -> None:
        self.socket = context.socket(zmq.ROUTER)
        self.endpoint = Endpoint("127.0.0.1", self.socket.bind_to_random_port("tcp://127.0.0.1"))
        self.peer = b""

    def next(self, kind: type[Message], working: Callable[[], None] = lambda: None) -> Message:
        """The next message of this kind; the worker at the topology's edge does its part by `working` meanwhile."""
        deadline_s = time.monotonic() + 20
        while time.monotonic() < deadline_s:
            working()
            if not self.socket.poll(5):
                continue
            self.peer, *frames = self.socket.recv_multipart()
            message = decode(frames).message
            if isinstance(message, kind):
                return message
        raise AssertionError(f"no {kind.__name__} came")

    def say(self, message: Message) -> None:
        self.socket.send_multipart([self.peer, *encode(message)])


@pytest.fixture
def coordinator(zmq_context: zmq.Context[zmq.Socket[bytes]]) -> Iterator[Coordinator]:
    made = Coordinator(zmq_context)
    yield made
    made.socket.close(linger=0)


Watched = Callable[..., tuple[Logged, CheckpointAgent]]


@pytest.fixture
def watched(launch: Launch, coordinator: Coordinator, zmq_context: zmq.Context[zmq.Socket[bytes]]) -> Iterator[Watched]:
    agents: list[CheckpointAgent] = []

    def start(store: CheckpointStore | None, *beat: Callable[[int], None]) -> tuple[Logged, CheckpointAgent]:
        running = launch()
        writer = PartWriter(store, KEY, EPOCH, 0, 0, None) if store is not None else None
        agents.append(
            CheckpointAgent(running.tasks[0], coordinator.endpoint, zmq_context, SystemClock(), writer, *beat)
        )
        agents[-1].start()
        return running, agents[-1]

    yield start
    for agent in agents:
        agent.close()


def test_its_host_is_told_for_how_long_the_task_may_be_silent_and_when_it_leaves(
    watched: Watched, coordinator: Coordinator
) -> None:
    beats: queue.SimpleQueue[int] = queue.SimpleQueue()
    running, agent = watched(None, beats.put)
    for _ in range(2):
        coordinator.next(JoinTopology)
    assert beats.empty(), "the driver has not said anything yet"
    listens = running.tasks[0].endpoint
    coordinator.say(TopologyJoined(heartbeat_ms=20, lease_ms=3_000, exchanges=(listens,)))
    assert [beats.get(timeout=20), beats.get(timeout=20)] == [3_000, 3_000]
    agent.close()
    last = [beats.get_nowait() for _ in range(beats.qsize())]
    assert last[-1] == 0
    assert 0 not in last[:-1]


def test_a_task_that_ends_beats_while_it_writes_but_not_for_ever(
    watched: Watched, coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store that never answers keeps the writer's thread: the driver must be able to miss the task all the same."""
    monkeypatch.setattr(checkpoint_agent, "CLOSING_S", 0.5)
    beats: queue.SimpleQueue[int] = queue.SimpleQueue()
    running, agent = watched(None, beats.put)
    coordinator.next(JoinTopology)
    listens = running.tasks[0].endpoint
    coordinator.say(TopologyJoined(heartbeat_ms=20, lease_ms=3_000, exchanges=(listens,)))
    assert beats.get(timeout=20) == 3_000
    answers = threading.Event()
    agent._writing.submit(answers.wait)
    closing = threading.Thread(target=agent.close)
    closing.start()
    try:
        told = [beats.get(timeout=20) for _ in range(5)]
        while told[-1] != 0:
            told.append(beats.get(timeout=20))
        assert closing.is_alive(), "the store has not answered"
    finally:
        answers.set()
        closing.join()
    assert told.count(3_000) > 5


def test_an_agent_with_a_defect_leaves_too(watched: Watched, coordinator: Coordinator) -> None:
    beats: queue.SimpleQueue[int] = queue.SimpleQueue()
    running, agent = watched(None, beats.put)
    coordinator.next(JoinTopology)
    agent._join = None  # type: ignore[assignment,method-assign]
    assert beats.get(timeout=20) == 0
    for thread in running.threads:
        thread.join()
    assert "checkpoints: TypeError" in str(running.failures[0])
    running.failures.clear()


def test_a_part_is_stored_and_reported_and_a_topology_begins_from_it(
    watched: Watched, coordinator: Coordinator, launch: Launch, tmp_path: Path
) -> None:
    store = open_store(str(tmp_path))
    running, _ = watched(store)
    running.listen()
    running.open_log()
    for number in range(1, 6):
        running.send_from_log(number)
    running.until(lambda: len(running.out) == 5)
    listens = running.tasks[0].endpoint
    assert coordinator.next(JoinTopology) == JoinTopology(KEY, EPOCH, 0, 0, listens)
    coordinator.say(TopologyJoined(heartbeat_ms=50, lease_ms=3_000, exchanges=(listens,)))
    coordinator.say(BeginCheckpoint(7))
    report = coordinator.next(ReportPart, running.step)
    assert isinstance(report, ReportPart)
    assert (report.checkpoint, report.error) == (7, "")
    coordinator.say(CompleteCheckpoint(7))
    running.until(lambda: running.senders["A"].secured == 5)
    packs = tuple(new_pack(pack) for pack in report.packs)
    manifest = Manifest(KEY, 7, EPOCH, 0, 0, "", 1, (), report.states, packs, (), 0, 0, 0, 0)
    running.stop()

    assert stored_states.instances(manifest) == {"EventReceiver#0", "filtering#0", "filtering#1", "total#0"}
    again = launch(attempt=1, states=stored_states.read(store, manifest, stored_states.instances(manifest)))
    again.listen()
    assert again.open_log() == 5
    again.send_from_log(6)
    again.until(lambda: [number for _, number in again.out] == [21])


def test_a_part_is_reported_again_to_a_driver_that_asks_again_and_is_taken_once(
    watched: Watched, coordinator: Coordinator, tmp_path: Path
) -> None:
    running, _ = watched(open_store(str(tmp_path)))
    running.listen()
    coordinator.next(JoinTopology)
    coordinator.say(BeginCheckpoint(7))
    report = coordinator.next(ReportPart, running.step)

    coordinator.say(BeginCheckpoint(7))
    assert coordinator.next(ReportPart, running.step) == report

    coordinator.say(CompleteCheckpoint(7))
    coordinator.say(BeginCheckpoint(8))
    following = coordinator.next(ReportPart, running.step)
    assert isinstance(following, ReportPart)
    assert (following.checkpoint, following.error) == (8, "")


def test_a_checkpoint_that_is_abandoned_is_followed_by_the_next(
    watched: Watched, coordinator: Coordinator, tmp_path: Path
) -> None:
    running, _ = watched(open_store(str(tmp_path)))
    running.listen()
    coordinator.next(JoinTopology)
    for checkpoint in (1, 2):
        coordinator.say(BeginCheckpoint(checkpoint))
        report = coordinator.next(ReportPart, running.step)
        assert isinstance(report, ReportPart)
        assert (report.checkpoint, report.error) == (checkpoint, "")
        coordinator.say(AbandonCheckpoint(checkpoint))


def test_a_store_that_cannot_be_written_is_told_of_and_the_task_works_on(
    watched: Watched, coordinator: Coordinator, tmp_path: Path
) -> None:
    store = open_store(str(tmp_path / "store"))
    shutil.rmtree(tmp_path / "store", ignore_errors=True)
    (tmp_path / "store").write_text("a file where the folder should be")
    running, _ = watched(store)
    running.listen()
    coordinator.next(JoinTopology)
    running.send("A", [(number, number) for number in range(1_000)])  # more than a manifest holds by itself
    running.until(lambda: len(running.out) == 1_000)
    coordinator.say(BeginCheckpoint(1))
    report = coordinator.next(ReportPart, running.step)
    assert isinstance(report, ReportPart)
    assert report.error
    running.send("A", [(1, 1)])
    running.until(lambda: len(running.out) == 1_001)


def test_a_task_that_is_refused_stops(watched: Watched, coordinator: Coordinator) -> None:
    running, _ = watched(None)
    coordinator.next(JoinTopology)
    coordinator.say(Rejected("stale-epoch", "a later attempt runs"))
    running.until(lambda: running.failures)
    assert [str(failure) for failure in running.failures] == ["a later attempt runs"]


def test_a_defect_in_the_thread_stops_the_task_and_is_told(
    watched: Watched, coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    running, _ = watched(None)

    def fail(checkpoint: int, *, final: bool) -> None:
        raise KeyError(checkpoint)

    coordinator.next(JoinTopology)
    monkeypatch.setattr(running.tasks[0].checkpointing, "begin", fail)
    coordinator.say(BeginCheckpoint(7))
    running.until(lambda: running.failures)
    assert str(running.failures[0]) == "checkpoints: KeyError: 7"
