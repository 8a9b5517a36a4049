"""What an acknowledgement to a publisher stage says: the frame's events are where they should be."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal

import msgspec
import pytest
from worker_hook import Hook
from worker_world import OPEN_SINKS, PLAN, FakePublisher, World, alerts, until

from cep_common.errors import InputError
from cep_common.protocol.registry import Connector, DeployedPlan
from cep_worker.config import EgressConfig, OutflowConfig
from topology.links.sender import LinkState

TWO = alerts((5, "UA", 3), (6, "AA", 4))


@pytest.fixture
def hook() -> Iterator[Hook]:
    made = Hook()
    yield made
    made.close()


def hooked(
    hook: Hook, delivery: Literal["at-least-once", "at-most-once"] = "at-least-once", **options: str
) -> DeployedPlan:
    sink = Connector("Alerts", "http", {"publisher.url": hook.url, **options}, "", {})
    return msgspec.structs.replace(PLAN, sinks=(sink,), delivery=delivery)


def test_a_frame_is_acknowledged_when_every_sink_has_delivered_it(world: World, hook: Hook) -> None:
    hook.status = 503
    world.start(hooked(hook))
    publisher = world.publisher().open()
    publisher.send("Alerts", TWO)
    until(lambda: len(hook.bodies) >= 2, publisher)
    assert publisher.link.unacknowledged(), "a worker that is killed now must get it again"
    hook.status = 200
    until(lambda: not publisher.link.unacknowledged(), publisher)


def test_events_that_a_sink_gives_up_are_acknowledged(world: World, hook: Hook) -> None:
    hook.status = 503
    world.start(hooked(hook, **{"on.error": "LOG", "retry.count": "1"}))
    publisher = world.publisher().open()
    publisher.send("Alerts", TWO)
    until(lambda: not publisher.link.unacknowledged(), publisher)
    assert len(hook.bodies) == 2


def test_a_plan_that_may_lose_results_has_them_acknowledged_when_they_are_taken(world: World, hook: Hook) -> None:
    hook.status = 503
    world.start(hooked(hook, "at-most-once"))
    publisher = world.publisher().open()
    publisher.send("Alerts", TWO)
    until(lambda: not publisher.link.unacknowledged(), publisher)
    hook.status = 200
    until(lambda: len(hook.events()) >= 2)


def test_a_sink_that_blocks_lets_no_more_come_than_the_window(make_world: Callable[..., World], hook: Hook) -> None:
    ports = make_world().config.outflow
    outflow = OutflowConfig(first_port=ports.first_port, last_port=ports.last_port, window_rows=50)
    world = make_world(outflow=outflow, sinks=msgspec.structs.replace(OPEN_SINKS, waiting_rows=1_000_000))
    hook.status = 503
    world.start(hooked(hook))
    publisher = world.publisher().open()
    sent = 0
    while publisher.link.has_room():
        publisher.send("Alerts", alerts(*[(sent, "UA", number) for number in range(10)]))
        sent += 10
        publisher.pump()
    assert sent == 50
    hook.status = 200
    until(publisher.link.has_room, publisher)
    until(lambda: not publisher.link.unacknowledged(), publisher)


def test_a_listener_that_does_not_read_holds_nothing_up_until_its_queue_is_full(
    make_world: Callable[..., World],
) -> None:
    egress = EgressConfig(port=make_world().config.egress.port, window_rows=1, waiting_rows=2, lag_ms=60_000)
    world = make_world(egress=egress)
    world.start(PLAN)
    listener = world.listener()
    publisher = world.publisher().open()
    for _ in range(2):  # one on its way, which fills the listener's window, and one in its queue
        publisher.send("Alerts", TWO)
        until(lambda: not publisher.link.unacknowledged(), publisher)
    publisher.send("Alerts", TWO)
    publisher.send("Alerts", TWO)
    until(lambda: world.reports()[0].outflow[0].received_events == 4, publisher)
    assert publisher.link.unacknowledged(), "the listener's queue is full"
    world.closing.remove(listener)
    listener.close()
    until(lambda: not publisher.link.unacknowledged(), publisher)


def test_publishers_of_a_former_attempt_are_sent_away(world: World) -> None:
    world.start(PLAN)
    former = world.publisher().open()
    running = FakePublisher(world.context, former.link.endpoint, PLAN, attempt=2).open()
    world.closing.append(running)
    until(lambda: former.link.state is LinkState.REFUSED, former)
    late = FakePublisher(world.context, former.link.endpoint, PLAN, attempt=1)
    world.closing.append(late)
    until(lambda: late.link.state is LinkState.REFUSED, late)
    assert [publisher.link.refusals[0].code for publisher in (former, late)] == ["stale-attempt"] * 2
    running.send("Alerts", TWO)
    until(lambda: not running.link.unacknowledged(), running)


def test_a_worker_that_leaves_acknowledges_what_its_sinks_deliver_and_takes_no_more(world: World, hook: Hook) -> None:
    world.start(hooked(hook))
    publisher = world.publisher().open()
    for number in range(20):
        publisher.send("Alerts", alerts((number, "UA", number)))
    until(lambda: hook.bodies, publisher)
    assert world.worker is not None
    world.worker.stop()
    world.worker = None
    publisher.pump()
    publisher.pump()
    delivered = [event["event"]["late"] for event in hook.events()]
    unacknowledged = len(publisher.link.unacknowledged())
    assert delivered == list(range(20 - unacknowledged)), "what was not acknowledged was not delivered"


def test_a_plan_that_is_undeployed_delivers_what_its_topology_gives_until_that_is_gone(
    world: World, hook: Hook
) -> None:
    world.start(hooked(hook))
    publisher = world.publisher().open()
    world.manager.deploy()
    until(lambda: world.health()["plans"] == [], publisher)
    publisher.send("Alerts", TWO)
    until(lambda: not publisher.link.unacknowledged(), publisher)
    assert len(hook.events()) == 2
    listener = world.listener()
    publisher.close()
    world.closing.remove(publisher)
    with pytest.raises(InputError, match="there is no stream Alerts"):
        until(lambda: listener.receive(20))
