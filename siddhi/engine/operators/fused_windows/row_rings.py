"""Ring buffers with the attributes of stored rows that aggregates need."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from siddhi.engine.columnar.state_tree import Codes, State
from siddhi.engine.jit.arrays import AnyArray, BoolArray, Int64Array
from siddhi.engine.jit.bits import address_of
from siddhi.engine.operators.aggregates.moves import FORM, LINE_WIDTH, MASK, NARROW, REAL, VALUES
from siddhi.engine.tuning import INITIAL_RING_ROWS

Line = tuple[int, AnyArray, BoolArray | None]
"""The number of a line, its values in some rows, and a mask of those that are not null (None: all)."""


class RowRings:
    """A queue of rows; the row with sequence number s is in column `s & (capacity - 1)` of every line.

    `sources` gives the form of each line: narrow (int32) or wide (int64 or float64, in one array). `lines` gives their
    addresses, as `siddhi.engine.operators.aggregates.moves` describes. Validity is stored only after the first null,
    for each line separately.
    """

    def __init__(self, sources: Sequence[int]) -> None:
        self.sources = tuple(sources)
        self._places = [
            sum((s == NARROW) == (source == NARROW) for s in sources[:at]) for at, source in enumerate(sources)
        ]
        self.lines: Int64Array = np.zeros((max(len(sources), 1), LINE_WIDTH), dtype=np.int64)
        self.lines[: len(sources), FORM] = sources
        narrow = sum(source == NARROW for source in sources)
        self.capacity = INITIAL_RING_ROWS
        self.narrow: AnyArray = np.zeros((narrow, INITIAL_RING_ROWS), dtype=np.int32)
        self.wide: Int64Array = np.zeros((len(sources) - narrow, INITIAL_RING_ROWS), dtype=np.int64)
        self.valid: BoolArray = np.ones((0, INITIAL_RING_ROWS), dtype=np.bool_)
        self._look()

    def _look(self) -> None:
        """Set the view of each line in its own dtype, and its address."""
        reals = self.wide.view(np.float64)
        self._arrays: list[AnyArray] = [
            self.narrow[place] if source == NARROW else (reals if source == REAL else self.wide)[place]
            for source, place in zip(self.sources, self._places, strict=True)
        ]
        for number, array in enumerate(self._arrays):
            self.lines[number, VALUES] = address_of(array)
            if self.lines[number, MASK]:
                self.lines[number, MASK] = address_of(self.valid[number])

    def make_room(self, first: int, end: int, count: int) -> None:
        """Make room for `count` rows after the rows [first, end), but not for many times more."""
        need = end - first + count
        if need > self.capacity or (8 * need < self.capacity and self.capacity > INITIAL_RING_ROWS):
            capacity = max(1 << (need - 1).bit_length(), INITIAL_RING_ROWS)
            self.narrow, self.wide, self.valid = (
                _moved(lines, first, end, capacity) for lines in (self.narrow, self.wide, self.valid)
            )
            self.capacity = capacity
            self._look()

    def put(self, read: Iterable[Line], sequence: int, count: int) -> None:
        """Write the values of `read` into the lines of `count` rows from `sequence` on."""
        start = sequence & (self.capacity - 1)
        stop = start + count
        arrays, told = self._arrays, len(self.valid) > 0
        for line, values, valid in read:
            if count == 1:
                arrays[line][start] = values[0]  # takes a quarter of the time of a slice
            elif stop <= self.capacity:
                arrays[line][start:stop] = values
            else:
                _wrap(arrays[line], start, values)
            if told or valid is not None:
                self._put_valid(line, start, valid, count)

    def _put_valid(self, line: int, start: int, valid: BoolArray | None, count: int) -> None:
        if valid is not None or self.lines[line, MASK]:
            self._tell_nulls(line)
            _wrap(self.valid[line], start, np.ones(count, np.bool_) if valid is None else valid)

    def put_at(self, read: Iterable[Line], columns: Int64Array) -> None:
        """Write the values of `read` into the lines of the rows in `columns`."""
        arrays, told = self._arrays, len(self.valid) > 0
        for line, values, valid in read:
            arrays[line][columns] = values
            if valid is not None:
                self._tell_nulls(line)
            if (told or valid is not None) and self.lines[line, MASK]:
                self.valid[line, columns] = True if valid is None else valid

    def move(self, columns: Int64Array, to: Int64Array) -> None:
        """Move the rows in `columns` to the columns `to`, a permutation of the same columns."""
        for lines in (self.narrow, self.wide, self.valid):
            lines[:, to] = lines[:, columns]

    def _tell_nulls(self, line: int) -> None:
        """Add validity marks for `line`, which had no null before."""
        if not len(self.valid):
            self.valid = np.ones((len(self.sources), self.capacity), dtype=np.bool_)
        if not self.lines[line, MASK]:
            self.valid[line] = True
            self.lines[line, MASK] = address_of(self.valid[line])

    def snapshot(self, first: int, end: int, codes: Sequence[bool]) -> State:
        """Return the rows [first, end); `codes` marks the lines that contain string codes."""
        return self.taken(np.arange(first, end) & (self.capacity - 1), codes)

    def taken(self, columns: Int64Array, codes: Sequence[bool]) -> State:
        """Return the rows in `columns`, in the form for `restore`."""
        arrays: list[State] = []
        for array, coded in zip(self._arrays, codes, strict=True):
            held = array[columns]
            arrays.append(Codes(held.astype(np.int64)) if coded else held)
        return [arrays, self.valid[:, columns]]

    def restore(self, first: int, end: int, state: State) -> None:
        arrays, valid = state
        self.make_room(first, first, end - first)
        self.valid = np.ones((len(valid), self.capacity), dtype=np.bool_)
        self.valid[:, np.arange(first, end) & (self.capacity - 1)] = valid
        for number in range(len(self.sources)):
            self.lines[number, MASK] = address_of(self.valid[number]) if len(valid) else 0
        lines = (held.array if isinstance(held, Codes) else held for held in arrays)
        for number, line in enumerate(lines):
            _wrap(self._arrays[number], first & (self.capacity - 1), line)


def joined_rows(states: Sequence[State]) -> State:
    """Return one state with the rows of all `states`, one after the other."""
    lines = [[held.array if isinstance(held, Codes) else held for held in arrays] for arrays, _ in states]
    arrays = [np.concatenate(parts) for parts in zip(*lines, strict=True)]
    coded = [isinstance(held, Codes) for held in states[0][0]]
    valid = [valid for _, valid in states]
    if any(map(len, valid)):
        valid = [mask if len(mask) else np.ones((len(arrays), mask.shape[1]), dtype=np.bool_) for mask in valid]
    return [
        [Codes(array) if is_coded else array for array, is_coded in zip(arrays, coded, strict=True)],
        np.concatenate(valid, axis=1),
    ]


def _wrap(array: AnyArray, start: int, values: AnyArray) -> None:
    before = min(len(array) - start, len(values))
    array[start : start + before] = values[:before]
    array[: len(values) - before] = values[before:]


def _moved(lines: AnyArray, first: int, end: int, capacity: int) -> AnyArray:
    """Return the columns of the rows [first, end) at their positions in rings of `capacity`."""
    moved: AnyArray = np.zeros((len(lines), capacity), dtype=lines.dtype)
    rows = np.arange(first, end)
    moved[:, rows & (capacity - 1)] = lines[:, rows & (lines.shape[1] - 1)]
    return moved
