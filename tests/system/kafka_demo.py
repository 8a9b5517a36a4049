"""Flights from a topic, alerts to a topic, shown with the lag: a broker and a system of their own, gone at the end.

make demo-kafka
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# The root comes first: folders of tests have the names of packages.
sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[2]))

import click
import msgspec
import pyarrow.parquet as pq
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kafka_broker import Broker, kafka_broker

from cep_cli.monitor.status_text import child_app, plan_status
from cep_cli.plan_commands.plans import wait_until_connected
from cep_cli.system.local_system import LocalSystem, Ports

PLAN = """@Plan:name('LateFlights')
@Plan:playback

@source(type='kafka', topic.list='departures', group.id='late-flights', bootstrap.servers='SERVERS', @map(type='json'))
@Import('Departures:1.0.0')
define stream Departures (carrier string, flight int, origin string, dest string, dep_delay int);

@sink(type='kafka', topic='alerts', key='{{carrier}}', bootstrap.servers='SERVERS', @map(type='json'))
@Export('CarrierDelays:1.0.0')
define stream CarrierDelays (carrier string, origin string, average_delay double, departures long);

from Departures#window.time(1 hour)
select carrier, origin, avg(dep_delay) as average_delay, count() as departures
group by carrier, origin
having departures > 5 and average_delay > 60
insert into CarrierDelays;
"""
FLIGHTS = Path(__file__).parents[2] / "samples" / "flights" / "departures.parquet"
BEFORE = 10_000
"""Flights that are in the topic before anybody reads it."""
PER_SECOND = 4_000
PARTITIONS = 2
CONNECT_S = 60.0
SHOWN = 5
DONE_S = 60.0


def main() -> None:
    folder = Path(tempfile.mkdtemp(prefix="cep-kafka-demo-"))
    click.echo("starting Kafka, manager, driver (Spark) and worker …")
    with kafka_broker() as broker, LocalSystem(folder, Ports.free(), say=click.echo) as system:
        _run(broker, system)
    shutil.rmtree(folder)
    click.echo("stopped")


def _run(broker: Broker, system: LocalSystem) -> None:
    admin = AdminClient({"bootstrap.servers": broker.servers})
    topics = [NewTopic("departures", num_partitions=PARTITIONS), NewTopic("alerts", num_partitions=1)]
    for made in admin.create_topics(topics).values():
        made.result(10)
    # Idempotence keeps the order of a partition when requests are retried.
    producer = Producer({"bootstrap.servers": broker.servers, "linger.ms": 5, "enable.idempotence": True})
    flights = list(_flights())
    _send(producer, flights[:BEFORE])
    click.echo(f"{BEFORE} flights wait in topic departures of {broker.servers}")
    plan = system.client.deploy(PLAN.replace("SERVERS", broker.servers), replace=False)["plan"]
    wait_until_connected(system.client, plan, CONNECT_S)
    click.echo(f"{plan} is active; console: {system.client.url}/plans/{plan}")
    alerts = Consumer({"bootstrap.servers": broker.servers, "group.id": "demo", "isolation.level": "read_committed"})
    alerts.assign([TopicPartition("alerts", 0, 0)])
    found = 0
    rest = flights[BEFORE:]
    deadline = time.monotonic() + DONE_S
    quiet = 0
    while quiet < 3 and time.monotonic() < deadline:
        _send(producer, rest[:PER_SECOND])
        sent, rest = rest[:PER_SECOND], rest[PER_SECOND:]
        came = [one.value().decode() for one in alerts.consume(100_000, timeout=1.0) if one.error() is None]
        for alert in came[: max(0, SHOWN - found)]:
            click.echo(f"alert: {alert}")
        found += len(came)
        topics_read = system.client.plan(plan)["status"]["topics"]
        click.echo(f"sent {len(flights) - len(rest)}, alerts {found}; {_lag(topics_read)}")
        quiet = quiet + 1 if not sent and not came and not any(one["lag"] for one in topics_read) else 0
    alerts.close()
    click.echo(f"flights: {len(flights)}, alerts: {found}")
    click.echo(f"$ cep status {plan}\n{plan_status(system.client.plan(plan))}")
    apps = "\n".join(child_app(one, texts=False) for one in system.client.child_apps(plan))
    click.echo(f"$ cep status {plan} --apps\n{apps}")


def _flights() -> Iterator[tuple[str, bytes]]:
    """Each flight with its carrier, by which a topic's partitions share them."""
    names = ("carrier", "flight", "origin", "dest", "dep_delay")
    table = pq.read_table(FLIGHTS)
    for row in table.to_pylist():
        event: dict[str, Any] = {"_timestamp": _milliseconds(row["ts"]), **{name: row[name] for name in names}}
        yield row["carrier"], msgspec.json.encode(event)


def _milliseconds(time_: Any) -> int:
    return int(time_ if isinstance(time_, int) else time_.timestamp() * 1000)


def _send(producer: Producer, flights: list[tuple[str, bytes]]) -> None:
    for carrier, flight in flights:
        while True:
            try:
                producer.produce("departures", flight, carrier)
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
    producer.flush()


def _lag(topics: list[Any]) -> str:
    return ", ".join(f"{one['topic']}[{one['partition']}] lag {one['lag']} at {one['worker']}" for one in topics)


if __name__ == "__main__":
    main()
