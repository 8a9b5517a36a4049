"""How many events a second the log of a group with shared state orders, and how soon all instances have them.

The stages run in this process, one after the other, without links between them:

    .venv/bin/python benchmarks/sync_log.py [--events 2000000] [--batch 4096] [--instances 3] [--kafka HOST:PORT]

With `--kafka` the log is a topic of these brokers (`sync='kafka'`); `log` is then the time until the brokers have it.
`log` is the stage that puts events into one order; `instances` is that, and every instance applying them, in one core.
The time that a batch takes from its entry until all instances have applied it is the latency without links. Rates and
latencies come twice: by the wall clock, and by the processor time of this thread, which other work on the machine
does not change.
"""

from __future__ import annotations

import argparse
import sys
import threading
import time
from collections import deque
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

sys.path.insert(0, str(Path(__file__).parents[1]))

from cep_common.ids import PlanKey
from query_plan.builder import build
from query_plan.model import instance_stage
from siddhi.analysis.analyser import analyse
from siddhi.language.parser import parse
from topology.events.bundle import Bundle
from topology.model import PROCESSOR, Topology
from topology.stages.kinds.processor import Processor
from topology.stages.routes.routing import Routing
from topology.stages.settings import StageSettings
from topology.sync_log.settings import SyncLogSettings
from topology.sync_log.task_logs import TaskLogs

PLAN = """@app:name('Rise')
@source(type='http', @map(type='json')) define stream TempStream (room int, temp double);
@sink(type='log') define stream AlertStream (initialTemp double, finalTemp double);
@info(name='rise') @dist(execGroup='g', parallel='{instances}', state='shared', sync='{sync}') {rule}
"""
RULES = {
    "sequence": "from every e1=TempStream, e2=TempStream[e1.temp + 1 < temp] "
    "select e1.temp as initialTemp, e2.temp as finalTemp insert into AlertStream;",
    "average": "from TempStream#window.length(1000) select avg(temp) as initialTemp, max(temp) as finalTemp "
    "insert into AlertStream;",
    "one in ten": "from TempStream[room == 3]#window.length(1000) "
    "select avg(temp) as initialTemp, max(temp) as finalTemp insert into AlertStream;",
}
WARM_UP = 8


class Stages:
    """The stages of the group; `until` names the last one that runs."""

    def __init__(self, rule: str, instances: int, until: str, brokers: str) -> None:
        sync = "kafka" if brokers else "builtin"
        plan = build(analyse(parse(PLAN.format(rule=rule, instances=instances, sync=sync))))
        self.topology = Topology(PlanKey(-1234, "Rise"), 1, plan, tasks=1)
        settings = StageSettings(host="127.0.0.1", first_port=20000, last_port=60000, window_rows=1_000, idle_ms=60_000)
        routing = Routing(self.topology, settings.scripts, self._hand_over)
        self.work: deque[tuple[str, Bundle]] = deque()
        self.came = threading.Event()
        log = SyncLogSettings(kafka={"bootstrap.servers": brokers} if brokers else {})
        self.logs = TaskLogs(self.topology, 0, log, self._take, self.came.set)
        self.stages: dict[str, Processor] = {}
        for component in self.topology.components:
            for index, name in enumerate(component.instances() if component.kind == PROCESSOR else ()):
                stage = instance_stage(plan.processor(component.name), index)
                emit = routing.emitter(component) if component.name != until else _drop
                self.stages[name] = Processor(
                    name, self.topology, stage, self.logs.emitter(name, stage, emit), settings
                )
        self.emit = routing.emitter(self.topology.components[0])
        self.ticket = 0

    def _hand_over(self, target: str, bundle: Bundle) -> None:
        bundle.hold()
        if not self.logs.takes(target, bundle):
            self._take(target, bundle)

    def _take(self, target: str, bundle: Bundle) -> None:
        if target in self.stages:
            self.work.append((target, bundle))
        else:
            bundle.settle()  # a publisher has passed it on

    def open(self) -> None:
        for stage in self.stages.values():
            stage.open(_now_ms())
        self.send(())

    def send(self, batches: tuple[tuple[str, pa.RecordBatch], ...]) -> None:
        """Run a frame of a worker through the stages."""
        now_ms, receiver = _now_ms(), "EventReceiver#0"
        self.emit(
            Bundle(receiver, receiver, self.ticket, "worker/TempStream", ("TempStream",), now_ms, idle=True,
                   batches=batches, clock_ms=now_ms)
        )  # fmt: skip
        self.ticket += 1
        while True:
            self.logs.pump()
            while self.work:
                target, bundle = self.work.popleft()
                self.stages[target].on_bundle(bundle, now_ms)
            if self.logs.is_drained():
                return
            self.came.wait(1.0)
            self.came.clear()


