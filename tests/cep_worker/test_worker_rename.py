"""A plan is renamed: everything that a worker has of it stays where it is, and continues."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
import requests
from failing_departures import faults, storing
from worker_hook import Hook
from worker_world import KEY, PLAN, World, alerts, departures, until

from cep_common.errors import InputError
from cep_common.ids import PlanKey
from cep_common.protocol.registry import CheckpointSpan, Connector, DeployedPlan, PlanCheckpoints
from cep_worker.inflows.wal.identity import read_identity
from cep_worker.ingest.event_sender import EventSender
from cep_worker.worker import Worker

NEW = PlanKey(KEY.tenant, "KnockOns", KEY.plan)
EVENT = {"_timestamp": 1, "carrier": "UA", "dep_delay": 5, "price": 1.5}


@pytest.fixture
def hook() -> Iterator[Hook]:
    made = Hook()
    yield made
    made.close()


def renamed(plan: DeployedPlan) -> DeployedPlan:
    return msgspec.structs.replace(plan, key=NEW, former_names=(KEY.plan,))


def rename(world: World, *plans: DeployedPlan) -> None:
    """The plans have other names; once the worker shows it, everything in it has learned of that."""
    world.manager.deploy(*plans)
    until(lambda: {plan["plan"] for plan in world.health()["plans"]} == {plan.key.plan for plan in plans})


def restart(world: World) -> None:
    assert world.worker is not None
    world.worker.stop()
    world.worker = Worker(world.config)
    world.worker.start()
    until(lambda: world.health()["plans"])


def test_events_that_wait_go_on_under_the_new_name_each_once(world: World) -> None:
    world.start(PLAN)
    sender = world.sender()
    for number in range(3):
        sender.send(departures((number, "UA", number, None)))
    sender.flush(5_000)
    rename(world, renamed(PLAN))
    assert world.inflow().waiting_events == 3
    sender.send(departures((3, "UA", 3, None)))
    sender.flush(5_000)
    restart(world)
    assert [plan["plan"] for plan in world.health()["plans"]] == ["KnockOns"]
    receiver = world.connected_receiver()
    until(lambda: len(receiver.rows()) == 4, receiver)
    assert [row[0] for row in receiver.rows()] == [0, 1, 2, 3]
    folder = Path(world.config.wal.path) / "worker-1" / str(KEY.tenant) / KEY.plan / "Departures"
    found = read_identity(folder)
    assert found is not None
    assert (found.key(), found.plan) == (KEY, "KnockOns")


def test_links_of_stages_that_know_the_former_name_stay(world: World) -> None:
    world.start(PLAN)
    receiver = world.connected_receiver()
    publisher, listener = world.publisher().open(), world.listener()
    rename(world, renamed(PLAN))
    world.sender().send(departures((1, "UA", 1, None)))
    publisher.send("Alerts", alerts((1, "UA", 3)))
    until(lambda: receiver.rows() and not publisher.link.unacknowledged(), receiver, publisher)
    assert len(receiver.openings) == 1
    assert listener.receive(5_000) is not None
    assert world.publisher(PLAN, "publisher#1").open().link.state is not None, "one that comes back is let in"


def test_another_plan_of_the_former_name_gets_nothing_of_it(world: World) -> None:
    world.start(PLAN)
    sender = world.sender("KnockOnDelays/Departures")
    sender.send(departures((1, "UA", 1, None)))
    sender.flush(5_000)
    other = msgspec.structs.replace(PLAN, key=PlanKey(KEY.tenant, KEY.plan, "KnockOnDelays~2"), epoch=1, deployed_ms=99)
    rename(world, msgspec.structs.replace(renamed(PLAN), former_names=()), other)
    waiting = {report.key.plan: report.inflow[0].waiting_events for report in world.reports()}
    assert waiting == {"KnockOns": 1, "KnockOnDelays": 0}
    world.sender("KnockOnDelays/Departures").send(departures((2, "AA", 2, None)))
    until(lambda: all(report.inflow[0].waiting_events == 1 for report in world.reports()))


def test_results_that_a_dead_sink_holds_up_are_delivered_once_under_the_new_name(world: World, hook: Hook) -> None:
    """Their keys stay the same, by which a receiver knows what it has."""
    plan = msgspec.structs.replace(
        PLAN,
        delivery="exactly-once",
        sinks=(Connector("Alerts", "http", {"publisher.url": hook.url, "batch.rows": "1"}, "", {}),),
    )
    hook.status = 503
    world.start(plan)
    publisher = world.publisher(plan).open()
    publisher.send("Alerts", alerts((1, "UA", 1), (2, "UA", 2)))
    publisher.mark(1)
    world.manager.checkpoints = (PlanCheckpoints(KEY, (CheckpointSpan(7, 0, 1),)),)
    until(lambda: hook.bodies, publisher)
    rename(world, renamed(plan))
    until(lambda: world.health()["plans"][0]["prepared"]["events"] == 2)
    restart(world)
    until(lambda: world.health()["plans"][0]["prepared"]["events"] == 2)
    hook.status = 200
    until(lambda: world.health()["plans"][0]["prepared"]["events"] == 0)
    assert {headers["Idempotency-Key"] for headers in hook.headers} == {
        f"-1234/KnockOnDelays/publisher%230/7.0/1/1.{row}" for row in (0, 1)
    }


def test_a_sink_goes_on_with_what_it_has(world: World, hook: Hook) -> None:
    plan = msgspec.structs.replace(
        PLAN, sinks=(Connector("Alerts", "http", {"publisher.url": hook.url, "on.error": "wait"}, "", {}),)
    )
    hook.status = 503
    world.start(plan)
    publisher = world.publisher().open()
    publisher.send("Alerts", alerts((1, "UA", 1)))
    until(lambda: hook.bodies, publisher)
    rename(world, renamed(plan))
    metrics = requests.get(world.url("/metrics"), timeout=5).text
    assert f'plan="{KEY.plan}"' not in metrics
    hook.status = 200
    hook.bodies.clear()
    until(lambda: not publisher.link.unacknowledged(), publisher)
    assert len(hook.bodies) == 1


def test_failed_events_are_listed_and_replayed_under_the_new_name(world: World) -> None:
    world.start(storing())
    receiver = world.connected_receiver()
    publisher = world.publisher(storing()).open()
    publisher.send("Departures_errors", faults((5, "UA", 0, "division")))
    until(lambda: requests.get(world.url("/errors?plan=KnockOnDelays"), timeout=5).json()["found"], publisher)
    rename(world, renamed(storing()))
    assert requests.get(world.url("/errors?plan=KnockOns"), timeout=5).json()["found"] == 1
    told = requests.get(world.url("/errors?plan=KnockOns&id=KnockOnDelays"), timeout=5)
    assert told.json()["found"] == 1, "as a manager asks"
    gone = requests.get(world.url("/errors?plan=KnockOnDelays"), timeout=5)
    assert (gone.status_code, gone.json()["code"]) == (404, "unknown-plan")
    assert gone.json()["message"] == "plan KnockOnDelays was renamed to KnockOns"
    assert (
        'cep_failed_events{plan="KnockOns",tenant="-1234"} 1.0' in requests.get(world.url("/metrics"), timeout=5).text
    )
    replayed = requests.post(world.url("/errors/replay"), json={"plan": "KnockOns", "all": True}, timeout=15).json()
    assert replayed["replayed"] == 1
    until(receiver.rows, receiver)


def test_senders_and_listeners_by_the_former_name_are_told_the_new_one(world: World) -> None:
    plan = msgspec.structs.replace(PLAN, sources=(Connector("Departures", "http", {}, "json", {}),))
    world.start(plan)
    listener = world.listener("KnockOnDelays/Alerts")
    sender = world.sender("KnockOnDelays/Departures")
    rename(world, renamed(plan))
    for address, message in (
        ("/events/KnockOnDelays/Departures", "plan KnockOnDelays was renamed: use KnockOns/Departures"),
        ("/KnockOnDelays/Departures", "plan KnockOnDelays was renamed, post to /KnockOns/Departures"),
    ):
        told = requests.post(world.url(address), json={"event": EVENT}, timeout=5)
        assert (told.status_code, message in told.json()["message"]) == (404, True), told.text
        taken = requests.post(world.url(address.replace(KEY.plan, NEW.plan)), json=[{"event": EVENT}], timeout=5)
        assert taken.status_code in (202, 400)
    assert requests.post(world.url("/KnockOns/Departures"), json={"event": EVENT}, timeout=5).status_code == 202
    with pytest.raises(InputError, match="use KnockOns/Alerts"):
        listener.receive(5_000)
    with pytest.raises(InputError, match="use KnockOns/Departures"):
        _send_until_refused(sender)


def _send_until_refused(sender: EventSender) -> None:
    for number in range(1_000):
        sender.send(departures((number, "UA", 1, None)))
        sender.flush(1_000)


def test_a_file_is_read_on_where_its_plan_was_when_it_was_renamed(world: World, tmp_path: Path) -> None:
    file = tmp_path / "in.csv"
    file.write_text("UA,1,1.5\n")
    config = msgspec.structs.replace(
        world.config.file_sources, folders=(str(tmp_path),), positions=str(tmp_path / "positions")
    )
    world.config = msgspec.structs.replace(world.config, file_sources=config)
    plan = msgspec.structs.replace(
        PLAN, sources=(Connector("Departures", "file", {"file.uri": str(file), "mode": "LINE"}, "csv", {}),)
    )
    world.start(plan)
    receiver = world.connected_receiver()
    until(lambda: len(receiver.rows()) == 1, receiver)
    rename(world, renamed(plan))
    restart(world)
    with file.open("a") as more:
        more.write("AA,2,2.5\n")
    until(lambda: len(receiver.rows()) == 2, receiver)
    assert [row[1] for row in receiver.rows()] == ["UA", "AA"]
