"""A pattern for each key, in one slot and in two; and what it costs that events cross from one slot to another.

    .venv/bin/python benchmarks/scaling.py [--events 1000000] [--runs 3] [--json]

The pattern compares every event with 1,500 partial matches of its key, so that the engine is what takes the time;
those of all keys fit into the cache of one core, or two slots would gain by having two caches.
`speedup` is that of the elapsed time, the best of `--runs` each, taken in turns. On a machine that others use as well
it says little; so there is `speedup_by_cpu`, from the processor time that the stages took: that of the one slot over
that of the busier of the two, which is what would be seen with a core for each slot.

The crossing is measured on two stages in a row that pass everything on, in one slot and in two, one batch under way at
a time: the difference in the stages' processor time, by batches of few and of many rows, is split into what a batch and
what an event costs. `exchange` is the part of it that encodes, sends, decodes and settles, without the turns of the
stages' loops: measured in one process, between two ends of a link.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import zmq

from cep_cli.plan_commands.plans import wait_until_connected
from cep_cli.system.local_system import LocalSystem, Ports
from cep_common.ids import SUPER_TENANT, PlanKey
from cep_worker.ingest.event_sender import EventSender, fetch_schema
from query_plan.examination import examine
from topology.acks import Ack
from topology.events.bundle import Bundle
from topology.events.frames import arrow_schema
from topology.links.event_listener import EventListener
from topology.model import Topology
from topology.stages.routes.exchange import TaskExchange

PATTERN = """
@Plan:name('Scaling')
@Plan:dist(workers='{slots}')
@Import('Uses:1.0.0') define stream Uses (card string, opens bool, ref double);
@Export('Pairs:1.0.0') define stream Pairs (card string, first double, second double);
@dist(parallel='{slots}')
partition with (card of Uses) begin
  from every e1=Uses[opens] -> e2=Uses[not opens and ref > e1.ref - 0.5 and ref < e1.ref + 0.5]
  select e1.card as card, e1.ref as first, e2.ref as second insert into Pairs;
