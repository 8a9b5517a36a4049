"""Shifts the time of day of a process of a test by as many milliseconds as the file `CEP_TEST_CLOCK` says.

Python imports this by itself at its start where its folder is in PYTHONPATH. Children that are forked, as stages are
from their executor's daemon, follow the same file. The monotonic clock stays: nobody can set that.
"""

from __future__ import annotations

import mmap
import os
import struct
import time

MILLISECONDS = struct.Struct("<q")


def shift(path: str) -> None:
    with open(path, "rb") as file:
        told = mmap.mmap(file.fileno(), MILLISECONDS.size, access=mmap.ACCESS_READ)
    time_ns = time.time_ns

    def shifted_ns() -> int:
        return time_ns() + MILLISECONDS.unpack_from(told)[0] * 1_000_000

    time.time_ns = shifted_ns
    time.time = lambda: shifted_ns() / 1e9


if "CEP_TEST_CLOCK" in os.environ:
    shift(os.environ["CEP_TEST_CLOCK"])
