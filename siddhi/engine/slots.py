"""Rows that a window holds and lets go in any order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from siddhi.engine.arrays import AnyArray, BoolArray, Int64Array
from siddhi.engine.batch import EventBatch
from siddhi.engine.column import DTYPES, Column
from siddhi.engine.kernels import grown
from siddhi.engine.state import Codes, State
from siddhi.engine.strings import StringPool
from siddhi.language.ast import AttributeType


class SlotStore:
    """Each row has a slot; freed slots are used again. `columns` names what is kept of each row besides its
    timestamp."""

    def __init__(self, columns: Mapping[str, AttributeType], pool: StringPool) -> None:
        self.pool = pool
        self.types = dict(columns)
        self.timestamps: Int64Array = np.zeros(8, dtype=np.int64)
        self._values: dict[str, AnyArray] = {name: np.zeros(8, dtype=DTYPES[t]) for name, t in columns.items()}
        self._valid: dict[str, BoolArray] = {name: np.ones(8, dtype=np.bool_) for name in columns}
        self._free: list[int] = []
        self._used = 0

    def __len__(self) -> int:
        return self._used - len(self._free)

    def add(self, batch: EventBatch) -> list[int]:
        """The slots in which the rows of `batch` now lie."""
        slots = [self._free.pop() if self._free else self._next() for _ in range(batch.size)]
        self.timestamps = grown(self.timestamps, self._used)
        self.timestamps[slots] = batch.timestamps
        for name in self.types:
            column = batch.columns[name]
            self._values[name] = grown(self._values[name], self._used)
            self._valid[name] = grown(self._valid[name], self._used, fill=True)
            self._values[name][slots] = column.values
            self._valid[name][slots] = True if column.valid is None else column.valid
        return slots

    def put(self, name: str, slot: int, value: float) -> None:
        """The row in `slot` has another value in a column of numbers, if that is kept."""
        if name in self._values:
            self._values[name][slot], self._valid[name][slot] = value, True

    def _next(self) -> int:
        self._used += 1
        return self._used - 1

    def free(self, slots: Iterable[int]) -> None:
        """The rows in `slots` are gone."""
        self._free.extend(slots)

    def take(self, slots: Int64Array) -> dict[str, Column]:
        """The columns of the rows in `slots`."""
        taken = {}
        for name, values in self._values.items():
            valid = self._valid[name][slots]
            taken[name] = Column(
                self.types[name], self.pool, values=values[slots], valid=None if valid.all() else valid
            )
        return taken

    def snapshot(self) -> State:
        used = self._used
        columns: dict[str, State] = {}
        for name, type_ in self.types.items():
            values, valid = self._values[name][:used].copy(), self._valid[name][:used].copy()
            columns[name] = [Codes(values) if type_ is AttributeType.STRING else values, valid]
        return {"columns": columns, "timestamps": self.timestamps[:used].copy(), "free": list(self._free), "used": used}

    def restore(self, state: State) -> None:
        self.timestamps, self._free, self._used = state["timestamps"], state["free"], state["used"]
        for name, (values, valid) in state["columns"].items():
            self._values[name] = values.array if isinstance(values, Codes) else values
            self._valid[name] = valid
