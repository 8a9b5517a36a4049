"""A process that answers one request within limits of time and memory, then ends."""

from __future__ import annotations

import math
import os
import resource
import signal
import sys
from collections.abc import Callable
from typing import Protocol, TypeVar

import msgspec

from siddhi.confinement import end_with_parent

MOST_FILE_BYTES = 64 * 2**20
LOADING_S = 60
"""The time for loading code before the request is read: usually seconds, but a minute on a busy machine."""


class LimitedRequest(Protocol):
    """A request with limits for the process: the time in seconds, and its memory."""

    @property
    def seconds(self) -> int:
        """The time limit of the request."""

    @property
    def memory_bytes(self) -> int:
        """The memory limit of the process."""


Request = TypeVar("Request", bound=LimitedRequest)


def answer(kind: type[Request], load: Callable[[], Callable[[Request], object]]) -> None:
    """Write the answer to the request on standard input to standard output, both JSON.

    The process uses no more time and memory than the request allows, after `LOADING_S` in which `load` has to return
    the function that answers.
    """
    end_with_parent()
    request = msgspec.json.decode(sys.stdin.buffer.read(), type=kind)
    _limit(request)
    run = load()
    _limit_time(request.seconds)
    # Output of a plan's script or a library must not mix with the answer.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    answers.write(msgspec.json.encode(run(request)))
    answers.close()


def _limit(request: LimitedRequest) -> None:
    """Limit time and memory of the process, even when its caller has ended.

    Core dumps are off, and the size of files (caches of compiled kernels) is limited.
    """
    _limit_time(LOADING_S + request.seconds)
    resource.setrlimit(resource.RLIMIT_AS, (request.memory_bytes, request.memory_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (MOST_FILE_BYTES, MOST_FILE_BYTES))


def _limit_time(seconds: int) -> None:
    """End the process after so many seconds from now, or so many seconds of processor time."""
    signal.alarm(seconds)
    used = resource.getrusage(resource.RUSAGE_SELF)
    most = math.ceil(used.ru_utime + used.ru_stime) + seconds
    resource.setrlimit(resource.RLIMIT_CPU, (most, most))
