"""One table of a database: its rows are read as a whole, and changed in transactions."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple

import pyarrow as pa
import sqlalchemy
from sqlalchemy import BigInteger, Column, Connection, Engine, Index, MetaData, String, Table, exc
from sqlalchemy.engine.interfaces import ReflectedColumn
from sqlalchemy.types import Float, TypeEngine

from query_plan.databases.stores import Store
from siddhi.analysis import model
from siddhi.arrow_types import ARROW_TYPES
from topology.stores.databases import COLUMN_TYPES, may_pass, said_by
from topology.stores.pending import Row, Writes, identity_of

logger = logging.getLogger(__name__)

KEY_LENGTH = 254
"""Characters of a text in a key or an index, unless `field.length` says otherwise: some databases need to know."""
ROWS_AT_ONCE = 10_000

COMMITS = Table(
    "cep_table_commits",
    MetaData(),
    Column("lineage", String(64), primary_key=True),
    Column("table_id", String(255), primary_key=True),
    Column("group_number", BigInteger, nullable=False),
)
"""For each lineage of a plan's state the newest group of changes that is in the table: see `TableKeeper`."""


class UnreadableRowsError(ValueError):
    """The database's rows do not fit the table's attributes."""


class ChangeGroup(NamedTuple):
    """A group of changes that is written once, whatever happens: it has a number in the `lineage` of a state."""

    lineage: str
    number: int


