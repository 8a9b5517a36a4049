"""Measures many kinds of queries on our engine alone, and marks those that are slow or run event by event.

    .venv/bin/python -m benchmarks.cliffs [--area GLOB] [--kind GLOB] [--slow] [--seconds 0.3]

`kinds/AREA.siddhi` has the kinds, in the form of `benchmarks/peers/kinds`; the areas `functions` and `aggregators` have
one for each that an app can call. A row shows events a second in batches of
4,096 and of 100, by the processor time of this thread, how many results came out, and the operators that are not
compiled. `!` marks a kind below `CLIFF` events a second, `E` one with an operator that works event by event.
"""

from __future__ import annotations

import argparse
import logging
import time
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

from benchmarks.cliffs.calls import calls
from benchmarks.peers.engines import Ours
from benchmarks.peers.kinds import QueryKind, kinds_of_folder
from siddhi.errors import SiddhiError

CLIFF = 300_000
_FOLDER = Path(__file__).parent / "kinds"
_FAST = ("compiled", "whole batches")
_WARM_S = 0.05


def main() -> None:
    """Print a row for each kind that the arguments ask for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--area", default="*")
    parser.add_argument("--kind", default="*")
    parser.add_argument("--slow", action="store_true", help="only what is slow or runs event by event")
    parser.add_argument("--seconds", type=float, default=0.3)
    arguments = parser.parse_args()
    logging.disable(logging.CRITICAL)  # rows that tables refuse
    print(f"{'':2} {'kind':36} {'4,096':>12} {'100':>12} {'results':>9}  not compiled")
    for kind in (*kinds_of_folder(_FOLDER), *calls()):
        if fnmatchcase(kind.group, arguments.area) and fnmatchcase(kind.name, arguments.kind):
            for row in _rows(kind, arguments.seconds, only_slow=arguments.slow):
                print(row, flush=True)


def _rows(kind: QueryKind, seconds: float, *, only_slow: bool) -> Iterator[str]:
    try:
        ours = Ours(kind, int(time.time() * 1_000), by_cpu=True)
    except SiddhiError as error:
        yield f"?? {kind.name:36} {error}"
        return
    results = ours.send(20_000, 1_000).outputs
    rates = []
    for size in (4_096, 100):
        ours.measure(_WARM_S, size)
        timing = ours.measure(seconds, size)
        rates.append(timing.events / timing.seconds)
    slow_parts = [
        f"{operator.operator} ({operator.execution})"
        for query in ours.runtime.explain().queries
        for operator in query.operators
        if operator.execution not in _FAST
    ]
    marks = ("!" if min(rates) < CLIFF else " ") + ("E" if slow_parts else " ")
    if marks.strip() or not only_slow:
        large, small = (f"{rate:12,.0f}" for rate in rates)
        yield f"{marks} {kind.name:36} {large} {small} {results:9,}  {', '.join(slow_parts)}"


if __name__ == "__main__":
    main()
