"""Settings of glibc's allocator: whether memory that this process has freed goes back to the system."""

from __future__ import annotations

import ctypes

LARGEST_BYTES = 8 * 1_048_576
KEPT_BYTES = 8 * 1_048_576
"""Several times the memory of events in flight at full load; the backlog of an outage goes back to the system."""

ARENAS = 2

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8
"""From glibc's `malloc.h`."""


def keep_freed_memory() -> None:
    """Keep freed blocks of up to `LARGEST_BYTES` for this process, up to `KEPT_BYTES` in each arena.

    By default glibc returns each frame of a few hundred kilobytes when it is freed and allocates the next one page by
    page, which costs a tenth of the time of a process that only moves frames. Call this once, when the process starts.
    Without glibc it does nothing.
    """
    _set(_M_MMAP_THRESHOLD, LARGEST_BYTES)
    _set(_M_TRIM_THRESHOLD, KEPT_BYTES)


def share_freed_memory() -> None:
    """Share freed memory between threads, which use `ARENAS` arenas together.

    For a process with many threads that work one after the other, such as a web server. By default glibc creates up to
    eight arenas for each core, and each grows to the size of a response. Call this once, before threads are started.
    Without glibc it does nothing.
    """
    _set(_M_ARENA_MAX, ARENAS)


def give_back_freed_memory() -> None:
    """Return freed memory to the system.

    Long-running processes that keep freed memory call this from time to time; otherwise they keep the memory of their
    busiest moment. It takes one or two milliseconds. Without glibc it does nothing.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def _set(option: int, value: int) -> None:
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(option, value)
