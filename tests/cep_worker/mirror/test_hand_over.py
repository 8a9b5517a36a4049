"""The worker of the active one of two nodes accepts events until all else is done, then tells that it has left."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import msgspec
import pytest
import requests
from free_ports import free_port
from worker_hook import Hook
from worker_world import EVENT, PLAN, World, alerts, until

from cep_common.ids import Endpoint
from cep_common.nodes.config import WorkerNode
from cep_common.nodes.files import MIRROR_FILE, ROLE_FILE, FileView, MirrorReport, NodeRole, write_file
from cep_common.nodes.role_watch import RoleWatch, monotonic_ms
from cep_common.protocol.registry import Connector
from cep_worker.mirror.receiver import Copy, MirrorReceiver


class Node:
    """The rest of the active node: a manager that records what the worker asks for, and the passive node."""

    def __init__(self, folder: Path, world: World, stack: ExitStack) -> None:
        self.folder, self.sync = folder, free_port()
        self.copy = folder / "other"
        receiver = MirrorReceiver(world.context, "127.0.0.1", self.sync, Copy(self.copy, 0), lambda: "b")
        receiver.start()
        stack.callback(receiver.close)
        self._view = FileView(folder / MIRROR_FILE, MirrorReport)
        self._tell(0)
        self.watch = RoleWatch(str(folder), lambda _: None)
        stack.callback(self.watch.close)
        assert self.watch.await_active(threading.Event())

    def state(self) -> str:
        """Record what the worker asks for and return the state of its mirror."""
        report = self._view.read()
        if report is None:
            return ""
        self._tell(report.request)
        return report.state

    def _tell(self, answered: int) -> None:
        until_ms, sync = monotonic_ms() + 60_000, Endpoint("127.0.0.1", self.sync)
        role = NodeRole("a", 1, until_ms, "b", sync, answered=answered, answered_process=os.getpid())
        write_file(self.folder / ROLE_FILE, role)


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def hook() -> Iterator[Hook]:
    hook = Hook()
    yield hook
    hook.close()


def test_events_are_accepted_until_results_are_delivered_and_then_the_other_node_has_them(
    make_world: Callable[..., World], hook: Hook, stack: ExitStack, tmp_path: Path
) -> None:
    world = make_world(leave_ms=30_000)
    state = Path(world.config.wal.path).parent
    state.mkdir(parents=True)
    member = WorkerNode(folder=str(tmp_path), state=str(state))
    world.config = msgspec.structs.replace(world.config, node=member)
    node = Node(tmp_path, world, stack)
    sink = Connector("Alerts", "http", {"publisher.url": hook.url}, "", {})
    world.start(msgspec.structs.replace(PLAN, sinks=(sink,)), watch=node.watch)
    until(lambda: node.state() == "protected")
    hook.free.clear()
    publisher = world.publisher().open()
    publisher.send("Alerts", alerts((1, "UA", 1)))
    until(lambda: hook.bodies, publisher)

    worker = world.worker
    assert worker is not None
    stopping = threading.Thread(target=worker.stop)
    stopping.start()
    for _ in range(20):
        assert requests.post(world.url("/events/Departures"), json=EVENT, timeout=10).status_code == 202
    assert stopping.is_alive()
    hook.free.set()
    stopping.join()
    world.worker = None

    assert node.state() == "left", "the manager gives the lease back then"
    assert hook.events()
    segments = {path.name: path.read_bytes() for path in state.rglob("*.segment")}
    assert segments
    assert {path.name: path.read_bytes() for path in node.copy.rglob("*.segment")} == segments
    with pytest.raises(requests.ConnectionError):
        requests.post(world.url("/events/Departures"), json=EVENT, timeout=10)
