"""A table whose rows belong to an external store: it reports changes by queries, and takes over the store's rows.

queries ──► insert, update, delete ──► rows in memory ──► changes, for the store
                                              ▲
                                 rows of the store, as others left them
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from siddhi.analysis import model
from siddhi.arrow_types import ARROW_TYPES
from siddhi.engine.columnar.column import Column
from siddhi.engine.columnar.strings import StringPool
from siddhi.engine.jit.arrays import Int64Array
from siddhi.engine.operators.tables.hash_index import HashIndex
from siddhi.engine.operators.tables.table import Table


class RowChange(NamedTuple):
    """A change of rows: the rows `removed` leave the table, then the rows `added` enter it; None means no rows.

    Both are record batches of the table's attributes, in their order and under their own names. A changed row is in
    both, at the same position.
    """

    removed: pa.RecordBatch | None
    added: pa.RecordBatch | None


class StoredTable(Table):
    """A table that holds the rows of a store. Queries see it as any other table."""

    def __init__(self, analysed: model.AnalysedTable, pool: StringPool) -> None:
        super().__init__(analysed, pool)
        self.arrow_schema = pa.schema([pa.field(name, ARROW_TYPES[type_]) for name, type_ in self.types.items()])
        self._changes: list[RowChange] = []

    # ---- changes by queries

    def take_changes(self) -> list[RowChange]:
        """Return the changes that queries have made since the last call, in order."""
        changes, self._changes = self._changes, []
        return changes

    def _append(self, columns: Mapping[str, Column], size: int, done: HashIndex | None = None) -> None:
        super()._append(columns, size, done)
        self._changes.append(RowChange(None, self._records(np.arange(self.used - size, self.used))))

    def delete(self, places: Int64Array) -> None:
        if len(places):
            self._changes.append(RowChange(self._records(places), None))
        super().delete(places)

    def update(self, places: Int64Array, changes: Mapping[str, Column]) -> int:
        removed = self._records(places)
        refused = super().update(places, changes)
        added = self._records(places)
        if not refused and not removed.equals(added):
            self._changes.append(RowChange(removed, added))
        return refused

    def _records(self, places: Int64Array) -> pa.RecordBatch:
        """Return a copy of the rows at `places`."""
        columns = self.columns(places)
        return pa.record_batch([columns[name].to_arrow() for name in self.types], schema=self.arrow_schema)

    # ---- changes in the store

    def take_over(self, rows: pa.RecordBatch) -> None:
        """Replace the contents of the table by `rows`; of several with one primary key the first is kept."""
        told, self._changes = self._changes, []
        self._clear()
        if rows.num_rows:
            self.insert(self._columns(rows))
        self._changes = told

    def repeat(self, changes: Iterable[RowChange]) -> None:
        """Repeat `changes`, which were reported before, in order, as far as their rows exist.

        Without a primary key this uses an index on all attributes. The index is dropped afterwards, as it would slow
        down every later change.
        """
        told, self._changes = self._changes, []
        everything = tuple(self.types)
        lent = self.key is None and everything not in self.indexes
        for change in changes:
            index = self.key or self.index_on(everything)
            for rows in (change.removed, change.added if self.primary_key else None):
                if rows is not None and rows.num_rows and len(self):
                    self._delete_alike(index, rows)
            if change.added is not None and change.added.num_rows:
                self.insert(self._columns(change.added))
        if lent:
            self.indexes.pop(everything, None)
        self._changes = told

    def _delete_alike(self, index: HashIndex, rows: pa.RecordBatch) -> None:
        """Delete one row for each of `rows` with an equal key, as long as there are any."""
        keys = self.keys_of(index, self._columns(rows), rows.num_rows)
        while len(keys):
            keys, counts = np.unique(keys, axis=0, return_counts=True)
            places, _ = index.first(keys)
            here = places >= 0
            self.delete(places[here])
            keys = keys[here].repeat(counts[here] - 1, axis=0)

    def _columns(self, rows: pa.RecordBatch) -> dict[str, Column]:
        return {name: Column(type_, self.pool, arrow=rows.column(name)) for name, type_ in self.types.items()}

    def _clear(self) -> None:
        self.restore({name: [values[:0], None] for name, values in self._values.items()})
