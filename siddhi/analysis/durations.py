"""The sizes of an aggregation's buckets and how people write them."""

from __future__ import annotations

from siddhi.errors import did_you_mean

DURATIONS = ("sec", "min", "hour", "day", "month", "year")
"""The bucket sizes, finest first."""

SPELLINGS = {
    spelling: duration
    for duration, spellings in {
        "sec": ("sec", "second", "seconds"),
        "min": ("min", "minute", "minutes"),
        "hour": ("hour", "hours"),
        "day": ("day", "days"),
        "month": ("month", "months"),
        "year": ("year", "years"),
    }.items()
    for spelling in spellings
}
"""The duration that each spelling means."""


def duration_named(text: str) -> str | None:
    """The duration (`sec` … `year`) that `text` names in any case, or None."""
    return SPELLINGS.get(text.strip().casefold())


def duration_hint(text: str) -> str:
    """What may have been meant by `text`, which names none."""
    return did_you_mean(text, SPELLINGS) or "write 'seconds', 'minutes', 'hours', 'days', 'months' or 'years'"
