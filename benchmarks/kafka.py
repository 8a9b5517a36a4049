"""JSON events from a Kafka topic through a deployed filter to another topic, beside a bare loop of the same client.

    .venv/bin/python -m benchmarks.kafka [--events 200000] [--rate 10000] [--seconds 10] [--partitions 1]
        [--exactly-once] [--json]

A broker and a system of its own. Prints events per second of wall clock and of processor time (all processes but the
broker and this one) over `events` that wait in the topic, and p50/p99 from produce to consume at `rate`.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec
import numpy as np
import psutil
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

# The root comes first: folders of tests have the names of packages.
sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).parents[1]))

from kafka_broker import Broker, kafka_broker

from cep_cli.plan_commands.plans import wait_until_connected
from cep_cli.system.local_system import LocalSystem, Ports

PLAN = '''
@Plan:name('Filter{number}') {delivery}
@source(type='kafka', topic.list='{source}', group.id='{source}', bootstrap.servers='{servers}', @map(type='json'))
@Import('Readings{number}:1.0.0') define stream Readings (sent long, device string, level double, note string);
@sink(type='kafka', topic='{sink}', bootstrap.servers='{servers}', @map(type='json', @payload("""{payload}""")))
@Export('High{number}:1.0.0') define stream High (sent long, device string, level double, note string);
from Readings[level > 0.1] select sent, device, level, note insert into High;
'''
PAYLOAD = '{"sent": {{sent}}, "device": "{{device}}", "level": {{level}}, "note": "{{note}}"}'
NOTE = "x" * 40
LEAST = 0.1
WARM_UP = 2_000
SLEEP_S = 0.001
MOST_S = 180.0
AT_ONCE = 10_000

Measured = dict[str, float]


class TopicReading(msgspec.Struct):
    """An event as the bare loop decodes it."""

    sent: int
    device: str
    level: float
    note: str


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=200_000)
    parser.add_argument("--rate", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--partitions", type=int, default=1)
    parser.add_argument("--exactly-once", action="store_true")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found: dict[str, Measured] = {}
    with tempfile.TemporaryDirectory() as folder, kafka_broker() as broker:
        with bare_loop(broker, options.partitions) as (source, sink):
            found["bare loop"] = _measure(broker, source, sink, options)
        with LocalSystem(Path(folder), Ports.free()) as system:
            source, sink = _topics(broker, options.partitions)
            _deploy(system, broker, source, sink, options.exactly_once)
            found["plan"] = _measure(broker, source, sink, options)
    if options.json:
        print(json.dumps(found))
        return
    for name, one in found.items():
        print(f"{name:<10} {one['events_per_s']:>9,.0f} events/s   {one['events_per_cpu_s']:>9,.0f} per CPU second   "
              f"p50 {one['p50_ms']:.1f} ms   p99 {one['p99_ms']:.1f} ms at {options.rate:,}/s")  # fmt: skip


def _deploy(system: LocalSystem, broker: Broker, source: str, sink: str, exactly_once: bool) -> None:
    text = PLAN.format(
        number="", source=source, sink=sink, servers=broker.servers, payload=PAYLOAD,
        delivery="@App:delivery('exactly-once')" if exactly_once else "",
    )  # fmt: skip
    plan = system.client.deploy(text, replace=False)["plan"]
    wait_until_connected(system.client, plan, 60)


@contextmanager
def bare_loop(broker: Broker, partitions: int) -> Iterator[tuple[str, str]]:
    """Consume, decode, filter, encode and produce in a process, as short as it can be written."""
    source, sink = _topics(broker, partitions)
    process = multiprocessing.get_context("spawn").Process(
        target=pass_on, args=(broker.servers, source, sink, partitions), daemon=True
    )
    process.start()
    try:
        yield source, sink
    finally:
        process.kill()
        process.join()


def pass_on(servers: str, source: str, sink: str, partitions: int) -> None:
    """Do what the plan does, until the process ends."""
    consumer = _consumer(servers, source, partitions)
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 5})
    decoder, encoder = msgspec.json.Decoder(TopicReading), msgspec.json.Encoder()
    while True:
        first = consumer.poll(0.2)
        for one in [] if first is None else [first, *consumer.consume(AT_ONCE, timeout=0)]:
            event = decoder.decode(one.value())
            if event.level > LEAST:
                _produce(producer, sink, encoder.encode(event))
        producer.poll(0)


def _measure(broker: Broker, source: str, sink: str, options: argparse.Namespace) -> Measured:
    consumer = _consumer(broker.servers, sink, 1)
    producer = Producer({"bootstrap.servers": broker.servers, "linger.ms": 5})
    _send_all(producer, source, WARM_UP)
    _receive(consumer, WARM_UP)
    before, began = _seconds(), time.perf_counter()
    sender = threading.Thread(target=_send_all, args=(producer, source, options.events))
    sender.start()
    _receive(consumer, options.events)
    wall, cpu = time.perf_counter() - began, _seconds() - before
    sender.join()
    count = int(options.rate * options.seconds)
    paced = Producer({"bootstrap.servers": broker.servers, "linger.ms": 1})
    sender = threading.Thread(target=_send_paced, args=(paced, source, options.rate, count))
    sender.start()
    delays = np.array(_receive(consumer, count)[count // 10 :]) / 1e6
    sender.join()
    consumer.close()
    p50, p99 = (float(np.percentile(delays, part)) for part in (50, 99))
    return {"events_per_s": options.events / wall, "events_per_cpu_s": options.events / max(cpu, 1e-9),
            "p50_ms": p50, "p99_ms": p99}  # fmt: skip


def _seconds() -> float:
    """Return the processor time of all child processes but the broker."""
    used = 0.0
    for one in psutil.Process().children(recursive=True):
        with suppress(psutil.ZombieProcess, psutil.NoSuchProcess):
            told = one.cpu_times()
            used += 0.0 if "kafka.Kafka" in one.cmdline() else told.user + told.system
    return used


def _send_all(producer: Producer, topic: str, count: int) -> None:
    for number in range(count):
        _produce(producer, topic, _event(number))
    producer.flush()


def _send_paced(producer: Producer, topic: str, rate: int, count: int) -> None:
    began = time.perf_counter()
    for number in range(count):
        behind = number / rate - (time.perf_counter() - began)
        if behind > SLEEP_S:
            producer.poll(0)
            time.sleep(behind)
        _produce(producer, topic, _event(number))
    producer.flush()


def _event(number: int) -> bytes:
    return (b'{"sent": %d, "device": "device-%d", "level": %.2f, "note": "%b"}'
            % (time.perf_counter_ns(), number % 500, 0.2 + number % 80 / 100, NOTE.encode()))  # fmt: skip


def _produce(producer: Producer, topic: str, value: bytes) -> None:
    while True:
        try:
            producer.produce(topic, value)
        except BufferError:
            producer.poll(0.05)
        else:
            return


def _receive(consumer: Consumer, count: int) -> list[int]:
    """Return how long each of `count` events took, in ns."""
    delays: list[int] = []
    deadline = time.monotonic() + MOST_S
    while len(delays) < count:
        if time.monotonic() > deadline:
            raise SystemExit(f"{count - len(delays)} of {count} events did not come within {MOST_S:.0f} s")
        first = consumer.poll(0.2)
        some = [] if first is None else [first, *consumer.consume(AT_ONCE, timeout=0)]
        now = time.perf_counter_ns()
        delays += (now - json.loads(one.value())["sent"] for one in some)
    return delays


def _consumer(servers: str, topic: str, partitions: int) -> Consumer:
    consumer = Consumer({
        "bootstrap.servers": servers, "group.id": f"benchmark-{topic}", "enable.auto.commit": False,
        "fetch.queue.backoff.ms": 10, "isolation.level": "read_committed",
    })  # fmt: skip
    consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
    return consumer


def _topics(broker: Broker, partitions: int) -> tuple[str, str]:
    """Create a topic to read and one to write, and return their names."""
    names = f"readings-{time.time_ns()}", f"high-{time.time_ns()}"
    admin = AdminClient({"bootstrap.servers": broker.servers})
    wanted = [NewTopic(names[0], num_partitions=partitions), NewTopic(names[1], num_partitions=1)]
    for made in admin.create_topics(wanted).values():
        made.result(10)
    return names


if __name__ == "__main__":
    main()
