"""The net effect of changes of a table, row by row: what must be deleted, updated and inserted in its database. Pure.

k=1 inserted, k=1 updated, k=2 updated, k=3 inserted and deleted   ──►   insert k=1, update k=2
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any, NamedTuple

import pyarrow as pa

from siddhi.engine.operators.tables.stored_table import RowChange

Row = dict[str, Any]
"""The values of a row by attribute."""
Identity = tuple[Hashable, ...]
"""What identifies a row: its primary key, or all its values."""


class RowMove(NamedTuple):
    """A change of `rows` equal rows from `before` to `after`; columns that the plan does not have are unchanged."""

    before: Row
    after: Row
    rows: int


@dataclass(slots=True)
class Writes:
    """The writes to a database's table, in this order.

    Without a primary key, `deletes` holds as many copies of a row as are to be deleted, and instead of `updates`
    there are `moves`: rows before and after the change.
    """

    deletes: list[Row] = field(default_factory=list)
    updates: list[Row] = field(default_factory=list)
    moves: list[RowMove] = field(default_factory=list)
    inserts: list[Row] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.deletes) + len(self.updates) + len(self.moves) + len(self.inserts)


def writes_of(changes: Iterable[RowChange], primary_key: Sequence[str]) -> Writes:
    """Return the net effect of `changes`, in their order, as writes to a table."""
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
    rows = _Rows()
    for change in changes:
        for before, after in zip_longest(_rows(change.removed), _rows(change.added)):
            rows.become(before, after)
    return rows.writes()


class _Rows:
    """Rows without a key, as many as there are more or less of them, and what was before those that have changed."""

    def __init__(self) -> None:
        self._more: dict[Identity, int] = {}
        self._origins: dict[Identity, list[Identity]] = {}
        self._known: dict[Identity, Row] = {}
        self._came: set[Identity] = set()
        self._mixed: set[Identity] = set()
        """What left after others had come that are the same: those that were there may not all go one way."""

    def become(self, before: Row | None, after: Row | None) -> None:
        """Record that a row changed from `before` to `after`; None: it did not exist, or was deleted."""
        origin: Identity | None = None
        if before is not None:
            origin = identity = self._identity(before)
            if self._origins.get(identity):
                origin = self._origins[identity].pop()
            elif self._more.get(identity, 0) > 0:
                self._more[identity] -= 1
                origin = None
            elif identity in self._came:
                self._mixed.add(identity)
        if after is not None:
            self._came.add(self._identity(after))
        if after is not None and origin is not None:
            self._origins.setdefault(self._identity(after), []).append(origin)
        elif after is not None:
            identity = self._identity(after)
            self._more[identity] = self._more.get(identity, 0) + 1
        elif origin is not None:
            self._more[origin] = self._more.get(origin, 0) - 1

    def writes(self) -> Writes:
        """Return the net writes.

        Rows move only where all that are equal move to the same row and meet none that leave; otherwise they are
        deleted and inserted again.
        """
        counts = Counter((origin, now) for now, origins in self._origins.items() for origin in origins if origin != now)
        ways = Counter(origin for origin, _ in counts)
        leaving = {*ways, *(identity for identity, count in self._more.items() if count < 0)}
        writes = Writes()
        for (origin, now), count in counts.items():
            alone = ways[origin] == 1 and origin not in self._mixed
            if alone and self._more.get(origin, 0) >= 0 and now not in leaving:
                writes.moves.append(RowMove(self._known[origin], self._known[now], count))
            else:
                self._more[origin] = self._more.get(origin, 0) - count
                self._more[now] = self._more.get(now, 0) + count
        for identity, count in self._more.items():
            (writes.inserts if count > 0 else writes.deletes).extend([self._known[identity]] * abs(count))
        return writes

    def _identity(self, row: Row) -> Identity:
        identity = identity_of(row, tuple(row))
        self._known.setdefault(identity, row)
        return identity


def identity_of(row: Row, names: Iterable[str]) -> Identity:
    """Return the values of `names` in `row`. NaN does not equal itself, so a text represents it."""
    return tuple("NaN" if (value := row[name]) != value else value for name in names)


def _rows(batch: pa.RecordBatch | None) -> list[Row]:
    rows: list[Row] = [] if batch is None else batch.to_pylist()
    return rows
