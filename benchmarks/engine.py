"""The engine alone, in process, on stock-like events: events/s of each query, and as a multiple of Siddhi's rate.

    .venv/bin/python benchmarks/engine.py [--quick] [--json] [--case b --case e] [--batch 4096]

Siddhi's rates were measured with events sent one by one, on a machine on which a fixed loop in plain Python made 2.6 M
events/s. The same loop runs here between the measurements, and `siddhi_ratio` compares both as if they had run on one
machine. Every figure is the best of several rounds; events are made before the clock runs, results are counted by a
callback that is handed Arrow batches.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import sys
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from benchmarks.engine_cases import CASES, CaseRun, EngineCase

REFERENCE_PER_S = 2_600_000.0
"""What the calibration loop made on the machine where Siddhi was measured."""
BATCHES = (1, 100, 4_096)


@dataclass(frozen=True, slots=True)
class Measurement:
    """One measurement; `state_bytes_per_event` is what the whole app holds in memory by event that its query holds."""

    case: EngineCase
    batch: int
    events_per_s: float
    siddhi_ratio: float | None
    state_bytes_per_event: float | None

    def as_json(self) -> str:
        document = {"case": self.case.name, "batch": self.batch, "events_per_s": round(self.events_per_s)}
        if self.siddhi_ratio is not None:
            document["siddhi_ratio"] = round(self.siddhi_ratio, 2)
        if self.state_bytes_per_event is not None:
            document["state_bytes_per_event"] = round(self.state_bytes_per_event, 1)
        return json.dumps(document)

    def as_text(self) -> str:
        ratio = "" if self.siddhi_ratio is None else f"{self.siddhi_ratio:8.2f} x Siddhi"
        held = "" if self.state_bytes_per_event is None else f"{self.state_bytes_per_event:8.1f} bytes held per event"
        return f"{self.case.name}  {self.case.title:<48}{self.batch:>6}{self.events_per_s:>14,.0f}/s{ratio:18}{held}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="one JSON object a line and figure")
    parser.add_argument("--quick", action="store_true", help="shorter rounds: all is done in under 50 s")
    parser.add_argument("--case", action="append", choices=[case.name for case in CASES], help="only these")
    parser.add_argument("--batch", action="append", type=int, help="only batches of so many events")
    options = parser.parse_args()
    seconds, rounds = (0.06, 5) if options.quick else (0.3, 15)
    for case in CASES:
        if options.case and case.name not in options.case:
            continue
        run = CaseRun(case)
        for batch in options.batch or BATCHES:
            figure = _measure(run, batch, seconds, rounds)
            print(figure.as_json() if options.json else figure.as_text(), flush=True)


def _measure(run: CaseRun, batch: int, seconds: float, rounds: int) -> Measurement:
    """Return the best of `rounds` rounds of about `seconds` each, with the machine's own speed measured in between."""
    machine = calibrate()
    best = 0.0
    events = 20 * batch
    for _ in range(2):  # the first rounds warm up and tell how many events a round takes
        rate, _ = _round(run, batch, events)
        events = max(20 * batch, int(rate * seconds / 4))
    for _ in range(rounds):
        rate, _ = _round(run, batch, min(int(rate * seconds), 8_000_000))
        best = max(best, rate)
    machine = max(machine, calibrate())
    siddhi = run.case.siddhi_per_s
    ratio = None if siddhi is None else (best / machine) / (siddhi / REFERENCE_PER_S)
    held = bytes_held(run.runtime) / run.case.held if run.case.held else None
    return Measurement(run.case, batch, best, ratio, held)


def _round(run: CaseRun, batch: int, events: int) -> tuple[float, int]:
    batches = run.batches(events, batch)
    count = sum(part.num_rows for parts in batches for _, part in parts)
    gc.collect()
    start = time.perf_counter()
    for parts in batches:
        run.send(parts)
    return count / (time.perf_counter() - start), count


def calibrate(events: int = 50_000, rounds: int = 3, clock: Callable[[], float] = time.perf_counter) -> float:
    """Return the speed of this machine now, in events/s by `clock`.

    The load is a sliding average over 1,000 events by 100 keys in plain Python.
    """
    draw = random.Random(7)
    data = [(draw.randrange(100), draw.uniform(0, 100)) for _ in range(events)]
    return max(_sliding_average(data, clock) for _ in range(rounds))


def _sliding_average(data: list[tuple[int, float]], clock: Callable[[], float]) -> float:
    window: deque[tuple[int, float]] = deque()
    counts, totals = [0] * 100, [0.0] * 100
    out = []
    start = clock()
    for key, value in data:
        window.append((key, value))
        if len(window) > 1_000:
            old, gone = window.popleft()
            totals[old] -= gone
            counts[old] -= 1
        counts[key] += 1
        totals[key] += value
        out.append((key, totals[key] / counts[key]))
    return len(data) / (clock() - start)


def bytes_held(root: object) -> int:
    """Bytes in memory of everything that `root` reaches: Python objects, NumPy and Arrow buffers, each once."""
    seen: set[int] = set()
    total = 0
    work = [root]
    while work:
        one = work.pop()
        if id(one) in seen or isinstance(one, type) or type(one).__name__ in {"module", "function", "CPUDispatcher"}:
            continue
        seen.add(id(one))
        if isinstance(one, np.ndarray):
            total += one.nbytes if one.base is None else 0
            if one.base is not None:
                work.append(one.base)
            continue
        if isinstance(one, pa.RecordBatch | pa.Array):
            total += one.get_total_buffer_size()
            continue
        total += sys.getsizeof(one)
        work.extend(gc.get_referents(one))
    return total


if __name__ == "__main__":
    main()
