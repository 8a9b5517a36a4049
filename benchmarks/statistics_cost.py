"""What statistics cost: processor time of a topology's task for each event, at the levels off, basic and detail.

    .venv/bin/python -m benchmarks.statistics_cost [--rounds 101] [--json]

A real task (receiver, two stages, publisher, real links) runs all the time in a thread, and its level is switched while
it does. At each level the same events go through it, in turns, once in large pieces and once in small ones: counting
is per batch. Reports the processor time of the task's thread for each event, the least of all turns, and how much more
that is than the least at `off`: what else the machine does only adds to it. Beside that stands the median of how much
more each turn took than that at `off` of its round. Exits with 1 when both say that `basic` costs more than 3 %.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import sys
import threading
import time
from contextlib import ExitStack

import pyarrow as pa
import zmq

from cep_common.clock import SystemClock
from cep_common.ids import SUPER_TENANT, PlanKey
from cep_common.protocol.links import OpenLink
from cep_common.protocol.registry import EndpointAssigned
from cep_common.protocol.tasks import StatisticsLevel
from cep_common.security.roles import SocketKind
from query_plan.builder import build
from siddhi.analysis.analyser import analyse
from siddhi.language.parser import parse
from topology.events.frames import arrow_schema, encode_batch
from topology.events.watermarks import NO_WATERMARK
from topology.links.sender import LinkSender, LinkState
from topology.links.server import FrameArrived, LinkServer
from topology.model import Topology
from topology.stages.settings import StageSettings
from topology.stages.tasks.task import Task

PLAN = """
@Plan:name('Cost')
@Import('Readings:1.0.0') define stream Readings (room string, degrees double);
@Export('Hot:1.0.0') define stream Hot (room string, degrees double, mean double);
define stream Warm (room string, degrees double);
@dist(execGroup='filtering') from Readings[degrees > 0.0] select room, degrees insert into Warm;
@dist(execGroup='averaging') from Warm#window.length(1000)
  select room, degrees, avg(degrees) as mean group by room insert into Hot;
"""
LEVELS: tuple[StatisticsLevel, ...] = ("off", "basic", "detail")
SIZES = {"large": (4_096, 60), "small": (16, 500)}
"""Rows of a piece, and how many pieces a turn has."""
MOST = 0.03
KEY, EPOCH = PlanKey(SUPER_TENANT, "Cost"), 1
PORTS = (20_000, 60_000)
WAIT_MS = 20


class Cost:
    """The task in its thread, and a worker's two ends. Leave `opened` to stop it."""

    def __init__(self, opened: ExitStack) -> None:
        context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        opened.callback(context.destroy, linger=0)
        topology = Topology(KEY, EPOCH, build(analyse(parse(PLAN))), tasks=1)
        settings = StageSettings(host="127.0.0.1", first_port=PORTS[0], last_port=PORTS[1])
        self._task = task = Task(topology, 0, settings, context, SystemClock())
        self._thread = threading.Thread(target=task.run)
        self._thread.start()
        opened.callback(self._thread.join)
        opened.callback(task.stop)
        self._clock = time.pthread_getcpuclockid(self._thread.ident or 0)
        self._results = LinkServer.listen(context, SocketKind.OUTFLOW, "127.0.0.1", PORTS, 65_536, lambda _: None)
        opened.callback(self._results.close)
        task.assign(task.publishers[0].name, EndpointAssigned(self._results.endpoint, "worker"))
        stream = topology.streams["Readings"]
        self._schema = arrow_schema(stream)
        opening = OpenLink("worker", (stream,), KEY, EPOCH)
        self._sender = LinkSender(context, SocketKind.RECEIVER, task.receivers[0].server.endpoint, opening, 0)
        opened.callback(self._sender.close)
        self._poller = zmq.Poller()
        for socket in (self._results.socket, *self._sender.sockets):
            self._poller.register(socket, zmq.POLLIN)
        while self._sender.state is not LinkState.OPEN or not task.publishers[0].is_connected():
            self._take()

    def turn(self, level: StatisticsLevel, rows: int, pieces: int) -> float:
        """Microseconds of the task's processor time for each event."""
        self._task.count(level)
        while self._task.publishers[0].statistics.level != level:
            self._take()
        body = encode_batch(self._piece(rows))
        began_ns = time.clock_gettime_ns(self._clock)
        sent = came = 0
        while came < rows * pieces:
            while sent < pieces and self._sender.has_room():
                self._sender.send("Readings", body, rows, NO_WATERMARK)
                sent += 1
            came += self._take()
        return (time.clock_gettime_ns(self._clock) - began_ns) / 1_000 / (rows * pieces)

    def _take(self) -> int:
        """Return how many results have arrived, after waking all waiting threads."""
        self._poller.poll(WAIT_MS)
        self._sender.handle()
        came = 0
        for event in self._results.receive(0):
            if isinstance(event, FrameArrived) and event.batch is not None:
                came += event.batch.num_rows
                self._results.done(event.link, event.sequence)
        self._results.flush()
        return came

    def _piece(self, rows: int) -> pa.RecordBatch:
        columns = [
            pa.array([time.time_ns() // 1_000_000] * rows),
            pa.array([0] * rows, pa.int8()),
            pa.array([f"room {number % 50}" for number in range(rows)]),
            pa.array([20.0 + number % 7 for number in range(rows)]),
        ]
        return pa.record_batch(columns, schema=self._schema)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=101)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    times: dict[str, dict[str, list[float]]] = {size: {level: [] for level in LEVELS} for size in SIZES}
    with ExitStack() as opened:
        cost = Cost(opened)
        for size, level in itertools.product(SIZES.values(), LEVELS):
            cost.turn(level, *size)  # so that everything is warm
        for number in range(options.rounds):
            for name, size in SIZES.items():
                # No level is always the first: whatever changes over the rounds meets all alike.
                for place in range(len(LEVELS)):
                    level = LEVELS[(number + place) % len(LEVELS)]
                    times[name][level].append(cost.turn(level, *size))
    told = {size: _told(by_level) for size, by_level in times.items()}
    if options.json:
        print(json.dumps(told))
    else:
        for name, (rows, _) in SIZES.items():
            for level, (each_us, more, median) in told[name].items():
                print(
                    f"pieces of {rows:>5}  {level:<7} {each_us:8.3f} µs an event  {more:+.1%}  (median {median:+.1%})"
                )
    sys.exit(1 if any(min(one["basic"][1:]) > MOST for one in told.values()) else 0)


def _told(by_level: dict[str, list[float]]) -> dict[str, tuple[float, float, float]]:
    """Return the results of each level.

    They are the least time, its excess over the least at `off`, and the median excess of each turn over the turn at
    `off` of its round.
    """
    least = min(by_level["off"])
    return {
        level: (
            min(found),
            min(found) / least - 1,
            statistics.median(one / off - 1 for one, off in zip(found, by_level["off"], strict=True)),
        )
        for level, found in by_level.items()
    }


if __name__ == "__main__":
    main()
