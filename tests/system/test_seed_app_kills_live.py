"""WSO2's example over three brokers, two hosts and two managers: one of each is killed, nothing is lost or repeated.

Its answers are those of one engine, and people see where each child app runs, who leads, and who leaves and joins.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from chaos_faults import kill
from chaos_kafka import Cluster
from chaos_system import ChaosSystem
from click.testing import CliRunner
from confluent_kafka import Consumer, Producer, TopicPartition
from distributed_runs import DistributedPlan, on_one_engine
from kafka_broker import Broker, NoBrokerError, kafka_cluster
from standalone_cluster import parent_of
from two_hosts import NoSecondHostError, two_hosts

from cep_cli.main import main
from cep_cli.system.local_system import Ports

pytestmark = [pytest.mark.spark, pytest.mark.cluster]

SAMPLE = Path(__file__).parents[2] / "samples" / "distributed" / "wso2-app.siddhiql"
STREAMS = ("AvgTempStream", "AlertStream", "HighTempStream")
ORDERED = ("AvgTempStream", "AlertStream")
"""One instance answers these; the two instances of group2 may overtake each other."""
EACH = 60
"""Events at the moment of each kill, and after it."""
WITHIN_S = 180.0


def text(delivery: str) -> str:
    """The sample with windows that outlast the test: how long it takes must not change the answers."""
    lasting = SAMPLE.read_text(encoding="utf-8").replace("time(2 min)", "time(2 hours)").replace("10 min", "2 hours")
    return lasting.replace("@App:name('wso2-app')", f"@App:name('wso2-app') @App:delivery('{delivery}')")


@dataclass
class Running:
    """The system, its brokers, and what was sent so far."""

    system: ChaosSystem
    brokers: tuple[Broker, ...]
    sent: list[dict[str, Any]]

    def servers(self) -> str:
        return ",".join(one.servers for one in self.brokers)

    def send(self, numbers: random.Random) -> None:
        producer = Producer({"bootstrap.servers": self.servers(), "enable.idempotence": True, "log_level": 0})
        for _ in range(EACH):
            event = {
                "deviceID": len(self.sent), "roomNo": numbers.randrange(98, 112),
                "temp": round(numbers.uniform(20, 60), 1),
            }  # fmt: skip
            self.sent.append(event)
            producer.produce("wso2-app.TempStream", json.dumps({"event": event}))
        assert producer.flush(WITHIN_S) == 0

    def answers(self, stream: str) -> list[dict[str, Any]]:
        """All committed events of the stream, in order: its topic has one partition."""
        settings = {"isolation.level": "read_committed", "enable.partition.eof": True, "enable.auto.commit": False}
        consumer = Consumer({"bootstrap.servers": self.servers(), "group.id": "answers", "log_level": 0, **settings})
        consumer.assign([TopicPartition(f"wso2-app.{stream}", 0, 0)])
        found: list[dict[str, Any]] = []
        while (message := consumer.poll(5.0)) is not None and message.error() is None:
            found.append(json.loads(message.value())["event"])
        consumer.close()
        return found

    def until_answered(self) -> None:
        """The answers are those of one engine to all that was sent."""
        wanted = by_one_engine(self.sent)
        self.system.until(lambda: all(len(self.answers(one)) >= len(wanted[one]) for one in STREAMS), WITHIN_S)
        for stream in STREAMS:
            found = self.answers(stream)
            assert Counter(map(str, found)) == Counter(map(str, wanted[stream])), stream
            assert stream not in ORDERED or found == wanted[stream], stream

    def shown(self) -> str:
        """Return what `cep status wso2-app --apps` prints."""
        told = CliRunner().invoke(main, ["status", "wso2-app", "--apps", "--manager", self.system.client().url])
        return told.output if told.exit_code == 0 else ""

    def logs(self, role: str) -> str:
        return "".join(one.read_text() for one in sorted(self.system.folder.glob(f"{role}*/log.txt")))


def by_one_engine(events: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    rows = tuple({"stream": "TempStream", "timestamp": 1_000 + n, "data": [*e.values()]} for n, e in enumerate(events))
    plan = DistributedPlan("wso2-app", text("at-least-once"), rows)
    found = on_one_engine(plan)
    names = {one.id: [attribute.name for attribute in one.attributes] for one in plan.compiled.plan.publisher.streams}
    return {one: [dict(zip(names[one], row[1:], strict=True)) for row in found[one]] for one in found}


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    with ExitStack() as opened:
        try:
            network = opened.enter_context(two_hosts())
            brokers = opened.enter_context(kafka_cluster(3, network.here.address, tmp_path))
        except (NoSecondHostError, NoBrokerError) as error:
            pytest.skip(str(error))
        system = ChaosSystem(tmp_path / "system", network, Ports.free(), more_settings=Cluster(brokers).settings())
        yield Running(opened.enter_context(system), brokers, [])


def test_one_broker_one_node_and_one_manager_are_killed_in_turn(running: Running) -> None:
    system, numbers = running.system, random.Random(31)  # noqa: S311 - readings
    system.client().deploy(text("exactly-once"), replace=False)
    system.until(lambda: bool(system.answer(lambda client: client.plan("wso2-app")["status"]["connected"])))
    running.send(numbers)
    running.until_answered()
    for name in ("wso2-app-group1-1", "wso2-app-group2-1", "wso2-app-group2-2"):
        assert f"wso2-app → {name} → task " in running.shown()

    running.send(numbers)
    running.brokers[0].kill()
    running.send(numbers)
    running.until_answered()
    running.brokers[0].start()

    apps = system.client().child_apps("wso2-app")
    host = next(one["host"] for one in apps if one["name"] == "wso2-app-group1-1")
    worker = next(name for name, one in system.processes.items() if one.role == "worker" and one.host.address == host)
    processes = {one["process_id"] for one in apps if one["host"] == host}
    process = system.processes[worker].process
    assert process is not None
    running.send(numbers)
    for executor in {parent_of(parent_of(one)) for one in processes}:
        kill(executor)
    kill(process.pid)
    running.send(numbers)
    running.until_answered()
    system.until(lambda: running.logs("manager").count(f"worker registered worker={worker} ") >= 2)
    assert f"worker lost worker={worker} " in running.logs("manager") or "was restarted" in running.logs("manager")
    assert "executor lost: executor=" in running.logs("driver")
    system.until(lambda: all(" → task " in line for line in running.shown().splitlines() if " → " in line))

    leader = "manager-1" if running.logs("manager-1").count(" leads ") else "manager-2"
    process = system.processes[leader].process
    assert process is not None
    led = running.logs("manager").count("election.leadership leads ")
    running.send(numbers)
    kill(process.pid)
    system.until(lambda: running.logs("manager").count("election.leadership leads ") > led)
    running.send(numbers)
    running.until_answered()
    assert "wso2-app → wso2-app-group1-1 → task " in running.shown()
