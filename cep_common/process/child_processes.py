"""Ends child processes and reads what they said last: what all have in common that start limited processes."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess

LAST_WORDS_BYTES = 2_000


def kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a process that leads a session of its own, and everything it started. Do not wait for it."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def end(process: subprocess.Popen[bytes]) -> None:
    """Kill a process, wait for it, and close its pipes."""
    kill(process)
    process.wait()
    close_pipes(process)


def close_pipes(process: subprocess.Popen[bytes]) -> None:
    """Close the ends of its pipes that this process has."""
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()


def last_words(errors: int) -> str:
    """Return the end of the file `errors`, a descriptor, to which a process wrote its errors."""
    size = os.fstat(errors).st_size
    return os.pread(errors, LAST_WORDS_BYTES, max(0, size - LAST_WORDS_BYTES)).decode("utf-8", "replace")
