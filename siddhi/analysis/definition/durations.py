"""The bucket sizes of an aggregation and their spellings, which times of `@purge` share."""

from __future__ import annotations

import re

from siddhi.errors import did_you_mean

DURATIONS = ("sec", "min", "hour", "day", "month", "year")
"""The bucket sizes, finest first."""

SPELLINGS = {
    spelling: duration
    for duration, spellings in {
        "sec": ("sec", "second", "seconds"),
        "min": ("min", "minute", "minutes"),
        "hour": ("h", "hour", "hours"),
        "day": ("day", "days"),
        "month": ("month", "months"),
        "year": ("year", "years"),
    }.items()
    for spelling in spellings
}
"""The duration that each spelling means."""

_DAY_MS = 24 * 3_600_000
_MILLISECONDS = {
    "sec": 1_000,
    "min": 60_000,
    "hour": 3_600_000,
    "day": _DAY_MS,
    "month": 30 * _DAY_MS,
    "year": 365 * _DAY_MS,
}
_NUMBER, _WORDS = re.compile("[0-9]+"), re.compile("[^0-9]+")
_BLANKS = "".join(map(chr, range(ord(" ") + 1)))
_LARGEST_INT = 2**31 - 1


def duration_named(text: str) -> str | None:
    """Return the duration (`sec` … `year`) that `text` names in any letter case, or None."""
    return SPELLINGS.get(text.lower())


def duration_hint(text: str) -> str:
    """Return a hint for `text`, which names no duration."""
    return did_you_mean(text, SPELLINGS) or "write 'seconds', 'minutes', 'hours', 'days', 'months' or 'years'"


def purge_time_ms(text: str) -> int | None:
    """Return the milliseconds of a time of `@purge`; None when `text` is not a time.

    As in Siddhi, only the first number and the unit of the first words count: `1 hour 30 min` is an hour.
    """
    number, words = _NUMBER.search(text), _WORDS.search(text)
    duration = None if words is None else duration_named(words[0].strip(_BLANKS))
    if number is None or duration is None or int(number[0]) > _LARGEST_INT:
        return None
    return int(number[0]) * _MILLISECONDS[duration]
