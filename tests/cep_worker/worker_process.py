"""A worker that is a process of its own, to be killed."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import msgspec
from worker_world import PLAN, FakePublisher, World, alerts, until

from cep_common.protocol.registry import RegisterEndpoint

RUN = """
import json, sys, msgspec
from cep_worker.config import WorkerConfig
from cep_worker.main import run
run(msgspec.convert(json.loads(sys.argv[1]), WorkerConfig))
"""


class Killable:
    """A worker process of the world, started again at will."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, position: int) -> FakePublisher:
        """Another process of the same worker runs, and a publisher that continues behind `position` is linked to it."""
        self._world.manager.heard.clear()
        config = json.dumps(msgspec.to_builtins(self._world.config))
        self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and text
            [sys.executable, "-c", RUN, config], env={**os.environ, "PYTHONPATH": os.getcwd()}
        )
        until(lambda: self._world.manager.last(RegisterEndpoint), deadline_ms=30_000)
        endpoint = self._world.manager.last(RegisterEndpoint).endpoint
        publisher = FakePublisher(self._world.context, endpoint, PLAN, position=position)
        self._world.closing.append(publisher)
        return publisher.open()

    def signal(self, number: int) -> None:
        """Send the process a signal."""
        assert self._process is not None
        self._process.send_signal(number)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()


def send(publisher: FakePublisher, first: int, last: int, checkpoint: int | None = None) -> None:
    """The results numbered so are with the worker."""
    for begin in range(first, last + 1, 50):
        publisher.send("Alerts", alerts(*[(number, "UA", number) for number in range(begin, begin + 50)]))
    if checkpoint is not None:
        publisher.mark(checkpoint)
    until(lambda: not publisher.link.unacknowledged(), publisher)
