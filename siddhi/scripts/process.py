"""A process that runs the scripts of one plan until its input ends, or until it was idle for long.

It starts without the environment, the files and the sockets of its parent, and drops further rights before it runs
anything: it can open no file and no socket, write nothing and start no process, and is not root. Each call has a limit
of processor time, which the kernel enforces by ending the process; memory is limited for the process. It ends with its
parent, even if it is stopped then.

`progress`, in shared memory, is the index of the current call. So the parent can identify the call that ended the
process, although answers are sent together.
"""

from __future__ import annotations

import importlib
import mmap
import os
import resource
import select
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

import msgspec

from siddhi.confinement import end_with_parent, leave_root
from siddhi.nesting import whole_text
from siddhi.scripts.language import Script
from siddhi.scripts.messages import (
    LARGEST_REQUEST,
    LARGEST_RESULT,
    LENGTH,
    LONGEST_REASON,
    READY,
    CallAnswers,
    FunctionSource,
    framed,
    read_request,
    read_start,
    text_bytes,
    to_wire,
    write,
)

REQUESTS, ANSWERS = 0, 1
"""The descriptors of the two pipes."""
ALL_DESCRIPTORS = 3
"""The number of descriptors that a process may have: the two pipes and the one for errors."""
MOST_OPENED = 64
"""The interpreter itself opens no descriptor with a higher number."""
ERROR_BYTES = 65_536
"""The number of bytes that the process may write to the file of its errors."""
PROGRESS_BYTES = 8
FLUSH_S, FLUSH_BYTES = 0.01, 65_536
"""Answers are sent when the first is this old, or when they are this large: so much work is repeated after a call that
ended the process, and a call may exceed its limit by so much."""
READING_S = 10.0
"""The processor time for reading a request."""
_SCALAR_BYTES = 16

Progress = memoryview


def main() -> None:
    """Answer requests until standard input ends."""
    end_with_parent()
    inherited = int(sys.argv[1])
    shared = mmap.mmap(inherited, PROGRESS_BYTES)
    os.closerange(ALL_DESCRIPTORS, max(inherited, MOST_OPENED) + 1)  # the shared memory stays mapped
    sys.stdout = sys.stderr  # printed text must not mix with answers
    progress = memoryview(shared).cast("q")
    started = _read_frame()
    if not started:
        return
    start = read_start(started)
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_AS, start.memory_bytes)
    functions = [_compiled(source) for source in start.functions]
    _drop_rights()
    _write_frame(READY)
    poller = select.poll()
    poller.register(REQUESTS, select.POLLIN)
    while poller.poll(start.idle_ms) and (written := _read_frame()):
        signal.setitimer(signal.ITIMER_PROF, READING_S)
        request = read_request(written)
        script = functions[request.function]
        _answer(script, request.calls, request.cpu_ms / 1_000, progress, start.memory_bytes)
        signal.setitimer(signal.ITIMER_PROF, 0)


def _compiled(source: FunctionSource) -> Script:
    compiler: Callable[[str], Script] = getattr(importlib.import_module(source.module), source.compiler)
    return compiler(source.body)


def _drop_rights() -> None:
    """Drop the rights to open files, to write and to start processes."""
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())  # the thread that started the process may have blocked it
    _limit(resource.RLIMIT_FSIZE, ERROR_BYTES)
    leave_root()  # root has no limit of processes
    end_with_parent()
    _limit(resource.RLIMIT_NPROC, 0)
    _limit(resource.RLIMIT_NOFILE, ALL_DESCRIPTORS)


def _limit(kind: int, most: int) -> None:
    """Set a limit, unless that of the parent is lower."""
    _, hard = resource.getrlimit(kind)
    if hard != resource.RLIM_INFINITY:
        most = min(most, hard)
    resource.setrlimit(kind, (most, most))


class _Answers:
    """Collects answers and sends them together."""

    def __init__(self, cpu_s: float) -> None:
        self._cpu_s = cpu_s
        self._values: list[Any] = []
        self._failures: dict[int, str] = {}
        self._bytes = 0
        self._since_s = 0.0
        self._begin()

    def add(self, value: Any, size: int) -> None:
        self._values.append(value)
        self._bytes += size
        if self._bytes >= FLUSH_BYTES or time.monotonic() - self._since_s >= FLUSH_S:
            self.flush()

    def fail(self, reason: str) -> None:
        self._failures[len(self._values)] = reason
        self.add(None, len(reason))

    def flush(self) -> None:
        if self._values:
            _write_frame(write(CallAnswers(self._values, self._failures)))
        self._begin()

    def _begin(self) -> None:
        self._values, self._failures, self._bytes = [], {}, 0
        self._since_s = time.monotonic()
        signal.setitimer(signal.ITIMER_PROF, self._cpu_s + FLUSH_S)  # its signal ends the process


def _answer(script: Script, calls: list[Any], cpu_s: float, progress: Progress, memory_bytes: int) -> None:
    """Make the calls, and send the result or the error of each."""
    answers = _Answers(cpu_s)
    for place, arguments in enumerate(calls):
        progress[0] = place
        try:
            value, size = _sized(script(arguments))
        except MemoryError:
            answers.fail(f"MemoryError: the process of the plan's scripts may use {memory_bytes} bytes of memory")
        except Exception as error:  # noqa: BLE001 - whatever a script raises makes its event fail
            answers.fail(_reason(error))
        else:
            answers.add(value, size)
    progress[0] = len(calls)
    answers.flush()


def _sized(value: Any) -> tuple[Any, int]:
    """Return a result in a form that can be written, and its approximate size in bytes. Raise for invalid results."""
    kind, size = type(value), _SCALAR_BYTES
    if kind is str:
        value, size = text_bytes(value)
    elif kind is not float and kind is not bool and value is not None:
        value = to_wire(value)
        if type(value) is not int:
            value = msgspec.Raw(write(value))  # encoded here, because time and memory are limited
            size = len(memoryview(value))
    if size > LARGEST_RESULT:
        raise _TooLargeError(f"the result has {size} bytes; at most {LARGEST_RESULT} can be returned")
    return value, size


class _TooLargeError(Exception):
    """The result of a script exceeds the size limit of plans."""


def _reason(error: Exception) -> str:
    if isinstance(error, _TooLargeError):
        return str(error)
    try:
        said = str(error)
    except Exception:  # noqa: BLE001 - the script may have made it of what has no text
        said = "it has no text"
    return whole_text(f"{type(error).__name__}: {said}"[:LONGEST_REASON])


def _read_frame() -> bytes:
    """Return the next message; empty at the end of the input."""
    head = _read(LENGTH.size)
    if not head:
        return b""
    (length,) = LENGTH.unpack(head)
    if length > LARGEST_REQUEST:
        raise ValueError(f"a message of {length} bytes is too large")
    return _read(length)


def _read(size: int) -> bytes:
    """Return `size` bytes; none at the end of the input."""
    pieces: list[bytes] = []
    while size:
        piece = os.read(REQUESTS, min(size, 2**20))
        if not piece:
            return b""
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)


def _write_frame(message: bytes) -> None:
    rest = memoryview(framed(message))
    while rest:
        rest = rest[os.write(ANSWERS, rest) :]


if __name__ == "__main__":
    main()
