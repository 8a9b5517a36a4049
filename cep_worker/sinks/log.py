"""Sink `log`: writes events to the worker's log."""

from __future__ import annotations

import logging
import threading

import pyarrow as pa

from cep_common.writable import one_line
from cep_worker.formats.sink_mappers.registry import sink_mapper
from cep_worker.formats.sink_mappers.template import SinkMapper
from cep_worker.outflows.consumers import FrameId, GroupId
from cep_worker.sinks.base import EventSink, SinkContext
from cep_worker.sinks.threaded import ThreadedSink
from query_plan.connectors.options import read_options
from query_plan.connectors.sinks import LogOptions
from siddhi.log_levels import LOG_LEVELS

logger = logging.getLogger(__name__)


class _LogWriter:
    def __init__(self, options: LogOptions, prefix: str, mapper: SinkMapper) -> None:
        self.problem = ""
        self.steps = 0
        self._level = LOG_LEVELS[options.priority]
        self._prefix = one_line(prefix)
        self._mapper = mapper
        self._header = mapper.header
        """A line to be logged before the first event."""

    def write(self, batch: pa.RecordBatch, frame: FrameId | None, stopping: threading.Event) -> None:
        if self._level is None:
            return
        for event in filter(None, [self._header, *self._mapper.events(batch)]):
            logger.log(self._level, "%s : %s", self._prefix, one_line(event.decode()))
        self._header = b""

    def commit(self, group: GroupId, stopping: threading.Event) -> None:
        """Do nothing: lines of a log are final when written."""

    def close(self) -> None:
        """Do nothing: a log needs no closing."""


def log_sink(context: SinkContext) -> EventSink:
    """Return a sink that logs each event."""
    options = read_options(LogOptions, context.connector.options, context.where())
    mapper = sink_mapper(context.connector, context.schema, default="ndjson")
    prefix = options.prefix or f"{context.key.plan} : {context.connector.stream}"
    writer = _LogWriter(options, prefix, mapper)
    return ThreadedSink(context, writer)
