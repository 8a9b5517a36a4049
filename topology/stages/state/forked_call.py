"""Calls in a forked copy of this process, which cannot block or change this process.

    loop ──fork──▶ copy: computes, writes its answer into a pipe, ends
      │                   ▲ with limits of processor time and memory
      └─ continues        └── another thread reads the answer, and kills the copy when time is up

The copy has the memory between two bundles, so it reads a consistent state, and its changes are discarded.
"""

from __future__ import annotations

import os
import resource
import select
import signal
import time
from collections.abc import Callable
from pathlib import Path

from siddhi.confinement import end_with_parent

PROCESSOR_S = 2
"""CPU time limit of a copy that is not killed from outside."""
MEMORY_BYTES = 512 * 1024 * 1024
"""Memory that a copy may use in addition to that of its process."""
_PIECE = 65_536


class CallStoppedError(Exception):
    """The call took too long, or its process ended without an answer."""


class ForkedCall:
    """A call that runs in a copy of this process."""

    def __init__(self, process_id: int, answer: int) -> None:
        self._process_id = process_id
        self._answer = answer

    @classmethod
    def start(cls, compute: Callable[[], bytes]) -> ForkedCall:
        """Begin `compute` in a copy of this process.

        The thread that calls this is the only one that the copy has.

        Raises:
            OSError: When there can be no copy.
        """
        reading, writing = os.pipe()
        try:
            process_id = os.fork()
        except OSError:
            os.close(reading)
            os.close(writing)
            raise
        if not process_id:
            try:
                _limit()
                os.close(reading)
                _write(writing, compute())
            finally:
                os._exit(0)
        os.close(writing)
        return cls(process_id, reading)

    def result(self, until_s: float) -> bytes:
        """Return the result of the call; call this or `kill` once, from any thread.

        Raises:
            CallStoppedError: When there is no result at `until_s` of the monotonic time, or the copy ended without one.
        """
        pieces: list[bytes] = []
        poller = select.poll()
        poller.register(self._answer, select.POLLIN)
        try:
            while True:
                left_s = until_s - time.monotonic()
                if left_s <= 0 or not poller.poll(left_s * 1000):
                    raise CallStoppedError("it took too long")
                piece = os.read(self._answer, _PIECE)
                if not piece:
                    break
                pieces.append(piece)
        finally:
            self.kill()
        if not pieces:
            raise CallStoppedError("it needs too much memory or processor time")
        return b"".join(pieces)

    def kill(self) -> None:
        """End the copy, if it is still there."""
        os.close(self._answer)
        os.kill(self._process_id, signal.SIGKILL)  # one that has ended is there until it is waited for
        os.waitpid(self._process_id, 0)


def _limit() -> None:
    end_with_parent()
    signal.setitimer(signal.ITIMER_REAL, 0)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGALRM, signal.SIGXCPU):
        signal.signal(number, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (PROCESSOR_S, PROCESSOR_S))
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    most = pages * os.sysconf("SC_PAGE_SIZE") + MEMORY_BYTES
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    if hard == resource.RLIM_INFINITY or most < hard:
        resource.setrlimit(resource.RLIMIT_AS, (most, most))


def _write(pipe: int, data: bytes) -> None:
    written = 0
    while written < len(data):
        written += os.write(pipe, data[written : written + _PIECE])
