"""Numbers and times as people read them, and the filters by which templates ask for them. Pure.

Units are set off by a narrow space, which no line is broken at. Unknown values (None) are shown as a dash.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime

from markupsafe import Markup, escape

SPACE = "\u202f"
UNKNOWN = "–"
_CODE = re.compile(r"`([^`]+)`")
_LARGE = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_BYTES = ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


def duration(milliseconds: float | None) -> str:
    """Return a length of time in its two largest units: `450 ms`, `12 s`, `3 min 5 s`, `2 h 10 min`, `4 d 1 h`."""
    if milliseconds is None:
        return UNKNOWN
    if milliseconds < 1_000:
        return f"{max(0, round(milliseconds))} ms"
    seconds = int(milliseconds) // 1_000
    for size, name, part, small in ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "min"), (60, "min", 1, "s")):
        if seconds >= size:
            rest = seconds % size // part
            return f"{seconds // size} {name} {rest} {small}" if rest else f"{seconds // size} {name}"
    return f"{seconds} s"


def latency(milliseconds: float | None) -> str:
    """Return a short length of time to three digits: `85 µs`, `4.25 ms`, `830 ms`, `2.5 s`.

    Minutes and more as `duration`.
    """
    if milliseconds is None:
        return UNKNOWN
    if milliseconds >= 60_000:
        return duration(milliseconds)
    if milliseconds >= 999.5:
        return f"{_digits(milliseconds / 1_000)}{SPACE}s"
    if milliseconds >= 0.9995 or milliseconds == 0:
        return f"{_digits(milliseconds)}{SPACE}ms"
    return f"{_digits(milliseconds * 1_000)}{SPACE}µs"


def count(number: int | None) -> str:
    """Return a count with thousands set apart by thin spaces."""
    return UNKNOWN if number is None else f"{number:,}".replace(",", SPACE)


def short(number: float | None) -> str:
    """Return a number to three digits: `7`, `950`, `12.3 k`, `4.56 M`."""
    if number is None:
        return UNKNOWN
    for size, name in _LARGE:
        if abs(number) >= size * 0.9995:
            return f"{_digits(number / size)}{SPACE}{name}"
    return _digits(number)


def rate(per_second: float | None) -> str:
    """Return events per second to three digits: `0.25/s`, `12.3 k/s`."""
    return UNKNOWN if per_second is None else f"{short(per_second)}/s"


def size(octets: float | None) -> str:
    """Return a size: `512 B`, `1.5 KiB`, `20.1 MiB`."""
    if octets is None:
        return UNKNOWN
    for unit, name in _BYTES:
        if octets >= unit:
            return f"{_digits(octets / unit)}{SPACE}{name}"
    return f"{round(octets)}{SPACE}B"


def percent(share: float | None) -> str:
    """Return a share of one in hundredths: `0.4 %`, `93 %`."""
    if share is None:
        return UNKNOWN
    hundredths = share * 100
    written = f"{hundredths:.1f}" if 0 < hundredths < 9.95 else f"{hundredths:.0f}"
    return f"{written.removesuffix('.0')}{SPACE}%"


def plural(number: int, one: str, many: str) -> str:
    """`1 task`, `2 tasks`."""
    return f"{count(number)} {one if number == 1 else many}"


def utc(epoch_ms: int) -> str:
    """Return a time of day as `2026-01-31 12:00:05 UTC`."""
    return datetime.fromtimestamp(epoch_ms / 1_000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def iso(epoch_ms: int) -> str:
    """Return a time of day for machines, such as `2026-01-31T12:00:05Z`."""
    return datetime.fromtimestamp(epoch_ms / 1_000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def coded(text: str) -> Markup:
    """Return a text with backquoted parts set as code; everything else is escaped."""
    return Markup(_CODE.sub(r"<code>\1</code>", str(escape(text))))  # noqa: S704 - escaped just here


def sentence(text: str) -> str:
    """Return a text with its first letter large; all others, as those of names, are as they were."""
    return text[:1].upper() + text[1:]


def _digits(number: float) -> str:
    """To three digits, without zeros behind the point."""
    places = 0 if abs(number) >= 99.95 else 1 if abs(number) >= 9.995 else 2
    written = f"{number:.{places}f}"
    return written.rstrip("0").rstrip(".") if "." in written else written


FILTERS: Mapping[str, Callable[..., str]] = {
    "duration": duration,
    "latency": latency,
    "whole": count,
    "short": short,
    "rate": rate,
    "size": size,
    "percent": percent,
    "utc": utc,
    "iso": iso,
    "coded": coded,
    "sentence": sentence,
}
"""By name in templates: `duration` and `latency` of milliseconds, `whole` and `short` of counts, `rate` of events per
second, `size` of bytes, `percent` of a share of one, `utc` and `iso` of times of day, `coded` and `sentence` of texts.
"""
