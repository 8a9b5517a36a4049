"""Results that a sink does not take: they wait on the worker's disk, and hold up neither publishers nor checkpoints."""

from __future__ import annotations

import errno
import json
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest
import requests
from free_ports import free_port
from worker_hook import Hook
from worker_world import OPEN_SINKS, PLAN, FakePublisher, World, alerts, until

from cep_common.protocol.registry import CheckpointSpan, Connector, DeployedPlan, PlanCheckpoints, RegisterWorker
from cep_worker.config import OutflowConfig, ResultsConfig
from cep_worker.connector_runtime import running_sinks
from cep_worker.outflows import in_flight
from cep_worker.outflows.transactional_log.prepared_results import PreparedResults
from cep_worker.sinks import threaded

ROWS = 100


@pytest.fixture
def hook() -> Iterator[Hook]:
    made = Hook()
    yield made
    made.close()


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_flight, "SPILL_MS", 200)


def hooked(url: str, deployed_ms: int = 1, **options: str) -> DeployedPlan:
    sink = Connector("Alerts", "http", {"publisher.url": url, **options}, "", {})
    return msgspec.structs.replace(PLAN, sinks=(sink,), delivery="at-least-once", deployed_ms=deployed_ms)


def send(publisher: FakePublisher, first: int, frames: int) -> int:
    """Frames of `ROWS` events, numbered from `first`; gives the number behind the last."""
    for _ in range(frames):
        publisher.send("Alerts", alerts(*[(number, "UA", number) for number in range(first, first + ROWS)]))
        first += ROWS
    return first


def taken(hook: Hook) -> list[int]:
    return [event["event"]["late"] for event in hook.events(hook.taken)]


def sink_report(world: World) -> Any:
    return next(one for one in world.manager.last(RegisterWorker).connectors if one.direction == "sink")


def counts(world: World) -> tuple[int, int, int]:
    """Received, delivered, waiting: in memory and on the disk."""
    (plan,) = world.reports()
    (one,) = [one for one in plan.outflow if one.stream == "Alerts"]
    return (
        one.received_events,
        one.delivered_events,
        one.waiting_events + (plan.prepared.events if plan.prepared else 0),
    )


def test_a_marker_passes_a_dead_web_hook_and_nothing_is_lost_when_it_returns(world: World, hook: Hook) -> None:
    hook.status = 503
    world.start(hooked(hook.url))
    publisher = world.publisher().open()
    sent = send(publisher, 0, 5)
    publisher.mark(1)
    until(lambda: not publisher.link.unacknowledged(), publisher)
    sent = send(publisher, sent, 20)
    publisher.mark(2)
    until(lambda: not publisher.link.unacknowledged(), publisher)
    until(lambda: counts(world) == (sent, 0, sent), publisher)
    until(lambda: "status 503" in sink_report(world).error, publisher)
    assert sink_report(world).since_ms > 0
    hook.status = 200
    until(lambda: len(taken(hook)) >= sent, publisher)
    assert taken(hook) == list(range(sent)), "each once, in their order"
    until(lambda: counts(world) == (sent, sent, 0), publisher)
    until(lambda: not sink_report(world).error, publisher)
    until(lambda: sink_report(world).delivered_events == sent)


def test_behind_what_waits_on_the_disk_later_results_wait_too_and_then_go_the_direct_way(
    world: World, hook: Hook
) -> None:
    hook.status = 503
    world.start(hooked(hook.url))
    publisher = world.publisher().open()
    sent = send(publisher, 0, 1)
    until(lambda: not publisher.link.unacknowledged(), publisher)
    hook.status = 200
    for number in range(2, 40):
        sent = send(publisher, sent, 1)
        publisher.mark(number)
    until(lambda: not publisher.link.unacknowledged(), publisher)
    until(lambda: len(taken(hook)) >= sent, publisher)
    assert all(before < after for before, after in pairwise(taken(hook)))
    until(lambda: counts(world) == (sent, sent, 0), publisher)


def test_a_sink_that_only_hangs_is_reported_and_holds_no_marker_up(
    world: World, hook: Hook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threaded, "BLOCKED_MS", 300)
    hook.free.clear()
    world.start(hooked(hook.url, **{"timeout.ms": "600000"}))
    publisher = world.publisher().open()
    sent = send(publisher, 0, 3)
    publisher.mark(1)
    until(lambda: not publisher.link.unacknowledged(), publisher)
    until(lambda: "delivered nothing" in sink_report(world).error, publisher)
    hook.free.set()
    until(lambda: taken(hook) == list(range(sent)), publisher)
    until(lambda: not sink_report(world).error, publisher)