end;
"""
CHAIN = """
@Plan:name('Crossing')
@Plan:dist(workers='{slots}')
@Import('In:1.0.0') define stream In (card string, level double, place long);
@Export('Out:1.0.0') define stream Out (card string, level double, place long);
@info(name='first') @dist(execGroup='one') from In[level >= 0.0] select card, level, place insert into Middle;
@info(name='second') @dist(execGroup='two') from Middle[place >= 0] select card, level, place insert into Out;
"""
CARDS = 32
OPEN_PER_CARD = 1_500
BATCH = 4_096
ROUND_TRIPS = 400
FEW_ROWS, MANY_ROWS = 1, 8_192
EXCHANGE_ROUNDS = 5
PORTS = (15_800, 15_999)
RESULT_TIMEOUT_MS = 120_000


@dataclass(frozen=True, slots=True)
class ScalingRun:
    """Seconds of one run, and the processor seconds of each slot meanwhile."""

    elapsed_s: float
    cpu_s: tuple[float, ...]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    environment = {**os.environ, "CEP_DRIVER__SPARK__MASTER": "local[4]"}
    with (
        tempfile.TemporaryDirectory() as folder,
        LocalSystem(Path(folder), Ports.free(), environment=environment) as system,
    ):
        runs: dict[int, list[ScalingRun]] = {1: [], 2: []}
        for _ in range(options.runs):
            for slots, done in runs.items():
                done.append(_pattern(system, slots, options.events))
        few, many = (_crossing(system, rows) for rows in (FEW_ROWS, MANY_ROWS))
    per_event_us = (many - few) / (MANY_ROWS - FEW_ROWS)
    link_few, link_many = (_exchange_us(rows) for rows in (FEW_ROWS, MANY_ROWS))
    link_per_event_us = (link_many - link_few) / (MANY_ROWS - FEW_ROWS)
    one, two = (min(done, key=lambda run: run.elapsed_s) for done in runs.values())
    alone, busier = (min(max(run.cpu_s) for run in done) for done in runs.values())
    measured = {
        "slots": 2,
        "speedup": round(one.elapsed_s / two.elapsed_s, 2),
        "speedup_by_cpu": round(alone / busier, 2),
        "elapsed_s": [round(run.elapsed_s, 2) for run in (one, two)],
        "cpu_s": [[round(cpu, 2) for cpu in run.cpu_s] for run in (one, two)],
        "crossing_us_per_batch": round(few - per_event_us * FEW_ROWS, 1),
        "crossing_ns_per_event": round(per_event_us * 1000, 1),
        "exchange_us_per_batch": round(link_few - link_per_event_us * FEW_ROWS, 1),
        "exchange_ns_per_event": round(link_per_event_us * 1000, 1),
    }
    if options.json:
        print(json.dumps(measured))
        return
    for name, value in measured.items():
        print(f"{name:<22} {value}")


@contextmanager
def _deployed(system: LocalSystem, text: str, name: str) -> Iterator[list[int]]:
    """Deploy the plan, wait until it is active and connected, and yield the process of each of its tasks."""
    system.client.deploy(text, replace=False)
    try:
        wait_until_connected(system.client, name, 120)
        yield [task["process_id"] for task in system.client.cluster()["tasks"] if task["live"]]
    finally:
        system.client.undeploy(name, discard=True)


def _pattern(system: LocalSystem, slots: int, events: int) -> ScalingRun:
    with _deployed(system, PATTERN.format(slots=slots), "Scaling") as processes:
        schema = fetch_schema(system.worker_http, "Uses")
        with EventListener(system.egress, "Pairs") as listener, EventSender(system.ingress, schema) as sender:
            batches = _uses(events, sender.arrow_schema)
            expected = sum(batch.num_rows for batch in batches) // 2 - OPEN_PER_CARD * CARDS
            before = _cpu_s(processes)
            started = time.monotonic()
            sending = threading.Thread(target=lambda: [sender.send(batch) for batch in batches], daemon=True)
            sending.start()
            found = 0
            while found < expected:
                batch = listener.receive(RESULT_TIMEOUT_MS)
                if batch is None:
                    raise SystemExit(f"only {found} of {expected} pairs came")
                found += batch.num_rows
            elapsed_s = time.monotonic() - started
            sending.join()
        return ScalingRun(
            elapsed_s, tuple(after - at_first for after, at_first in zip(_cpu_s(processes), before, strict=True))
        )


def _uses(events: int, schema: pa.Schema) -> list[pa.RecordBatch]:
    """Cards in turns; a card's events open a reference and close the one opened `OPEN_PER_CARD` before, in turns."""
    number = np.arange(events // (2 * CARDS) * 2 * CARDS)
    step = number // CARDS
    opens = step % 2 == 0
    cards = np.array([f"card-{card}" for card in range(CARDS)])[number % CARDS]
    references = (step // 2 - np.where(opens, 0, OPEN_PER_CARD)).astype(float)
    now_ms = time.time_ns() // 1_000_000
    kinds = np.zeros(len(number), dtype=np.int8)
    columns = [pa.array(column) for column in (now_ms + number // 1_000, kinds, cards, opens, references)]
    whole = pa.record_batch(columns, schema=schema)
    return [whole.slice(start, BATCH) for start in range(0, whole.num_rows, BATCH)]


def _crossing(system: LocalSystem, rows: int) -> float:
    """Processor microseconds that a batch of so many rows costs more in two slots than in one."""
    return _chain_us(system, 2, rows) - _chain_us(system, 1, rows)


def _chain_us(system: LocalSystem, slots: int, rows: int) -> float:
    """Processor microseconds of all slots for each batch, beyond what they take when nothing comes."""
    with _deployed(system, CHAIN.format(slots=slots), "Crossing") as processes:
        schema = fetch_schema(system.worker_http, "In")
        with EventListener(system.egress, "Out") as listener, EventSender(system.ingress, schema) as sender:
            batch = _batch(rows, sender.arrow_schema)

            def round_trips(count: int) -> None:
                for _ in range(count):
                    sender.send(batch)
                    found = 0
                    while found < rows:
                        came = listener.receive(RESULT_TIMEOUT_MS)
                        if came is None:
                            raise SystemExit("a batch did not come back")
                        found += came.num_rows

            round_trips(ROUND_TRIPS // 4)
            idle_cpu, idle_from = sum(_cpu_s(processes)), time.monotonic()
            time.sleep(2)
            idle = (sum(_cpu_s(processes)) - idle_cpu) / (time.monotonic() - idle_from)
            before, started = sum(_cpu_s(processes)), time.monotonic()
            round_trips(ROUND_TRIPS)
            busy = sum(_cpu_s(processes)) - before - idle * (time.monotonic() - started)
    return busy / ROUND_TRIPS * 1e6


def _batch(rows: int, schema: pa.Schema) -> pa.RecordBatch:
    place = np.arange(rows)
    cards = np.array([f"card-{card}" for card in range(CARDS)])[place % CARDS]
    times = np.full(rows, time.time_ns() // 1_000_000)
    columns = [times, np.zeros(rows, dtype=np.int8), cards, place / 7, place]
    return pa.record_batch([pa.array(column) for column in columns], schema=schema)


def _exchange_us(rows: int) -> float:
    """Return the processor time to send a batch from one task to another and to settle it, in microseconds.

    It is the best of some rounds.
    """
    compiled = examine(CHAIN.format(slots=2)).compiled
    if compiled is None:
        raise SystemExit("the plan of two stages is refused")
    topology = Topology(PlanKey(SUPER_TENANT, "Crossing"), 1, compiled.plan, 2)
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    came: deque[Bundle] = deque()
    ends = [
        TaskExchange(topology, task, context, "127.0.0.1", PORTS, lambda _target, bundle: came.append(bundle))
        for task in (0, 1)
    ]
    for end in ends:
        end.connect([one.server.endpoint for one in ends], 0)
    batch = _batch(rows, arrow_schema(topology.streams["Middle"]))
    gone: list[int] = []

    def once() -> None:
        settled = len(gone)
        bundle = Bundle("first#0", "first#0", settled, batches=(("Middle", batch),), receipt=Ack(gone_on))
        ends[0].send(1, "second#0", bundle)
        bundle.settle()
        while len(gone) == settled:
            for end in ends:
                end.on_readable(0)
                end.on_senders_readable()
            while came:
                came.popleft().settle()
            for end in ends:
                end.flush()

    def gone_on() -> None:
        gone.append(rows)

    taken = []
    for _ in range(EXCHANGE_ROUNDS):
        before = time.process_time()
        for _ in range(ROUND_TRIPS):
            once()
        taken.append((time.process_time() - before) / ROUND_TRIPS * 1e6)
    for end in ends:
        end.close()
    context.destroy(linger=0)
    return min(taken)


def _cpu_s(processes: list[int]) -> list[float]:
    """Processor seconds that each process has taken, all its threads together."""
    return [
        sum(int(one.read_text().split()[0]) for one in Path(f"/proc/{process}/task").glob("*/schedstat")) / 1e9
        for process in processes
    ]


if __name__ == "__main__":
    main()
