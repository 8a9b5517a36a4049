"""A queue of batches to send: small ones are joined, large ones are sent unchanged."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter
from typing import Any

import pyarrow as pa

from cep_worker.storage.records import BatchOrigin
from topology.events.frames import concatenate, encode_batch

JOINED_BYTES = 16 * 1024 * 1024
"""The maximum bytes of a joined batch: a frame that exceeds the transport's limit would break every new link."""


@dataclass(frozen=True, slots=True)
class QueuedBatch:
    """A batch and, if it can be sent as it arrived, its Arrow IPC body.

    For a plan under the system clock `watermark_ms` is when the batch was accepted. `position` is its position in the
    log (0: none); `origin` identifies batches that may be repeated.
    """

    batch: pa.RecordBatch
    body: Any = None
    watermark_ms: int = 0
    position: int = 0
    origin: BatchOrigin | None = None


@dataclass(frozen=True, slots=True)
class ReadyFrame:
    """The contents of one frame.

    An Arrow IPC body of `rows` rows, the watermark after them, and the position of the last ones in the log (0: none).
    `again` means that it was sent before, over a link that broke. `accepted` lists watermarks with the number of rows
    that each applies to, unless all rows have the same.
    """

    body: Any
    rows: int
    watermark_ms: int
    position: int = 0
    again: bool = False
    accepted: tuple[tuple[int, int], ...] = ()


@dataclass(slots=True)
class BatchingQueue:
    """Batches of one schema in order.

    `rows` counts all of them.
    """

    rows: int = 0
    _batches: deque[QueuedBatch] = field(default_factory=deque)

    def __bool__(self) -> bool:
        return bool(self._batches)

    @property
    def first_position(self) -> int:
        """Return the position of the first batch in the log. The queue must not be empty."""
        return self._batches[0].position

    def append(self, waiting: QueuedBatch) -> None:
        self._batches.append(waiting)
        self.rows += waiting.batch.num_rows

    def take(self, most_rows: int, last: int = 0) -> ReadyFrame:
        """Return the next frame: as many whole batches as fit into `most_rows`, at least one.

        No batch after position `last` (0: any) is joined to it. A single batch keeps its body. The queue must not be
        empty.
        """
        first = self._batches.popleft()
        taken = [first]
        rows, size = first.batch.num_rows, first.batch.nbytes
        while self._batches and rows + self._batches[0].batch.num_rows <= most_rows:
            size += self._batches[0].batch.nbytes
            if size > JOINED_BYTES:
                break
            if 0 < last < self._batches[0].position:
                break
            following = self._batches.popleft()
            taken.append(following)
            rows += following.batch.num_rows
        self.rows -= rows
        body = first.body
        if len(taken) > 1 or body is None:
            body = encode_batch(concatenate([waiting.batch for waiting in taken]))
        return ReadyFrame(body, rows, taken[-1].watermark_ms, taken[-1].position, accepted=_runs(taken))

    def drop(self, position: int) -> None:
        """Drop the rows up to `position` of the log."""
        while self._batches and self._batches[0].position <= position:
            self.rows -= self._batches.popleft().batch.num_rows

    def take_all(self) -> list[pa.RecordBatch]:
        """Remove and return all batches."""
        batches = [waiting.batch for waiting in self._batches if waiting.batch.num_rows]
        self.clear()
        return batches

    def clear(self) -> None:
        """Drop all batches."""
        self._batches.clear()
        self.rows = 0


def _runs(batches: list[QueuedBatch]) -> tuple[tuple[int, int], ...]:
    """Return runs of rows with the same watermark; empty when all have the same."""
    if batches[0].watermark_ms == batches[-1].watermark_ms:
        return ()
    runs = groupby(batches, attrgetter("watermark_ms"))
    return tuple((sum(waiting.batch.num_rows for waiting in run), time_ms) for time_ms, run in runs)
