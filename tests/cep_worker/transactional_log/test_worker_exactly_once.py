"""Plans that deliver exactly once: results wait in the worker until their checkpoint is complete."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
import sqlalchemy
from free_ports import free_port
from worker_hook import Hook
from worker_world import KEY, PLAN, FakePublisher, FakeReceiver, World, alerts, until, values

from cep_common.protocol.registry import CheckpointSpan, Connector, DeployedPlan, PlanCheckpoints
from cep_worker.worker import Worker
from topology.links.sender import LinkState

ONCE = msgspec.structs.replace(PLAN, delivery="exactly-once")


@pytest.fixture
def hook() -> Iterator[Hook]:
    made = Hook()
    yield made
    made.close()


def with_sinks(*sinks: tuple[str, dict[str, str]]) -> DeployedPlan:
    connectors = tuple(Connector("Alerts", kind, options, "", {}) for kind, options in sinks)
    return msgspec.structs.replace(ONCE, sinks=connectors)


def complete(world: World, *spans: tuple[int, int, int]) -> None:
    """The manager tells of `spans` from now on."""
    world.manager.checkpoints = (PlanCheckpoints(KEY, tuple(CheckpointSpan(*span) for span in spans)),)


def prepared(world: World) -> dict[str, int]:
    found: dict[str, int] = world.health()["plans"][0]["prepared"]
    return found


def numbered(*numbers: int) -> object:
    return alerts(*[(number, "UA", number) for number in numbers])


def lines(file: Path) -> list[int]:
    return [json.loads(line)["late"] for line in file.read_text().splitlines()]


def test_results_are_delivered_when_their_checkpoint_is_complete(world: World, tmp_path: Path, hook: Hook) -> None:
    file, database = tmp_path / "alerts.ndjson", tmp_path / "alerts.db"
    url = f"sqlite:///{database}"
    world.start(
        with_sinks(
            ("file", {"file.uri": str(file)}),
            ("http", {"publisher.url": hook.url, "batch.rows": "2"}),
            ("rdbms", {"url": url, "table.name": "alerts", "create": "true", "timestamp.column": "at"}),
        )
    )
    listener = world.listener()
    publisher = world.publisher(ONCE).open()
    publisher.send("Alerts", numbered(1, 2, 3))
    publisher.mark(1)
    publisher.send("Alerts", numbered(4))
    until(lambda: not publisher.link.unacknowledged(), publisher)
    until(lambda: prepared(world)["events"] == 4)
    assert prepared(world)["size_bytes"] > 0
    assert file.read_text() == ""

    complete(world, (7, 0, 1))
    until(lambda: prepared(world)["events"] == 1)
    assert lines(file) == [1, 2, 3]
    assert [event["event"]["late"] for event in hook.events()] == [1, 2, 3]
    keys = [headers["Idempotency-Key"] for headers in hook.headers]
    assert keys == [f"-1234/KnockOnDelays/publisher%230/7.0/1/1.{row}" for row in (0, 2)]
    batch = listener.receive(5_000)
    assert batch is not None
    assert [row[0] for row in values(batch)] == [1, 2, 3]
    engine = sqlalchemy.create_engine(url)
    with engine.connect() as connection:
        found = connection.execute(sqlalchemy.text("select at, carrier, late from alerts order by late")).all()
    engine.dispose()
    assert [tuple(row) for row in found] == [(number, "UA", number) for number in (1, 2, 3)]


def test_results_that_a_restart_undid_never_come(world: World, tmp_path: Path) -> None:
    file = tmp_path / "alerts.ndjson"
    world.start(with_sinks(("file", {"file.uri": str(file)})))
    former = world.publisher(ONCE).open()
    former.send("Alerts", numbered(1))
    former.mark(1)
    former.send("Alerts", numbered(2, 3))
    former.mark(2)
    former.send("Alerts", numbered(4))
    until(lambda: not former.link.unacknowledged(), former)
    complete(world, (7, 0, 1), (7, 1, 0))
    running = FakePublisher(world.context, former.link.endpoint, ONCE, attempt=1).open()
    world.closing.append(running)
    until(lambda: former.link.state is LinkState.REFUSED, former)
    late = FakePublisher(world.context, former.link.endpoint, ONCE, "publisher#1")
    world.closing.append(late)
    until(lambda: late.link.state is LinkState.REFUSED, late)
    running.send("Alerts", numbered(2))
    running.mark(3)
    until(lambda: not running.link.unacknowledged(), running)
    complete(world, (7, 0, 1), (7, 1, 3))
    until(lambda: lines(file) == [1, 2])
    until(lambda: prepared(world)["events"] == 0)


def test_a_publisher_whose_results_are_gone_is_refused_and_one_whose_results_are_there_goes_on(world: World) -> None:
    world.start(ONCE)
    publisher = world.publisher(ONCE).open()
    publisher.send("Alerts", numbered(1, 2, 3))
    until(lambda: not publisher.link.unacknowledged(), publisher)
    again = FakePublisher(world.context, publisher.link.endpoint, ONCE, position=3, acknowledged=3).open()
    world.closing.append(again)
    robbed = FakePublisher(world.context, publisher.link.endpoint, ONCE, position=4, acknowledged=4)
    world.closing.append(robbed)
    until(lambda: robbed.link.state is LinkState.REFUSED, robbed)
    assert [one.code for one in robbed.link.refusals] == ["results-missing"]
    again = FakePublisher(world.context, publisher.link.endpoint, ONCE, attempt=1).open()
    world.closing.append(again)


def test_a_zeromq_sink_tells_the_place_of_each_batch_and_leaves_out_what_its_peer_has(world: World) -> None:
    port = free_port()
    world.start(with_sinks(("zeromq", {"endpoint": f"tcp://127.0.0.1:{port}"})))
    publisher = world.publisher(ONCE).open()
    for number in range(1, 5):
        publisher.send("Alerts", numbered(number))
    publisher.mark(1)
    complete(world, (7, 0, 1))
    receiver = FakeReceiver(world.context, port=port)
    receiver.server.resume = lambda opening: (2 if opening.log else 0, False)
    world.receivers.append(receiver)
    until(lambda: len(receiver.rows()) == 2, receiver, publisher)
    assert [row[0] for row in receiver.rows()] == [3, 4]
    assert [frame.message.position for frame in receiver.frames] == [3, 4]
    assert prepared(world)["events"] == 4, "the peer has not secured them"
    for link in receiver.server.links.values():
        receiver.server.secure(link, 4)
    until(lambda: prepared(world)["events"] == 0, receiver)


def test_a_plan_that_is_undeployed_delivers_what_its_topology_gives_until_that_is_gone(
    world: World, tmp_path: Path
) -> None:
    file = tmp_path / "alerts.ndjson"
    world.start(with_sinks(("file", {"file.uri": str(file)})))
    publisher = world.publisher(ONCE).open()
    publisher.send("Alerts", numbered(1))
    publisher.mark(1)
    publisher.send("Alerts", numbered(2))
    until(lambda: prepared(world)["events"] == 2, publisher)
    world.manager.deploy()
    until(lambda: world.health()["plans"] == [], publisher)
    publisher.send("Alerts", numbered(3))
    until(lambda: not publisher.link.unacknowledged(), publisher)
    assert lines(file) == []
    publisher.close()
    world.closing.remove(publisher)
    until(lambda: lines(file) == [1, 2, 3])
    folder = Path(world.config.results.path) / "worker-1" / "-1234" / "KnockOnDelays"
    until(lambda: not folder.exists())


def again(plan: DeployedPlan) -> DeployedPlan:
    """Another plan of its name."""
    return msgspec.structs.replace(plan, epoch=plan.epoch + 1, deployed_ms=plan.deployed_ms + 1_000)


def test_a_plan_that_is_deployed_anew_at_once_delivers_what_the_former_one_gave_once_each(
    world: World, tmp_path: Path
) -> None:
    file = tmp_path / "alerts.ndjson"
    first = msgspec.structs.replace(with_sinks(("file", {"file.uri": str(file)})), deployed_ms=1_000)
    world.start(first)
    former = world.publisher(first).open()
    former.send("Alerts", numbered(1))
    former.mark(1)
    former.send("Alerts", numbered(2))
    complete(world, (7, 0, 1))
    until(lambda: lines(file) == [1], former)

    world.manager.deploy()
    until(lambda: world.health()["plans"] == [], former)
    complete(world, (8, 0, 0))
    world.manager.deploy(again(first))
    second = world.publisher(again(first)).open()
    former.send("Alerts", numbered(3))
    former.mark(2)
    former.send("Alerts", numbered(4))
    second.send("Alerts", numbered(10))
    second.mark(3)
    until(lambda: not (former.link.unacknowledged() or second.link.unacknowledged()), former, second)
    assert lines(file) == [1], "the former topology is not gone yet"
    former.close()
    world.closing.remove(former)
    until(lambda: lines(file) == [1, 2, 3, 4], second)
    complete(world, (7, 0, 1), (8, 0, 3))
    until(lambda: lines(file) == [1, 2, 3, 4, 10], second)
    until(lambda: prepared(world)["events"] == 0, second)


def test_what_the_former_topology_undid_does_not_come_when_its_plan_is_deployed_anew(
    world: World, tmp_path: Path
) -> None:
    """Sinks are so slow that what was undone is still held then."""
    file = tmp_path / "alerts.ndjson"
    first = msgspec.structs.replace(with_sinks(("file", {"file.uri": str(file)})), deployed_ms=1_000)
    world.start(first)
    former = world.publisher(first).open()
    former.send("Alerts", numbered(1))
    former.mark(1)
    former.send("Alerts", numbered(2))
    until(lambda: not former.link.unacknowledged(), former)
    file.rename(tmp_path / "elsewhere")
    file.mkdir()
    complete(world, (7, 0, 1), (7, 1, 1))
    until(lambda: "alerts.ndjson" in world.health()["plans"][0]["last_error"], former)
    complete(world)
    world.manager.deploy(again(first))
    until(lambda: world.health()["plans"][0]["epoch"] == 8)
    until(lambda: not former.link.unacknowledged(), former)
    former.close()
    world.closing.remove(former)
    file.rmdir()
    until(lambda: prepared(world)["events"] == 0)
    assert lines(file) == [1]


@pytest.mark.parametrize("restarted", [False, True], ids=["worker lives", "worker restarted"])
@pytest.mark.parametrize(
    ("epoch", "deployed_ms", "needed"), [(1, 2_000, 8), (7, 2_000, 8), (4, 1_000, 7)], ids=["new", "same", "older copy"]
)
def test_results_are_not_taken_under_an_epoch_that_a_replaced_database_gives_out_again(
    epoch: int, deployed_ms: int, needed: int, restarted: bool, world: World, tmp_path: Path
) -> None:
    file = tmp_path / "alerts.ndjson"
    first = msgspec.structs.replace(with_sinks(("file", {"file.uri": str(file)})), deployed_ms=1_000)
    world.start(first)
    former = world.publisher(first).open()
    former.send("Alerts", numbered(1, 2))
    former.mark(1)
    complete(world, (7, 0, 1))
    until(lambda: file.exists() and lines(file) == [1, 2], former)
    former.send("Alerts", numbered(3))
    former.mark(2)
    until(lambda: not former.link.unacknowledged(), former)
    if restarted:
        former.close()
        world.closing.remove(former)
        world.worker.stop()

    second = msgspec.structs.replace(first, epoch=epoch, deployed_ms=deployed_ms)
    world.manager.deploy(second)
    if restarted:
        world.worker = Worker(world.config)
        world.worker.start()
    until(lambda: [report.needs_epoch for report in world.reports()] == [needed])
    assert "was used before" in world.health()["plans"][0]["last_error"]
    assert [one.outflow for one in world.worker.snapshots()] == [None]

    raised = msgspec.structs.replace(second, epoch=needed + 1)
    told_of_former = PlanCheckpoints(KEY, (CheckpointSpan(7, 0, 1),), 1_000)
    world.manager.checkpoints = (told_of_former,)
    world.manager.deploy(raised)
    later = world.publisher(raised).open()
    assert [report.needs_epoch for report in world.reports()] == [0]
    later.send("Alerts", numbered(*range(10, 20)))
    later.mark(12)
    if not restarted:
        former.close()
        world.closing.remove(former)
    until(lambda: not later.link.unacknowledged(), later)
    told_of_raised = PlanCheckpoints(KEY, (CheckpointSpan(needed + 1, 0, 12),), deployed_ms)
    another = deployed_ms != first.deployed_ms
    told = (told_of_former, told_of_raised)
    world.manager.checkpoints = told if another else merged(*told)
    stands = [1, 2, 3] if another else [1, 2]  # the same plan gives again what no checkpoint held
    until(lambda: sorted(lines(file)) == [*stands, *range(10, 20)], later)
    until(lambda: prepared(world)["events"] == 0, later)


def merged(*told: PlanCheckpoints) -> tuple[PlanCheckpoints]:
    """As the manager tells of topologies of one plan."""
    return (PlanCheckpoints(KEY, tuple(span for one in told for span in one.spans), told[0].deployed_ms),)
