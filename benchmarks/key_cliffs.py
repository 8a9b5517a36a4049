"""Find cliffs: every window, output rate, pattern and sequence, alone, by group and in partitions of 1 to 100,000 keys.

    .venv/bin/python -m benchmarks.key_cliffs [--kind 'rate_*'] [--keys 1000] [--below 300000] [--json FILE]

Each case is one query, sent in batches of 4,096 events, one event a millisecond. Printed are the events per second of
processor time while all keys are new, those once all are known, and how the query runs (`AppRuntime.explain`). A cliff
is a case that is slower than `--below`, or that runs event by event, chunk by chunk or key by key; its line begins
with `!`.
"""

from __future__ import annotations

import argparse
import fnmatch
import gc
import json
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from siddhi.analysis.analyser import analyse
from siddhi.engine.app_runtime import AppRuntime
from siddhi.language.parser import parse

BATCH = 4_096
KEYS = (0, 1, 1_000, 100_000)
"""Instances of the partition; 0: none."""
_STREAM = "define stream S (symbol string, price double, volume long, ts long, k long); "
_COMPILED = ("compiled", "whole batches")
_NAMES = pa.array([f"S{number}" for number in range(100)])
_START_MS = 1_700_000_000_000

WINDOWS = {
    "length": "length(100)",
    "length_1": "length(1)",
    "lengthBatch": "lengthBatch(100)",
    "lengthBatch_now": "lengthBatch(100, true)",
    "time": "time(1 sec)",
    "timeBatch": "timeBatch(1 sec)",
    "timeBatch_start": "timeBatch(1 sec, 0)",
    "timeBatch_now": "timeBatch(1 sec, true)",
    "timeLength": "timeLength(1 sec, 100)",
    "externalTime": "externalTime(ts, 1 sec)",
    "externalTimeBatch": "externalTimeBatch(ts, 1 sec)",
    "externalTimeBatch_timeout": "externalTimeBatch(ts, 1 sec, 0, 2 sec)",
    "session": "session(5 milliseconds)",
    "session_key": "session(200 milliseconds, symbol)",
    "session_late": "session(200 milliseconds, symbol, 100 milliseconds)",
    "batch": "batch()",
    "sort": "sort(50, price)",
    "sort_two": "sort(50, symbol, 'asc', price, 'desc')",
    "frequent": "frequent(20, symbol)",
    "lossyFrequent": "lossyFrequent(0.02, 0.002, symbol)",
    "cron": "cron('*/1 * * * * ?')",
    "delay": "delay(1 sec)",
    "hopping": "hopping(1 sec, 200 milliseconds)",
    "expression_count": "expression('count() <= 100')",
    "expression_sum": "expression('sum(volume) < 5000')",
    "expression_ts": "expression('last.ts - first.ts < 500')",
    "expressionBatch_count": "expressionBatch('count() <= 100')",
    "expressionBatch_ts": "expressionBatch('last.ts - first.ts < 500')",
    "unique_length": "unique:length(symbol, 50)",
    "unique_ever": "unique:ever(symbol)",
    "unique_time": "unique:time(symbol, 1 sec)",
}
RATES = {
    **{f"{kind}_events": f"{kind} every 20 events" for kind in ("all", "first", "last")},
    **{f"{kind}_time": f"{kind} every 500 milliseconds" for kind in ("all", "first", "last")},
    "snapshot": "snapshot every 500 milliseconds",
}
RATED = {
    "plain": "from S[price > 20] select symbol, price",
    "plain_group": "from S[price > 20] select symbol, sum(price) as p group by symbol",
    "length": "from S#window.length(20) select symbol, price",
    "length_total": "from S#window.length(20) select sum(price) as p",
    "length_group": "from S#window.length(20) select symbol, sum(price) as p group by symbol",
    "timeBatch_group": "from S#window.timeBatch(100 milliseconds) select symbol, sum(price) as p group by symbol",
}
PATTERNS = {
    "pat_two": "every e1=S[price > 90] -> e2=S[price > e1.price] within 1 sec",
    "pat_once": "e1=S[price > 99] -> e2=S[price > e1.price]",
    "pat_group": "every (e1=S[price > 95] -> e2=S[symbol == e1.symbol]) within 5 sec",
    "pat_count": "every e1=S[price > 98]<2:5> -> e2=S[price < 2] within 2 sec",
    "pat_count_mid": "every e1=S[price > 98] -> e2=S[price > 90]<1:> -> e3=S[price < 1] within 1 sec",
    "pat_last": "every e1=S[price > 98] -> e2=S[price > 50]<2:4> -> e3=S[price < e2[last].price - 40] within 1 sec",
    "pat_and": "every e1=S[price > 99] -> e2=S[price < 1] and e3=S[price > 98] within 2 sec",
    "pat_or": "every e1=S[price > 99] -> e2=S[price < 1] or e3=S[price > 98] within 2 sec",
    "pat_absent": "every e1=S[price > 99] -> not S[price < 1] for 100 milliseconds",
    "pat_absent_often": "every e1=S[price > 50] -> not S for 1 sec",
    "pat_absent_mid": "every e1=S[price > 98] -> not S[price < 1] for 100 milliseconds -> e3=S[price > 98]",
    "pat_absent_first": "not S[price > 99.9] for 100 milliseconds -> e1=S[price > 99]",
    "pat_absent_and": "every e1=S[price > 98] -> not S[price < 1] and e2=S[price > 99] within 2 sec",
    "seq_two": "every e1=S[price > 50], e2=S[price > e1.price]",
    "seq_star": "every e1=S, e2=S[price > e1.price]*, e3=S[price < e2[last].price]",
    "seq_plus": "every e1=S[price > 50], e2=S[price > 50]+, e3=S[price < 50]",
    "seq_optional": "every e1=S[price > 80], e2=S[price > 90]?, e3=S[price < 50]",
    "seq_count": "every e1=S[price > 50]<2:4>, e2=S[price < 50]",
    "seq_or": "every e1=S[price > 90], e2=S[price < 10] or e3=S[price > 95]",
    "seq_and": "every e1=S[price > 50], e2=S[price > 10] and e3=S[price > 20]",
    "seq_absent": "every e1=S[price > 99], not S[price > 50] for 5 milliseconds",
}


