"""The loop of a stage host: each task gets its turns, and what one does is its own."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any

import pytest
import zmq

from cep_common.clock import SystemClock
from cep_common.sockets.wakeup import Wakeup
from topology.stages.hosts.host_loop import HostedTime, HostLoop
from topology.stages.tasks.task import Pace

LONG_MS = 60_000


@dataclass(eq=False)
class ToyTask:
    """Echoes what comes at its socket, and wants nothing else."""

    context: zmq.Context[zmq.Socket[bytes]]
    fails: bool = False
    wait_ms: int = LONG_MS
    turns: int = 0
    stopping: bool = False
    failure: BaseException | None = None
    rests: bool = False
    closed: bool = False
    pace: Pace = field(default_factory=Pace)

    def __post_init__(self) -> None:
        self._wakeup = Wakeup()
        self.wakeup = self._wakeup.handle
        self.socket = self.context.socket(zmq.ROUTER)
        self.port = self.socket.bind_to_random_port("tcp://127.0.0.1")
        self.topology = self

    def silence(self) -> None:
        self._wakeup.silence()

    def stop(self) -> None:
        self.stopping = True
        self._wakeup.ring()

    def sockets(self) -> list[Any]:
        return [self.socket]

    def prepare(self) -> int:
        return self.wait_ms

    def turn(self, readable: set[Any]) -> None:
        self.turns += 1
        if self.fails:
            raise ValueError("broken")
        if self.socket in readable:
            self.socket.send_multipart(self.socket.recv_multipart())

    def run(self) -> str:
        return "toy"

    def expects(self, _error: BaseException) -> bool:
        return False

    def close(self) -> None:
        self.socket.close(linger=0)
        self._wakeup.close()
        self.closed = True


class Host:
    """A loop at work in a thread of its own."""

    def __init__(self) -> None:
        self.context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self.loop = HostLoop(SystemClock(), lambda _: None)
        self.ended: dict[ToyTask, BaseException | None] = {}
        self._thread = threading.Thread(target=self.loop.run)
        self._thread.start()

    def add(self, **wishes: Any) -> ToyTask:
        task = ToyTask(self.context, **wishes)
        self.loop.add(task, HostedTime(), lambda failure: self.ended.update({task: failure}))  # type: ignore[arg-type]
        return task

    def client(self, task: ToyTask) -> zmq.Socket[bytes]:
        client = self.context.socket(zmq.DEALER)
        client.connect(f"tcp://127.0.0.1:{task.port}")
        return client

    def close(self) -> None:
        self.loop.stop()
        self._thread.join(10)
        assert not self._thread.is_alive()
        self.context.destroy(linger=0)


@pytest.fixture
def host():
    host = Host()
    yield host
    host.close()


def test_each_task_answers_and_the_turns_of_one_cost_the_others_none(host: Host) -> None:
    tasks = [host.add() for _ in range(20)]
    busy = host.client(tasks[3])
    for number in range(100):
        busy.send(b"%d" % number)
        assert busy.poll(5_000)
        assert busy.recv() == b"%d" % number
    assert tasks[3].turns >= 100
    assert sum(task.turns for task in tasks) - tasks[3].turns < 20
    for task in tasks:
        client = host.client(task)
        client.send(b"still there")
        assert client.poll(5_000)


def test_a_task_that_fails_ends_alone_and_its_successor_works(host: Host) -> None:
    broken, sound = host.add(fails=True), host.add()
    host.client(broken).send(b"x")
    client = host.client(sound)
    for number in range(20):
        client.send(b"%d" % number)
        assert client.poll(5_000)
        client.recv()
    assert isinstance(host.ended[broken], ValueError)
    assert broken.closed
    assert sound not in host.ended
    successors = [host.add() for _ in range(5)]  # they may get the numbers of handles that were closed
    for task in successors:
        client = host.client(task)
        client.send(b"x")
        assert client.poll(5_000)


def test_a_task_that_is_stopped_ends_though_nothing_comes(host: Host) -> None:
    task, other = host.add(), host.add()
    client = host.client(task)
    client.send(b"x")
    assert client.poll(5_000)
    task.stop()
    waited = threading.Event()
    for _ in range(500):
        if task in host.ended:
            break
        waited.wait(0.01)
    assert host.ended == {task: None}
    assert not other.closed
