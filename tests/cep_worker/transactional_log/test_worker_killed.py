"""A worker that is killed with SIGKILL while it delivers exactly once: nothing is lost, nothing comes twice."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
import sqlalchemy
from worker_hook import Hook
from worker_process import Killable, send
from worker_world import KEY, PLAN, World, until

from cep_common.protocol.registry import CheckpointSpan, Connector, PlanCheckpoints
from topology.links.sender import LinkState


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
