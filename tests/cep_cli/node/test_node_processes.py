"""The supervisor of a node: in which order its processes end."""

from __future__ import annotations

import errno
import socket
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from free_ports import free_port

from cep_cli.node.config import NodeConfig, NodePorts
from cep_cli.node.processes import PROCESSES, SILENT_LOOKS, STEADY_S, STOP_S, Node, _NodeProcess
from cep_common.nodes.files import DRAINED_FILE, ROLE_FILE, NodeRole

DRIVER = f"""
import os, pathlib, signal, sys, threading
ends, folder = threading.Event(), pathlib.Path(sys.argv[1])
signal.signal(signal.SIGTERM, lambda *_: ends.set())
(folder / "driver is up").touch()
ends.wait()
(folder / "{DRAINED_FILE}").write_text(str(os.getpid()), encoding="ascii")
while not (folder / "worker has left").exists():
    threading.Event().wait(0.01)
(folder / "Spark has ended").touch()
"""
WORKER = f"""
import pathlib, signal, sys, threading
ends, folder = threading.Event(), pathlib.Path(sys.argv[1])
signal.signal(signal.SIGTERM, lambda *_: ends.set())
(folder / "worker is up").touch()
ends.wait()
if (folder / "{DRAINED_FILE}").exists():
    (folder / "worker has left").touch()
"""


def started(name: str, text: str, folder: Path) -> _NodeProcess:
    process = subprocess.Popen([sys.executable, "-c", text, str(folder)], start_new_session=True)  # noqa: S603
    while not (folder / f"{name} is up").exists():
        assert process.poll() is None
    return _NodeProcess({}, folder / f"{name}.log", process)


def test_the_worker_leaves_when_topologies_have_ended_and_does_not_wait_for_spark(tmp_path: Path) -> None:
    """The other node takes over when the worker has left; nobody accepts events meanwhile."""
    said: list[str] = []
    node = Node(NodeConfig(folder=str(tmp_path)), said.append)
    node._children["driver"] = started("driver", DRIVER, tmp_path)
    node._children["worker"] = started("worker", WORKER, tmp_path)
    (tmp_path / DRAINED_FILE).write_text("1", encoding="ascii")
    node._stop_processes()
    assert (tmp_path / "Spark has ended").exists()
    assert (said, [child.process for child in node._children.values()]) == ([], [None, None])


STUCK_DRIVER = """
import os, pathlib, signal, sys, threading
signal.signal(signal.SIGTERM, signal.SIG_IGN)
folder = pathlib.Path(sys.argv[1])
(folder / "driver").write_text(str(os.getpid()), encoding="ascii")
(folder / "driver is up").touch()
threading.Event().wait()
"""
WORKER_AFTER_IT = """
import os, pathlib, signal, sys, threading
ends, folder = threading.Event(), pathlib.Path(sys.argv[1])
signal.signal(signal.SIGTERM, lambda *_: ends.set())
(folder / "worker is up").touch()
ends.wait()
try:
    os.kill(int((folder / "driver").read_text(encoding="ascii")), 0)
except ProcessLookupError:
    (folder / "no topology runs").touch()
"""


def test_topologies_that_do_not_end_are_killed_before_the_other_node_takes_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(STOP_S, "driver", 0.1)
    said: list[str] = []
    node = Node(NodeConfig(folder=str(tmp_path)), said.append)
    node._children["driver"] = started("driver", STUCK_DRIVER, tmp_path)
    node._children["worker"] = started("worker", WORKER_AFTER_IT, tmp_path)
    node._stop_processes()
    assert (tmp_path / "no topology runs").exists()
    assert len(said) == 1


def test_a_connection_that_cannot_be_taken_does_not_end_the_node(tmp_path: Path) -> None:
    class NoFiles(socket.socket):
        def accept(self) -> tuple[socket.socket, object]:
            raise OSError(errno.EMFILE, "too many open files")

    node = Node(NodeConfig(folder=str(tmp_path)))
    with NoFiles() as guard:
        node._guard = guard
        node._answer_probes()


def ended(folder: Path, code: int) -> _NodeProcess:
    process = subprocess.Popen([sys.executable, "-c", f"raise SystemExit({code})"], start_new_session=True)  # noqa: S603
    process.wait()
    return _NodeProcess({}, folder / "log", process)


def sleeping(folder: Path) -> _NodeProcess:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, start_new_session=True)
    return _NodeProcess({}, folder / "log", process)


class RecordingNode(Node):
    """Starts nothing, and records what it would start."""

    def __init__(self, folder: Path, said: list[str]) -> None:
        super().__init__(NodeConfig(folder=str(folder)), said.append)
        self.started: list[str] = []

    def _start(self, name: str) -> None:
        self.started.append(name)


ACTIVE = NodeRole("a", token=3, until_ms=2**62, peer="b", peer_in_sync=True)


def node_of(folder: Path, said: list[str], **codes: int) -> RecordingNode:
    """Return an active node whose processes `codes` have ended."""
    node = RecordingNode(folder, said)
    for name in PROCESSES:
        node._children[name] = ended(folder, codes[name]) if name in codes else sleeping(folder)
    node._guard = socket.create_server(("127.0.0.1", 0))
    node._was_active = True
    (folder / ROLE_FILE).touch()
    return node


