"""An in-memory table: rows in order of insertion, found again by primary key or by looking at all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from siddhi.analysis import model
from siddhi.engine.arrays import AnyArray, BoolArray, Int64Array
from siddhi.engine.batch import DTYPES, Column
from siddhi.engine.kernels import grown
from siddhi.engine.state import Codes, State
from siddhi.engine.strings import StringPool
from siddhi.language.ast import AttributeType

Key = tuple[object, ...]


class Table:
    """Rows are addressed by place; places of deleted rows are given up when they are more than half."""

    def __init__(self, analysed: model.AnalysedTable, pool: StringPool) -> None:
        self.id = analysed.schema.id
        self.types = dict(analysed.schema.attributes)
        self.primary_key = analysed.primary_key
        self.pool = pool
        self._used = 0
        self._alive: BoolArray = np.zeros(8, dtype=np.bool_)
        self._values: dict[str, AnyArray] = {name: np.zeros(8, dtype=DTYPES[t]) for name, t in self.types.items()}
        self._valid: dict[str, BoolArray] = {name: np.ones(8, dtype=np.bool_) for name in self.types}
        self._index: dict[Key, int] = {}

    def __len__(self) -> int:
        return int(self._alive[: self._used].sum())

    def places(self) -> Int64Array:
        """The places of all rows, in order of insertion."""
        return np.flatnonzero(self._alive[: self._used])

    def columns(self, places: Int64Array) -> dict[str, Column]:
        """The columns of the rows at `places`."""
        taken = {}
        for name, values in self._values.items():
            valid = self._valid[name][places]
            taken[name] = Column(
                self.types[name], self.pool, values=values[places], valid=None if valid.all() else valid
            )
        return taken

    def place_of(self, key: Key) -> int | None:
        """The place of the row with that primary key, None when there is none."""
        return self._index.get(key)

    def insert(self, columns: Mapping[str, Column]) -> int:
        """The rows of `columns` are in the table, but for those whose primary key was in use; returns how many were
        not."""
        refused = 0
        size = len(next(iter(columns.values())))
        keys = self._keys({name: columns[name] for name in self.primary_key}, size)
        for row in range(size):
            if self.primary_key:
                if keys[row] in self._index:
                    refused += 1
                    continue
                self._index[keys[row]] = self._used
            self._append({name: (column.values[row], _is_valid(column, row)) for name, column in columns.items()})
        return refused

    def _append(self, row: Mapping[str, tuple[object, bool]]) -> None:
        place = self._used
        self._used += 1
        self._alive = grown(self._alive, self._used)
        self._alive[place] = True
        for name, (value, valid) in row.items():
            self._values[name] = grown(self._values[name], self._used)
            self._valid[name] = grown(self._valid[name], self._used, fill=True)
            self._values[name][place] = value
            self._valid[name][place] = valid

    def _keys(self, columns: Mapping[str, Column], size: int) -> list[Key]:
        if not self.primary_key:
            return []
        lists = [columns[name].to_list() for name in self.primary_key]
        return list(zip(*lists, strict=True)) if lists else [()] * size

    def delete(self, places: Sequence[int]) -> None:
        """The rows at `places` are gone."""
        if not len(places):
            return
        listed = np.asarray(places, dtype=np.int64)
        for key in self._keys(self.columns(listed), len(listed)):
            self._index.pop(key, None)
        self._alive[listed] = False
        if 2 * len(self) < self._used - 16:
            self._compact()

    def update(self, place: int, changes: Mapping[str, tuple[object, bool]]) -> bool:
        """The row at `place` has the values of `changes` (value, whether it is valid); False, and nothing done, when
        its new primary key is in use."""
        if any(name in self.primary_key for name in changes):
            old = self._keys(self.columns(np.array([place])), 1)[0]
            before = {name: (self._values[name][place], self._valid[name][place]) for name in changes}
            self._set(place, changes)
            new = self._keys(self.columns(np.array([place])), 1)[0]
            if new != old:
                if new in self._index:
                    self._set(place, before)
                    return False
                del self._index[old]
                self._index[new] = place
            return True
        self._set(place, changes)
        return True

    def _set(self, place: int, changes: Mapping[str, tuple[object, bool]]) -> None:
        for name, (value, valid) in changes.items():
            self._values[name][place] = value
            self._valid[name][place] = valid

    def _compact(self) -> None:
        kept = self.places()
        self._values = {name: values[kept] for name, values in self._values.items()}
        self._valid = {name: valid[kept] for name, valid in self._valid.items()}
        self._used = len(kept)
        self._alive = np.ones(self._used, dtype=np.bool_)
        if self.primary_key:
            keys = self._keys(self.columns(np.arange(self._used)), self._used)
            self._index = {key: place for place, key in enumerate(keys)}

    def snapshot(self) -> State:
        self._compact()
        return {
            name: [
                Codes(values.copy()) if self.types[name] is AttributeType.STRING else values.copy(),
                self._valid[name].copy(),
            ]
            for name, values in self._values.items()
        }

    def restore(self, state: State) -> None:
        for name, (values, valid) in state.items():
            self._values[name] = values.array if isinstance(values, Codes) else values
            self._valid[name] = valid
            self._used = len(valid)
        self._alive = np.ones(self._used, dtype=np.bool_)
        self._compact()


def _is_valid(column: Column, row: int) -> bool:
    valid = column.valid
    return True if valid is None else bool(valid[row])
