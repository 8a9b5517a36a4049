"""The parent's side of a script process: starting, calling and ending it within time limits.

See `siddhi.scripts.process` for what runs in it and `siddhi.scripts.messages` for what passes between the two. Whatever
the process does (it may be stopped, killed, or write anything), a call here returns in time or raises
ProcessEndedError.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from cep_common.process.child_processes import close_pipes, end, last_words
from cep_common.process.child_processes import start as start_process
from siddhi.scripts.language import ScriptFailure
from siddhi.scripts.messages import (
    LARGEST_ANSWERS,
    LENGTH,
    READY,
    CallRequest,
    ScriptStart,
    framed,
    read_answers,
    write,
)
from siddhi.scripts.process import PROGRESS_BYTES

START_S = 30.0
"""The time limit of a process's start, which takes a tenth of a second, but much longer on a busy host."""
WALL_S = 10.0
"""The time limit of a call without processor time: its process was suspended, or other processes use all processors."""
WAITING_S = 0.5
"""The interval at which `meanwhile` is called during waits."""
ENDING_S = 2.0
"""How long a process that has closed its output may take to end before it is killed."""
_PIECE = 65_536
_BY_ITSELF = frozenset({signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGILL, signal.SIGFPE})
"""Signals that a process causes itself, including those for failed memory allocations."""


class ProcessEndedError(Exception):
    """The process has ended, or was ended.

    `place` is the index of its last call. `by_call` says that this call, not an external event, is the cause; `idle`
    that the process was idle.
    """

    def __init__(self, reason: str, place: int, *, by_call: bool = False, idle: bool = False) -> None:
        super().__init__(reason)
        self.place = place
        self.by_call = by_call
        self.idle = idle


@dataclass(frozen=True, slots=True)
class Answers:
    """The results of consecutive calls (ScriptFailure for failed ones), and the size of the message in bytes."""

    answers: list[object]
    size: int


