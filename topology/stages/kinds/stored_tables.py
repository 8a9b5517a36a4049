"""The tables of a processing stage whose rows are in databases: see `topology.stores`.

Under at least once, changes are written as they come. When the stage starts from a state, the rows are those of its
database, and what the state says was not written yet is done once more. Under exactly once, changes are written when a
complete checkpoint holds them, and are part of its state until then: what the database has of them its groups tell.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from time import monotonic

import msgspec
import pyarrow as pa
from sqlalchemy.exc import SQLAlchemyError

from cep_common.configuration.redaction import redact
from cep_common.configuration.secrets import Secrets
from cep_common.errors import ConfigError
from cep_common.reach.databases import refuse_database
from query_plan.databases.jdbc_urls import DatabaseAddress, JdbcUrlError, from_jdbc
from query_plan.databases.stores import Store, StoreError, store_of
from siddhi.analysis import model
from siddhi.engine.operators.tables.stored_table import RowChange, StoredTable
from topology.errors import STATE_UNREADABLE, TopologyError
from topology.stages.settings import StageSettings
from topology.stores.database_table import DatabaseTable, UnreadableRowsError
from topology.stores.databases import DatabaseUrlError, guard_database, open_database, said_by
from topology.stores.keeper import TableKeeper, Unwritten


class _SavedChange(msgspec.Struct, array_like=True):
    """A change that was not written: its rows as Arrow IPC, and its group, 0 for none yet."""

    removed: bytes | None
    added: bytes | None
    group: int


class _SavedTable(msgspec.Struct):
    """What waits for a table with these `columns`."""

    columns: list[str]
    changes: list[_SavedChange]


class _Saved(msgspec.Struct):
    """The saved state: `group` is the newest ended group of this `lineage` of states."""

    lineage: str
    group: int
    tables: dict[str, _SavedTable]


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(_Saved)


def stores_of(app: model.AnalysedApp) -> dict[str, Store]:
    """Return where the tables of `app` that are not in memory are kept. Raise TopologyError for an invalid store."""
    stores: dict[str, Store] = {}
    for name, table in app.tables.items():
        try:
            store = store_of(table)
        except StoreError as error:
            if error.kept_in_memory:
                continue
            raise TopologyError("store-unusable", f"table {name}: {error}; {error.hint}") from error
        if store is not None:
            stores[name] = store
    return stores


class StoredTables:
    """The tables of a stage that are kept in databases. Belongs to the stage's thread."""

    def __init__(self, app: model.AnalysedApp, settings: StageSettings, *, tenant: int, exactly_once: bool) -> None:
        """Open the tables. Raise TopologyError when a database cannot be used as the plan says."""
        self._stores = stores_of(app)
        self._exactly_once = exactly_once
        self._most_rows = settings.store_queue_rows
        self._close_s = settings.stop_timeout_ms / 2_000
        self._databases = {
            name: _database(store, app.tables[name], settings, tenant) for name, store in self._stores.items()
        }
        self._keepers: dict[str, TableKeeper] = {}
        self._tables: Mapping[str, StoredTable] = {}
        self.left: list[str] = []
        """Descriptions, for users, of state that could not be restored."""
        self._lineage = ""
        self._group = 0
        self._groups: dict[int, int] = {}
        """By checkpoint that has not ended: its group."""

    @property
    def names(self) -> frozenset[str]:
        return frozenset(self._stores)

    def __bool__(self) -> bool:
        return bool(self._stores)

    def open(self, tables: Mapping[str, StoredTable], state: bytes | None) -> None:
        """Fill `tables` with the rows of their databases. Raise TopologyError when these cannot be read."""
        saved = _read(state)
        self._tables = tables
        self._lineage = saved.lineage
        self._group = saved.group
        self.left += [
            f"changes of the table {name} that were not yet in its database: it no longer has a store"
            for name, table in saved.tables.items()
            if table.changes and name not in tables
        ]
        for name, table in tables.items():
            database = self._databases[name]
            grouped = self._exactly_once or saved.group > 0
            try:
                database.prepare(notes_groups=grouped)
                written = database.newest_group(saved.lineage) if grouped else 0
                rows = database.read()
            except SQLAlchemyError as error:
                raise TopologyError("store-unreachable", f"table {name}: {redact(said_by(error))}") from error
            except UnreadableRowsError as error:
                raise TopologyError("store-unusable", f"table {name}: {error}") from error
            self._group = max(self._group, written)
            if len(table) and name not in saved.tables:
                self.left.append(
                    f"{len(table)} rows of the table {name} that were in memory: it has those of its store"
                )
            table.take_over(rows)
            keeper = TableKeeper(database, self._stores[name].refresh_ms, lineage=self._lineage_of_groups())
            self._keepers[name] = keeper
            unwritten = self._unwritten(table, saved.tables.get(name), written)
            table.repeat(one.change for one in unwritten)
            table.take_changes()
            keeper.resume(unwritten)
            keeper.start()

    def refresh(self) -> None:
        """Apply rows that others have changed to the tables."""
        for name, keeper in self._keepers.items():
            fresh = keeper.fresh()
            if fresh is not None:
                table = self._tables[name]
                table.take_over(fresh.rows)
                table.repeat(fresh.changes)

    def tell(self) -> None:
        """Submit changes by queries to the databases."""
        for name, table in self._tables.items():
            changes = table.take_changes()
            if changes:
                self._keepers[name].submit(changes)

    def is_full(self) -> bool:
        """Return whether more changes wait than should."""
        return any(keeper.waiting_rows() >= self._most_rows for keeper in self._keepers.values())

    def is_drained(self) -> bool:
        """Return whether no releasable change waits."""
        return all(keeper.is_drained() for keeper in self._keepers.values())

    def problems(self) -> Iterator[tuple[str, str]]:
        """Return the tables whose databases are unavailable, with the reason."""
        return ((name, redact(keeper.problem)) for name, keeper in self._keepers.items() if keeper.problem)

    def refused_rows(self) -> int:
        """Return the number of rows that databases have refused since the stage began."""
        return sum(keeper.refused_rows for keeper in self._keepers.values())

    # ---- state

    def snapshot(self) -> bytes:
        """Return the changes that are not known to be written."""
        tables = {}
        for name, keeper in self._keepers.items():
            changes = [_saved(one) for one in keeper.unwritten()]
            tables[name] = _SavedTable(_columns(self._tables[name].arrow_schema), changes)
        return _ENCODER.encode(_Saved(self._lineage, self._group, tables))

    def mark(self, checkpoint: int) -> None:
        """Record that `checkpoint` holds the changes until now."""
        if self._exactly_once and self._stores:
            self._group += 1
            self._groups[checkpoint] = self._group
            for keeper in self._keepers.values():
                keeper.end_group(self._group)

    def complete(self, checkpoint: int) -> None:
        """Allow the changes that `checkpoint` holds to be written."""
        group = self._groups.get(checkpoint, 0)
        self._groups = {later: one for later, one in self._groups.items() if later > checkpoint}
        for keeper in self._keepers.values():
            keeper.release(group)

    def close(self) -> None:
        """Write releasable changes within a time-out, and close all connections."""
        for keeper in self._keepers.values():
            keeper.end()
        until = monotonic() + self._close_s
        for keeper in self._keepers.values():
            keeper.close(max(0.0, until - monotonic()))
        for database in self._databases.values():
            database.close()

    def _unwritten(self, table: StoredTable, saved: _SavedTable | None, written: int) -> list[Unwritten]:
        """Return the unwritten changes in `saved`, without the groups up to `written`."""
        waiting = [] if saved is None else [one for one in saved.changes if not 0 < one.group <= written]
        if saved is not None and waiting and saved.columns != _columns(table.arrow_schema):
            self.left.append(f"changes of the table {table.id} that were not in its database: it has other attributes")
            return []
        return [Unwritten(_change(one, table.arrow_schema), one.group) for one in waiting]

    def _lineage_of_groups(self) -> str:
        return self._lineage if self._exactly_once else ""


