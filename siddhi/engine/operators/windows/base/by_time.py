"""Sliding windows that events leave one by one when their time is over.

    T = 10      in order       times  1  4  6 │ 9          the oldest row is the next to leave: a queue is enough
                out of order   times  1  60 6 │ 4          a heap tells which is the next to leave

Events nearly always come in the order of their times. Where one does not, the rows held go into a heap, until those
that are left are in order again.
"""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from siddhi.engine.columnar.batch import EventBatch
from siddhi.engine.columnar.row_store import RowStore
from siddhi.engine.columnar.state_size import StateSize, held_bytes
from siddhi.engine.columnar.state_tree import State
from siddhi.engine.jit.arrays import INT64, Int64Array
from siddhi.engine.jit.kernels import kernel_part, state_kernel
from siddhi.engine.operators.base.operator import Step
from siddhi.engine.operators.windows.base.sliding import SlidingWindow
from siddhi.engine.tuning import INITIAL_HEAP_ROWS, MAX_EXPIRED_ROWS

TIME, SEQUENCE = 0, 1
"""The lines of a heap, (2, capacity): the times of rows and their sequence numbers; the earliest time is first, among
equal times the first arrival."""
FIRST, COUNT, NEWEST = 0, 1, 2
"""The state of a window: the oldest stored row, if there is no heap; the number of rows in the heap; the newest time of
all arrivals, if that expires events."""
_NO_HEAP: Int64Array = np.zeros((2, 0), INT64)
LONG_AGO = np.iinfo(np.int64).min


@state_kernel
def ascends(times, least):  # type: ignore[no-untyped-def]
    """Return whether no time is less than the previous one, or than `least`."""
    for place in range(len(times)):
        if times[place] < least:
            return False
        least = times[place]
    return True


@kernel_part
def _goes_first(heap, one, other):  # type: ignore[no-untyped-def]
    if heap[TIME, one] != heap[TIME, other]:
        return heap[TIME, one] < heap[TIME, other]
    return heap[SEQUENCE, one] < heap[SEQUENCE, other]


@kernel_part
def _swap(heap, one, other):  # type: ignore[no-untyped-def]
    time, sequence = heap[TIME, one], heap[SEQUENCE, one]
    heap[TIME, one], heap[SEQUENCE, one] = heap[TIME, other], heap[SEQUENCE, other]
    heap[TIME, other], heap[SEQUENCE, other] = time, sequence


