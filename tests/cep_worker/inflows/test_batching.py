"""Waiting batches become frames: small ones joined, large ones left as they are."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from worker_world import DEPARTURES, departures, values

from cep_common.protocol.links import StreamSchema
from cep_worker.inflows import batching
from cep_worker.inflows.batching import BatchingQueue, QueuedBatch, ReadyFrame
from topology.events.frames import arrow_schema, decode_batch, encode_batch

SCHEMA = arrow_schema(StreamSchema("Departures", DEPARTURES))


def batch(first: int, rows: int) -> QueuedBatch:
    made = departures(*[(number, "UA", number, None) for number in range(first, first + rows)])
    return QueuedBatch(made, bytes(encode_batch(made)), watermark_ms=first + rows)


def times(frame: ReadyFrame) -> list[int]:
    return [row[0] for row in values(decode_batch(frame.body, SCHEMA, frame.rows))]


def test_a_lone_batch_keeps_the_very_body_it_came_with() -> None:
    queue = BatchingQueue()
    lone = batch(0, 3)
    queue.append(lone)
    frame = queue.take(most_rows=2)
    assert frame == ReadyFrame(lone.body, 3, 3)
    assert frame.body is lone.body
    assert (queue.rows, bool(queue)) == (0, False)


def test_small_batches_are_joined_up_to_the_limit_and_keep_the_last_watermark() -> None:
    queue = BatchingQueue()
    for first in range(0, 10, 2):
        queue.append(batch(first, 2))
    frame = queue.take(most_rows=5)
    assert (times(frame), frame.rows, frame.watermark_ms) == ([0, 1, 2, 3], 4, 4)
    assert queue.rows == 6


def test_a_batch_beyond_the_limit_is_neither_split_nor_joined() -> None:
    queue = BatchingQueue()
    large = batch(0, 9)
    queue.append(large)
    queue.append(batch(9, 1))
    assert queue.take(most_rows=5).body is large.body


@settings(deadline=None)
@given(st.lists(st.integers(1, 6), min_size=1, max_size=20), st.integers(1, 8))
def test_no_event_is_lost_or_reordered_however_batches_are_joined(sizes: list[int], most_rows: int) -> None:
    queue = BatchingQueue()
    first = 0
    for size in sizes:
        queue.append(batch(first, size))
        first += size
    seen: list[int] = []
    while queue:
        frame = queue.take(most_rows)
        assert frame.rows <= max(most_rows, *sizes)
        seen += times(frame)
        assert frame.watermark_ms == len(seen)
    assert seen == list(range(first))
    assert queue.rows == 0


def test_batches_that_are_too_large_together_are_not_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batching, "JOINED_BYTES", 1_000)
    queue = BatchingQueue()
    for size in (400, 400, 400, 5_000, 10):
        queue.append(QueuedBatch(pa.RecordBatch.from_pydict({"text": ["x" * size]})))
    frames = []
    while queue:
        frames.append(queue.take(100).rows)
    assert frames == [2, 1, 1, 1]
