"""Start and end child processes, and read the end of their error output."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

LAST_WORDS_BYTES = 2_000


class _Starter:
    """A thread that starts processes which outlive the calls that need them.

    The kernel ends a child that called `siddhi.confinement.end_with_parent` when the thread that started it ends, so
    this thread lives as long as this process. A forked copy of this process gets a thread of its own.
    """

    def __init__(self) -> None:
        self._renew()
        os.register_at_fork(after_in_child=self._renew)

    def _renew(self) -> None:
        self._lock = threading.Lock()
        self._thread: ThreadPoolExecutor | None = None

    def submit(self, command: Sequence[str], options: dict[str, Any]) -> Future[subprocess.Popen[bytes]]:
        with self._lock:
            if self._thread is None:
                self._thread = ThreadPoolExecutor(1, thread_name_prefix="starts processes")
        return self._thread.submit(_started, command, options)


_STARTER = _Starter()


def _started(command: Sequence[str], options: dict[str, Any]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(command, **options)  # noqa: S603 - callers start programs of ours


def start(command: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
    """Start a process as the leader of its own session; it may outlive the calling thread.

    Args:
        command: The program and its arguments.
        options: Further arguments of Popen.

    Raises:
        OSError: The process cannot be started.
    """
    starting = _STARTER.submit(command, {**options, "start_new_session": True})
    try:
        return starting.result()
    except BaseException:
        starting.add_done_callback(_discard)  # if the wait was interrupted, nothing else would end the process
        raise
    finally:
        del starting  # its error refers, by its traceback, to this frame and the callers' files


def _discard(started: Future[subprocess.Popen[bytes]]) -> None:
    if started.exception() is None:
        end(started.result())


def kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a process that leads its own session, and everything that it started, without waiting."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def end(process: subprocess.Popen[bytes]) -> None:
    """Kill a process, wait for it, and close its pipes."""
    kill(process)
    process.wait()
    close_pipes(process)


def close_pipes(process: subprocess.Popen[bytes]) -> None:
    """Close this process's ends of the child's pipes."""
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()


def last_words(errors: int) -> str:
    """Return the end of a process's error output from the file descriptor `errors`."""
    size = os.fstat(errors).st_size
    return os.pread(errors, LAST_WORDS_BYTES, max(0, size - LAST_WORDS_BYTES)).decode("utf-8", "replace")
