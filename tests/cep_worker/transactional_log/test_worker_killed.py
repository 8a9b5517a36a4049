"""A worker that is killed with SIGKILL while it delivers exactly once: nothing is lost, nothing comes twice."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
import sqlalchemy
from worker_hook import Hook
from worker_world import KEY, PLAN, FakePublisher, World, alerts, until

from cep_common.protocol.registry import CheckpointSpan, Connector, PlanCheckpoints, RegisterEndpoint
from topology.links.sender import LinkState

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
        """Another process of the same worker runs, and a publisher that goes on behind `position` is linked to it."""
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

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()


@pytest.fixture
def hook() -> Iterator[Hook]:
    made = Hook()
    yield made
    made.close()


@pytest.fixture
def worker(world: World) -> Iterator[Killable]:
    made = Killable(world)
    yield made
    made.kill()


def send(publisher: FakePublisher, first: int, last: int, checkpoint: int | None = None) -> None:
    """The results numbered so are with the worker."""
    for begin in range(first, last + 1, 50):
        publisher.send("Alerts", alerts(*[(number, "UA", number) for number in range(begin, begin + 50)]))
    if checkpoint is not None:
        publisher.mark(checkpoint)
    until(lambda: not publisher.link.unacknowledged(), publisher)


@pytest.mark.cluster
def test_results_of_a_killed_worker_come_once(world: World, worker: Killable, hook: Hook, tmp_path: Path) -> None:
    file, url = tmp_path / "alerts.ndjson", f"sqlite:///{tmp_path / 'alerts.db'}"
    engine = sqlalchemy.create_engine(url)

    def lines() -> list[int]:
        return [json.loads(line)["late"] for line in file.read_text().splitlines()] if file.exists() else []

    def rows() -> list[int]:
        try:
            with engine.connect() as connection:
                return list(connection.execute(sqlalchemy.text("select late from alerts order by rowid")).scalars())
        except sqlalchemy.exc.OperationalError:
            return []  # not made yet

    def complete(last: int) -> None:
        world.manager.checkpoints = (PlanCheckpoints(KEY, (CheckpointSpan(7, 0, last),)),)

    sinks = (
        Connector("Alerts", "file", {"file.uri": str(file)}, "", {}),
        Connector("Alerts", "rdbms", {"url": url, "table.name": "alerts", "create": "true"}, "", {}),
        Connector("Alerts", "http", {"publisher.url": hook.url}, "", {}),
    )
    world.manager.plans = (msgspec.structs.replace(PLAN, sinks=sinks, delivery="exactly-once"),)
    world.manager.start()

    hook.status = 503
    publisher = worker.start(position=0)
    send(publisher, 1, 300, checkpoint=1)
    complete(1)
    until(lambda: len(lines()) == 300 == len(rows()), publisher)  # and the web hook still refuses them
    send(publisher, 301, 600, checkpoint=2)
    send(publisher, 601, 700)
    worker.kill()
    until(lambda: publisher.link.state is LinkState.LOST, publisher)

    hook.status = 200
    complete(2)
    publisher = worker.start(position=600)
    send(publisher, 601, 700)  # again, as if its acknowledgement had been lost
    send(publisher, 701, 800, checkpoint=3)
    complete(3)
    until(lambda: len(lines()) == 800, publisher)
    worker.kill()  # the database and the web hook may have them, or not

    worker.start(position=800)
    until(lambda: len(rows()) == 800)
    numbers = list(range(1, 801))
    assert lines() == numbers
    assert rows() == numbers
    until(lambda: len({headers["Idempotency-Key"] for headers in hook.headers}) == 16)
    taken = {headers["Idempotency-Key"]: body for headers, body in zip(hook.headers, hook.bodies, strict=True)}
    assert len(taken) < len(hook.bodies), "requests came again, and could be told apart by their keys"
    assert sorted(event["event"]["late"] for body in taken.values() for event in json.loads(body)) == numbers
    engine.dispose()