class ScriptProcess:
    """A process that runs the functions of `start`. One thread at a time may use it."""

    def __init__(self, start: ScriptStart, meanwhile: Callable[[], None]) -> None:
        """Start the process, and do not wait for it; `meanwhile` is called again and again in each wait.

        Raises OSError when the host has no room for it.
        """
        self._meanwhile = meanwhile
        self._memory_bytes = start.memory_bytes
        self._ready = False
        self._input = bytearray()
        shared, self._errors = os.memfd_create("progress"), os.memfd_create("errors")
        try:
            os.ftruncate(shared, PROGRESS_BYTES)
            self._shared = mmap.mmap(shared, PROGRESS_BYTES)
            self._process = start_process(
                [sys.executable, "-P", "-m", "siddhi.scripts.process", str(shared)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, pass_fds=(shared,), bufsize=0,
                cwd="/", env={"PYTHONPATH": _module_path()},
            )  # fmt: skip
        except BaseException:
            os.close(self._errors)
            raise
        finally:
            os.close(shared)
        self._progress = memoryview(self._shared).cast("q")
        assert self._process.stdin is not None  # noqa: S101 - for mypy: they are pipes
        assert self._process.stdout is not None  # noqa: S101
        self._to, self._from = self._process.stdin.fileno(), self._process.stdout.fileno()
        os.set_blocking(self._to, False)
        os.set_blocking(self._from, False)
        self._write(framed(write(start)), time.monotonic() + START_S)

    @property
    def id(self) -> int:
        """The process id."""
        return self._process.pid

    @property
    def ended(self) -> bool:
        """Return whether it has ended by itself."""
        return self._process.poll() is not None

    @property
    def place(self) -> int:
        """Return the index of its current or last call in the last request; -1 before the first."""
        return int(self._progress[0])

    def await_ready(self) -> None:
        """Wait until it can make calls. Raises ProcessEndedError."""
        if not self._ready:
            self._ready = self._read(time.monotonic() + START_S) == READY
            if not self._ready:
                raise self._end("it did not start as it should")

    def request(self, request: CallRequest, message: bytes) -> None:
        """Send `request`, written as `message`. Raises ProcessEndedError."""
        self._progress[0] = -1
        self._write(framed(message), time.monotonic() + WALL_S)

    def answers(self, request: CallRequest, most: int) -> Answers:
        """Return the next answers to `request`, at most `most`. Raises ProcessEndedError."""
        message = self._read(time.monotonic() + WALL_S, request)
        try:
            found = read_answers(message)
        except ValueError as error:
            raise self._end(f"it wrote what cannot be read: {error}") from error
        values = found.values
        if not 0 < len(values) <= most or any(not 0 <= place < len(values) for place in found.failures):
            raise self._end("it wrote answers to no calls")
        for place, reason in found.failures.items():
            values[place] = ScriptFailure(reason)
        return Answers(values, len(message))

    def kill(self) -> None:
        """End the process and wait for it."""
        end(self._process)
        self.abandon()

    def abandon(self) -> None:
        """Close all resources of the process, which has ended or belongs to another parent."""
        close_pipes(self._process)
        self._progress.release()
        self._shared.close()
        os.close(self._errors)

    def _write(self, data: bytes, until_s: float) -> None:
        rest = memoryview(data)
        poller = select.poll()
        poller.register(self._to, select.POLLOUT)
        while rest:
            try:
                rest = rest[os.write(self._to, rest) :]
            except BlockingIOError:
                left_s = until_s - time.monotonic()
                if left_s <= 0:
                    raise self._end("it took no request in time") from None
                self._poll(poller, left_s)
            except OSError as error:
                raise self._end(f"it takes no requests: {error.strerror}") from None

    def _read(self, until_s: float, request: CallRequest | None = None) -> bytes:
        """Return the next message. The time limit applies to each call of `request`."""
        poller = select.poll()
        poller.register(self._from, select.POLLIN)
        place = self.place
        while (message := self._message()) is None:
            try:
                piece = os.read(self._from, _PIECE)
            except BlockingIOError:
                if request is not None and place < self.place <= len(request.calls):
                    place, until_s = self.place, time.monotonic() + WALL_S
                left_s = until_s - time.monotonic()
                if left_s <= 0:
                    raise self._end("it did not answer in time") from None
                self._poll(poller, left_s)
            else:
                if not piece:
                    raise self._end("it ended", request, closed=True)
                self._input += piece
        return message

    def _poll(self, poller: select.poll, left_s: float) -> None:
        """Wait for a short time."""
        self._meanwhile()
        poller.poll(min(left_s, WAITING_S) * 1_000)

    def _message(self) -> bytes | None:
        """Return the next message if it is complete."""
        if len(self._input) < LENGTH.size:
            return None
        (length,) = LENGTH.unpack_from(self._input)
        if length > LARGEST_ANSWERS:
            raise self._end(f"it wrote a message of {length} bytes, more than {LARGEST_ANSWERS}")
        end = LENGTH.size + length
        if len(self._input) < end:
            return None
        message = bytes(memoryview(self._input)[LENGTH.size : end])
        del self._input[:end]
        return message

    def _end(self, reason: str, request: CallRequest | None = None, *, closed: bool = False) -> ProcessEndedError:
        """End the process and return why it ended: it worked on `request` if any, and may have `closed` its output."""
        if closed:  # it ends by itself, and its exit status says why
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(ENDING_S)
        code = self._process.poll()
        words = self._last_words() if code is None or code > 0 else ""
        place = self.place
        self.kill()
        if code == -signal.SIGPROF and request is not None:
            reason = f"it took more than {request.cpu_ms} ms of processor time for one event"
            return ProcessEndedError(reason, place, by_call=True)
        if code is not None and -code in _BY_ITSELF:
            name = signal.Signals(-code).name
            reason = f"its process ended with {name}; it may use {self._memory_bytes} bytes of memory"
            return ProcessEndedError(reason, place, by_call=True)
        if code == 0:
            return ProcessEndedError("its process was idle", place, idle=True)
        ending = "" if code is None else f", exit code {code}"
        return ProcessEndedError(f"its process was ended: {reason}{ending}{': ' if words else ''}{words}", place)

    def _last_words(self) -> str:
        """Return the last line of its error output."""
        lines = last_words(self._errors).strip().splitlines()
        return lines[-1] if lines else ""


def _module_path() -> str:
    """Return where modules are found: executors may have them in an archive of their own."""
    return os.pathsep.join(str(Path(place).absolute()) for place in sys.path if place)
