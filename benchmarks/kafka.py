"""JSON events from a Kafka topic through a filter to another topic: a plan, a bare loop of the client, and Spark.

    .venv/bin/python -m benchmarks.kafka [--events 200000] [--rate 10000] [--seconds 10] [--partitions 1 4]
        [--without-spark] [--json]

A broker and a system of its own; events of about 115 bytes. For each number of partitions: the bare loop, the plan with
at-least-once and exactly-once delivery, and Spark Structured Streaming on the same topics, where its connector can be
fetched from Maven Central.

`events` become visible in the topic at once, since a transaction holds them; events per second count from then until
the last result is in the other topic, by wall clock and by processor time (all processes but the broker and this one).
p50 and p99 are from produce to consume at `rate`.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import numpy as np
import psutil
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

# The root comes first: folders of tests have the names of packages.
sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).parents[1]))

from kafka_broker import Broker, kafka_broker

from benchmarks.kafka_peers import AT_ONCE, bare_loop, committed_reader, produce, structured_streaming
from cep_cli.plan_commands.plans import wait_until_connected
from cep_cli.system.local_system import LocalSystem, Ports

PLAN = '''
@Plan:name('{name}') {delivery}
@source(type='kafka', topic.list='{source}', group.id='{source}', bootstrap.servers='{servers}', @map(type='json'))
@Import('Readings{name}:1.0.0') define stream Readings (sent long, device string, level double, note string);
@sink(type='kafka', topic='{sink}', bootstrap.servers='{servers}', @map(type='json', @payload("""{payload}""")))
@Export('High{name}:1.0.0') define stream High (sent long, device string, level double, note string);
from Readings[level > 0.1] select sent, device, level, note insert into High;
'''
PAYLOAD = '{"sent": {{sent}}, "device": "{{device}}", "level": {{level}}, "note": "{{note}}"}'
NOTE = "x" * 40
WARM_UP = 10_000
SLEEP_S = 0.001
MOST_S = 180.0
CHECKPOINT_MS = 1_000
"""Results of plans that deliver exactly once wait for a checkpoint; the default is 10 s."""

Measured = dict[str, float]


class TooSlowError(Exception):
    """Results did not come in time; the message says how many."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=200_000)
    parser.add_argument("--rate", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--partitions", type=int, nargs="+", default=[1, 4])
    parser.add_argument("--without-spark", action="store_true")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found: dict[str, Measured] = {}

    def note(name: str, partitions: int, measured: Measured) -> None:
        found[f"{name}, {partitions} partition{'s' if partitions > 1 else ''}"] = measured
        if not options.json:
            print(_line(*list(found.items())[-1], options.rate), flush=True)

    with kafka_broker() as broker:
        for partitions in options.partitions:
            source, sink = topics(broker, partitions)
            with bare_loop(broker.servers, source, sink, partitions):
                note("bare loop", partitions, _measure(broker, source, sink, options))
        _measure_plans(broker, options, note)
        if not options.without_spark:
            _measure_spark(broker, options, note)
    if options.json:
        print(json.dumps(found))


def _line(name: str, one: Measured, rate: int) -> str:
    return (
        f"{name:<38} {one['events_per_s']:>9,.0f} events/s {one['events_per_cpu_s']:>9,.0f} per CPU second   "
        f"p50 {one['p50_ms']:>7.1f} ms  p99 {one['p99_ms']:>7.1f} ms at {rate:,}/s"
    )


def _measure_plans(broker: Broker, options: argparse.Namespace, note: Callable[[str, int, Measured], None]) -> None:
    environment = {**os.environ, "CEP_DRIVER__CHECKPOINT__INTERVAL_MS": str(CHECKPOINT_MS)}
    with (
        tempfile.TemporaryDirectory() as folder,
        LocalSystem(Path(folder), Ports.free(), environment=environment) as system,
    ):
        for delivery in ("at-least-once", "exactly-once"):
            for partitions in options.partitions:
                source, sink = topics(broker, partitions)
                with _deployed(system, broker, source, sink, delivery):
                    note(f"plan, {delivery}", partitions, _measure(broker, source, sink, options))


def _measure_spark(broker: Broker, options: argparse.Namespace, note: Callable[[str, int, Measured], None]) -> None:
    for partitions in options.partitions:
        source, sink = topics(broker, partitions)
        with structured_streaming(broker.servers, source, sink) as process:
            try:
                note("Spark Structured Streaming", partitions, _measure(broker, source, sink, options))
            except TooSlowError as error:
                ended = f"; it ended with {process.returncode}" if process.poll() is not None else ""
                print(f"Spark Structured Streaming is not measured: {error}{ended}", file=sys.stderr)
                return


@contextmanager
def _deployed(system: LocalSystem, broker: Broker, source: str, sink: str, delivery: str) -> Iterator[None]:
    name = f"Filter{time.time_ns()}"
    text = PLAN.format(
        name=name, source=source, sink=sink, servers=broker.servers, payload=PAYLOAD,
        delivery=f"@App:delivery('{delivery}')",
    )  # fmt: skip
    plan = system.client.deploy(text, replace=False)["plan"]
    wait_until_connected(system.client, plan, 60)
    try:
        yield
    finally:
        system.client.undeploy(plan, discard=True)


def _measure(broker: Broker, source: str, sink: str, options: argparse.Namespace) -> Measured:
    with ExitStack() as opened:
        consumer = committed_reader(broker.servers, sink, 1)
        opened.callback(consumer.close)
        _Waiting(broker, source, WARM_UP).show()
        _receive(consumer, WARM_UP)
        waiting = _Waiting(broker, source, options.events)
        before, began = _seconds(), time.perf_counter()
        waiting.show()
        _receive(consumer, options.events)
        wall, cpu = time.perf_counter() - began, _seconds() - before
        count = int(options.rate * options.seconds)
        sender = threading.Thread(target=_send_paced, args=(broker, source, options.rate, count))
        sender.start()
        opened.callback(sender.join)
        delays = np.array(_delays(_receive(consumer, count))[count // 10 :]) / 1e6
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


class _Waiting:
    """Events in a topic that readers of committed messages see together."""

    def __init__(self, broker: Broker, topic: str, count: int) -> None:
        settings = {"bootstrap.servers": broker.servers, "linger.ms": 5, "transactional.id": f"benchmark-{topic}"}
        self._producer = Producer({**settings, "transaction.timeout.ms": 300_000})
        self._producer.init_transactions(30)
        self._producer.begin_transaction()
        for number in range(count):
            produce(self._producer, topic, _event(number))
        self._producer.flush()

    def show(self) -> None:
        """Commit the transaction."""
        self._producer.commit_transaction(30)


def _send_paced(broker: Broker, topic: str, rate: int, count: int) -> None:
    producer = Producer({"bootstrap.servers": broker.servers, "linger.ms": 1})
    began = time.perf_counter()
    for number in range(count):
        behind = number / rate - (time.perf_counter() - began)
        if behind > SLEEP_S:
            producer.poll(0)
            time.sleep(behind)
        produce(producer, topic, _event(number))
    producer.flush()


def _event(number: int) -> bytes:
    return (b'{"sent": %d, "device": "device-%d", "level": %.2f, "note": "%b"}'
            % (time.perf_counter_ns(), number % 500, 0.2 + number % 80 / 100, NOTE.encode()))  # fmt: skip


def _receive(consumer: Consumer, count: int) -> list[tuple[int, list[bytes]]]:
    """Return `count` messages as they came, each batch with its time in ns. Raises TooSlowError."""
    batches: list[tuple[int, list[bytes]]] = []
    had = 0
    deadline = time.monotonic() + MOST_S
    while had < count:
        if time.monotonic() > deadline:
            raise TooSlowError(f"{count - had} of {count} events did not come within {MOST_S:.0f} s")
        first = consumer.poll(0.2)
        if first is None:
            continue
        some = [first, *consumer.consume(AT_ONCE, timeout=0)]
        batches.append((time.perf_counter_ns(), [one.value() for one in some]))
        had += len(some)
    return batches


def _delays(batches: list[tuple[int, list[bytes]]]) -> list[int]:
    """Return how long each event took, in ns."""
    return [now - json.loads(value)["sent"] for now, values in batches for value in values]


def topics(broker: Broker, partitions: int) -> tuple[str, str]:
    """Create a topic to read and one to write, and return their names."""
    names = f"readings-{time.time_ns()}", f"high-{time.time_ns()}"
    admin = AdminClient({"bootstrap.servers": broker.servers})
    wanted = [NewTopic(names[0], num_partitions=partitions), NewTopic(names[1], num_partitions=1)]
    for made in admin.create_topics(wanted).values():
        made.result(10)
    return names


if __name__ == "__main__":
    main()
