"""The output of window kernels, and its conversion to a batch."""

from __future__ import annotations

import numpy as np

from siddhi.engine.columnar.batch import EventBatch
from siddhi.engine.columnar.row_store import RowStore
from siddhi.engine.jit.arrays import INT64, Int64Array
from siddhi.engine.jit.kernels import kernel_part

SEQUENCE, KIND, TIMESTAMP, ORDER, CLOCK, CHUNK = 0, 1, 2, 3, 4, 5
"""The lines of an emission: an int64 array (6, capacity) whose column k describes output row k.

SEQUENCE is the row's number in the window's store; CHUNK grows from one chunk to the next.
"""


def new_emission(capacity: int) -> Int64Array:
    """Return an emission with room for `capacity` output rows."""
    return np.empty((6, capacity), INT64)


def emitted(emission: Int64Array, count: int, store: RowStore) -> EventBatch:
    """Return the batch of the first `count` rows of `emission`."""
    rows = emission[:, :count]
    return EventBatch(
        rows[TIMESTAMP],
        rows[KIND].astype(np.int8),
        rows[ORDER],
        rows[CLOCK],
        store.take(rows[SEQUENCE]),
        rows[CHUNK],
    )


@kernel_part
def emit(out, count, sequence, kind, timestamp, order, clock, chunk):  # type: ignore[no-untyped-def]
    """Write output row `count`; return the next count."""
    out[SEQUENCE, count] = sequence
    out[KIND, count] = kind
    out[TIMESTAMP, count] = timestamp
    out[ORDER, count] = order
    out[CLOCK, count] = clock
    out[CHUNK, count] = chunk
    return count + 1


@kernel_part
def timer_order(clocks, due, set_at_order):  # type: ignore[no-untyped-def]
    """As `Step.timer_order`, for kernels."""
    before, behind = 0, len(clocks)
    while before < behind:
        middle = (before + behind) // 2
        if clocks[middle] < due:
            before = middle + 1
        else:
            behind = middle
    return max(2 * before, set_at_order + (set_at_order & 1))


@kernel_part
def timer_clock(clocks, due, order, floor):  # type: ignore[no-untyped-def]
    """Return the clock when a timer due at `due` fires at `order`.

    It is the due time, or the clock at `order` if the due time is past.
    """
    before = order // 2 - 1
    return max(due, floor if before < 0 else clocks[before])
