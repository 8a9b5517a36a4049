"""What changes of a table come to, row by row: what must be deleted, updated and inserted in its database. Pure.

k=1 inserted, k=1 updated, k=2 updated, k=3 inserted and deleted   ──►   insert k=1, update k=2
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from siddhi.engine.tables.stored_table import RowChange

Row = dict[str, Any]
"""The values of a row by attribute."""
Identity = tuple[Hashable, ...]
"""What tells a row from others: its primary key, or all its values."""


@dataclass(slots=True)
class Writes:
    """What is to be done to a database's table, in this order. Without a primary key `deletes` has as many of a row as
    are to go, and there are no `updates`."""

    deletes: list[Row] = field(default_factory=list)
    updates: list[Row] = field(default_factory=list)
    inserts: list[Row] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.deletes) + len(self.updates) + len(self.inserts)


def writes_of(changes: Iterable[RowChange], primary_key: Sequence[str]) -> Writes:
    """What `changes`, in their order, come to in a table that is as it was before them."""
    return _by_key(changes, primary_key) if primary_key else _by_row(changes)


def _by_key(changes: Iterable[RowChange], primary_key: Sequence[str]) -> Writes:
    before: dict[Identity, bool] = {}
    after: dict[Identity, Row | None] = {}
    for change in changes:
        for row in _rows(change.removed):
            identity = identity_of(row, primary_key)
            before.setdefault(identity, True)
            after[identity] = None
        for row in _rows(change.added):
            identity = identity_of(row, primary_key)
            before.setdefault(identity, False)
            after[identity] = row
    writes = Writes()
    for identity, now in after.items():
        if now is not None:
            (writes.updates if before[identity] else writes.inserts).append(now)
        elif before[identity]:
            writes.deletes.append(dict(zip(primary_key, identity, strict=True)))
    return writes


def _by_row(changes: Iterable[RowChange]) -> Writes:
    more: dict[Identity, int] = {}
    known: dict[Identity, Row] = {}
    for change in changes:
        for rows, by in ((change.removed, -1), (change.added, 1)):
            for row in _rows(rows):
                identity = identity_of(row, tuple(row))
                known.setdefault(identity, row)
                more[identity] = more.get(identity, 0) + by
    writes = Writes()
    for identity, count in more.items():
        (writes.inserts if count > 0 else writes.deletes).extend([known[identity]] * abs(count))
    return writes


def identity_of(row: Row, names: Iterable[str]) -> Identity:
    """The values of `names` in `row`. No number is equal to itself when it is none: such are told by a text."""
    return tuple("NaN" if (value := row[name]) != value else value for name in names)


def _rows(batch: pa.RecordBatch | None) -> Iterable[Row]:
    rows: list[Row] = [] if batch is None else batch.to_pylist()
    return rows
