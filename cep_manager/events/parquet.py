"""Reads files of events in Parquet, in a separate process with bounded time and memory: files are untrusted."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import msgspec

from cep_manager.errors import EventFileError
from cep_manager.events.parquet_rows import REFUSED

MOST_FILE_BYTES = 32 * 2**20
TIMEOUT_S = 60
AT_ONCE = 2

_free = threading.BoundedSemaphore(AT_ONCE)
_KEPT_VARIABLES = ("PATH", "PYTHONPATH", "LANG", "LC_ALL")
"""The only environment variables of the manager that the process inherits; others may contain secrets."""


def read_parquet(file: bytes, attributes: tuple[tuple[str, str], ...]) -> bytes:
    """Convert the rows of a Parquet `file` to events of a stream with `attributes`.

    Returns NDJSON, one object a row, with `_timestamp` in ms where the file has such a column. Raises EventFileError
    when the file cannot be read, lacks an attribute, or is too large.
    """
    if not _free.acquire(blocking=False):  # to wait would take the threads that answer everybody else
        raise EventFileError(f"{AT_ONCE} other files are being read; try again in a few seconds")
    try:
        return _run(file, attributes)
    finally:
        _free.release()


def _run(file: bytes, attributes: tuple[tuple[str, str], ...]) -> bytes:
    command = [sys.executable, "-m", "cep_manager.events.parquet_rows", msgspec.json.encode(attributes).decode()]
    environment = {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ}
    try:
        done = subprocess.run(  # noqa: S603 - our own words
            command, input=file, capture_output=True, timeout=TIMEOUT_S, check=False, env=environment
        )
    except subprocess.TimeoutExpired as error:
        raise EventFileError(f"the file took more than {TIMEOUT_S} s to read") from error
    if done.returncode == REFUSED:
        raise EventFileError(done.stderr.decode(errors="replace").strip())
    if done.returncode:
        raise EventFileError("the file is not a readable Parquet file, or is too large to be read at once")
    return done.stdout
