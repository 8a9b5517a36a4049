"""Numbers and times as people read them. Pure."""

from __future__ import annotations

from datetime import UTC, datetime


def duration(milliseconds: int) -> str:
    """A length of time in its two largest units: `450 ms`, `12 s`, `3 min 5 s`, `2 h 10 min`, `4 d 1 h`."""
    if milliseconds < 1_000:
        return f"{max(0, milliseconds)} ms"
    seconds = milliseconds // 1_000
    for size, name, part, small in ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "min"), (60, "min", 1, "s")):
        if seconds >= size:
            rest = seconds % size // part
            return f"{seconds // size} {name} {rest} {small}" if rest else f"{seconds // size} {name}"
    return f"{seconds} s"


def count(number: int) -> str:
    """A count with thousands set apart by thin spaces."""
    return f"{number:,}".replace(",", "\u202f")


def plural(number: int, one: str, many: str) -> str:
    """`1 task`, `2 tasks`."""
    return f"{count(number)} {one if number == 1 else many}"


def utc(epoch_ms: int) -> str:
    """A time of day as `2026-01-31 12:00:05 UTC`."""
    return datetime.fromtimestamp(epoch_ms / 1_000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def iso(epoch_ms: int) -> str:
    """A time of day for machines, such as `2026-01-31T12:00:05Z`."""
    return datetime.fromtimestamp(epoch_ms / 1_000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
