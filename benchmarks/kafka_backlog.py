"""A plan that is deployed while many messages wait in its topic: memory, event time and progress until it has read all.

    .venv/bin/python -m benchmarks.kafka_backlog [--events 1000000] [--partitions 4] [--skewed]

A broker and a system of its own. The events of each second are spread over all partitions, so a batch of one second
is only whole if no partition gets ahead of another. With `--skewed` each partition has a part of the time for itself,
so that all but the first are far ahead of it. Prints the largest resident memory of each process, what waits with the
brokers (lag) and in the worker's log (unprocessed) as `cep status` has it, how many events were late (none should
be), and how many seconds were counted whole; ends with status 1 unless all were.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import defaultdict
from contextlib import suppress
from pathlib import Path

import psutil
from confluent_kafka import Producer

# The root comes first: folders of tests have the names of packages.
sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).parents[1]))

from kafka_broker import kafka_broker

from benchmarks.kafka import NOTE, topics
from benchmarks.kafka_peers import committed_reader, produce
from cep_cli.system.local_system import LocalSystem, Ports

PLAN = """
@App:name('Backlog')
@App:playback
@source(type='kafka', topic.list='{source}', group.id='{source}', bootstrap.servers='{servers}', timestamp='at',
  @map(type='json'))
define stream Readings (at long, device string, level double, note string);
@sink(type='kafka', topic='{sink}', bootstrap.servers='{servers}', @map(type='json'))
define stream Counts (readings long);
from Readings#window.timeBatch(1 sec) select count() as readings insert into Counts;
"""
PER_SECOND = 1_000
FIRST_MS = 1_700_000_000_000
LOOK_S = 0.5
MOST_S = 600.0
MEBIBYTE = 1 << 20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--skewed", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, kafka_broker() as broker:
        source, sink = topics(broker, options.partitions)
        _fill(broker.servers, source, options.events, options.partitions, skewed=options.skewed)
        with LocalSystem(Path(folder), Ports.free()) as system:
            idle = _memory(system)
            began = time.monotonic()
            system.client.deploy(PLAN.format(source=source, sink=sink, servers=broker.servers), replace=False)
            most: dict[str, int] = defaultdict(int)
            reader = committed_reader(broker.servers, sink, 1)
            counts: list[int] = []
            wanted, shown_s = options.events // PER_SECOND - 1, 0.0  # the last second ends with no event
            while len(counts) < wanted and time.monotonic() - began < MOST_S:
                counts += (json.loads(one.value())["event"]["readings"] for one in reader.consume(10_000, LOOK_S))
                for name, size in _memory(system).items():
                    most[name] = max(most[name], size)
                if time.monotonic() - shown_s >= 5:
                    shown_s = time.monotonic()
                    print(f"{shown_s - began:6.1f} s  {_waiting(system)}  seconds counted {len(counts)}", flush=True)
            took_s = time.monotonic() - began
            reader.close()
        whole = sum(one == PER_SECOND for one in counts)
        print(f"{options.events:,} events in {took_s:.1f} s; {whole} of {wanted} seconds are whole, {len(counts)} came")
        for name, size in most.items():
            print(f"{name:<10} {idle.get(name, 0) / MEBIBYTE:7.0f} MiB before, {size / MEBIBYTE:7.0f} MiB at most")
    if whole != wanted:
        sys.exit(1)


def _fill(servers: str, topic: str, events: int, partitions: int, *, skewed: bool) -> None:
    # Idempotence keeps the order of a partition when requests are retried: an event behind later ones would be late.
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 20, "enable.idempotence": True})
    for number in range(events):
        value = b'{"at": %d, "device": "device-%d", "level": 1.5, "note": "%b"}'
        text = value % (FIRST_MS + number * 1_000 // PER_SECOND, number % 500, NOTE.encode())
        produce(producer, topic, text, number * partitions // events if skewed else number % partitions)
    producer.flush()


def _memory(system: LocalSystem) -> dict[str, int]:
    """Return the resident memory of each process, and of all that the driver has started."""
    found: dict[str, int] = {}
    for name in ("manager", "driver", "worker"):
        process = psutil.Process(system.pid(name))
        found[name] = process.memory_info().rss
        if name == "driver":
            for child in process.children(recursive=True):
                with suppress(psutil.NoSuchProcess):
                    kind = "Spark" if child.name() == "java" else "tasks"
                    found[kind] = found.get(kind, 0) + child.memory_info().rss
    return found


def _waiting(system: LocalSystem) -> str:
    """Return how many messages are not read yet, how many that were read are not processed yet, and the late ones."""
    status = system.client.plan("Backlog")["status"]
    partitions = status.get("topics")
    lag = f"{sum(one['lag'] for one in partitions):,}" if partitions else "unknown"
    late = sum(one["events"] for one in status["topology"]["late"])
    return f"lag {lag}  unprocessed {status['unprocessed']['events']:,}  late {late:,}"


if __name__ == "__main__":
    main()
