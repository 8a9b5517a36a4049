"""How the engine's cost grows: with the number of keys, the length of windows, and the partial matches of a pattern.

    .venv/bin/python benchmarks/growth.py [--json FILE]

Each line compares rates of one run of this script, in batches of 4,096 events. `tools/plot_growth.py` draws the JSON.
"""

from __future__ import annotations

import argparse
import dataclasses
import gc
import json
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.engine_cases import CASES, CaseRun, EngineCase

BATCH = 4_096
_LENGTHS = (1_000, 10_000, 100_000, 1_000_000)


@dataclass(frozen=True, slots=True)
class GrowthSeries:
    """One query measured while one thing grows."""

    name: str
    grows: str
    points: tuple[tuple[int, EngineCase, int], ...]
    """(how much, query, distinct symbols) each."""


def _case(name: str, query: str = "", **changes: object) -> EngineCase:
    case = next(case for case in CASES if case.name == name)
    return dataclasses.replace(case, query=query or case.query, **changes)  # type: ignore[arg-type]


def _lengths(name: str, query: str) -> tuple[tuple[int, EngineCase, int], ...]:
    """Return the query with windows of increasing length, over 100 symbols; `N` in it is the length."""
    made = []
    for length in _LENGTHS:
        case = _case(name, query.replace("N", str(length)), per_ms=1.0, fill=length + 100_000)
        made.append((length, case, 100))
    return tuple(made)


def _keys(name: str) -> tuple[tuple[int, EngineCase, int], ...]:
    """Return the query with increasing numbers of symbols, all of which were sent before it is measured.

    Of n symbols that are drawn 15 n times, most likely none is left out.
    """
    sizes = (1_000, 10_000, 100_000, 1_000_000)
    return tuple((keys, _case(name, fill=max(200_000, 15 * keys)), keys) for keys in sizes)


def _partials() -> tuple[tuple[int, EngineCase, int], ...]:
    """Return the pattern with increasing numbers of partial matches: one of ten events starts one, and few complete."""
    made = []
    for alive in (100, 1_000, 10_000, 100_000):
        query = (
            "from every e1=S[price > 90] -> e2=S[symbol == e1.symbol and price > e1.price + 9.95]"
            f" within {10 * alive} milliseconds select e1.symbol as symbol, e2.price as p2 insert into Out;"
        )
        made.append((alive, _case("e", query, fill=10 * alive + 100_000), 100))
    return tuple(made)


SERIES = (
    GrowthSeries("b", "keys", _keys("b")),
    GrowthSeries("h", "keys", _keys("h")),
    GrowthSeries(
        "b",
        "window length",
        _lengths("b", "from S#window.length(N) select symbol, avg(price) as p group by symbol insert into Out;"),
    ),
    GrowthSeries(
        "d",
        "window length",
        _lengths(
            "d",
            "from S#window.externalTime(ts, N milliseconds) select symbol, avg(price) as p group by symbol"
            " insert into Out;",
        ),
    ),
    GrowthSeries(
        "j",
        "window length",
        _lengths(
            "j",
            "from S#window.externalTime(ts, N milliseconds)"
            " select distinctCount(symbol) as n, min(price) as low, max(price) as high insert into Out;",
        ),
    ),
    GrowthSeries("e", "partial matches", _partials()),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="also write the results to this file")
    options = parser.parse_args()
    lines = []
    for series in SERIES:
        rates = [(size, _rate(case, symbols)) for size, case, symbols in series.points]
        base = rates[0][1]
        for size, rate in rates:
            print(f"{series.name}  {series.grows:<16}{size:>10,}{rate:>14,.0f}/s   {rate / base:5.2f}", flush=True)
        lines.append({"case": series.name, "grows": series.grows, "rates": rates})
    if options.json:
        options.json.write_text(json.dumps(lines, indent=1) + "\n", encoding="utf-8")


def _rate(case: EngineCase, symbols: int) -> float:
    """Events/s, the best of some rounds."""
    run = CaseRun(case, symbols)
    best = 0.0
    for _ in range(8):
        batches = run.batches(300_000, BATCH)
        count = sum(part.num_rows for parts in batches for _, part in parts)
        gc.collect()
        start = time.perf_counter()
        for parts in batches:
            run.send(parts)
        best = max(best, count / (time.perf_counter() - start))
    return best


if __name__ == "__main__":
    main()
