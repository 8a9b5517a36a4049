"""Measure what it costs to store the chunks of a checkpoint twice, as tasks of exactly-once plans do.

    .venv/bin/python -m benchmarks.checkpoint_copies [--folder /tmp] [--rounds 5] [--json]

Each line is a state of some size, all of it new or 1 % of it, in one place. Rounds write it once and twice in turns;
times are of the processor and of the clock, the median of all rounds. The last columns are of checkpoints of
the next attempt, in which nothing has changed, without verifying copies and with it (of up to 32 MiB).
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from cep_common.ids import PlanKey
from topology.checkpoint.model import Manifest, needed_packs, new_pack
from topology.checkpoint.storage.store import open_store
from topology.checkpoint.storage.writer import PartWriter, StoredPart

KEY = PlanKey(1, "Cost")
SIZES = (100_000, 1_000_000, 10_000_000, 100_000_000)
SHARE = 100
"""One byte in so many changes."""


def main() -> None:
    """Print a line for each case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", default=tempfile.gettempdir())
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    lines = [case(size, options.rounds, options.folder) for size in SIZES]
    if options.json:
        print(json.dumps(lines))
        return
    print("CPU ms and clock ms, each without and with the second copy, or without and with verifying it")
    print("state MB | new: CPU | clock | 1 %: CPU | clock | stored kB | nothing new: CPU | clock")
    for line in lines:
        print(" | ".join(str(value) for value in line.values()))


def case(size: int, rounds: int, folder: str) -> dict[str, object]:
    """Return what a state of `size` bytes costs."""
    times: dict[str, list[tuple[float, float]]] = {}
    stored = 0
    chance = np.random.default_rng(size)
    for _ in range(rounds):
        state = chance.bytes(size)
        changed = chance.bytes(size // SHARE) + state[size // SHARE :]
        for twice in (False, True):
            with tempfile.TemporaryDirectory(dir=folder) as place:
                store = open_store(str(Path(place) / "store"))
                writer = PartWriter(store, KEY, 1, 0, 0, None, twice=twice)
                whole = note(times, f"new {twice}", lambda w=writer, s=state: w.write(1, {"a#0": s}))
                writer.complete(1)
                part = note(times, f"changed {twice}", lambda w=writer, s=changed: w.write(2, {"a#0": s}))
                stored = part.stored_bytes
                if twice:
                    packs = needed_packs(part.states, [new_pack(one) for one in (*part.packs, *whole.packs)])
                    begun = Manifest(KEY, 2, 1, 0, 2, "", 1, (), part.states, packs, (), size, stored, 1, 1)
                    writer = PartWriter(store, KEY, 1, 1, 0, begun, twice=True)
                    writer.write(3, {"a#0": changed})
                    writer.complete(3)
                    note(times, "unchanged True", lambda w=writer, s=changed: w.write(4, {"a#0": s}))
                    writer.complete(4)
                    while writer.verifies:
                        writer.write(5, {"a#0": changed})
                        writer.abandon(5)
                    note(times, "unchanged False", lambda w=writer, s=changed: w.write(6, {"a#0": s}))
    return {
        "size": size / 1e6,
        "new_cpu_ms": shown(times, "new", 0),
        "new_ms": shown(times, "new", 1),
        "changed_cpu_ms": shown(times, "changed", 0),
        "changed_ms": shown(times, "changed", 1),
        "stored_kb": stored // 1_000,
        "unchanged_cpu_ms": shown(times, "unchanged", 0),
        "unchanged_ms": shown(times, "unchanged", 1),
    }


def note(times: dict[str, list[tuple[float, float]]], what: str, write: Callable[[], StoredPart]) -> StoredPart:
    """Write, and note the milliseconds of the processor and of the clock."""
    began = time.process_time(), time.perf_counter()
    part = write()
    took = time.process_time() - began[0], time.perf_counter() - began[1]
    times.setdefault(what, []).append((took[0] * 1e3, took[1] * 1e3))
    return part


def shown(times: dict[str, list[tuple[float, float]]], what: str, place: int) -> str:
    """Return the medians without and with the second copy."""
    return ", ".join(f"{median(times[f'{what} {twice}'], place):.1f}" for twice in (False, True))


def median(noted: list[tuple[float, float]], place: int) -> float:
    """Return the median of one of two times."""
    return statistics.median(one[place] for one in noted)


if __name__ == "__main__":
    main()
