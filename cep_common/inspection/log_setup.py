"""Set up the logging of a process: to standard error, to memory, and to a file if one is configured."""

from __future__ import annotations

import logging
import sys
import threading
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec

from cep_common.configuration.redaction import redact
from cep_common.errors import ConfigError
from cep_common.inspection.config import LogConfig
from cep_common.inspection.log_buffer import LogBuffer, structured
from cep_common.process.private_folders import make_private
from cep_common.writable import one_line

LOG_FORMAT = "%(asctime)s %(levelname)s %(name)s %(message)s"

logger = logging.getLogger(__name__)


def start_log(config: LogConfig, name: str) -> LogBuffer:
    """Send the log of this process to the destinations in `config`.

    Threads that end by an error log it. `name` is that of the file. Raises ConfigError when it cannot be written.
    """
    ring = LogBuffer(config.ring_bytes)
    to_stderr = logging.StreamHandler(sys.stderr)
    to_stderr.setFormatter(_TimestampedLines(LOG_FORMAT))
    handlers: list[logging.Handler] = [to_stderr, ring]
    if config.folder:
        handlers.append(_file_handler(config, name))
    logging.basicConfig(level=config.level, handlers=handlers, force=True)
    logging.captureWarnings(capture=True)
    threading.excepthook = _tell_of_thread
    return ring


def log_file(folder: str, name: str) -> Path:
    """Return the log file of the process `name`; no name leads out of the folder."""
    return Path(folder).expanduser() / f"{quote(name, safe='-_[]#')}.log.ndjson"


class _TimestampedLines(logging.Formatter):
    """Formats a record as a line without secrets.

    The lines of a traceback follow, indented. Text from outside cannot produce a line that looks like a record.
    """

    def format(self, record: logging.LogRecord) -> str:
        return redact(super().format(record))

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the library's name
        return one_line(super().formatMessage(record))

    def formatException(self, ei: Any) -> str:  # noqa: N802 - the library's name
        return "\n".join(f"  {one_line(line)}" for line in super().formatException(ei).split("\n"))

    def formatStack(self, stack_info: str) -> str:  # noqa: N802 - the library's name
        return "\n".join(f"  {one_line(line)}" for line in stack_info.split("\n"))


class _AsJson(logging.Formatter):
    """A record as a line of JSON, in the form of `LogRecord`; `sequence` counts the lines since the process started."""

    def __init__(self) -> None:
        super().__init__()
        self._sequence = 0

    def format(self, record: logging.LogRecord) -> str:
        self._sequence += 1
        return msgspec.json.encode(structured(record, self._sequence)).decode()


def _file_handler(config: LogConfig, name: str) -> logging.Handler:
    path = log_file(config.folder, name)
    try:
        make_private(path.parent)
        handler = RotatingFileHandler(path, maxBytes=config.file_bytes, backupCount=config.files - 1, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"log.folder: {path} cannot be written: {error.strerror}") from error
    handler.setFormatter(_AsJson())
    return handler


def _tell_of_thread(failure: threading.ExceptHookArgs) -> None:
    if failure.exc_type is SystemExit or failure.exc_value is None:
        return
    name = failure.thread.name if failure.thread is not None else "unknown"
    error = (failure.exc_type, failure.exc_value, failure.exc_traceback)
    logger.error("thread ended by an error: thread=%s", name, exc_info=error)
