"""The clause `within … per …`: which buckets of an aggregation are read, and of which size.

`per` is a duration in any accepted spelling. `within` is one text that a bucket's start must match, with stars for the
parts that may be anything, or a start (included) and an end (excluded), each a text or a long in milliseconds:

    '2024-**-** **:**:**'   '2024-02-** **:**:**'   …   '2024-02-29 23:59:**'   '2024-02-29 23:59:59'
    '2024-02-29 23:00:00', '2024-03-01 01:00:00 +05:30'

Times are UTC unless an offset follows.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, timezone
from typing import NamedTuple

from siddhi.analysis.definition.durations import duration_hint, duration_named
from siddhi.engine.operators.incremental_aggregation.calendar import bucket_end
from siddhi.errors import Problem, SiddhiRuntimeError

_TIME = re.compile(r"(\d{4})-(\d{2})-(\d{2})\s(\d{2}):(\d{2}):(\d{2})(?:\s([+-])(\d{2}):(\d{2}))?", re.ASCII)
_PATTERN = re.compile(
    r"(?P<year>\d{4})-(?P<month>\d{2}|\*\*)-(?P<day>\d{2}|\*\*)"
    r"\s(?P<hour>\d{2}|\*\*):(?P<min>\d{2}|\*\*):(?P<sec>\d{2}|\*\*)(?P<offset>\s[+-]\d{2}:\d{2})?",
    re.ASCII,
)
_LEAST = {"month": "01", "day": "01", "hour": "00", "min": "00", "sec": "00"}
_MOST_OFFSET = timedelta(hours=18)
_FORM = "write yyyy-MM-dd HH:mm:ss, with an offset such as +05:30 after it unless the time is UTC"
_PATTERN_FORM = "write '2024-02-29 23:59:59' with ** for the last parts, as in '2024-02-** **:**:**'"


class Within(NamedTuple):
    """Buckets that start at `start_ms` or later and before `end_ms` are read."""

    start_ms: int
    end_ms: int


def parse_duration(text: str) -> str:
    """Return the duration (`sec` … `year`) that `text` names in any case.

    Raise `SiddhiRuntimeError` `unknown-duration` if there is none.
    """
    duration = duration_named(text)
    if duration is None:
        message = f"'{text}' is not a duration of an aggregation"
        raise SiddhiRuntimeError(Problem("unknown-duration", message, duration_hint(text)))
    return duration


def time_or_none(text: str) -> int | None:
    """Return the milliseconds of a time as `aggregate by` and `within` accept it, None when `text` is not a time."""
    parts = _TIME.fullmatch(text.strip())
    if parts is None:
        return None
    offset = timedelta(hours=int(parts[8] or 0), minutes=int(parts[9] or 0))
    if offset > _MOST_OFFSET:
        return None
    zone = timezone(-offset if parts[7] == "-" else offset)
    try:
        moment = datetime(*(int(part) for part in parts.groups()[:6]), tzinfo=zone)  # type: ignore[misc, arg-type]
    except ValueError:
        return None
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


def within_pattern(text: str) -> Within:
    """Return the times that match a text with stars.

    Raise `SiddhiRuntimeError` `wrong-period` when the text is invalid.
    """
    parts = _PATTERN.fullmatch(text.strip())
    if parts is None:
        raise _wrong(f"'{text}' is not a pattern of times", _PATTERN_FORM)
    starred = [name for name in _LEAST if parts[name] == "**"]
    if starred != list(_LEAST)[len(_LEAST) - len(starred) :]:
        raise _wrong(f"in '{text}' a part with a star is followed by one without", _PATTERN_FORM)
    filled = {name: _LEAST.get(name, "") if value == "**" else value for name, value in parts.groupdict("").items()}
    start = time_or_none("{year}-{month}-{day} {hour}:{min}:{sec}{offset}".format_map(filled))
    if start is None:
        raise _wrong(f"'{text}' is not a valid date", _PATTERN_FORM)
    # all times share the part before the first star
    size = ["year", *_LEAST][len(_LEAST) - len(starred)]
    zone_ms = _offset_ms(parts["offset"] or "")
    return Within(start, bucket_end(start + zone_ms, size) - zone_ms)


def within_bounds(bounds: Sequence[str | int | None]) -> Within:
    """Return the period of one pattern, or of a start and an end.

    Raise `SiddhiRuntimeError` `wrong-period` when they are invalid.
    """
    if len(bounds) == 1:
        if not isinstance(bounds[0], str):
            raise _wrong(f"{bounds[0]} is not a pattern of times", _PATTERN_FORM)
        return within_pattern(bounds[0])
    start, end = (_bound(bound) for bound in bounds)
    if start >= end:
        raise _wrong(f"within starts at {start}, which is not before its end {end}", "write the earlier time first")
    return Within(start, end)


def _bound(bound: str | int | None) -> int:
    time = time_or_none(bound) if isinstance(bound, str) else bound
    if time is None:
        raise _wrong(f"'{bound}' is not a time" if bound is not None else "a bound of within is null", _FORM)
    return time


def _offset_ms(text: str) -> int:
    if not text:
        return 0
    sign, hours, minutes = text.strip()[0], *text.strip()[1:].split(":")
    return (int(hours) * 60 + int(minutes)) * (-60_000 if sign == "-" else 60_000)


def _wrong(message: str, hint: str) -> SiddhiRuntimeError:
    return SiddhiRuntimeError(Problem("wrong-period", message, hint))
