"""The time buckets of an aggregation, which begin and end by the UTC calendar."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from siddhi.engine.jit.arrays import Int64Array
from siddhi.engine.jit.kernels import kernel, kernel_array

_MONTH, _YEAR = -1, -2
_SIZES_MS = {"sec": 1_000, "min": 60_000, "hour": 3_600_000, "day": 86_400_000, "month": _MONTH, "year": _YEAR}
"""The length of each duration; months and years, whose length varies, have a negative number instead."""
_UNITS = {"month": "M", "year": "Y"}

_DAY_MS = 86_400_000
_DAYS_OF_ERA = 146_097  # the calendar repeats every 400 years
_FIRST_ERA_DAY = 719_468  # days from 0000-03-01 to 1970-01-01


@kernel
def _calendar_start(time, size):  # type: ignore[no-untyped-def]
    """Return the start of the month or year of `time`, computed with years that begin in March."""
    days = time // _DAY_MS
    era_day = (days + _FIRST_ERA_DAY) % _DAYS_OF_ERA
    year_of_era = (era_day - era_day // 1_460 + era_day // 36_524 - era_day // 146_096) // 365
    day_of_year = era_day - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    month = (5 * day_of_year + 2) // 153
    if size == _MONTH:
        return (days - day_of_year + (153 * month + 2) // 5) * _DAY_MS
    if month >= 10:  # January and February belong to the year that began in March before
        return (days - day_of_year + 306) * _DAY_MS
    year = year_of_era  # a leap day, if any, is in the February before this March
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    return (days - day_of_year - (60 if leap else 59)) * _DAY_MS


@kernel
def _starts(times, sizes, starts):  # type: ignore[no-untyped-def]
    for level in range(len(sizes)):
        size = sizes[level]
        if size > 0:
            for row in range(len(times)):
                starts[row, level] = times[row] // size * size
        else:
            known, until = np.int64(0), np.int64(0)  # the previous start is valid for at least 28 days
            for row in range(len(times)):
                if not known <= times[row] < until:
                    known = _calendar_start(times[row], size)
                    until = known + 28 * _DAY_MS
                starts[row, level] = known


def sizes_of(durations: Sequence[str]) -> Int64Array:
    """Return the durations (`sec` … `year`) in the form for `bucket_starts`."""
    return np.array([_SIZES_MS[duration] for duration in durations], dtype=np.int64)


def bucket_starts(times_ms: Int64Array, sizes: Int64Array) -> Int64Array:
    """Return the start in ms of the bucket of each time, for each of `sizes`: (n, sizes)."""
    starts = np.empty((len(times_ms), len(sizes)), dtype=np.int64)
    _starts(kernel_array(times_ms), sizes, starts)
    return starts


def bucket_end(start_ms: int, duration: str) -> int:
    """Return the end of the bucket of size `duration` that starts at `start_ms`: the start of the next one."""
    unit = _UNITS.get(duration)
    if unit is None:
        return start_ms + _SIZES_MS[duration]
    following = np.datetime64(start_ms, "ms").astype(f"M8[{unit}]") + 1
    return int(following.astype("M8[ms]").astype(np.int64))