def _drop(bundle: Bundle) -> None:
    """Take what the last stage emits."""


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def frame(chosen: np.random.Generator, rows: int) -> pa.RecordBatch:
    """Return a frame of readings of ten rooms."""
    columns = [
        pa.array(np.full(rows, _now_ms())),
        pa.array(np.zeros(rows, dtype=np.int8)),
        pa.array(chosen.integers(0, 10, rows).astype(np.int32)),
        pa.array(chosen.normal(20.0, 2.0, rows)),
    ]
    return pa.record_batch(columns, names=["_timestamp", "_kind", "room", "temp"])


@dataclass(frozen=True, slots=True)
class Measured:
    """Events a second, and the 99th percentile of a frame's time in milliseconds, by one clock."""

    rate: float
    p99_ms: float

    @classmethod
    def of(cls, times_s: list[float], batch: int) -> Measured:
        """Return what the times of all frames, of `batch` events each, amount to."""
        return cls(len(times_s) * batch / sum(times_s), float(np.percentile(times_s, 99)) * 1_000)


def measure(rule: str, instances: int, until: str, events: int, batch: int, brokers: str) -> tuple[Measured, Measured]:
    """Return what was measured by the wall clock and by the processor time of this thread."""
    stages, chosen = Stages(rule, instances, until, brokers), np.random.default_rng(7)
    stages.open()
    frames = [frame(chosen, batch) for _ in range(16)]
    for number in range(WARM_UP):
        stages.send((("TempStream", frames[number % 16]),))
    walls, cpus = [], []
    for number in range(max(1, events // batch)):
        wall, cpu = time.perf_counter(), time.thread_time()
        stages.send((("TempStream", frames[number % 16]),))
        walls.append(time.perf_counter() - wall)
        cpus.append(time.thread_time() - cpu)
    stages.logs.close()
    return Measured.of(walls, batch), Measured.of(cpus, batch)


def main() -> None:
    """Print a table of rates and latencies."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--events", type=int, default=2_000_000)
    arguments.add_argument("--batch", type=int, default=4_096)
    arguments.add_argument("--instances", type=int, default=3)
    arguments.add_argument("--kafka", default="", help="brokers of the log")
    asked = arguments.parse_args()
    where = f"log in Kafka at {asked.kafka}" if asked.kafka else "log between stages"
    print(f"{asked.instances} instances, frames of {asked.batch} events, one core, no links, {where}")
    print(f"{'':23} {'wall clock':>24} {'processor time':>24}")
    print(f"{'rule':12} {'until':10}" + 2 * f" {'events/s':>12} {'p99 (ms)':>11}")
    for name, rule in RULES.items():
        for until in ("g.log", "g"):
            found = measure(rule, asked.instances, until, asked.events, asked.batch, asked.kafka)
            shown = "log" if until == "g.log" else "instances"
            columns = "".join(f" {one.rate:12,.0f} {one.p99_ms:11.1f}" for one in found)
            print(f"{name:12} {shown:10}{columns}")


if __name__ == "__main__":
    main()
