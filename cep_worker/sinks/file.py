"""Sink `file`: events appended to a file, one to a line."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import BinaryIO

import msgspec
import pyarrow as pa

from cep_common.errors import ConfigError
from cep_worker.consumers import FrameId, GroupId
from cep_worker.mappers import SinkMapper, sink_mapper
from cep_worker.options import read_options
from cep_worker.sinks.base import Sink, SinkContext
from cep_worker.sinks.threaded import ThreadedSink, WriteError

RETRY_S = 1.0


class FileOptions(msgspec.Struct, frozen=True, rename={"file_uri": "file.uri"}):
    """`file.uri` is a path, or `file:` and a path."""

    file_uri: str

    def path(self) -> Path:
        return Path(self.file_uri.removeprefix("file://").removeprefix("file:"))


class _FileWriter:
    """Appends; a full disk is waited for, so that the plan stops rather than loses events."""

    def __init__(self, path: Path, mapper: SinkMapper) -> None:
        self._path = path
        self._mapper = mapper
        self._file: BinaryIO = open_for_append(path)

    def write(self, batch: pa.RecordBatch, frame: FrameId | None, stopping: threading.Event) -> None:
        text = memoryview(b"\n".join(self._mapper.events(batch)) + b"\n")
        while text:
            try:
                text = text[self._file.write(text) :]
            except OSError as error:
                if stopping.wait(RETRY_S):
                    raise WriteError(f"{self._path}: {error.strerror}") from error

    def commit(self, group: GroupId, stopping: threading.Event) -> None:
        """Lines are delivered when they are written."""

    def close(self) -> None:
        self._file.close()


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
