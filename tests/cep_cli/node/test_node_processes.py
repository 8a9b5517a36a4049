"""The supervisor of a node: in which order its processes end."""

from __future__ import annotations

import errno
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from cep_cli.node.config import NodeConfig
from cep_cli.node.processes import STOP_S, Node, _NodeProcess
from cep_common.nodes.files import DRAINED_FILE

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
