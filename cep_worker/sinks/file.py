"""Sink `file`: appends events to a file, one per line."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import pyarrow as pa

from cep_common.errors import ConfigError
from cep_common.monitoring.paced_log import PacedLog
from cep_common.reach.guard import Guard
from cep_worker.failed_events.entries import FailedBatch
from cep_worker.formats.sink_mappers.registry import sink_mapper
from cep_worker.formats.sink_mappers.template import SinkMapper, Template, parts_by_text
from cep_worker.formats.value_texts import value_text
from cep_worker.outflows.consumers import FrameId, GroupId
from cep_worker.sinks.base import EventSink, SinkContext
from cep_worker.sinks.file_groups import FileGroups
from cep_worker.sinks.retries import RetryableError, RetryPolicy, deliver_with_retries
from cep_worker.sinks.threaded import ThreadedSink, WriteError
from query_plan.connectors.options import options_of, path_of
from query_plan.connectors.sinks import FileSinkOptions
from query_plan.connectors.templates import attributes_in

logger = logging.getLogger(__name__)
paced_logger = PacedLog(logger)

RETRIES = RetryPolicy((1.0,))
MOST_OPEN = 64
"""The maximum number of open files, in addition to those of uncommitted groups."""

T = TypeVar("T")


class _FileWriter:
    """Appends to a file. It retries while the disk is full, so that the plan stops instead of losing events."""

    def __init__(self, path: Path, mapper: SinkMapper) -> None:
        self.problem = ""
        self.steps = 0
        self._path = path
        self._mapper = mapper
        self._file: BinaryIO = open_for_append(path)
        self._groups: FileGroups | None = None

    def write(self, batch: pa.RecordBatch, frame: FrameId | None, stopping: threading.Event) -> None:
        if not batch.num_rows and frame is None:
            return
        if batch.num_rows and self._mapper.header and not self._file.tell():
            self._write_all(memoryview(self._mapper.header + b"\n"), self._file.write, stopping)
        if frame is None:
            self._write_all(self._lines(batch), self._file.write, stopping)
            return
        groups = self._try(self._open_groups, stopping)
        if not groups.has(frame.group):
            self._try(lambda: groups.begin(frame), stopping)
            if batch.num_rows:
                self._write_all(self._lines(batch), lambda text: groups.write(frame.group.log, text), stopping)

    def commit(self, group: GroupId, stopping: threading.Event) -> None:
        groups = self._try(self._open_groups, stopping)
        self._try(lambda: groups.commit(group), stopping)
        if groups.missing_bytes:
            missing, groups.missing_bytes = groups.missing_bytes, 0
            raise WriteError(
                f"{self._path}: {missing} bytes of delivered results are missing from it, it was truncated", ()
            )

    def close(self) -> None:
        self._file.close()
        if self._groups is not None:
            self._groups.close()

    def _lines(self, batch: pa.RecordBatch) -> memoryview:
        return memoryview(b"\n".join(self._mapper.events(batch)) + b"\n")

    def _open_groups(self) -> FileGroups:
        if self._groups is None:
            try:
                self._groups = FileGroups(self._path)
            except BlockingIOError as error:
                raise OSError(f"{self._path} is already written by another sink with exactly-once delivery") from error
        return self._groups

    def _write_all(self, text: memoryview, write: Callable[[memoryview], int], stopping: threading.Event) -> None:
        while text:
            rest = text
            text = rest[self._try(lambda rest=rest: write(rest), stopping) :]  # type: ignore[misc]

    def _try(self, call: Callable[[], T], stopping: threading.Event) -> T:
        """Retry `call` until it succeeds, and return its result."""

        def attempt() -> T:
            try:
                return call()
            except OSError as error:
                raise RetryableError(f"{self._path}: {error.strerror or error}") from error

        return deliver_with_retries(attempt, RETRIES, stopping, self._report)

    def _report(self, problem: str) -> None:
        self.problem = problem
        if problem:
            paced_logger.problem(str(self._path), "file cannot be written, retrying: reason=%s", problem)
        else:
            paced_logger.over(str(self._path), "file can be written again: file=%s", self._path)


class _FilesWriter:
    """Writes each event to the file that its values name.

    Unused files are closed when there are many.
    """

    def __init__(self, template: Template, mapper: SinkMapper, on_error: str, guard: Guard | None) -> None:
        self._guard = guard
        self._template = template
        self._mapper = mapper
        self._waits = on_error == "WAIT"
        self._writers: dict[str, _FileWriter] = {}
        self._touched: dict[str, dict[str, None]] = {}
        """The files of the uncommitted group of each log."""
        self._problem = ""
        self._done = 0

    @property
    def steps(self) -> int:
        return self._done

    @property
    def problem(self) -> str:
        return self._problem or next((one.problem for one in self._writers.values() if one.problem), "")

    def write(self, batch: pa.RecordBatch, frame: FrameId | None, stopping: threading.Event) -> None:
        unwanted: list[FailedBatch] = []
        parts = parts_by_text(batch, self._template)
        touched = self._touched.setdefault(frame.group.log, {}) if frame is not None else {}
        for uri in {**touched, **parts}:
            part = parts.get(uri, batch.slice(0, 0))
            try:
                self._writer(uri, stopping).write(part, frame, stopping)
                self._done += 1
                if frame is not None:
                    touched[uri] = None
            except WriteError as error:
                unwanted.append(FailedBatch(part, error.message))
        if unwanted:
            raise WriteError(unwanted[-1].reason, unwanted)

    def commit(self, group: GroupId, stopping: threading.Event) -> None:
        for uri in self._touched.pop(group.log, {}):
            self._writer(uri, stopping).commit(group, stopping)

    def close(self) -> None:
        for writer in self._writers.values():
            writer.close()

    def _writer(self, uri: str, stopping: threading.Event) -> _FileWriter:
        """Return the writer for the file at `uri`.

        Raises:
            WriteError: the file may not be written.
        """
        if (found := self._writers.pop(uri, None)) is None:
            self._close_idle()
            found = self._opened(uri, stopping)
        self._writers[uri] = found  # keep the dictionary in order of use
        return found

    def _opened(self, uri: str, stopping: threading.Event) -> _FileWriter:
        def attempt() -> _FileWriter:
            try:
                path = path_of(uri)
                if self._guard is not None and (reason := self._guard.refuse_file(path, "sink")):
                    raise WriteError(f"file.uri: {reason}")
                path.parent.mkdir(parents=True, exist_ok=True)
                return _FileWriter(path, self._mapper)
            except (OSError, ValueError) as error:
                problem = f"{uri[:200]}: {getattr(error, 'strerror', None) or error}"
                if not self._waits:
                    raise WriteError(problem) from error
                raise RetryableError(problem) from error

        try:
            return deliver_with_retries(attempt, RETRIES, stopping, self._report)
        except WriteError:
            self._problem = ""
            raise

    def _report(self, problem: str) -> None:
        self._problem = problem

    def _close_idle(self) -> None:
        in_use = {uri for touched in self._touched.values() for uri in touched}
        idle = [uri for uri in self._writers if uri not in in_use]
        for uri in idle[: max(0, len(self._writers) - MOST_OPEN + 1)]:
            self._writers.pop(uri).close()


def _in_path(kind: str, value: Any) -> str:
    """Escape a value for use in a path, so that it cannot lead into another folder."""
    text = value_text(kind, value).replace("/", "_").replace("\0", "_")
    return "_" * len(text) if text in (".", "..") else text


def open_for_append(path: Path) -> BinaryIO:
    """Open `path`, which is created if missing, and end an incomplete line that a crash left."""
    file = path.open("ab+", buffering=0)
    size = file.seek(0, 2)
    if size:
        file.seek(size - 1)
        if file.read(1) != b"\n":
            file.write(b"\n")
    return file


def file_sink(context: SinkContext) -> EventSink:
    """Return a sink that appends to a file.

    Raises:
        ConfigError: the file cannot be opened.
    """
    options = options_of(FileSinkOptions, context.connector.options)
    mapper = sink_mapper(context.connector, context.schema, default="ndjson")
    if attributes_in(options.file_uri):
        value = value_text if options.file_uri.strip().startswith("{{") else _in_path
        template = Template(options.file_uri, context.schema, context.where(), value, "file.uri")
        return ThreadedSink(context, _FilesWriter(template, mapper, options.on_error, context.guard), options.on_error)
    path = path_of(options.file_uri)
    try:
        writer = _FileWriter(path, mapper)
    except OSError as error:
        raise ConfigError(f"{context.where()}: file.uri: {path}: {error.strerror}") from error
    return ThreadedSink(context, writer, options.on_error)