def test_results_on_the_disk_outlive_the_worker(make_world: Callable[..., World], hook: Hook) -> None:
    hook.status = 503
    world = make_world()
    world.start(hooked(hook.url))
    publisher = world.publisher().open()
    sent = send(publisher, 0, 10)
    publisher.mark(1)
    until(lambda: not publisher.link.unacknowledged(), publisher)
    assert world.worker is not None
    world.worker.stop()
    world.worker = None
    hook.status = 200
    hook.taken.clear()
    world.manager.stop()
    following = make_world(results=world.config.results)
    following.start(hooked(hook.url))
    until(lambda: set(taken(hook)) == set(range(sent)))
    until(lambda: following.health()["plans"][0]["prepared"]["events"] == 0)


@pytest.mark.thorough
@pytest.mark.parametrize("delivery", ["at-most-once", "at-least-once", "exactly-once"])
def test_a_dead_web_hook_holds_up_no_other_sink_of_its_stream(
    make_world: Callable[..., World], hook: Hook, delivery: Any, tmp_path: Path
) -> None:
    hook.status = 503
    out = tmp_path / "out"
    world = make_world(sinks=msgspec.structs.replace(OPEN_SINKS, waiting_rows=300))
    dead = hooked(hook.url)
    sound = Connector("Alerts", "file", {"file.uri": str(out)}, "", {})
    plan = msgspec.structs.replace(dead, sinks=(*dead.sinks, sound), delivery=delivery)

    def written() -> list[int]:
        whole = out.read_text().rpartition("\n")[0] if out.exists() else ""  # the last line may be half written
        return [json.loads(line)["late"] for line in whole.splitlines()]

    def complete(world: World, publisher: FakePublisher, checkpoint: int) -> None:
        publisher.mark(checkpoint)
        until(lambda: not publisher.link.unacknowledged(), publisher)
        world.manager.checkpoints = (PlanCheckpoints(PLAN.key, (CheckpointSpan(PLAN.epoch, 0, checkpoint),)),)

    world.start(plan)
    publisher = world.publisher().open()
    sent = send(publisher, 0, 5)
    complete(world, publisher, 1)
    sent = send(publisher, sent, 20)
    complete(world, publisher, 2)
    until(lambda: written() == list(range(sent)), publisher)
    in_memory = 300 if delivery == "at-most-once" else 0  # which is not on the disk as well
    until(lambda: sinks_waiting(world) == {"http": sent - in_memory, "file": 0}, publisher)
    assert not hook.taken

    assert world.worker is not None
    world.worker.stop()
    world.worker = None
    world.manager.stop()
    following = make_world(results=world.config.results)
    following.manager.checkpoints = world.manager.checkpoints
    following.start(plan)
    until(lambda: sinks_waiting(following) and "status 503" in sink_report(following).error)
    assert written() == list(range(sent)), "nothing comes twice"
    hook.status = 200
    until(lambda: taken(hook) == list(range(in_memory, sent)))  # at most once: what the sink had in memory is lost
    until(lambda: following.health()["plans"][0]["prepared"]["events"] == 0)
    assert written() == list(range(sent))


@pytest.mark.parametrize("delivery", ["at-most-once", "at-least-once", "exactly-once"])
def test_results_wait_for_a_sink_that_cannot_be_made(
    make_world: Callable[..., World], delivery: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running_sinks, "REMAKE_MS", 200)
    late, sound = tmp_path / "missing" / "late", tmp_path / "sound"
    sinks = tuple(Connector("Alerts", "file", {"file.uri": str(path)}, "", {}) for path in (late, sound))
    world = make_world()
    world.start(msgspec.structs.replace(PLAN, sinks=sinks, delivery=delivery))
    publisher = world.publisher().open()
    sent = send(publisher, 0, 3)
    publisher.mark(1)
    until(lambda: not publisher.link.unacknowledged(), publisher)
    world.manager.checkpoints = (PlanCheckpoints(PLAN.key, (CheckpointSpan(PLAN.epoch, 0, 1),)),)
    until(lambda: len(sound.read_text().splitlines()) == sent if sound.exists() else False, publisher)
    until(lambda: str(late) in sink_report(world).error and sink_report(world).waiting_events == sent, publisher)
    late.parent.mkdir()
    until(lambda: late.exists() and late.read_text() == sound.read_text(), publisher)
    assert len(sound.read_text().splitlines()) == sent
    until(lambda: not sink_report(world).error, publisher)


def sinks_waiting(world: World) -> dict[str, int]:
    return {one.type: one.waiting_events for one in world.manager.last(RegisterWorker).connectors}


