"""The buckets of time into which an aggregation sorts events; they begin and end by the calendar of UTC."""

from __future__ import annotations

import numpy as np

from siddhi.engine.arrays import Int64Array

_FIXED_MS = {"sec": 1_000, "min": 60_000, "hour": 3_600_000, "day": 86_400_000}
_CALENDAR_UNITS = {"month": "M", "year": "Y"}


def bucket_starts(times_ms: Int64Array, duration: str) -> Int64Array:
    """For each time the start of the bucket of size `duration` (`sec` … `year`) that holds it, in milliseconds."""
    fixed = _FIXED_MS.get(duration)
    if fixed is not None:
        return times_ms - times_ms % fixed
    unit = _CALENDAR_UNITS[duration]
    starts: Int64Array = times_ms.astype("M8[ms]").astype(f"M8[{unit}]").astype("M8[ms]").astype(np.int64)
    return starts


def bucket_end(start_ms: int, duration: str) -> int:
    """The end of the bucket of size `duration` that starts at `start_ms`: the start of the next one."""
    fixed = _FIXED_MS.get(duration)
    if fixed is not None:
        return start_ms + fixed
    unit = _CALENDAR_UNITS[duration]
    following = np.datetime64(start_ms, "ms").astype(f"M8[{unit}]") + 1
    return int(following.astype("M8[ms]").astype(np.int64))
