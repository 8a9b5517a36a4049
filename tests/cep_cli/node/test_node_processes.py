"""The supervisor of a node: in which order its processes end."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from cep_cli.node.config import NodeConfig
from cep_cli.node.processes import Node, _NodeProcess
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