def _database(store: Store, table: model.AnalysedTable, settings: StageSettings, tenant: int) -> DatabaseTable:
    secrets = Secrets(settings.secrets, "stages.secrets")
    texts = {"url": store.url, "username": store.username, "password": store.password}
    try:
        url, username, password = secrets.resolved(texts, tenant).values()
    except ConfigError as error:
        raise TopologyError("store-unusable", f"table {table.schema.id}: {error}") from error
    password_file = store.password_file
    if not settings.store_urls and (url or password_file):
        reason = "plans can use only databases that the operator has configured (stages.datasources)"
        advice = (
            "use one as datasource, without password.file, or set stages.store_urls: true in the driver's configuration"
        )
        raise TopologyError("store-unusable", f"table {table.schema.id}: {reason}; {advice}")
    guard = settings.guard()
    reason = guard.refuse_file(password_file, "password") if password_file else ""
    if not store.datasource:
        reason = reason or refuse_database(url, guard, "store")
    if reason:
        raise TopologyError("store-unusable", f"table {table.schema.id}: {reason}")
    if store.datasource:
        source = settings.datasources.get(store.datasource)
        if source is None:
            advice = f"set stages.datasources.{store.datasource}.url in the driver's configuration"
            reason = f"table {table.schema.id}: unknown datasource {store.datasource}; {advice}"
            raise TopologyError("store-unusable", reason)
        try:
            found = from_jdbc(source.url) if source.url.casefold().startswith("jdbc:") else DatabaseAddress(source.url)
        except JdbcUrlError as error:
            reason = f"stages.datasources.{store.datasource}.url: {error}"
            raise TopologyError("store-unusable", reason) from error
        url, username = found.url, username or source.username or found.username
        password_file = password_file or source.password_file
    try:
        engine = open_database(url, password_file, username, password)
    except DatabaseUrlError as error:
        raise TopologyError("store-unusable", f"table {table.schema.id}: {error.option}: {error}") from error
    if not store.datasource:
        guard_database(engine, guard)
    return DatabaseTable(engine, store, table)


def _read(state: bytes | None) -> _Saved:
    if state is None:
        return _Saved(uuid.uuid4().hex, 0, {})
    try:
        return _DECODER.decode(state)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise TopologyError(STATE_UNREADABLE, f"the state of stored tables cannot be read: {error}") from error


def _saved(unwritten: Unwritten) -> _SavedChange:
    change = unwritten.change
    return _SavedChange(_bytes(change.removed), _bytes(change.added), unwritten.group)


def _columns(schema: pa.Schema) -> list[str]:
    return [f"{field.name} {field.type}" for field in schema]


def _bytes(rows: pa.RecordBatch | None) -> bytes | None:
    return None if rows is None else rows.serialize().to_pybytes()


def _change(saved: _SavedChange, schema: pa.Schema) -> RowChange:
    try:
        parts: Sequence[pa.RecordBatch | None] = [
            None if data is None else pa.ipc.read_record_batch(pa.py_buffer(data), schema)
            for data in (saved.removed, saved.added)
        ]
        for part in parts:
            if part is not None:
                part.validate(full=True)
    except (pa.ArrowException, OSError) as error:
        raise TopologyError(STATE_UNREADABLE, f"the state of a stored table cannot be read: {error}") from error
    return RowChange(*parts)
