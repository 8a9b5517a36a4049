"""Measures what each operator costs and writes `siddhi/engine/planner/costs.py`, from which `explain` takes its costs.

    .venv/bin/python -m benchmarks.operator_costs [--kind GLOB] [--print]

The kinds of `benchmarks/peers` are run until each operator was seen in `ENOUGH` of them. Processor time of this thread
counts, so that other work on the machine matters little. An operator costs what its calls take for batches of 4,096,
divided by the events that were sent; a batch of one costs what sending one event takes, shared among the operators.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Callable
from fnmatch import fnmatchcase
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.peers.engines import Ours
from benchmarks.peers.kinds import QueryKind, kinds
from siddhi.engine.planner.explain import cost_name, parts_of

ENOUGH = 3
BATCH = 4_096
SECONDS = 0.3
_TABLE = Path(__file__).parent.parent / "siddhi" / "engine" / "planner" / "costs.py"


class CostWatch:
    """How much processor time the operators of one kind take."""

    def __init__(self, kind: QueryKind) -> None:
        self.ours = Ours(kind, int(time.time() * 1_000), by_cpu=True)
        queries = self.ours.runtime._queries.values()
        self.operators = [(cost_name(one), one) for query in queries for _, one in parts_of(query)]
        self.taken: Counter[str] = Counter()

    def measure(self) -> tuple[dict[str, float], float]:
        """Return nanoseconds an event of each operator, and microseconds of an event that comes alone."""
        self.ours.measure(SECONDS, BATCH)
        self.ours.measure(SECONDS / 2, 1)
        single = self.ours.measure(SECONDS, 1)
        for name, operator in self.operators:
            self._time(name, operator)
        sent = self.ours.measure(SECONDS, BATCH).events
        names = Counter(name for name, _ in self.operators)
        return {
            name: 1e9 * self.taken[name] / sent / names[name] for name in names
        }, 1e6 * single.seconds / single.events

    def _time(self, name: str, operator: Any) -> None:
        method = "process" if hasattr(operator, "process") else "write"
        call: Callable[..., Any] = getattr(operator, method)

        def timed(*arguments: Any) -> Any:
            start = time.thread_time()
            try:
                return call(*arguments)
            finally:
                self.taken[name] += time.thread_time() - start

        setattr(operator, method, timed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kind", default="*", metavar="GLOB", help="only kinds with such a name")
    parser.add_argument("--print", action="store_true", help="print the costs and write nothing")
    options = parser.parse_args()
    seen: dict[str, list[tuple[float, float]]] = {}
    for kind in kinds():
        if not fnmatchcase(kind.name, options.kind) or kind.name == "rules1000":
            continue
        watch = CostWatch(kind)
        names = {name for name, _ in watch.operators}
        if all(len(seen.get(name, ())) >= ENOUGH for name in names):
            continue
        by_event, single_us = watch.measure()
        for name, event_ns in by_event.items():
            seen.setdefault(name, []).append((event_ns, single_us / len(watch.operators)))
        print(kind.name, {name: round(cost) for name, cost in by_event.items()}, round(single_us), flush=True)
    costs = {name: (median(c for c, _ in found), median(c for _, c in found)) for name, found in sorted(seen.items())}
    if not options.print:
        _TABLE.write_text(_source(costs), encoding="utf-8")


def _source(costs: dict[str, tuple[float, float]]) -> str:
    lines = "".join(f'    "{name}": ({event:.0f}.0, {batch:.0f}.0),\n' for name, (event, batch) in costs.items())
    return (
        '"""What operators cost, by the name of their class: nanoseconds an event, microseconds a batch.\n\n'
        'Written by `python -m benchmarks.operator_costs`.\n"""\n\nfrom __future__ import annotations\n\n'
        f"COSTS: dict[str, tuple[float, float]] = {{\n{lines}}}\n"
    )


if __name__ == "__main__":
    main()
