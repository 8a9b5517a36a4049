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
from cep_cli.node.processes import PROCESSES, STOP_S, Node, _NodeProcess
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
    monkeypatch.setattr("cep_cli.node.processes.SILENT_S", 0.0)
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
