"""Sink `rdbms`: inserts events into a table of a database."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import pyarrow as pa
import sqlalchemy
from sqlalchemy import Connection, Engine, exc

from cep_common.errors import ConfigError
from cep_common.monitoring.paced_log import PacedLog
from cep_common.protocol.links import StreamSchema
from cep_worker.failed_events.entries import FailedBatch
from cep_worker.outflows.consumers import FrameId, GroupId
from cep_worker.sinks.base import EventSink, SinkContext
from cep_worker.sinks.rdbms_tables import COMMITS, event_table, note_commit, origin_of, was_committed
from cep_worker.sinks.retries import RetryableError, RetryPolicy, deliver_with_retries
from cep_worker.sinks.staged_groups import StagedGroups
from cep_worker.sinks.threaded import ThreadedSink, WriteError
from query_plan.connectors.options import read_options
from query_plan.connectors.sinks import RdbmsOptions
from siddhi.column_names import KIND, TIMESTAMP, attribute_name
from siddhi.float_values import written_batch
from topology.events.frames import arrow_schema
from topology.stores.databases import RETRY_WAITS_S, DatabaseUrlError, guard_database, may_pass, open_database, said_by

logger = logging.getLogger(__name__)
paced_logger = PacedLog(logger)

T = TypeVar("T")

_DATABASE_RETRIES = RetryPolicy(RETRY_WAITS_S)
_DISK_RETRIES = RetryPolicy(RETRY_WAITS_S[-1:])

REFUSED = "refused by the database"


@dataclass(slots=True)
class _RejectedRows:
    """Rows that the database rejected: `rows` from `first` of batch `number`, for one `reason`.

    The events stay in the file of their group.
    """

    number: int
    first: int
    rows: int
    reason: str


class _RdbmsWriter:
    """Inserts events.

    Temporary failures of the database are retried without limit, rejected events are dropped.
    """

    def __init__(
        self, engine: Engine, table: sqlalchemy.Table, stream: StreamSchema, options: RdbmsOptions, origin: str
    ) -> None:
        self.problem = ""
        self.steps = 0
        self._engine = engine
        self._table = table
        self._origin = origin
        self._schema = arrow_schema(stream)
        self._options = options
        self._staged = StagedGroups(self._schema)

    def write(self, batch: pa.RecordBatch, frame: FrameId | None, stopping: threading.Event) -> None:
        if frame is None:
            refused = self._try(lambda connection: self._insert(connection, [batch]), stopping)
            if refused:
                raise WriteError(REFUSED, _events([batch], refused))
        else:
            self._stage(batch, frame, stopping)

    def commit(self, group: GroupId, stopping: threading.Event) -> None:
        try:
            refused = self._try(lambda connection: self._commit(connection, group), stopping)
        except WriteError as error:
            raise WriteError(error.message, self._failed(group, error.message)) from error
        if refused:
            raise WriteError(REFUSED, self._refused(group, refused))
        self._staged.forget(group.log)

    def close(self) -> None:
        self._staged.close()
        self._engine.dispose()

    def _stage(self, batch: pa.RecordBatch, frame: FrameId, stopping: threading.Event) -> None:
        """Write the frame to a temporary file, so that the transaction of its group is short and repeatable."""

        def attempt() -> None:
            try:
                self._staged.put(batch, frame)
            except OSError as error:
                raise RetryableError(f"a temporary file cannot be written: {error.strerror}") from error

        deliver_with_retries(attempt, _DISK_RETRIES, stopping, self._report_disk)

    def _report_disk(self, problem: str) -> None:
        self.problem = problem
        if problem:
            paced_logger.problem("group", "group waits: table=%s reason=%s", self._table.name, problem)

    def _failed(self, group: GroupId, reason: str) -> Iterator[FailedBatch]:
        """Return all events of the group, read from its temporary file."""
        for _, batch in self._staged.batches(group):
            yield FailedBatch(batch, reason)

    def _refused(self, group: GroupId, refused: list[_RejectedRows]) -> Iterator[FailedBatch]:
        """Yield these events of the group from its temporary file, then delete the file."""
        try:
            yield from _events((batch for _, batch in self._staged.batches(group)), refused)
        finally:
            self._staged.forget(group.log)

    def _commit(self, connection: Connection, group: GroupId) -> list[_RejectedRows]:
        if was_committed(connection, self._table.name, self._origin, group):
            return []
        refused = self._insert(connection, (batch for _, batch in self._staged.batches(group)))
        note_commit(connection, self._table.name, self._origin, group)
        return refused

    def _insert(self, connection: Connection, batches: Iterable[pa.RecordBatch]) -> list[_RejectedRows]:
        """Insert the events and return the rows that the database rejected."""
        refused: list[_RejectedRows] = []
        for number, batch in enumerate(batches):
            rows = self._rows(batch)
            try:
                with connection.begin_nested():
                    connection.execute(self._table.insert(), rows)
            except exc.SQLAlchemyError as error:
                if may_pass(error):
                    raise
                refused += self._insert_each(connection, number, rows)
        return refused

    def _insert_each(self, connection: Connection, number: int, rows: list[dict[str, Any]]) -> list[_RejectedRows]:
        """Insert one event after the other, and return the rejected rows of batch `number`."""
        refused: list[_RejectedRows] = []
        for place, row in enumerate(rows):
            reason = self._insert_one(connection, row)
            last = refused[-1] if refused else None
            if reason and last is not None and (last.first + last.rows, last.reason) == (place, reason):
                last.rows += 1
            elif reason:
                refused.append(_RejectedRows(number, place, 1, reason))
        return refused

    def _insert_one(self, connection: Connection, row: dict[str, Any]) -> str:
        """Insert an event, and return why it is rejected (empty: it is not)."""
        try:
            with connection.begin_nested():
                connection.execute(self._table.insert(), [row])
        except exc.SQLAlchemyError as error:
            if may_pass(error):
                raise
            text = "event refused by the database: table=%s reason=%s"
            paced_logger.problem(f"refused {self._table.name}", text, self._table.name, said_by(error))
            return said_by(error)
        return ""

    def _rows(self, batch: pa.RecordBatch) -> list[dict[str, Any]]:
        column = self._options.timestamp_column
        shown = written_batch(batch.drop_columns([KIND] if column else [KIND, TIMESTAMP]))
        names = [column if name == TIMESTAMP else attribute_name(name) for name in shown.schema.names]
        rows: list[dict[str, Any]] = shown.rename_columns(names).to_pylist()
        return rows

    def _try(self, call: Callable[[Connection], T], stopping: threading.Event) -> T:
        """Retry `call` in a transaction until it succeeds, and return its result.

        Raises:
            WriteError: it cannot succeed, or the sink ends.
        """

        def attempt() -> T:
            try:
                self._make_tables()
                with self._engine.begin() as connection:
                    return call(connection)
            except exc.SQLAlchemyError as error:
                if not may_pass(error):
                    raise WriteError(said_by(error)) from error
                raise RetryableError(f"table {self._table.name}: {said_by(error)}") from error

        return deliver_with_retries(attempt, _DATABASE_RETRIES, stopping, self._report)

    def _report(self, problem: str) -> None:
        self.problem = problem
        if problem:
            paced_logger.problem(self._table.name, "database failed: reason=%s", problem)
        else:
            paced_logger.over(self._table.name, "database answers again: table=%s", self._table.name)

    def _make_tables(self) -> None:
        """Create missing tables, that of the events only if this is permitted."""
        if self._staged:
            COMMITS.create(self._engine, checkfirst=True)
        if self._options.create == "true":
            self._table.create(self._engine, checkfirst=True)


def rdbms_sink(context: SinkContext) -> EventSink:
    """Return a sink that inserts into a table.

    ConfigError when the URL or its driver cannot be used.
    """
    options = read_options(RdbmsOptions, context.connector.options, context.where())
    if context.connector.mapper not in ("", "passThrough") or context.connector.mapper_options:
        raise ConfigError(f"{context.where()}: attributes are written to columns; remove @map")
    if options.timestamp_column in dict(context.schema.attributes):
        advice = "is the column of an attribute; choose another name"
        raise ConfigError(f"{context.where()}: timestamp.column: {options.timestamp_column} {advice}")
    try:
        engine = open_database(options.url, options.password_file)
    except DatabaseUrlError as error:
        raise ConfigError(f"{context.where()}: {error.option}: {error}") from error
    if context.guard is not None and "url" not in context.given:
        guard_database(engine, context.guard)
    stream = StreamSchema(context.connector.stream, context.schema.attributes)
    table = event_table(options.table_name, stream.attributes, options.timestamp_column)
    origin = origin_of(stream.stream, context.label)
    return ThreadedSink(context, _RdbmsWriter(engine, table, stream, options, origin), options.on_error)


def _events(batches: Iterable[pa.RecordBatch], refused: list[_RejectedRows]) -> Iterator[FailedBatch]:
    """Yield the rejected events of `batches` in order."""
    left = iter(refused)
    one = next(left, None)
    for number, batch in enumerate(batches):
        while one is not None and one.number == number:
            yield FailedBatch(batch.slice(one.first, one.rows), f"{REFUSED}: {one.reason}")
            one = next(left, None)