def refuses(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except ConnectionRefusedError:
        return True
    return False


@pytest.mark.parametrize("name", PROCESSES)
def test_the_other_node_takes_over_when_a_process_of_the_active_one_fails(tmp_path: Path, name: str) -> None:
    """A full disk ends a worker, for instance, and would end the next one."""
    said: list[str] = []
    node = node_of(tmp_path, said, **{name: 1})
    assert node._guard is not None
    port = node._guard.getsockname()[1]
    node._watch(ACTIVE)
    assert [child.process for child in node._children.values()] == [None] * 3
    assert not (tmp_path / ROLE_FILE).exists()
    assert refuses(port), "that is how the other node sees that nothing of this one runs"
    assert said == [f"the {name} ended with exit code 1; b takes over"]
    node._watch(None)
    assert node.started == [], "the other node looks ten times a second"


@pytest.mark.parametrize("role", [msgspec.structs.replace(ACTIVE, peer_in_sync=False), NodeRole("a"), None])
def test_a_failed_process_starts_again_where_the_other_node_could_not_take_over(
    tmp_path: Path, role: NodeRole | None
) -> None:
    said: list[str] = []
    node = node_of(tmp_path, said, worker=1)
    node._was_active = role is not None and role.token > 0
    node._watch(role)
    assert node._children["worker"].process is None
    assert node._children["manager"].process is not None
    assert node._guard is not None
    assert said == ["the worker ended with exit code 1; starting it again"]
    for one in PROCESSES:
        node._kill(one)
    node._guard.close()


def test_a_manager_that_leaves_an_expired_role_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its disk may be full: it confirms the lease, but the node does not work under it."""
    monkeypatch.setattr("cep_cli.node.processes.SILENT_LOOKS", 1)
    said: list[str] = []
    node = node_of(tmp_path, said)
    node._was_active = False
    expired = msgspec.structs.replace(ACTIVE, until_ms=1)
    node._watch(expired)
    assert node._children["manager"].process is not None, "it may be about to replace it"
    node._watch(expired)
    assert node._children["manager"].process is None
    assert node._guard is None
    assert said == ["the manager hangs, or cannot write the node's role; see manager.log. All processes start again"]


def test_the_guard_port_is_open_again_when_processes_start(tmp_path: Path) -> None:
    node = Node(NodeConfig(folder=str(tmp_path), host="127.0.0.1", ports=NodePorts(guard=free_port())))
    with node._open_guard():
        node._give_way()
        assert refuses(node.config.ports.guard)
        with node._open_guard():
            assert not refuses(node.config.ports.guard)


class HostClock:
    """The monotonic clock of the host, which moves when a test says so."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 10_000.0
        monkeypatch.setattr("cep_cli.node.processes.time.monotonic", lambda: self.now)
        monkeypatch.setattr("cep_cli.node.processes.monotonic_ms", lambda: int(self.now * 1_000))


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> HostClock:
    return HostClock(monkeypatch)


def test_a_host_that_stood_still_does_not_end_its_manager(tmp_path: Path, host: HostClock) -> None:
    """The manager has had no more time than its supervisor: it is about to replace the role."""
    node = node_of(tmp_path, [])
    node._was_active = False
    expired = msgspec.structs.replace(ACTIVE, until_ms=1)
    node._watch(expired)
    host.now += 60
    node._watch(expired)
    assert node._children["manager"].process is not None
    for _ in range(SILENT_LOOKS):
        node._watch(expired)
    assert node._children["manager"].process is None


def fail_soon(node: RecordingNode, name: str, host: HostClock) -> float:
    """End the process while the node is active. Return after how long it starts again."""
    for one in PROCESSES:
        if node._children[one].process is None:
            node._children[one].process = sleeping(node.folder).process
        node._children[one].started_at = host.now
    if node._guard is None:
        node._guard = socket.create_server(("127.0.0.1", 0))
    node._watch(ACTIVE)
    host.now += 5
    node._kill(name)
    node._children[name].process = ended(node.folder, 1).process
    node._watch(ACTIVE)
    wait_s = node._children[name].restart_at - host.now
    host.now = max(child.restart_at for child in node._children.values())
    return wait_s


def close(node: RecordingNode) -> None:
    for one in PROCESSES:
        node._kill(one)
    if node._guard is not None:
        node._guard.close()


def test_two_nodes_do_not_hand_over_to_each_other_for_ever(tmp_path: Path, host: HostClock) -> None:
    """An event, or the configuration, may end the worker of both nodes."""
    said: list[str] = []
    node = node_of(tmp_path, said)
    node._was_active = False
    waits = [fail_soon(node, "worker", host) for _ in range(9)]
    assert sum(line.endswith("b takes over") for line in said) == 2
    assert waits[2:] == [2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0]
    assert node._children["manager"].process is not None
    assert node._guard is not None, "the node stays active"
    assert "starting it again in 2.0 s. Processes failed 3 times soon after this node became active" in said[-7]
    close(node)


def test_a_node_that_has_been_active_for_long_hands_over_again(tmp_path: Path, host: HostClock) -> None:
    said: list[str] = []
    node = node_of(tmp_path, said)
    node._was_active = False
    for _ in range(4):
        fail_soon(node, "worker", host)
    node._children["worker"].process = sleeping(tmp_path).process
    node._children["worker"].started_at = host.now
    host.now += STEADY_S
    said.clear()
    node._kill("worker")
    node._children["worker"].process = ended(tmp_path, 1).process
    node._watch(ACTIVE)
    assert said == ["the worker ended with exit code 1; b takes over"]
    close(node)


def test_a_guard_port_that_is_still_in_use_does_not_end_the_node(tmp_path: Path, host: HostClock) -> None:
    """What a process has started may have it until it has ended, too."""
    said: list[str] = []
    node = node_of(tmp_path, said)
    node.config = NodeConfig(folder=str(tmp_path), host="127.0.0.1", ports=NodePorts(guard=free_port()))
    node._give_way()
    with socket.create_server(("127.0.0.1", node.config.ports.guard)):
        host.now += 1.5
        node._watch(None)
        assert (node.started, len(said)) == ([], 1)
    host.now += 1.5
    node._watch(None)
    assert node.started == list(PROCESSES)
    close(node)
