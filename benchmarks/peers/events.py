"""The made-up events that both engines get: the same ones in the same order, without end."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

SYMBOLS = 100
_DRAWN = 1 << 17
"""After so many events, symbols, prices and volumes begin again; times continue."""

_draw = np.random.default_rng(7)
_symbols = _draw.integers(0, SYMBOLS, _DRAWN).astype(np.int32)
_prices = _draw.uniform(0, 100, _DRAWN)
_volumes = _draw.integers(1, 1_001, _DRAWN)
_names = pa.array([f"S{number}" for number in range(SYMBOLS)])


def write_events(path: Path) -> None:
    """Write what `PeerDriver` reads: number of events and of symbols, then symbols, prices, volumes, big-endian."""
    head = np.array([_DRAWN, SYMBOLS], dtype=">i4")
    columns = (_symbols.astype(">i4"), _prices.astype(">f8"), _volumes.astype(">i8"))
    path.write_bytes(head.tobytes() + b"".join(column.tobytes() for column in columns))


def events(first: int, count: int, start_ms: int) -> pa.RecordBatch:
    """Return `count` events from number `first` on; number 0 is at `start_ms`, and each a millisecond later."""
    numbers = np.arange(first, first + count)
    drawn = numbers % _DRAWN
    times = start_ms + numbers
    return pa.record_batch(
        {
            "_timestamp": times,
            "symbol": _names.take(pa.array(_symbols[drawn])),
            "price": _prices[drawn],
            "volume": _volumes[drawn],
            "ts": times,
        }
    )


def table_rows(count: int, start_ms: int) -> pa.RecordBatch:
    """Return the rows that stream T gets before a kind with a table is measured: S0, S1, … with their number."""
    numbers = np.arange(count)
    times = np.full(count, start_ms)
    return pa.record_batch(
        {
            "_timestamp": times,
            "symbol": [f"S{number}" for number in range(count)],
            "price": numbers.astype(np.float64),
            "volume": numbers,
            "ts": times,
        }
    )