def test_while_the_disk_log_is_full_sources_wait_and_markers_pass(make_world: Callable[..., World], hook: Hook) -> None:
    hook.status = 503
    ports = make_world().config
    results = ResultsConfig(path=ports.results.path, max_undelivered_bytes=65_536)
    world = make_world(results=results, sinks=msgspec.structs.replace(OPEN_SINKS, waiting_rows=200))
    world.start(hooked(hook.url))
    receiver, publisher = world.receiver("Departures"), world.publisher().open()
    until(lambda: world.health()["plans"][0]["inflows_connected"] == 1, receiver, publisher)
    sent = 0
    while not sent or not world.health()["plans"][0]["prepared"]["full"]:
        sent = send(publisher, sent, 4)
        until(lambda sent=sent: counts(world) == (sent, 0, sent), receiver, publisher)
    for number in range(1, 4):
        event = {"carrier": "UA", "dep_delay": number, "price": 1.5}
        posted = requests.post(world.url("/events/Departures"), json=event, timeout=5)
        assert posted.status_code == 202, "it is kept in the log of the source"
        sent = send(publisher, sent, 1)  # that was under way
        publisher.mark(number)
        until(lambda: not publisher.link.unacknowledged(), receiver, publisher)
    (plan,) = world.reports()
    assert plan.prepared.full
    assert not receiver.rows()
    until(lambda: sum(one.waiting_events for one in world.reports()[0].inflow) == 3, receiver, publisher)
    hook.status = 200
    until(lambda: len(receiver.rows()) == 3, receiver, publisher)
    until(lambda: taken(hook) == list(range(sent)), receiver, publisher)


def test_a_full_disk_log_makes_publishers_wait_and_says_so(make_world: Callable[..., World], hook: Hook) -> None:
    hook.status = 503
    ports = make_world().config
    outflow_config = OutflowConfig(
        first_port=ports.outflow.first_port, last_port=ports.outflow.last_port, window_rows=500
    )
    results = ResultsConfig(path=ports.results.path, max_undelivered_bytes=65_536)
    world = make_world(
        outflow=outflow_config, results=results, sinks=msgspec.structs.replace(OPEN_SINKS, waiting_rows=200)
    )
    world.start(hooked(hook.url))
    publisher = world.publisher().open()
    sent = 0

    def full() -> bool:
        nonlocal sent
        if publisher.link.has_room():
            sent = send(publisher, sent, 1)
        (plan,) = world.reports()
        waits = any(link.waits for link in plan.links)
        return plan.prepared is not None and plan.prepared.full and waits and not publisher.link.has_room()

    until(full, publisher)
    (plan,) = world.reports()
    assert 65_536 < plan.prepared.size_bytes < 2 * 65_536
    hook.status = 200
    until(lambda: len(taken(hook)) >= sent, publisher)
    assert taken(hook) == list(range(sent))
    until(lambda: not publisher.link.unacknowledged(), publisher)


@pytest.mark.parametrize("delivery", ["at-least-once", "exactly-once"])
def test_an_edit_that_mends_the_sink_delivers_what_its_former_form_could_not(
    world: World, hook: Hook, delivery: Any
) -> None:
    dead = f"http://127.0.0.1:{free_port()}/"
    first = msgspec.structs.replace(hooked(dead), delivery=delivery)
    world.start(first)
    publisher = world.publisher().open()
    sent = send(publisher, 0, 5)
    publisher.mark(1)
    until(lambda: not publisher.link.unacknowledged(), publisher)
    if delivery == "exactly-once":
        world.manager.checkpoints = (PlanCheckpoints(PLAN.key, (CheckpointSpan(PLAN.epoch, 0, 1),)),)
        until(lambda: sink_report(world).error, publisher)
    edited = msgspec.structs.replace(hooked(hook.url), delivery=delivery)
    world.manager.deploy(edited)
    until(lambda: len(taken(hook)) >= sent)
    assert taken(hook) == list(range(sent))


def test_a_disk_that_failed_once_is_not_reported_when_results_are_kept_again(
    world: World, hook: Hook, monkeypatch: pytest.MonkeyPatch
) -> None:
    hook.status = 503
    keep = PreparedResults.keep_offered

    def full(*_: Any) -> Any:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(PreparedResults, "keep_offered", full)
    world.start(hooked(hook.url))
    publisher = world.publisher().open()
    send(publisher, 0, 1)
    until(lambda: "No space left" in world.reports()[0].last_error, publisher)
    monkeypatch.setattr(PreparedResults, "keep_offered", keep)
    until(lambda: not publisher.link.unacknowledged(), publisher)
    until(lambda: "No space left" not in world.reports()[0].last_error, publisher)


def test_events_that_are_dropped_do_not_count_as_delivered(world: World, hook: Hook) -> None:
    hook.status = 400
    world.start(hooked(hook.url, **{"on.error": "LOG"}))
    publisher = world.publisher().open()
    sent = send(publisher, 0, 2)
    until(lambda: not publisher.link.unacknowledged(), publisher)
    until(lambda: counts(world) == (sent, 0, 0), publisher)
    until(lambda: sink_report(world).dropped_events == sent)
    assert sink_report(world).delivered_events == 0
