"""Measure what taking checkpoints costs.

A stateful plan runs at full speed on a system that takes a checkpoint every ten seconds, and on one that takes none,
in turns.

    .venv/bin/python -m benchmarks.checkpoint_cost [--rounds 3] [--seconds 25] [--interval-ms 10000] [--json]

Each turn lasts for more than two intervals. The system without checkpoints takes a savepoint after each turn, so that
the log of accepted events does not grow from turn to turn.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pyarrow as pa

from cep_cli.plan_commands.plans import wait_until_connected
from cep_cli.system.local_system import LocalSystem, Ports
from cep_worker.ingest.event_sender import EventSender, fetch_schema
from topology.links.event_listener import EventListener

PLAN = """
@Plan:name('Cost')
@Import('Readings:1.0.0') define stream Readings (sensor string, value double);
@Export('Averages:1.0.0') define stream Averages (sensor string, value double, average double);
@info(name='averaging')
from Readings#window.length(1000000) select sensor, value, avg(value) as average group by sensor insert into Averages;
"""
BATCH_ROWS = 4_096
SENSORS = 10_000
BATCHES = 64
SAVEPOINT = "between-turns"
SAVED_WITHIN_S = 60.0
LOOK_S = 0.1
FILL_ROWS = 1_200_000
"""The number of events that fill the window before the measurement."""


class CostSide:
    """The plan on a system of its own, which takes a checkpoint every `interval_ms` (0: none)."""

    def __init__(self, folder: Path, interval_ms: int, opened: ExitStack) -> None:
        environment = {**os.environ, "CEP_DRIVER__CHECKPOINT__INTERVAL_MS": str(interval_ms)}
        self._system = opened.enter_context(LocalSystem(folder, Ports.free(), environment=environment))
        self._system.client.deploy(PLAN, replace=False)
        wait_until_connected(self._system.client, "Cost", 60)
        self._schema = fetch_schema(self._system.worker_http, "Readings")
        self._takes_none = interval_ms == 0
        self._batches = _batches()
        self._through(lambda rows: rows >= FILL_ROWS)

    def events_per_s(self, seconds: float) -> float:
        """Return how many events a second come out in so many seconds."""
        begun_s = time.perf_counter()
        rows = self._through(lambda _: time.perf_counter() - begun_s >= seconds)
        rate = rows / (time.perf_counter() - begun_s)
        if self._takes_none:
            self._take_savepoint()
        return rate

    def _take_savepoint(self) -> None:
        """Take a savepoint and wait until it is stored, so that none of it falls into the other side's turn."""
        client = self._system.client
        before = [one for one in client.savepoints("Cost") if one["name"] == SAVEPOINT]
        client.take_savepoint("Cost", SAVEPOINT)
        deadline_s = time.monotonic() + SAVED_WITHIN_S
        while True:
            found = [one for one in client.savepoints("Cost") if one["name"] == SAVEPOINT]
            if found and found != before and found[0]["state"] != "taking":
                break
            if time.monotonic() > deadline_s:
                raise SystemExit(f"no savepoint was stored within {SAVED_WITHIN_S:.0f} s")
            time.sleep(LOOK_S)
        if found[0]["state"] == "failed":
            raise SystemExit(f"the savepoint between turns failed: {found[0]['error']}")

    def checkpoints(self) -> int:
        """Return how many complete ones are known."""
        return sum(one["state"] == "complete" for one in self._system.client.checkpoints("Cost")["checkpoints"])

    def _through(self, enough: Callable[[int], bool]) -> int:
        """Send events until there were `enough`, wait for the results of all, and return how many were sent.

        Raises SystemExit when not all could be sent, or some results are missing.
        """
        ended, sent = threading.Event(), threading.Event()
        counts = [0, 0]
        with EventListener(self._system.egress, "Averages") as listener:

            def send() -> None:
                try:
                    with EventSender(self._system.ingress, self._schema) as sender:
                        while not enough(counts[0]):
                            sender.send(self._batches[counts[0] // BATCH_ROWS % BATCHES])
                            counts[0] += BATCH_ROWS
                    sent.set()
                finally:
                    ended.set()

            thread = threading.Thread(target=send, daemon=True)
            thread.start()
            while not ended.is_set() or (sent.is_set() and counts[1] < counts[0]):
                batch = listener.receive(1_000)
                counts[1] += 0 if batch is None else batch.num_rows
                if batch is None and sent.is_set() and counts[1] < counts[0]:
                    raise SystemExit(f"{counts[0] - counts[1]} events did not come out")
            thread.join()
            if not sent.is_set():
                raise SystemExit(f"after {counts[0]:,} events no more could be sent; the error stands above")
        return counts[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=25.0)
    parser.add_argument("--interval-ms", type=int, default=10_000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with ExitStack() as opened:
        folder = Path(opened.enter_context(tempfile.TemporaryDirectory()))
        taking = CostSide(folder / "taking", options.interval_ms, opened)
        without = CostSide(folder / "without", 0, opened)
        pairs = [(taking.events_per_s(options.seconds), without.events_per_s(options.seconds))
                 for _ in range(options.rounds)]  # fmt: skip
        complete = taking.checkpoints()
    best = [max(rates) for rates in zip(*pairs, strict=True)]
    median = statistics.median(with_ / without_ for with_, without_ in pairs)
    told = {"with": round(best[0]), "without": round(best[1]), "best_ratio": round(best[0] / best[1], 3),
            "median_ratio": round(median, 3), "checkpoints": complete}  # fmt: skip
    if options.json:
        print(json.dumps(told))
        return
    print(f"without checkpoints  {best[1] / 1e6:.2f} M events/s, the best of {options.rounds}")
    print(f"every {options.interval_ms / 1000:g} s           {best[0] / 1e6:.2f} M events/s, {complete} are kept")
    print(f"with checkpoints it makes {median:.3f} of that (median of {options.rounds} turns; best to best "
          f"{best[0] / best[1]:.3f})")  # fmt: skip


def _batches() -> list[pa.RecordBatch]:
    chance = np.random.default_rng(1)
    made = []
    for _ in range(BATCHES):
        sensors = pa.array([f"sensor-{number}" for number in chance.integers(0, SENSORS, BATCH_ROWS)])
        values = pa.array(chance.random(BATCH_ROWS))
        times = pa.array(np.full(BATCH_ROWS, time.time_ns() // 1_000_000))
        made.append(
            pa.record_batch(
                [times, pa.array(np.zeros(BATCH_ROWS, np.int8)), sensors, values],
                names=["_timestamp", "_kind", "sensor", "value"],
            )
        )
    return made


if __name__ == "__main__":
    main()
