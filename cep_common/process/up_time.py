"""How long this process has been running."""

from __future__ import annotations

import os
import time
from pathlib import Path

_STAT = Path("/proc/self/stat")
_IMPORTED_NS = time.monotonic_ns()
_STARTED_FIELD = 19
"""The position of `starttime` behind the command's name, which may contain blanks."""


def process_up_ms() -> int:
    """Return for how long the process has been running; where there is no /proc, since this module was loaded."""
    try:
        fields = _STAT.read_text(encoding="utf-8").rpartition(")")[2].split()
        started_s = int(fields[_STARTED_FIELD]) / os.sysconf("SC_CLK_TCK")
        return max(0, int((time.clock_gettime(time.CLOCK_BOOTTIME) - started_s) * 1_000))
    except (OSError, ValueError, IndexError, AttributeError):
        return (time.monotonic_ns() - _IMPORTED_NS) // 1_000_000
