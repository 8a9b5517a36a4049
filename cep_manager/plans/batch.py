"""Combines many changes of the plan store into one.

They are made in a copy of its tables in memory, with the usual statements of the store, and the differences are then
written in one short transaction: while that is open the leader cannot renew its lease, and a thousand plans take
seconds to change.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy
from sqlalchemy import Connection, Table, bindparam
from sqlalchemy.pool import StaticPool

from cep_manager.errors import ChangeUnderWayError
from cep_manager.persistence.schema import EPOCHS, FORMER, METADATA, PLANS, REMOVED, SCALINGS

KEYS = {
    PLANS: ("tenant", "plan_id"),
    FORMER: ("tenant", "name"),
    EPOCHS: ("tenant", "name"),
    REMOVED: ("tenant", "name", "created_ms"),
    SCALINGS: ("tenant", "name", "at_ms", "stage"),
}
"""The tables that change, and the columns that identify their rows; a plan keeps its id when it is renamed."""

Rows = dict[tuple[Any, ...], dict[str, Any]]


class PlanBatch:
    """A copy of the tables, in `connection`. For one thread; close it."""

    def __init__(self, store: Connection) -> None:
        """Copy what `store` has."""
        self._read = {table: _rows(store, table) for table in KEYS}
        self._engine = sqlalchemy.create_engine("sqlite://", poolclass=StaticPool)
        self.connection = self._engine.connect()
        METADATA.create_all(self.connection, tables=list(KEYS))
        self.connection.execute(sqlalchemy.text("CREATE INDEX plan_ids ON cep_plans (tenant, plan_id)"))
        self.connection.execute(sqlalchemy.text("CREATE INDEX plan_names ON cep_epochs (tenant, called)"))
        for table, rows in self._read.items():
            if rows:
                self.connection.execute(table.insert(), list(rows.values()))

    def write(self, store: Connection) -> None:
        """Make the tables of `store` those of the copy.

        Raises ChangeUnderWayError when a row that is to be changed has been changed there since.
        """
        for table, read in self._read.items():
            made, there = _rows(self.connection, table), _rows(store, table)
            changed = {key for key in read.keys() | made.keys() if read.get(key) != made.get(key)}
            if any(there.get(key) != read.get(key) for key in changed):
                raise ChangeUnderWayError("a plan of this change has changed in the meantime; try again")
            columns = KEYS[table]
            stale = [
                {f"is_{name}": value for name, value in zip(columns, key, strict=True)} for key in changed & read.keys()
            ]
            if stale:
                same = (table.c[name] == bindparam(f"is_{name}") for name in columns)
                store.execute(table.delete().where(*same), stale)
            fresh = [made[key] for key in changed & made.keys()]
            if fresh:
                store.execute(table.insert(), fresh)

    def close(self) -> None:
        """Forget the copy."""
        self.connection.close()
        self._engine.dispose()


def _rows(connection: Connection, table: Table) -> Rows:
    columns = KEYS[table]
    found = connection.execute(sqlalchemy.select(table)).mappings()
    return {tuple(row[name] for name in columns): dict(row) for row in found}
