"""Sink `error-store`: keeps events that failed in queries in the worker's failed-event store.

Plans do not declare it: streams with `@OnError(action='STORE')` have one.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import msgspec
import pyarrow as pa

from cep_worker.failed_events.entries import FailedBatch, FailureOrigin
from cep_worker.failed_events.store import FailedEventStore
from cep_worker.outflows.consumers import FrameId, GroupId
from cep_worker.sinks.base import EventSink, SinkContext
from cep_worker.sinks.threaded import ThreadedSink, WriteError
from query_plan.connectors.options import Options, read_options

ERROR_COLUMN = "_error"
"""The additional attribute of a fault stream: an object with `query` and `message`."""


class FailedEventSinkOptions(Options, frozen=True):
    """The options of the sink: `stream` is the one in which the events failed."""

    stream: str


class _FailedEventWriter:
    """Stores failed events; those that do not fit are dropped."""

    def __init__(self, store: FailedEventStore, origin: FailureOrigin) -> None:
        self.problem = ""
        self.steps = 0
        self._store = store
        self._origin = origin

    def write(self, batch: pa.RecordBatch, frame: FrameId | None, stopping: threading.Event) -> None:
        kept = self._store.keep(self._origin, failed_events(batch))
        if kept.lost:
            raise WriteError(kept.problem, (FailedBatch(batch.slice(kept.events), kept.problem),))

    def commit(self, group: GroupId, stopping: threading.Event) -> None:
        """Do nothing: each entry is independent."""

    def close(self) -> None:
        """Do nothing: the worker owns the store."""


def failed_events(batch: pa.RecordBatch) -> Iterator[FailedBatch]:
    """Convert events of a fault stream to failed events of its stream, grouped by consecutive equal errors."""
    errors: list[bytes | None] = batch.column(ERROR_COLUMN).to_pylist()
    events = batch.drop_columns([ERROR_COLUMN])
    first = 0
    for place in range(1, len(errors) + 1):
        if place == len(errors) or errors[place] != errors[first]:
            fields = _error_fields(errors[first])
            query, message = str(fields.get("query", "")), str(fields.get("message", ""))
            yield FailedBatch(events.slice(first, place - first), message, query)
            first = place


def _error_fields(error: bytes | None) -> dict[str, Any]:
    found: Any = msgspec.json.decode(error) if error is not None else None
    return found if isinstance(found, dict) else {}


def failed_event_sink(context: SinkContext) -> EventSink:
    """Return a sink that keeps events in the failed-event store.

    Raises:
        ConfigError: options that cannot be used.
    """
    options = read_options(FailedEventSinkOptions, context.connector.options, context.where())
    origin = FailureOrigin(context.key, options.stream, "stream")
    return ThreadedSink(context, _FailedEventWriter(context.errors, origin))
