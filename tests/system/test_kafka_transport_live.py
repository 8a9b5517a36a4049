"""Plans whose groups Kafka connects, with a real broker: their answers, their topics, what people see of them."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from broker_topics import all_in, answers, send, until_topics
from distributed_runs import DistributedPlan, on_one_engine
from kafka_broker import Broker
from late_plan import CONNECT_TIMEOUT_S

from cep_cli.monitor.status_text import child_app
from cep_cli.plan_commands.plans import wait_until_connected
from cep_cli.system.local_system import LocalSystem

pytestmark = [pytest.mark.spark, pytest.mark.cluster]

SAMPLES = Path(__file__).parents[2] / "samples" / "distributed"
EVENTS = 400


def sample(name: str) -> str:
    return (SAMPLES / f"{name}.siddhiql").read_text(encoding="utf-8")


def by_one_engine(name: str, stream: str, events: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    rows = tuple({"stream": stream, "timestamp": 1_000 + n, "data": [*one.values()]} for n, one in enumerate(events))
    plan = DistributedPlan(name, sample(name), rows)
    found = on_one_engine(plan)
    names = {one.id: [attribute.name for attribute in one.attributes] for one in plan.compiled.plan.publisher.streams}
    return {one: [dict(zip(names[one], row[1:], strict=True)) for row in found[one]] for one in found}


def in_order_of(events: list[dict[str, Any]], key: str) -> dict[Any, list[dict[str, Any]]]:
    found: dict[Any, list[dict[str, Any]]] = {}
    for event in events:
        found.setdefault(event[key], []).append(event)
    return found


def test_the_samples_over_kafka_answer_as_one_engine_does(system: LocalSystem, transport_broker: Broker) -> None:
    numbers = random.Random(31)  # noqa: S311 - readings
    rooms = [{"room": f"C{numbers.randrange(6)}", "temp": numbers.uniform(0, 80)} for _ in range(EVENTS)]
    temps = [
        {"deviceID": n, "roomNo": numbers.randrange(95, 115), "temp": round(numbers.uniform(20, 60), 1)}
        for n in range(EVENTS)
    ]
    for name in ("hot-rooms", "wso2-app"):
        system.client.deploy(sample(name), replace=False)
    until_topics(transport_broker, {
        "hot-rooms.Readings": 2, "hot-rooms.ValidReadings.room": 2, "hot-rooms.RoomAverages": 1, "hot-rooms.Alerts": 1,
        "wso2-app.TempStream": 1, "wso2-app.AvgTempStream": 1, "wso2-app.AlertStream": 1, "wso2-app.HighTempStream": 1,
    })  # fmt: skip
    for name in ("hot-rooms", "wso2-app"):
        wait_until_connected(system.client, name, CONNECT_TIMEOUT_S)
    send(transport_broker, "hot-rooms.Readings", rooms, "room")
    send(transport_broker, "wso2-app.TempStream", temps, "roomNo")

    wanted = by_one_engine("hot-rooms", "Readings", rooms)["Alerts"]
    assert in_order_of(answers(transport_broker, "hot-rooms.Alerts", len(wanted)), "room") == in_order_of(
        wanted, "room"
    )
    for stream, events in by_one_engine("wso2-app", "TempStream", temps).items():
        assert answers(transport_broker, f"wso2-app.{stream}", len(events)) == events, stream

    apps = {one["name"]: child_app(one, texts=False) for one in system.client.child_apps("hot-rooms")}
    assert list(apps) == [f"hot-rooms-{one}" for one in ("valid-1", "valid-2", "rooms-1", "rooms-2", "alerts-1")]
    assert "ValidReadings (topics hot-rooms.ValidReadings.room)" in apps["hot-rooms-rooms-1"]
    assert "RoomAverages (topics hot-rooms.RoomAverages)" in apps["hot-rooms-rooms-1"]

    more = [{"room": f"C{numbers.randrange(6)}", "temp": numbers.uniform(0, 80)} for _ in range(4 * EVENTS)]
    send(transport_broker, "hot-rooms.Readings", more, "room")
    system.client.undeploy("hot-rooms", discard=False)
    system.client.undeploy("wso2-app", discard=True)
    kept = {name: 2 if name == "hot-rooms.Readings" else 1 for name in (
        "hot-rooms.Readings", "hot-rooms.Alerts",
        "wso2-app.TempStream", "wso2-app.AvgTempStream", "wso2-app.AlertStream", "wso2-app.HighTempStream",
    )}  # fmt: skip
    until_topics(transport_broker, kept)
    accepted = all_in(transport_broker, "hot-rooms.Readings", committed=True)
    assert len(accepted) > EVENTS
    least = in_order_of(by_one_engine("hot-rooms", "Readings", accepted)["Alerts"], "room")
    most = in_order_of(
        by_one_engine("hot-rooms", "Readings", all_in(transport_broker, "hot-rooms.Readings"))["Alerts"], "room"
    )
    found = in_order_of(all_in(transport_broker, "hot-rooms.Alerts"), "room")
    assert found == {room: alerts[: len(found[room])] for room, alerts in most.items()}
    assert not [room for room, alerts in least.items() if len(found[room]) < len(alerts)]
