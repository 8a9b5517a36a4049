"""A rule over all events in three instances, with its log in Kafka: an instance and brokers are killed in turn."""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests
from kafka_broker import Broker, NoBrokerError, kafka_cluster
from test_shared_state_live import CONNECT_S, SAMPLE, TEMPERATURES, alerts, expected, process_of

from cep_cli.plan_commands.plans import wait_until_connected
from cep_cli.system.local_system import LocalSystem, Ports
from topology.links.event_listener import EventListener

pytestmark = [pytest.mark.spark, pytest.mark.cluster]

TOPIC = "cep-sync.-1234.Rise.rise.log"
READINGS = len(TEMPERATURES)
INSTANCE_DIES, LEADER_DIES, LEADER_IS_BACK, NEXT_LEADER_DIES = (READINGS * part // 5 for part in (1, 2, 3, 4))


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[tuple[Broker, ...]]:
    pytest.importorskip("confluent_kafka", reason="pip install 'cep-on-spark[kafka]'")
    try:
        with kafka_cluster(3, logs=tmp_path) as started:
            yield started
    except NoBrokerError as error:
        pytest.skip(str(error))


@pytest.fixture
def system(brokers: tuple[Broker, ...], tmp_path: Path) -> Iterator[LocalSystem]:
    servers = {"bootstrap.servers": ",".join(broker.servers for broker in brokers)}
    environment = {**os.environ, "CEP_DRIVER__STAGES__SYNC_LOG__KAFKA": json.dumps(servers)}
    with LocalSystem(tmp_path / "system", Ports.free(), environment=environment) as started:
        yield started


def leader_of_log(brokers: tuple[Broker, ...]) -> Broker:
    """The broker that leads the only partition of the log, as one of those that live says."""
    from confluent_kafka.admin import AdminClient  # noqa: PLC0415 - an extra

    servers = ",".join(broker.servers for broker in brokers)
    found = AdminClient({"bootstrap.servers": servers, "log_level": 0}).list_topics(TOPIC, timeout=30)
    partition = found.topics[TOPIC].partitions[0]
    assert len(partition.replicas) == len(brokers)
    where = found.brokers[partition.leader]
    return next(broker for broker in brokers if broker.servers == f"{where.host}:{where.port}")


def test_alerts_are_those_of_one_engine_though_an_instance_and_brokers_are_killed(
    system: LocalSystem, brokers: tuple[Broker, ...]
) -> None:
    text = SAMPLE.read_text(encoding="utf-8").replace("state='shared'", "state='shared', sync='kafka'")
    assert "sync='kafka'" in text
    system.client.deploy(text, replace=False)
    wait_until_connected(system.client, "Rise", CONNECT_S)
    leader: Broker | None = None
    with EventListener(system.egress, "Rise/AlertStream") as listener:
        for number, reading in enumerate(TEMPERATURES):
            if number == INSTANCE_DIES:
                os.kill(process_of("rise#1", system), signal.SIGKILL)
            elif number == LEADER_DIES:
                leader = leader_of_log(brokers)
                leader.kill()
            elif number == LEADER_IS_BACK:
                assert leader is not None
                leader.start()
            elif number == NEXT_LEADER_DIES:
                leader_of_log(brokers).kill()
            event = {"room": str(number), "temp": reading}
            answer = requests.post(f"{system.worker_http}/Rise/TempStream", json=event, timeout=30)
            assert answer.status_code < 300, answer.text
        found = alerts(listener)
    # Results of different instances that are processed at the same time may arrive in any order.
    counted, wanted = Counter(found), Counter(expected())
    assert counted == wanted, f"lost {wanted - counted}, too many {counted - wanted}"