@kernel_part
def heap_in(heap, count, time, sequence):  # type: ignore[no-untyped-def]
    """Put a row into a heap of `count` rows."""
    place = count
    heap[TIME, place], heap[SEQUENCE, place] = time, sequence
    while place > 0 and _goes_first(heap, place, (place - 1) // 2):
        _swap(heap, place, (place - 1) // 2)
        place = (place - 1) // 2


@kernel_part
def heap_out(heap, count):  # type: ignore[no-untyped-def]
    """Take the first row out of a heap of `count` rows."""
    last = count - 1
    _swap(heap, 0, last)
    place = 0
    while True:
        first = place
        for child in range(2 * place + 1, min(2 * place + 3, last)):
            if _goes_first(heap, child, first):
                first = child
        if first == place:
            return
        _swap(heap, place, first)
        place = first


@kernel_part
def next_to_leave(lines, heap, end):  # type: ignore[no-untyped-def]
    """Return the sequence number of the next row before `end` to leave, -1 when there is none."""
    if heap.shape[1] > 0:
        return heap[SEQUENCE, 0] if lines[COUNT] > 0 else np.int64(-1)
    return lines[FIRST] if lines[FIRST] < end else np.int64(-1)


@kernel_part
def leave(lines, heap):  # type: ignore[no-untyped-def]
    """Remove the row."""
    if heap.shape[1] > 0:
        heap_out(heap, lines[COUNT])
        lines[COUNT] -= 1
    else:
        lines[FIRST] += 1


@kernel_part
def come(lines, heap, sequence, time):  # type: ignore[no-untyped-def]
    """Store a row."""
    if heap.shape[1] > 0:
        heap_in(heap, lines[COUNT], time, sequence)
        lines[COUNT] += 1


class ByTimeWindow(SlidingWindow):
    """Emits events as expired `duration` after their times, the oldest time first.

    In order, the stored rows are those from `lines[FIRST]` on, and the heap is empty; otherwise it contains them.
    """

    def __init__(self, duration: int, store: RowStore) -> None:
        self.duration = duration
        self.store = store
        self.lines = np.array([0, 0, LONG_AGO], dtype=INT64)
        self.heap = _NO_HEAP

    @abstractmethod
    def times(self) -> Int64Array:
        """Return the times of the rows in the store, by position."""

    @abstractmethod
    def run(self, rows: EventBatch, start: int, step: Step, out: Int64Array) -> int:
        """Fill `out` with the output of `let_out` for `rows`, which are in the store from `start` on.

        Return the number of rows.
        """

    @property
    def in_order(self) -> bool:
        """Whether the stored rows are in order."""
        return not self.heap.shape[1]

    def stays_in_order(self, times: Int64Array) -> bool:
        """Return whether the stored rows are in order, and stay so when rows with these times arrive."""
        if not self.in_order or not len(times):
            return self.in_order
        newest = self.store.end - 1
        held = newest >= int(self.lines[FIRST])
        return bool(ascends(times, int(self.times()[newest - self.store.offset]) if held else LONG_AGO))

    def take_in(self, rows: EventBatch, times: Int64Array, step: Step) -> tuple[Int64Array, int]:
        """As `let_out`, for `rows` with these times."""
        if not self.in_order:
            self._close_up()
        if self.in_order and not self.stays_in_order(times):
            self._fill_heap(self.visible())
        start = self.store.append(rows)
        if self.in_order:
            held = self.store.end - int(self.lines[FIRST])
        else:
            held = int(self.lines[COUNT]) + rows.size
            self.heap = _with_room(self.heap, held)
        out: Int64Array = np.empty((6, held + rows.size), INT64)
        count = self.run(rows, start, step, out)
        if self.in_order:
            self.store.forget(int(self.lines[FIRST]))
        return out, count

    def visible(self) -> Int64Array:
        if self.in_order:
            return np.arange(int(self.lines[FIRST]), self.store.end)
        return np.sort(self.heap[SEQUENCE, : int(self.lines[COUNT])])

    def _fill_heap(self, sequences: Int64Array) -> None:
        """Set the contents of the heap to these rows."""
        times = self.times()[sequences - self.store.offset]
        place = np.argsort(times, kind="stable")
        self.heap = _with_room(np.array([times[place], sequences[place]], dtype=INT64), len(sequences) + 1)
        self.lines[COUNT] = len(sequences)

    def _close_up(self) -> None:
        """Move the stored rows together, unless few removed ones are between them."""
        count = int(self.lines[COUNT])
        if not count or len(self.store) > 2 * count + MAX_EXPIRED_ROWS:
            self.store.keep(self.visible())
            self._look()

    def _look(self) -> None:
        """Treat all rows in the store as stored: keep them in order, or in a heap."""
        self.heap, self.lines[FIRST] = _NO_HEAP, self.store.first
        sequences = self.visible()
        if not ascends(self.times()[sequences - self.store.offset], LONG_AGO):
            self._fill_heap(sequences)

    def next_time(self) -> int | None:
        """Return the time of the next row to leave, None when there is none."""
        if not self.in_order:
            return int(self.heap[TIME, 0]) if self.lines[COUNT] else None
        first = int(self.lines[FIRST])
        return int(self.times()[first - self.store.offset]) if first < self.store.end else None

    def state_size(self) -> StateSize:
        rows = self.store.end - int(self.lines[FIRST]) if self.in_order else int(self.lines[COUNT])
        return StateSize(rows=rows, bytes=held_bytes(self))

    def snapshot(self) -> State:
        if not self.in_order:
            self.store.keep(self.visible())
            self._fill_heap(np.arange(self.store.first, self.store.end))
        return super().snapshot()

    def own_state(self) -> State:
        return int(self.lines[NEWEST])

    def restore_own(self, state: State) -> None:
        self.lines[NEWEST] = state
        self._look()


def _with_room(heap: Int64Array, rows: int) -> Int64Array:
    """Return `heap`, or a larger one with the same rows that has room for so many."""
    if rows <= heap.shape[1]:
        return heap
    larger: Int64Array = np.empty((2, max(2 * heap.shape[1], rows, INITIAL_HEAP_ROWS)), INT64)
    larger[:, : heap.shape[1]] = heap
    return larger