class DatabaseTable:
    """The table `store` of the database `engine`, which has the rows of the plan's table `analysed`."""

    def __init__(self, engine: Engine, store: Store, analysed: model.AnalysedTable) -> None:
        self.name = store.table_name
        self.primary_key = analysed.primary_key
        self._id = analysed.schema.id
        self._engine = engine
        self._creates = store.creates
        self._types = {name: ARROW_TYPES[type_] for name, type_ in analysed.schema.attributes}
        self._table = _table(store, analysed)
        self._keys = {name: f"key_{place}" for place, name in enumerate(self.primary_key)}
        others = [name for name in self._types if name not in self.primary_key]
        self._broken: dict[str, TypeEngine[Any]] = {}
        """The types of columns with fractional numbers, in a table that already existed."""
        self._values = {name: f"value_{place}" for place, name in enumerate(others)}

    def prepare(self, *, notes_groups: bool) -> None:
        """Create missing tables, if allowed, and find the columns of existing ones.

        Raises SQLAlchemyError, and UnreadableRowsError when a column is missing.
        """
        inspector = sqlalchemy.inspect(self._engine)
        wanted = self._table
        name = _alike(wanted.name, inspector.get_table_names(wanted.schema) + inspector.get_view_names(wanted.schema))
        if name is not None:
            self._table = self._found(name, inspector.get_columns(name, wanted.schema))
        elif self._creates:
            self._make(wanted)
        if notes_groups:
            self._make(COMMITS)

    def _make(self, table: Table) -> None:
        """Create the table, unless another stage creates it at the same moment."""
        try:
            table.create(self._engine, checkfirst=True)
        except exc.SQLAlchemyError:
            if not sqlalchemy.inspect(self._engine).has_table(table.name, table.schema):
                raise

    def _found(self, name: str, reflected: Sequence[ReflectedColumn]) -> Table:
        """Return the existing table; its names may differ in case, as in databases that ignore case."""
        found: list[Any] = []
        columns = [one["name"] for one in reflected]
        for attribute, column in self._table.columns.items():
            there = _alike(column.name, columns)
            if there is None:
                known = ", ".join(columns)
                raise UnreadableRowsError(f"the table {name} has no column '{attribute}'; it has {known}")
            found.append(Column(there, column.type, key=attribute))
            if isinstance(column.type, Float):
                self._broken[attribute] = reflected[columns.index(there)]["type"]
        return Table(name, MetaData(), *found, schema=self._table.schema)

    def read(self) -> pa.RecordBatch:
        """Return all rows. Raise SQLAlchemyError, and UnreadableRowsError."""
        columns = self._table.columns
        query = sqlalchemy.select(*columns).order_by(*(columns[name] for name in self.primary_key))
        pieces: list[pa.RecordBatch] = []
        with self._engine.connect() as connection:
            found = connection.execution_options(yield_per=ROWS_AT_ONCE).execute(query)
            pieces.extend(self._records(rows) for rows in found.partitions())
        schema = pa.schema(list(self._types.items()))
        whole = pa.Table.from_batches(pieces, schema).combine_chunks().to_batches()
        return whole[0] if whole else pa.RecordBatch.from_pylist([], schema)

    def _records(self, rows: Sequence[sqlalchemy.Row[Any]]) -> pa.RecordBatch:
        arrays = []
        for (name, type_), values in zip(self._types.items(), zip(*rows, strict=True), strict=True):
            try:
                arrays.append(_array(values, type_))
            except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
                reason = f"column {name} of the table {self.name} contains values that are not {type_}: {error}"
                raise UnreadableRowsError(reason) from error
        return pa.record_batch(arrays, names=list(self._types))

    def newest_group(self, lineage: str) -> int:
        """Return the number of the newest group of `lineage` in the table, 0 for none. Raise SQLAlchemyError."""
        with self._engine.connect() as connection:
            return self._newest(connection, lineage)

    def write(self, writes: Writes, group: ChangeGroup | None = None) -> int:
        """Write to the database, unless `group` was written before; return the number of rows that it refused.

        Raises:
            SQLAlchemyError: When the database cannot take them now.
        """
        with self._engine.begin() as connection:
            if group is not None and not self._note(connection, group):
                return 0
            refused = self._delete(connection, writes.deletes)
            refused += self._each(connection, writes.updates, self._update)
            for move in writes.moves:
                rows = [move.after] * move.rows
                refused += self._each(connection, rows, partial(self._move, move.before), one_by_one=False)
            refused += self._each(connection, writes.inserts, self._insert)
        return refused

    def close(self) -> None:
        self._engine.dispose()

    # ---- statements

    def _delete(self, connection: Connection, rows: Sequence[Row]) -> int:
        if self.primary_key:
            return self._each(connection, rows, self._delete_by_key)
        counts: dict[tuple[object, ...], int] = {}
        known: dict[tuple[object, ...], Row] = {}
        for row in rows:
            identity = identity_of(row, self._types)
            counts[identity] = counts.get(identity, 0) + 1
            known[identity] = row
        refused = 0
        for identity, count in counts.items():
            rows = [known[identity]] * count
            refused += self._each(connection, rows, self._delete_alike, one_by_one=False)
        return refused

    def _delete_alike(self, connection: Connection, rows: Sequence[Row]) -> None:
        """Delete as many of the equal rows as there are `rows` of each.

        First all are deleted, then the remaining ones are inserted again.
        """
        same = self._same_as(rows[0])
        remaining = self._count(connection, same) - len(rows)
        connection.execute(self._table.delete().where(*same))
        if remaining > 0:
            self._insert(connection, [rows[0]] * remaining)

    def _move(self, before: Row, connection: Connection, rows: Sequence[Row]) -> None:
        """Change as many rows that equal `before` as there are `rows`, which are equal.

        When more rows equal `before`, rows are deleted and inserted again.
        """
        same = self._same_as(before)
        there = self._count(connection, same)
        if there > len(rows):
            self._delete_alike(connection, [before] * len(rows))
            there = 0
        else:
            changed = {name: value for name, value in rows[0].items() if value != before[name]}
            connection.execute(self._table.update().where(*same).values(changed))
        if there < len(rows):
            self._insert(connection, rows[there:])

    def _same_as(self, row: Row) -> list[sqlalchemy.ColumnElement[bool]]:
        """Return the condition that a row equals `row`, in a form that indexes support; NaN never equals itself."""
        return [
            self._table.c[name].is_not_distinct_from(self._bound(name, value))
            if value != value  # noqa: PLR0124
            else self._table.c[name] == self._bound(name, value)
            for name, value in row.items()
        ]

    def _count(self, connection: Connection, where: Sequence[sqlalchemy.ColumnElement[bool]]) -> int:
        counting = sqlalchemy.select(sqlalchemy.func.count()).select_from(self._table).where(*where)
        return connection.scalar(counting) or 0

    def _bound(self, name: str, value: object) -> object:
        """Return `value` as the column has it: 0.1 is another number with fewer digits."""
        type_ = self._broken.get(name)
        return value if type_ is None or value is None else sqlalchemy.cast(sqlalchemy.literal(value), type_)

    def _delete_by_key(self, connection: Connection, rows: Sequence[Row]) -> None:
        for names, alike in self._by_nulls(rows):
            connection.execute(self._table.delete().where(*self._has_key(names)), [self._key_of(row) for row in alike])

    def _update(self, connection: Connection, rows: Sequence[Row]) -> None:
        """Rows that are no longer there stay away: others have deleted them."""
        if self._values:
            values: dict[str, Any] = {name: sqlalchemy.bindparam(bound) for name, bound in self._values.items()}
            for names, alike in self._by_nulls(rows):
                new = [{bound: row[name] for name, bound in self._values.items()} | self._key_of(row) for row in alike]
                connection.execute(self._table.update().where(*self._has_key(names)).values(values), new)

    def _insert(self, connection: Connection, rows: Sequence[Row]) -> None:
        connection.execute(self._table.insert(), list(rows))

    def _by_nulls(self, rows: Sequence[Row]) -> Iterable[tuple[tuple[str, ...], list[Row]]]:
        """Return `rows` by the parts of their keys that are not null, since nothing is equal to null."""
        parts: dict[tuple[str, ...], list[Row]] = {}
        for row in rows:
            parts.setdefault(tuple(name for name in self._keys if row[name] is not None), []).append(row)
        return parts.items()

    def _has_key(self, names: Collection[str]) -> list[sqlalchemy.ColumnElement[bool]]:
        """Return the condition that a row has the key whose parts `names` are bound, and null for the others."""
        return [
            self._table.c[name] == (sqlalchemy.bindparam(bound) if name in names else None)
            for name, bound in self._keys.items()
        ]

    def _key_of(self, row: Row) -> Row:
        return {bound: row[name] for name, bound in self._keys.items() if row[name] is not None}

    def _each(
        self,
        connection: Connection,
        rows: Sequence[Row],
        act: Callable[[Connection, Sequence[Row]], None],
        *,
        one_by_one: bool = True,
    ) -> int:
        """Run `act` for all `rows`, or, `one_by_one`, for each that the database accepts; return the number refused."""
        if not rows:
            return 0
        try:
            with connection.begin_nested():
                act(connection, rows)
        except exc.SQLAlchemyError as error:
            if may_pass(error):
                raise
            if one_by_one:
                reasons = [reason for row in rows if (reason := self._refused(connection, row, act))]
            else:
                reasons = [said_by(error)] * len(rows)
            if reasons:
                text = "rows refused by the database: table=%s rows=%d first_reason=%s"
                logger.warning(text, self.name, len(reasons), reasons[0])
            return len(reasons)
        return 0

    def _refused(self, connection: Connection, row: Row, act: Callable[[Connection, Sequence[Row]], None]) -> str:
        """Return why the database refuses `row`, empty when it accepts it.

        A row that others have inserted in the meantime is updated.
        """
        try:
            with connection.begin_nested():
                act(connection, [row])
        except exc.SQLAlchemyError as error:
            if may_pass(error):
                raise
            if isinstance(error, exc.IntegrityError) and act == self._insert and self._is_there(connection, row):
                return self._refused(connection, row, self._update)
            return said_by(error) or type(error).__name__
        return ""

    def _is_there(self, connection: Connection, row: Row) -> bool:
        where = [self._table.c[name] == row[name] for name in self.primary_key]
        return bool(where) and connection.execute(sqlalchemy.select(1).where(*where)).first() is not None

    # ---- groups

    def _newest(self, connection: Connection, lineage: str) -> int:
        query = sqlalchemy.select(COMMITS.c.group_number).where(*self._of(lineage))
        return connection.scalar(query) or 0

    def _note(self, connection: Connection, group: ChangeGroup) -> bool:
        """Record the group, and return whether it was not in the table yet.

        It is recorded before its changes are made: a stage that was given up but still writes waits here for the
        other to end, and then finds that the group was written.
        """
        values = {"group_number": group.number}
        older = COMMITS.c.group_number < group.number
        if connection.execute(COMMITS.update().where(*self._of(group.lineage), older).values(values)).rowcount:
            return True
        if self._newest(connection, group.lineage) >= group.number:
            return False
        try:
            with connection.begin_nested():
                connection.execute(COMMITS.insert().values(lineage=group.lineage, table_id=self._id, **values))
        except exc.IntegrityError:
            return False
        return True

    def _of(self, lineage: str) -> tuple[sqlalchemy.ColumnElement[bool], ...]:
        return COMMITS.c.lineage == lineage, COMMITS.c.table_id == self._id