@dataclass(frozen=True, slots=True)
class CliffCase:
    """One query text in a partition of `keys` instances (0: in none)."""

    name: str
    query: str
    keys: int

    @property
    def app(self) -> str:
        inner = f"{self.query} insert into Out;"
        text = f"partition with (k of S) begin {inner} end;" if self.keys else inner
        return f"@app:playback {_STREAM}{text}"


@dataclass(frozen=True, slots=True)
class CliffResult:
    """What a case gave: events/s with new and with known keys, and its operators with how they work."""

    name: str
    keys: int
    new: float
    known: float
    operators: tuple[tuple[str, str], ...]

    def is_cliff(self, below: float) -> bool:
        """Return whether the case is slower than `below` or has an operator in Python."""
        return min(self.new, self.known) < below or any(how not in _COMPILED for _, how in self.operators)

    def line(self, below: float) -> str:
        """Return the case as a line of the table."""
        how = ", ".join(name if way in _COMPILED else f"{name} ({way})" for name, way in self.operators)
        mark = "!" if self.is_cliff(below) else " "
        return f"{mark} {self.name:<30}{self.keys:>8,}{self.new:>13,.0f}{self.known:>13,.0f}  {how}"


def cases(pattern: str, keys: tuple[int, ...]) -> Iterator[CliffCase]:
    """Yield the cases whose name matches `pattern`."""
    texts: dict[str, str] = {}
    for name, window in WINDOWS.items():
        texts[f"win_{name}"] = f"from S#window.{window} select symbol, sum(price) as p, count() as n"
        texts[f"win_{name}_group"] = f"from S#window.{window} select symbol, sum(price) as p group by symbol"
        texts[f"win_{name}_rows"] = f"from S#window.{window} select symbol, price"
    for rate, clause in RATES.items():
        for name, query in RATED.items():
            texts[f"rate_{rate}_{name}"] = f"{query} output {clause}"
    for name, query in PATTERNS.items():
        first = "e1[last].price" if "e1=S[price > 98]<" in query or "e1=S[price > 50]<" in query else "e1.price"
        texts[name] = f"from {query} select {first} as p"
    for name, query in texts.items():
        if fnmatch.fnmatch(name, pattern):
            yield from (CliffCase(name, query, number) for number in keys)


def events(first: int, count: int, keys: int) -> pa.RecordBatch:
    """Return `count` events from number `first` on; keys come in turn."""
    numbers = np.arange(first, first + count)
    draw = np.random.default_rng(first)
    times = _START_MS + numbers
    return pa.record_batch(
        {
            "_timestamp": times,
            "symbol": _NAMES.take(pa.array(draw.integers(0, len(_NAMES), count))),
            "price": draw.uniform(0, 100, count),
            "volume": draw.integers(1, 101, count),
            "ts": times,
            "k": numbers % max(keys, 1),
        }
    )


def measure(case: CliffCase, seconds: float) -> CliffResult:
    """Return the rates of `case`; each of the two takes about `seconds`."""
    runtime = AppRuntime(analyse(parse(case.app)))
    runtime.start(_START_MS)
    operators = tuple((one.operator, one.execution) for query in runtime.explain().queries for one in query.operators)
    runtime.send("S", events(0, 64, 64))  # what is compiled when it is first used
    sent = 64
    rates = []
    for count in (max(2 * BATCH, case.keys), 1 << 40):
        done, used = 0, 0.0
        limit = 3 * seconds if count < 1 << 40 else seconds
        gc.collect()
        while done < count and used < limit:
            batch = events(sent, min(BATCH, count - done), case.keys)
            began = time.thread_time()
            runtime.send("S", batch)
            used += time.thread_time() - began
            sent += batch.num_rows
            done += batch.num_rows
        rates.append(done / used)
    return CliffResult(case.name, case.keys, rates[0], rates[1], operators)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kind", default="*", help="names of cases, such as 'rate_*'")
    parser.add_argument("--keys", type=int, action="append", help=f"sizes of the partition, of {KEYS}")
    parser.add_argument("--below", type=float, default=300_000.0, help="events/s below which a case is a cliff")
    parser.add_argument("--seconds", type=float, default=0.3, help="how long each rate is measured")
    parser.add_argument("--json", type=Path, help="write the results here as well")
    options = parser.parse_args()
    print(f"  {'case':<30}{'keys':>8}{'new keys/s':>13}{'known/s':>13}  operators", flush=True)
    results = []
    for case in cases(options.kind, tuple(options.keys or KEYS)):
        results.append(measure(case, options.seconds))
        print(results[-1].line(options.below), flush=True)
    cliffs = [one for one in results if one.is_cliff(options.below)]
    print(f"{len(cliffs)} of {len(results)} cases are cliffs")
    if options.json:
        options.json.write_text(json.dumps([asdict(one) for one in results], indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
