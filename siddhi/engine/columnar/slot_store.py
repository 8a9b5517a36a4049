"""The rows of a window that are removed in any order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from siddhi.engine.columnar.batch import EventBatch
from siddhi.engine.columnar.column import DTYPES, Column
from siddhi.engine.columnar.state_tree import Codes, State
from siddhi.engine.columnar.strings import StringPool
from siddhi.engine.jit.arrays import NO_POSITIONS, AnyArray, BoolArray, Int64Array
from siddhi.engine.jit.kernels import grown
from siddhi.language.ast import AttributeType


class SlotStore:
    """A store in which each row has a slot; freed slots are reused, the last freed first.

    `columns` names the attributes stored for each row besides its timestamp; a column that never had a null has no
    mask.
    """

    def __init__(self, columns: Mapping[str, AttributeType], pool: StringPool) -> None:
        """Create an empty store.

        Args:
            columns: The names and types of the columns.
            pool: Holds the texts of the app.
        """
        self.pool = pool
        self.types = dict(columns)
        self.timestamps: Int64Array = np.zeros(8, dtype=np.int64)
        self._values: dict[str, AnyArray] = {name: np.zeros(8, dtype=DTYPES[t]) for name, t in columns.items()}
        self._valid: dict[str, BoolArray] = {}
        self._masked = frozenset(n for n, t in columns.items() if t not in (AttributeType.STRING, AttributeType.OBJECT))
        self._free: Int64Array = np.zeros(8, dtype=np.int64)
        self._free_count = 0
        self.used = 0
        """The number of slots, including free ones."""

    def __len__(self) -> int:
        """Return the number of slots in use."""
        return self.used - self._free_count

    def add(self, batch: EventBatch) -> Int64Array:
        """Store the rows of `batch` and return their slots."""
        size = batch.size
        again = min(size, self._free_count)
        self._free_count -= again
        slots = np.empty(size, dtype=np.int64)
        slots[:again] = self._free[self._free_count : self._free_count + again][::-1]
        if again < size:
            slots[again:] = np.arange(self.used, self.used + size - again)
            self.used += size - again
            self.timestamps = grown(self.timestamps, self.used)
            self._values = {name: grown(values, self.used) for name, values in self._values.items()}
            self._valid = {name: grown(valid, self.used, fill=True) for name, valid in self._valid.items()}
        self.timestamps[slots] = batch.timestamps
        for name, values in self._values.items():
            column = batch.columns[name]
            values[slots] = column.values
            if name not in self._masked:
                continue
            valid = column.valid
            if valid is not None or name in self._valid:
                self._mask(name)[slots] = True if valid is None else valid
        return slots

    def _mask(self, name: str) -> BoolArray:
        if name not in self._valid:
            self._valid[name] = np.ones(len(self._values[name]), dtype=np.bool_)
        return self._valid[name]

    def put(self, name: str, slot: int, value: float) -> None:
        """Replace the value of the row in `slot` in a column of numbers, if that column is kept."""
        if name in self._values:
            self._values[name][slot] = value
            if name in self._valid:
                self._valid[name][slot] = True

    def free(self, slots: Int64Array | Sequence[int]) -> None:
        """Free the rows in `slots`."""
        count = self._free_count + len(slots)
        self._free = grown(self._free, count)
        self._free[self._free_count : count] = slots
        self._free_count = count

    def live(self) -> BoolArray:
        """Return which slots have a row."""
        live: BoolArray = np.ones(self.used, dtype=np.bool_)
        live[self._free[: self._free_count]] = False
        return live

    def take(self, slots: Int64Array) -> dict[str, Column]:
        """Return the columns of the rows in `slots`."""
        return {name: self.taken(name, slots) for name in self._values}

    def taken(self, name: str, slots: Int64Array) -> Column:
        """Return one column of the rows in `slots`."""
        valid = self._valid[name][slots] if name in self._valid else None
        if valid is not None and valid.all():
            valid = None
        return Column(self.types[name], self.pool, values=self._values[name][slots], valid=valid)

    def column(self, name: str) -> AnyArray:
        """Return the values of a column by slot."""
        return self._values[name]

    def snapshot(self) -> State:
        """Return a copy of all slots, used and free."""
        used = self.used
        columns: dict[str, State] = {}
        for name, type_ in self.types.items():
            values = self._values[name][:used].copy()
            valid = self._valid[name][:used].copy() if name in self._valid else None
            columns[name] = [Codes(values) if type_ is AttributeType.STRING else values, valid]
        free = self._free[: self._free_count].copy()
        return {"columns": columns, "timestamps": self.timestamps[:used].copy(), "free": free, "used": used}

    def restore(self, state: State) -> None:
        """Replace all slots by those of a snapshot."""
        self.timestamps, self.used = state["timestamps"], state["used"]
        self._free = np.array(state["free"], dtype=np.int64)
        self._free_count = len(self._free)
        self._valid = {}
        for name, (values, valid) in state["columns"].items():
            self._values[name] = values.array if isinstance(values, Codes) else values
            if valid is not None:
                self._valid[name] = valid

    def joined_states(self, states: Sequence[State]) -> State:
        """Return one state of the rows of all `states`, whose slots follow each other."""
        columns: dict[str, State] = {}
        for name, type_ in self.types.items():
            parts = [state["columns"][name] for state in states]
            values = np.concatenate([kept.array if isinstance(kept, Codes) else kept for kept, _ in parts])
            masks = [np.ones(state["used"], dtype=np.bool_) if valid is None else valid
                     for state, (_, valid) in zip(states, parts, strict=True)]  # fmt: skip
            valid = np.concatenate(masks) if any(mask is not None for _, mask in parts) else None
            columns[name] = [Codes(values) if type_ is AttributeType.STRING else values, valid]
        free, first = [NO_POSITIONS], 0
        for state in states:
            free.append(np.asarray(state["free"], dtype=np.int64) + first)
            first += state["used"]
        stamps = np.concatenate([state["timestamps"] for state in states])
        return {"columns": columns, "timestamps": stamps, "free": np.concatenate(free), "used": first}
