"""The rows that a window stores, in order of arrival."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from siddhi.engine.columnar.batch import EventBatch
from siddhi.engine.columnar.column import DTYPES, Column
from siddhi.engine.columnar.state_tree import Codes, State
from siddhi.engine.columnar.strings import StringPool
from siddhi.engine.jit.arrays import AnyArray, BoolArray, Int64Array
from siddhi.language.ast import AttributeType


class RowStore:
    """A queue of rows with sequence numbers: `first` is that of the oldest row, `end` that of the next row to be added.

    Rows are appended at the end and removed from the front; the cost of both depends only on the rows added or removed.
    `columns` names the attributes stored for each row besides its timestamp; a null string is a negative code.
    """

    def __init__(self, columns: Mapping[str, AttributeType], pool: StringPool) -> None:
        """Create an empty store.

        Args:
            columns: The names and types of the columns.
            pool: Holds the texts of the app.
        """
        self.pool = pool
        self.types = dict(columns)
        self.first = 0
        self.end = 0
        self.moves = 0
        """Changes whenever values have moved in memory, or an attribute has its first null."""
        self._offset = 0
        self._capacity = 16
        self._timestamps: Int64Array = np.zeros(16, dtype=np.int64)
        self._values: dict[str, AnyArray] = {name: np.zeros(16, dtype=DTYPES[t]) for name, t in columns.items()}
        self._valid: dict[str, BoolArray] = {}
        self._masked = frozenset(n for n, t in columns.items() if t not in (AttributeType.STRING, AttributeType.OBJECT))

    def __len__(self) -> int:
        """Return the number of rows."""
        return self.end - self.first

    def append(self, batch: EventBatch) -> int:
        """Append the rows of `batch`; return the sequence number of the first of them."""
        size, columns, masked = batch.size, batch.columns, self._masked
        start = self._place_for(size)
        places = slice(start, start + size)
        alone = size == 1  # setting a single position takes a quarter of the time
        if alone:
            self._timestamps[start] = batch.timestamps[0]
        else:
            self._timestamps[places] = batch.timestamps
        for name, values in self._values.items():
            column = columns[name]
            if alone:
                values[start] = column.values[0]
            else:
                values[places] = column.values
            if name in masked:
                valid = column.valid
                if valid is not None or name in self._valid:
                    self._put_valid(name, places, valid)
        self.end += size
        return self.end - size

    def append_values(self, size: int, timestamps: Int64Array, values: Sequence[tuple[str, AnyArray]]) -> int:
        """Append rows with these values of every attribute, as `append` does; only codes may be null."""
        start = self._place_for(size)
        places = slice(start, start + size)
        if size == 1:
            self._timestamps[start] = timestamps[0]
            for name, column in values:
                self._values[name][start] = column[0]
        else:
            self._timestamps[places] = timestamps
            for name, column in values:
                self._values[name][places] = column
        for valid in self._valid.values():
            valid[places] = True
        self.end += size
        return self.end - size

    def _place_for(self, size: int) -> int:
        """Return the position from which `size` rows can be appended."""
        if self.end - self._offset + size > self._capacity:
            self._make_room(size)
        return self.end - self._offset

    def _put_valid(self, name: str, places: slice, valid: BoolArray | None) -> None:
        if name not in self._valid:
            self._valid[name] = np.ones(self._capacity, dtype=np.bool_)
            self.moves += 1
        self._valid[name][places] = True if valid is None else valid

    def forget(self, before: int) -> None:
        """Drop the rows with sequence numbers below `before`."""
        self.first = max(self.first, before)

    def keep(self, sequences: Int64Array) -> None:
        """Keep only the rows with these sequence numbers, in this order, and number them consecutively."""
        positions, count = sequences - self._offset, len(sequences)
        for array in (self._timestamps, *self._values.values(), *self._valid.values()):
            array[:count] = array[positions]
        self.first = self._offset = self.end
        self.end += count
        self.moves += 1

    @property
    def offset(self) -> int:
        """The sequence number of position 0."""
        return self._offset

    def timestamps(self) -> tuple[Int64Array, int]:
        """Return the timestamps by position, and the sequence number of position 0: `timestamps[sequence - offset]`."""
        return self._timestamps, self._offset

    def values(self, name: str) -> AnyArray:
        """Return the values of a column by position, as for `timestamps`."""
        return self._values[name]

    def mask(self, name: str) -> BoolArray | None:
        """Return a mask of the values of a column that are not null, by position; None if there are no nulls."""
        return self._valid.get(name)

    def take(self, sequences: Int64Array) -> dict[str, Column]:
        """Return the columns of the rows with these sequence numbers."""
        positions = sequences - self._offset
        return {name: self.column_at(name, positions) for name in self._values}

    def column(self, name: str, sequences: Int64Array) -> Column:
        """Return one column of the rows with these sequence numbers."""
        return self.column_at(name, sequences - self._offset)

    def column_at(self, name: str, positions: Int64Array) -> Column:
        """Return one column of the rows at these positions, which count as in `timestamps`."""
        valid = self._valid.get(name)
        taken = None if valid is None else valid[positions]
        return Column(self.types[name], self.pool, self._values[name][positions], taken)

    def _make_room(self, size: int) -> None:
        """Move the stored rows to the front, into arrays twice as large if they would be more than half full."""
        start, stop = self.first - self._offset, self.end - self._offset
        need = stop - start + size
        while self._capacity < 2 * need:
            self._capacity *= 2
        self._timestamps = _moved(self._timestamps, start, stop, self._capacity)
        self._values = {name: _moved(array, start, stop, self._capacity) for name, array in self._values.items()}
        self._valid = {name: _moved(array, start, stop, self._capacity) for name, array in self._valid.items()}
        self._offset = self.first
        self.moves += 1

    def snapshot(self) -> State:
        """Return a copy of all rows."""
        start, stop = self.first - self._offset, self.end - self._offset
        columns: dict[str, State] = {}
        for name, values in self._values.items():
            kept = values[start:stop].copy()
            valid = self._valid.get(name)
            columns[name] = [
                Codes(kept) if self.types[name] is AttributeType.STRING else kept,
                None if valid is None else valid[start:stop].copy(),
            ]
        return {
            "first": self.first,
            "end": self.end,
            "timestamps": self._timestamps[start:stop].copy(),
            "rows": columns,
        }

    def restore(self, state: State) -> None:
        """Replace all rows by those of a snapshot."""
        self.first, self.end, self._offset = state["first"], state["end"], state["first"]
        self._timestamps = state["timestamps"]
        self._capacity = len(self._timestamps)
        self._valid = {}
        self.moves += 1
        for name, (kept, valid) in state["rows"].items():
            self._values[name] = kept.array if isinstance(kept, Codes) else kept
            if valid is not None:
                self._valid[name] = valid
        if self._capacity < 16:
            self._capacity = 16
            self._make_room(0)


def _moved(array: AnyArray, start: int, stop: int, capacity: int) -> AnyArray:
    moved = np.zeros(capacity, dtype=array.dtype)
    moved[: stop - start] = array[start:stop]
    return moved
