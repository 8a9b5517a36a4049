"""Sink `file`: events appended to a file, one to a line."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, Literal, TypeVar

import msgspec
import pyarrow as pa

from cep_common.errors import ConfigError
from cep_common.paced_log import PacedLog
from cep_worker.consumers import FrameId, GroupId
from cep_worker.mappers.sinks import sink_mapper
from cep_worker.mappers.writing import SinkMapper
from cep_worker.options import path_of, read_options
from cep_worker.sinks.base import Sink, SinkContext
from cep_worker.sinks.file_groups import FileGroups
from cep_worker.sinks.threaded import ThreadedSink, WriteError

logger = logging.getLogger(__name__)
paced_logger = PacedLog(logger)

RETRY_S = 1.0

T = TypeVar("T")


class FileOptions(
    msgspec.Struct, frozen=True, rename={"file_uri": "file.uri", "add_line_separator": "add.line.separator"}
):
    """`file.uri` is a path, or `file:` and a path. `append` and `add.line.separator` are Siddhi's: a file is never
    emptied, and each event has lines of its own."""

    file_uri: str
    append: Literal["true"] = "true"
    add_line_separator: Literal["true"] = "true"

    def path(self) -> Path:
        return path_of(self.file_uri)


class _FileWriter:
    """Appends; a full disk is waited for, so that the plan stops rather than loses events."""

    def __init__(self, path: Path, mapper: SinkMapper) -> None:
        self.problem = ""
        self.steps = 0
        self._path = path
        self._mapper = mapper
        self._file: BinaryIO = open_for_append(path)
        self._groups: FileGroups | None = None

    def write(self, batch: pa.RecordBatch, frame: FrameId | None, stopping: threading.Event) -> None:
        if self._mapper.header and not self._file.tell():
            self._write_all(memoryview(self._mapper.header + b"\n"), self._file.write, stopping)
        if frame is None:
            self._write_all(self._lines(batch), self._file.write, stopping)
            return
        groups = self._try(self._open_groups, stopping)
        if not groups.has(frame.group):
            self._try(lambda: groups.begin(frame), stopping)
            self._write_all(self._lines(batch), lambda text: groups.write(frame.group.log, text), stopping)

    def commit(self, group: GroupId, stopping: threading.Event) -> None:
        groups = self._try(self._open_groups, stopping)
        self._try(lambda: groups.commit(group), stopping)

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
                raise OSError(f"{self._path} is written by another sink that delivers exactly once") from error
        return self._groups

    def _write_all(self, text: memoryview, write: Callable[[memoryview], int], stopping: threading.Event) -> None:
        while text:
            rest = text
            text = rest[self._try(lambda rest=rest: write(rest), stopping) :]  # type: ignore[misc]

    def _try(self, call: Callable[[], T], stopping: threading.Event) -> T:
        """What `call` gives, once it succeeds."""
        while True:
            try:
                result = call()
            except OSError as error:
                problem = f"{self._path}: {error.strerror or error}"
                paced_logger.problem(str(self._path), "file cannot be written, tried again: reason=%s", problem)
                self.problem = problem
                if stopping.wait(RETRY_S):
                    raise WriteError(problem) from error
            else:
                self.problem = ""
                paced_logger.over(str(self._path), "file can be written again: file=%s", self._path)
                return result


def open_for_append(path: Path) -> BinaryIO:
    """`path`, made when missing, at the start of a line: half a line left by a crash is ended."""
    file = path.open("ab+", buffering=0)
    size = file.seek(0, 2)
    if size:
        file.seek(size - 1)
        if file.read(1) != b"\n":
            file.write(b"\n")
    return file


def file_sink(context: SinkContext) -> Sink:
    """A sink that appends to a file. ConfigError when the file cannot be opened."""
    options = read_options(FileOptions, context.connector.options, context.where())
    mapper = sink_mapper(context.connector, context.schema, default="ndjson")
    try:
        writer = _FileWriter(options.path(), mapper)
    except OSError as error:
        raise ConfigError(f"{context.where()}: file.uri: {options.path()}: {error.strerror}") from error
    return ThreadedSink(context, writer)
