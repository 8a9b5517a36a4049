"""The engine of a replica: events carry the number of the instance that took them in, and results belong to it.

Every replica runs every event, so each makes every result. It emits only those that an event of its own origin has
completed; the others drop them. A result that time alone completes belongs to the first instance.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa

from siddhi.engine.jit.arrays import Int64Array


class TimedEngine(Protocol):
    """What time feeds: `siddhi.engine.app_runtime.AppRuntime`, or what wraps it."""

    @property
    def clock_ms(self) -> int: ...

    def next_deadline_ms(self) -> int | None: ...

    def advance_time(self, now_ms: int) -> None: ...

    def send(self, stream: str, records: pa.RecordBatch, now_ms: int | None = None) -> None: ...

    def send_merged(
        self, batches: Sequence[tuple[str, pa.RecordBatch]], sources: Int64Array, now_ms: int | None = None
    ) -> None: ...


class OriginEngine:
    """Feeds `engine` of replica `index` out of `replicas` with events of a log.

    `streams` maps the streams of the log to those of the engine. The last column of a batch is the origin.
    """

    def __init__(self, engine: TimedEngine, index: int, replicas: int, streams: Mapping[str, str]) -> None:
        self._engine = engine
        self._index, self._replicas, self._streams = index, replicas, streams
        self.owns = index == 0
        """What the engine makes now belongs to this replica."""

    @property
    def clock_ms(self) -> int:
        return self._engine.clock_ms

    def next_deadline_ms(self) -> int | None:
        return self._engine.next_deadline_ms()

    def advance_time(self, now_ms: int) -> None:
        self.owns = self._index == 0
        self._engine.advance_time(now_ms)

    def send(self, stream: str, records: pa.RecordBatch, now_ms: int | None = None) -> None:
        """Process rows with the engine, each as a row of its origin."""
        target, (rows, origins) = self._streams[stream], self._without_origins(records)
        for start, stop in runs(origins):
            self.owns = int(origins[start]) == self._index
            self._engine.send(target, rows.slice(start, stop - start), now_ms)

    def send_merged(
        self, batches: Sequence[tuple[str, pa.RecordBatch]], sources: Int64Array, now_ms: int | None = None
    ) -> None:
        """Run the rows of several streams through the engine in their common order, each as one of its origin."""
        parts = [(self._streams[stream], *self._without_origins(records)) for stream, records in batches]
        origins = np.empty(len(sources), dtype=np.int64)
        for source, (_, _, own) in enumerate(parts):
            origins[sources == source] = own
        done = [0] * len(parts)
        for start, stop in runs(origins):
            self.owns = int(origins[start]) == self._index
            piece = sources[start:stop]
            counts = np.bincount(piece, minlength=len(parts)).tolist()
            rows = [
                (target, rows.slice(first, count))
                for (target, rows, _), first, count in zip(parts, done, counts, strict=True)
            ]
            self._engine.send_merged(rows, piece, now_ms)
            done = [first + count for first, count in zip(done, counts, strict=True)]

    def _without_origins(self, records: pa.RecordBatch) -> tuple[pa.RecordBatch, Int64Array]:
        last = records.num_columns - 1
        origins = records.column(last).to_numpy(zero_copy_only=False).astype(np.int64) % self._replicas
        return records.select(range(last)), origins


def runs(*columns: np.ndarray[tuple[int], np.dtype[np.int64]]) -> Iterator[tuple[int, int]]:
    """Yield where rows begin and end among which no column changes."""
    changes = np.zeros(len(columns[0]), dtype=bool)
    for column in columns:
        changes[1:] |= column[1:] != column[:-1]
    starts = [0, *np.flatnonzero(changes).tolist()] if len(columns[0]) else []
    return zip(starts, [*starts[1:], len(columns[0])][: len(starts)], strict=True)
