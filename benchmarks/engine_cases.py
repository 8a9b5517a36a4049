"""The queries that `benchmarks/engine.py` measures, and the made-up stock events that they get."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from siddhi.analysis.analyser import analyse
from siddhi.engine.app_runtime import AppRuntime
from siddhi.language.parser import parse

STREAMS = """@app:playback
define stream S (symbol string, price double, volume long, ts long);
define stream T (symbol string, price double, volume long, ts long);
"""
Batch = tuple[tuple[str, pa.RecordBatch], ...]
"""Events that are sent together, by stream."""
START_MS = 1_700_000_000_000


@dataclass(frozen=True, slots=True)
class EngineCase:
    """A query that feeds `Out`, and its load.

    `per_ms` events share one millisecond of event time (less than 1: they are further apart); `fill` events are sent
    before anything is measured, so that windows are full. `siddhi_per_s` is what Siddhi 5.1 made of events sent one by
    one on the machine of reference, None where that was not measured.
    """

    name: str
    title: str
    query: str
    siddhi_per_s: float | None
    per_ms: float = 1.0
    fill: int = 100_000
    streams: int = 1
    held: int = 0
    """Events that the query holds when it is full, 0 where that says nothing."""


CASES = (
    EngineCase("a", "filter", "from S[price > 50] select symbol, price insert into Out;", 10.2e6, fill=5_000),
    EngineCase(
        "b",
        "length(1000) average by symbol",
        "from S#window.length(1000) select symbol, avg(price) as p group by symbol insert into Out;",
        1.90e6,
        held=1_000,
    ),
    EngineCase(
        "c",
        "externalTimeBatch 1 s sum by symbol",
        "from S#window.externalTimeBatch(ts, 1 sec) select symbol, sum(volume) as v group by symbol insert into Out;",
        3.93e6,
        per_ms=100,
        fill=500_000,
    ),
    EngineCase(
        "d",
        "externalTime 1 min average by symbol",
        "from S#window.externalTime(ts, 1 min) select symbol, avg(price) as p group by symbol insert into Out;",
        1.60e6,
        held=60_000,
    ),
    EngineCase(
        "e",
        "pattern, every e1 -> e2",
        "from every e1=S[price > 90] -> e2=S[symbol == e1.symbol and price > e1.price] within 1 sec"
        " select e1.symbol as symbol, e1.price as p1, e2.price as p2 insert into Out;",
        0.129e6,
    ),
    EngineCase(
        "f",
        "sequence of two",
        "from every e1=S[price > 50], e2=S[price > e1.price]"
        " select e1.symbol as s1, e2.symbol as s2, e1.price as p1, e2.price as p2 insert into Out;",
        1.03e6,
    ),
    EngineCase(
        "g",
        "join of two length(100)",
        "from S#window.length(100) as a join T#window.length(100) as b on a.symbol == b.symbol"
        " select a.symbol as symbol, a.price as p1, b.price as p2 insert into Out;",
        0.214e6,
        streams=2,
        held=200,
    ),
    EngineCase(
        "h",
        "pattern in a partition by symbol",
        "partition with (symbol of S) begin from every e1=S[price > 90] -> e2=S[price > e1.price] within 1 sec"
        " select e1.symbol as symbol, e1.price as p1, e2.price as p2 insert into Out; end;",
        0.71e6,
    ),
    EngineCase(
        "i",
        "lookup in a table of 100",
        "define stream Names (symbol string, name string);"
        " @PrimaryKey('symbol') define table K (symbol string, name string);"
        " from Names select symbol, name insert into K;"
        " from S join K on S.symbol == K.symbol select S.symbol as symbol, S.price as price, K.name as name"
        " insert into Out;",
        1.70e6,
        fill=5_000,
    ),
    EngineCase(
        "j",
        "distinctCount, min, max over 1 h of 1 M events",
        "from S#window.externalTime(ts, 1 hour)"
        " select distinctCount(symbol) as n, min(price) as low, max(price) as high insert into Out;",
        None,
        per_ms=0.278,
        fill=1_100_000,
        held=1_000_800,
    ),
    EngineCase(
        "k",
        "length(64) sum and average in a partition",
        "partition with (symbol of S) begin from S#window.length(64)"
        " select symbol, sum(volume) as v, avg(price) as p insert into Out; end;",
        None,
        held=6_400,
    ),
)


class Stocks:
    """Endless events (symbol string, price double, volume long, ts long), the same for the same arguments.

    Symbols are drawn uniformly from `symbols`, prices from 0…100 with two decimals, volumes from 1…1,000.
    """

    def __init__(self, per_ms: float, symbols: int = 100, seed: int = 7) -> None:
        self._random = np.random.default_rng(seed)
        self._per_ms = per_ms
        self._names = pa.array([f"S{number}" for number in range(symbols)])
        self._made = 0

    def next(self, count: int) -> pa.RecordBatch:
        """Return the next `count` events."""
        draw = self._random
        numbers = np.arange(self._made, self._made + count)
        self._made += count
        times = START_MS + (numbers / self._per_ms).astype(np.int64)
        return pa.record_batch(
            {
                "_timestamp": times,
                "symbol": self._names.take(pa.array(draw.integers(0, len(self._names), count))),
                "price": draw.integers(0, 10_001, count) / 100.0,
                "volume": draw.integers(1, 1_001, count),
                "ts": times,
            }
        )


class CaseRun:
    """An app that runs `case` and what is sent to it, in batches."""

    def __init__(self, case: EngineCase, symbols: int = 100) -> None:
        self.runtime = AppRuntime(analyse(parse(STREAMS + case.query)))
        self.case = case
        self.rows_out = 0
        self._stocks = Stocks(case.per_ms, symbols)
        self.runtime.add_stream_callback("Out", self._count)
        self.runtime.start(START_MS)
        if "Names" in self.runtime.app.streams:
            names = [f"S{number}" for number in range(100)]
            self.runtime.send("Names", pa.record_batch({"symbol": names, "name": names}), START_MS)
        for batch in self.batches(case.fill, 4_096):
            self.send(batch)

    def _count(self, records: pa.RecordBatch) -> None:
        self.rows_out += records.num_rows

    def batches(self, events: int, size: int) -> list[Batch]:
        """At least `events` further events in batches of `size`; of two streams they come in turn."""
        made = []
        for _ in range(-(-events // max(size, 100_000))):
            block = self._stocks.next(max(size, min(events, 100_000 - 100_000 % size)))
            made.extend(self._split(block, size))
        return made

    def _split(self, block: pa.RecordBatch, size: int) -> Iterator[Batch]:
        rows = np.arange(block.num_rows)
        if self.case.streams == 1 or size == 1:
            for start in range(0, block.num_rows, size):
                yield (("ST"[start % self.case.streams], block.slice(start, size)),)
            return
        sides = [block.take(pa.array(rows[rows % 2 == side])) for side in range(2)]
        half = size // 2
        for start in range(0, block.num_rows // 2, half):
            yield tuple((stream, side.slice(start, half)) for stream, side in zip("ST", sides, strict=True))

    def send(self, batch: Batch) -> None:
        """Send the batch through the app; events of two streams come in turn."""
        if len(batch) == 1:
            self.runtime.send(*batch[0])
            return
        self.runtime.send_merged(batch, np.arange(sum(part.num_rows for _, part in batch)) % 2)