def _array(values: Sequence[object], type_: pa.DataType) -> pa.Array:
    """`values` unchanged, or an error: pyarrow would convert 1.5 to 1 for whole numbers."""
    if pa.types.is_integer(type_):
        found = pa.array(values)
        if any(is_such(found.type) for is_such in (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)):
            return found.cast(type_)
    return pa.array(values, type_)


def _alike(name: str, names: Sequence[str]) -> str | None:
    """Return the one of `names` that is `name` in any case; None when there is none or it is ambiguous."""
    if name in names:
        return name
    same = [one for one in names if one.casefold() == name.casefold()]
    return same[0] if len(same) == 1 else None


def _table(store: Store, analysed: model.AnalysedTable) -> Table:
    """Return the table, or `schema.table`, with a column for each attribute."""
    schema, _, name = store.table_name.rpartition(".")
    key, indexed = analysed.primary_key, set(analysed.primary_key) | set(analysed.indexes)

    def type_of(attribute: str, kind: str) -> TypeEngine[Any]:
        length = store.field_lengths.get(attribute, KEY_LENGTH if attribute in indexed else 0)
        return String(length) if kind == "string" and length else COLUMN_TYPES[kind]()

    columns: list[Any] = [
        Column(attribute, type_of(attribute, kind.value), primary_key=attribute in key, autoincrement=False)
        for attribute, kind in analysed.schema.attributes
    ]
    indexes = [Index(f"ix_{name}_{attribute}", attribute) for attribute in analysed.indexes if attribute not in key]
    return Table(name, MetaData(), *columns, *indexes, schema=schema or None)
