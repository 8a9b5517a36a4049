"""Measure the size of snapshots, how much of one is new after a partial change, and how long an engine pauses for it.

    .venv/bin/python -m benchmarks.checkpoint_size [--json] [--rows 1000000]

Each line is one state of which 1 % changes between two snapshots: `spread` all over it, or `together` in one place.
Only chunks that are not stored yet are stored again. So a queue costs what came and went; but a change in every chunk
of a column stores all of the column, however few rows it touches.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass

import numpy as np
import pyarrow as pa

from siddhi.analysis.analyser import analyse
from siddhi.engine.app_runtime import AppRuntime
from siddhi.engine.jit.arrays import Int64Array
from siddhi.language.parser import parse
from topology.checkpoint.storage.chunks import cut

BATCH = 8_192
_COLUMNS = "(id long, symbol string, price double, volume long)"
HEAD = f"@app:playback define stream S {_COLUMNS}; define stream Changes {_COLUMNS};"
RUNS = 3
SHARE = 100
"""One in so many rows or keys changes."""


@dataclass(frozen=True, slots=True)
class Subject:
    """A query, and the ids of the events that change what so many events have filled; `stream` is where they go."""

    name: str
    query: str
    churn: Callable[[int], Int64Array]
    share: float = 1.0
    """How many rows or keys it has for each one that is asked for."""
    stream: str = "S"


@dataclass(frozen=True, slots=True)
class SizeResult:
    name: str
    rows: int
    full_bytes: int
    new_bytes: int
    new_percent: float
    chunks: int
    snapshot_ms: float
    """The best of some; for that long no event is processed."""
    snapshot_ms_per_mb: float
    cut_ms: float
    hash_ms: float
    restore_ms: float


def _spread(count: int) -> Int64Array:
    return np.random.default_rng(3).permutation(count)[: count // SHARE]


def _together(count: int) -> Int64Array:
    return np.arange(count // 2, count // 2 + count // SHARE)


def _behind(count: int) -> Int64Array:
    return np.arange(count, count + count // SHARE)


_TABLE = " ".join(
    (
        f"@primaryKey('id') define table T {_COLUMNS};",
        "from S insert into T;",
        "from Changes update T set T.price = price on T.id == id;",
    )
)
_PARTITION = (
    "partition with (id of S) begin from S#window.length(5) select id, sum(price) as p, max(volume) as v insert into O;"
    " end;"
)
_GROUPS = "from S select id, sum(price) as p, max(volume) as v group by id insert into O;"
_WINDOW = "from S#window.length(N) select symbol, sum(price) as p, max(volume) as v group by symbol insert into O;"
SUBJECTS = (
    Subject("window, all columns", "from S#window.length(N) select * insert all events into O;", _behind),
    Subject("window, two by group", _WINDOW, _behind),
    Subject("table, together", _TABLE, _together, stream="Changes"),
    Subject("table, spread", _TABLE, _spread, stream="Changes"),
    Subject("groups, together", _GROUPS, _together),
    Subject("groups, spread", _GROUPS, _spread),
    Subject("partition, together", _PARTITION, _together, 0.05),
    Subject("partition, spread", _PARTITION, _spread, 0.05),
)


def _send(runtime: AppRuntime, ids: Int64Array, round_: int, stream: str = "S") -> None:
    """Send one event for each of `ids`, with values that no other round has."""
    for start in range(0, len(ids), BATCH):
        part = ids[start : start + BATCH]
        values = np.random.default_rng(start + round_).random(len(part))
        columns = {
            "_timestamp": pa.array(np.full(len(part), 1_000_000 * (round_ + 1) + start)),
            "id": pa.array(part),
            "symbol": pa.array([f"symbol {number}" for number in (part % 1000).tolist()]),
            "price": pa.array(values),
            "volume": pa.array((values * 1000).astype(np.int64)),
        }
        runtime.send(stream, pa.record_batch(columns))


def _timed(work: Callable[[], object]) -> float:
    """Milliseconds of the best of some runs."""
    times = []
    for _ in range(RUNS):
        gc.collect()
        started = time.perf_counter()
        work()
        times.append(time.perf_counter() - started)
    return 1e3 * min(times)


def _names(data: bytes) -> dict[bytes, int]:
    return {hashlib.sha256(piece).digest(): len(piece) for piece in cut(data)}


def measure(subject: Subject, asked: int) -> SizeResult:
    """Return the cost of two snapshots of `subject`, between which a part has changed."""
    rows = max(int(asked * subject.share), SHARE)
    app = analyse(parse(HEAD + subject.query.replace("length(N)", f"length({rows})")))
    runtime = AppRuntime(app)
    runtime.start(0)
    _send(runtime, np.arange(rows), 0)
    before = _names(runtime.snapshot())
    _send(runtime, subject.churn(rows), 1, subject.stream)
    data = runtime.snapshot()
    after = _names(data)
    new = sum(size for name, size in after.items() if name not in before)
    megabytes = len(data) / 1e6
    snapshot_ms = _timed(runtime.snapshot)
    pieces = cut(data)
    return SizeResult(
        name=subject.name,
        rows=rows,
        full_bytes=len(data),
        new_bytes=new,
        new_percent=100 * new / len(data),
        chunks=len(pieces),
        snapshot_ms=snapshot_ms,
        snapshot_ms_per_mb=snapshot_ms / megabytes,
        cut_ms=_timed(lambda: cut(data)),
        hash_ms=_timed(lambda: [hashlib.sha256(piece).digest() for piece in pieces]),
        restore_ms=_timed(lambda: AppRuntime(app).restore(data)),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--only", default="", help="subjects whose name has this in it")
    arguments = parser.parse_args()
    results = [measure(one, arguments.rows) for one in SUBJECTS if arguments.only in one.name]
    if arguments.json:
        print(json.dumps([asdict(result) for result in results], indent=1))
        return
    heads = ("MB", "new MB", "new %", "ms", "ms/MB", "cut ms", "hash ms", "restore ms")
    print(f"{'state':22}{'rows':>9}" + "".join(f"{head:>11}" for head in heads))
    for one in results:
        sizes = (one.full_bytes / 1e6, one.new_bytes / 1e6, one.new_percent)
        times = (one.snapshot_ms, one.snapshot_ms_per_mb, one.cut_ms, one.hash_ms, one.restore_ms)
        print(f"{one.name:22}{one.rows:9}" + "".join(f"{number:11.2f}" for number in (*sizes, *times)))


if __name__ == "__main__":
    main()
