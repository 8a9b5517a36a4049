"""Events through a worker: from clients to receiver stages, from publisher stages to listeners, over real sockets."""

from __future__ import annotations

import requests
from worker_world import KEY, PLAN, World, alerts, departures, until, values


def test_an_event_sent_by_a_client_reaches_the_receiver_stage(world: World) -> None:
    world.start(PLAN)
    receiver = world.connected_receiver()
    sender = world.sender()
    sender.send(departures((1_000, "UA", 5, 1.5)))
    until(lambda: receiver.frames, receiver)
    sender.flush()
    assert receiver.rows() == [(1_000, "UA", 5, 1.5)]
    assert receiver.openings[0].key == KEY
    assert receiver.openings[0].epoch == 7


def test_a_result_of_a_publisher_stage_reaches_the_listener(world: World) -> None:
    world.start(PLAN)
    publisher = world.publisher().open()
    listener = world.listener()
    publisher.send("Alerts", alerts((5, "UA", 3), (6, "AA", 4)))
    batch = listener.receive(5_000)
    assert batch is not None
    assert values(batch) == [(5, "UA", 3), (6, "AA", 4)]
    until(lambda: not publisher.link.unacknowledged(), publisher)


def test_an_event_posted_as_json_reaches_the_receiver_stage(world: World) -> None:
    world.start(PLAN)
    receiver = world.connected_receiver()
    event = {"_timestamp": 17, "carrier": "UA", "dep_delay": 5, "price": None}
    answer = requests.post(world.url("/events/Departures"), json={"event": event}, timeout=5)
    assert (answer.status_code, answer.json()) == (202, {"accepted": 1})
    until(lambda: receiver.frames, receiver)
    assert receiver.rows() == [(17, "UA", 5, None)]
