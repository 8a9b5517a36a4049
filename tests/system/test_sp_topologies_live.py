"""WSO2 SP's topology tests over a real Kafka: their topics, child apps and answers."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
import requests
from broker_topics import ANSWERED_S, all_in, committed_in, create, send, topics
from kafka_broker import Broker
from late_plan import CONNECT_TIMEOUT_S
from sp_topologies import FACTS, Fact, Rows

from cep_cli.plan_commands.plans import wait_until_connected
from cep_cli.system.local_system import LocalSystem
from cep_common.errors import CepError
from query_plan.examination import examine

pytestmark = [pytest.mark.spark, pytest.mark.cluster]

CREATION_OFF = "transportChannelCreationEnabled"
RUNNING = [fact for fact in FACTS if not fact.refused and CREATION_OFF not in fact.text]
LOOK_S = 0.2
SLOTS = 8
"""As many apps run side by side in the shared system."""


def until(is_so: Callable[[], bool], what: str) -> None:
    deadline_s = time.monotonic() + ANSWERED_S
    while not is_so():
        assert time.monotonic() < deadline_s, what
        time.sleep(LOOK_S)


def put(system: LocalSystem, broker: Broker, fact: Fact, stream: str, rows: Rows) -> None:
    """Send the events where the stream of the app takes them: to its topic, or by HTTP."""
    examined = examine(fact.app.replace("SERVERS", broker.servers))
    assert examined.compiled is not None
    names = examined.compiled.app.streams[stream].schema.names()
    events = [dict(zip(names, row, strict=True)) for row in rows]
    if (topic := fact.sources.get(stream, f"{fact.name}.{stream}")) != "http":
        send(broker, topic, events, names[0])
        return
    answer = requests.post(f"{system.worker_http}/{fact.name}/{stream}", json=events, timeout=ANSWERED_S)
    assert answer.status_code == 202, (fact.name, answer.text)


def topic_between(fact: Fact, stream: str) -> str:
    key = fact.topics.get(stream, ("", 0))[0]
    return f"{fact.name}.{stream}{key and '.'}{key}"


def begin(system: LocalSystem, broker: Broker, fact: Fact) -> None:
    """Send what comes first, each step when the plan has read the events of the one before."""
    for stream, rows, reading in fact.first:
        put(system, broker, fact, stream, rows)
        topic, count = topic_between(fact, reading), len(rows)
        until(
            lambda topic=topic, count=count: committed_in(broker, topic) == count,  # type: ignore[misc]
            f"{fact.test}: {count} events are not read from {topic}",
        )


@pytest.mark.parametrize("first", range(0, len(RUNNING), SLOTS))
def test_what_wso2_sp_tested_holds_over_kafka(system: LocalSystem, transport_broker: Broker, first: int) -> None:
    """Its apps run side by side, each with topics of its own."""
    facts = RUNNING[first : first + SLOTS]
    create(transport_broker, {one for fact in facts for one in fact.sources.values()} - {"http"})
    for fact in facts:
        system.client.deploy(fact.app.replace("SERVERS", transport_broker.servers), replace=False)
    for fact in facts:
        wait_until_connected(system.client, fact.name, CONNECT_TIMEOUT_S)

    created = topics(transport_broker)
    for fact in facts:
        between = {topic_between(fact, stream): count for stream, (_, count) in fact.topics.items()}
        assert {topic: created.get(topic) for topic in between} == between, fact.test
        groups = [one["group"] for one in system.client.child_apps(fact.name)]
        assert {group: groups.count(group) for group in groups} == fact.groups, fact.test

    for fact in facts:
        begin(system, transport_broker, fact)
    for fact in facts:
        for stream, rows in fact.events:
            put(system, transport_broker, fact, stream, rows)

    def answered(fact: Fact) -> dict[str, int]:
        there = topics(transport_broker)
        places = {stream: fact.sinks.get(stream, f"{fact.name}.{stream}") for stream in fact.answers}
        return {
            stream: len(all_in(transport_broker, topic)) if topic in there else 0 for stream, topic in places.items()
        }

    for fact in facts:
        until(lambda fact=fact: answered(fact) == fact.answers, f"{fact.test}: not {fact.answers}")  # type: ignore[misc]
    assert {fact.test: answered(fact) for fact in facts} == {fact.test: fact.answers for fact in facts}


@pytest.mark.parametrize("fact", [one for one in FACTS if one not in RUNNING], ids=lambda fact: fact.test)
def test_what_wso2_sp_refused_is_refused_over_kafka(system: LocalSystem, transport_broker: Broker, fact: Fact) -> None:
    before = topics(transport_broker)
    with pytest.raises(CepError, match=fact.refused or CREATION_OFF):
        system.client.deploy(fact.app, replace=False)
    assert (system.client.plans(), topics(transport_broker)) == ([], before)
