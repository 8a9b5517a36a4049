"""What statistics cost: processor time of a topology's task for each event, at the levels off, basic and detail.

    .venv/bin/python -m benchmarks.statistics_cost [--rounds 7] [--json]

One plan runs all the time, and its level is switched while it does. At each level the same events go through it, in
turns, once in large pieces and once in small ones (counting goes by piece). Tells the processor time of the task's
process that each event took, which other processes of the machine disturb least, and how much more it is than at `off`.
Exits with 1 when `basic` costs more than 3 %.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path

import pyarrow as pa

from cep_cli.local_system import LocalSystem, Ports
from cep_cli.plans import wait_until_connected
from cep_worker.client import EventSender, fetch_schema
from topology.event_listener import EventListener

PLAN = """
@Plan:name('Cost')
@Import('Readings:1.0.0') define stream Readings (room string, degrees double);
@Export('Hot:1.0.0') define stream Hot (room string, degrees double, mean double);
define stream Warm (room string, degrees double);
@dist(execGroup='filtering') from Readings[degrees > 0.0] select room, degrees insert into Warm;
@dist(execGroup='averaging') from Warm#window.length(1000)
  select room, degrees, avg(degrees) as mean group by room insert into Hot;
"""
LEVELS = ("off", "basic", "detail")
SIZES = {"large": (4_096, 250), "small": (16, 4_000)}
"""Rows of a piece, and how many pieces a turn has."""
MOST = 0.03
BEATS_S = 2.2
"""So long a level takes to arrive, and the processor time to be told."""


class Cost:
    """The plan on a system of its own; `turn` sends a turn's events through it."""

    def __init__(self, system: LocalSystem) -> None:
        self._system = system
        system.client.deploy(PLAN, replace=False)
        wait_until_connected(system.client, "Cost", 60)
        self._schema = fetch_schema(system.worker_http, "Readings")

    def turn(self, level: str, rows: int, pieces: int) -> float:
        """Microseconds of the task's processor time for each event."""
        self._system.client.act("Cost", "statistics-level", level=level)
        time.sleep(BEATS_S)
        before = self._cpu_ms()
        with (
            EventListener(self._system.egress, "Hot") as listener,
            EventSender(self._system.ingress, self._schema) as sender,
        ):
            now_ms = time.time_ns() // 1_000_000
            columns = [
                pa.array([now_ms] * rows),
                pa.array([0] * rows, pa.int8()),
                pa.array([f"room {number % 50}" for number in range(rows)]),
                pa.array([20.0 + number % 7 for number in range(rows)]),
            ]
            batch = pa.record_batch(columns, schema=sender.arrow_schema)
            sending = threading.Thread(target=lambda: [sender.send(batch) for _ in range(pieces)])
            sending.start()
            came = 0
            while came < rows * pieces:
                results = listener.receive(60_000)
                if results is None:
                    raise SystemExit("no results for 60 s")
                came += results.num_rows
            sending.join()
        time.sleep(BEATS_S)
        return (self._cpu_ms() - before) * 1_000 / (rows * pieces)

    def _cpu_ms(self) -> int:
        return sum(int(task["cpu_ms"]) for task in self._system.client.plan("Cost")["status"]["tasks"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    times: dict[str, dict[str, list[float]]] = {size: {level: [] for level in LEVELS} for size in SIZES}
    with tempfile.TemporaryDirectory() as folder, LocalSystem(Path(folder), Ports.free()) as system:
        cost = Cost(system)
        for size in SIZES.values():
            cost.turn("basic", *size)  # so that everything is warm
        for number in range(options.rounds):
            for name, size in SIZES.items():
                # No level is always the first: whatever grows over the rounds meets all alike.
                for place in range(len(LEVELS)):
                    level = LEVELS[(number + place) % len(LEVELS)]
                    times[name][level].append(cost.turn(level, *size))
    told = {size: _told(by_level) for size, by_level in times.items()}
    if options.json:
        print(json.dumps(told))
    else:
        for size, (rows, _) in SIZES.items():
            for level, (each_us, more) in told[size].items():
                print(f"pieces of {rows:>5}  {level:<7} {each_us:8.3f} µs an event  {more:+.1%}")
    sys.exit(1 if any(one["basic"][1] > MOST for one in told.values()) else 0)


def _told(by_level: dict[str, list[float]]) -> dict[str, tuple[float, float]]:
    """For each level the median, and the median of how much more each turn took than that at `off` of its round."""
    return {
        level: (
            statistics.median(found),
            statistics.median(one / off - 1 for one, off in zip(found, by_level["off"], strict=True)),
        )
        for level, found in by_level.items()
    }


if __name__ == "__main__":
    main()
