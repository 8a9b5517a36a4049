"""Format and parse dates with Java's patterns (`yyyy-MM-dd HH:mm:ss.SSS`). Names are English."""

from __future__ import annotations

import calendar
import functools
import itertools
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from siddhi.engine.jit.arrays import Int64Array

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
DEFAULT_FORMAT = "yyyy-MM-dd HH:mm:ss.SSS"
_MILLISECOND = timedelta(milliseconds=1)
_MONTHS = (
    "January February March April May June July August September October November December".split()  # noqa: SIM905
)
_DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()  # noqa: SIM905
_RUN = re.compile(r"'((?:[^']|'')*)'|([a-zA-Z])\2*|[^a-zA-Z']+", re.DOTALL)
_NUMBERS = frozenset("yudDMHkhKmsSwWF")
_ONLY_WRITTEN = frozenset("wWF")
_CENTURY_PIVOT = 70
DAY_MS = 86_400_000
_STEPS = {
    "S": 1,
    "s": 1_000,
    "m": 60_000,
    "H": 3_600_000,
    "k": 3_600_000,
    "K": 3_600_000,
    "h": 3_600_000,
    "a": 3_600_000,
}
"""The milliseconds during which the text of a field stays the same; other fields change at most daily."""
_FIRST_MS, _LAST_MS = -62_135_596_800_000, 253_402_300_799_999
_SHORT_ZONES = {
    "ACT": "Australia/Darwin",
    "AET": "Australia/Sydney",
    "AGT": "America/Argentina/Buenos_Aires",
    "ART": "Africa/Cairo",
    "AST": "America/Anchorage",
    "BET": "America/Sao_Paulo",
    "BST": "Asia/Dhaka",
    "CAT": "Africa/Harare",
    "CNT": "America/St_Johns",
    "CST": "America/Chicago",
    "CTT": "Asia/Shanghai",
    "EAT": "Africa/Addis_Ababa",
    "ECT": "Europe/Paris",
    "IET": "America/Indiana/Indianapolis",
    "IST": "Asia/Kolkata",
    "JST": "Asia/Tokyo",
    "MIT": "Pacific/Apia",
    "NET": "Asia/Yerevan",
    "NST": "Pacific/Auckland",
    "PLT": "Asia/Karachi",
    "PNT": "America/Phoenix",
    "PRT": "America/Puerto_Rico",
    "PST": "America/Los_Angeles",
    "SST": "Pacific/Guadalcanal",
    "VST": "Asia/Ho_Chi_Minh",
}
_OFFSET = re.compile(r"(?:UTC|GMT)?([+-])(\d{1,2}):?(\d{2})?")
_WRITTEN_OFFSET = r"[+-]\d{2}:?\d{2}|[+-]\d{2}"
_NAMED_ZONE = r"[a-z][a-z/_+\-:0-9]*"


class DateError(ValueError):
    """A text that is not a date, pattern or zone, with the reason."""


@functools.lru_cache(maxsize=256)
def zone(name: str) -> tzinfo:
    """Return the time zone of a name, of a short name such as `IST`, or of an offset such as `+05:30`.

    Raise `DateError` if there is none.
    """
    if name in {"UTC", "GMT", "Z"}:
        return UTC
    offset = _OFFSET.fullmatch(name)
    try:
        if offset:
            minutes = 60 * int(offset[2]) + int(offset[3] or 0)
            return timezone(timedelta(minutes=-minutes if offset[1] == "-" else minutes))
        return ZoneInfo(_SHORT_ZONES.get(name, name))
    except (KeyError, ValueError, OSError) as error:
        raise DateError(f"'{name}' is not a time zone") from error


def from_milliseconds(milliseconds: int, at: tzinfo = UTC) -> datetime:
    """Return the time of milliseconds since 1970 in a zone; raise `DateError` outside the years 1 to 9999."""
    try:
        return (EPOCH + milliseconds * _MILLISECOND).astimezone(at)
    except OverflowError as error:
        raise DateError(f"{milliseconds} ms are beyond the calendar") from error


def in_calendar(milliseconds: Int64Array) -> bool:
    """Return whether all moments are in the years 1 to 9999."""
    return not len(milliseconds) or bool(milliseconds.min() >= _FIRST_MS and milliseconds.max() <= _LAST_MS)


def to_milliseconds(moment: datetime) -> int:
    """Return the milliseconds from 1970 to `moment`."""
    return (moment - EPOCH) // _MILLISECOND


def week_of_year(moment: datetime) -> int:
    """Return the week, from 1, of a year whose weeks start on Sunday and whose first week holds January 1st."""
    if moment.month == 12 and moment.day - _from_sunday(moment) + 7 > 31:
        return 1
    return (moment.timetuple().tm_yday - 1 + _from_sunday(moment.replace(month=1, day=1))) // 7 + 1


def _week_of_month(moment: datetime) -> int:
    return (moment.day - 1 + _from_sunday(moment.replace(day=1))) // 7 + 1


def _from_sunday(moment: datetime) -> int:
    """Return the number of days since the last Sunday."""
    return (moment.weekday() + 1) % 7


@dataclass(frozen=True, slots=True)
class DateFormat:
    """A compiled pattern: runs of one letter are fields, all other characters are literal.

    `reader` matches texts that begin with a date; `strict_reader` only a date with as many digits as the pattern has
    letters.
    """

    pattern: str
    runs: tuple[tuple[str, str], ...]
    reader: re.Pattern[str]
    strict_reader: re.Pattern[str]

    def format(self, moment: datetime) -> str:
        """Return the text of a moment with its zone."""
        return _written(self.runs, moment)

    @property
    def step(self) -> int:
        """The milliseconds from one change of the text to the next, for times in UTC."""
        return _step(letter for letter, _ in self.runs)

    def format_all(self, milliseconds: Int64Array) -> pa.StringArray:
        """Return the texts of times in UTC, all of them `in_calendar`.

        The part without milliseconds is formatted once for all times that share it.
        """
        step = _step(letter for letter, _ in self.runs if letter != "S")
        starts, places = np.unique(milliseconds // step, return_inverse=True)
        moments = [from_milliseconds(start * step) for start in starts.tolist()]
        pieces: list[pa.StringArray] = []
        for is_fraction, runs in itertools.groupby(self.runs, lambda run: run[0] == "S"):
            if is_fraction:
                for _, run in runs:
                    texts = [str(number).zfill(len(run)) for number in range(1_000)]
                    pieces.append(pa.array(texts, pa.utf8()).take(pa.array(milliseconds % 1_000)))
            else:
                part = tuple(runs)
                texts = [_written(part, moment) for moment in moments]
                pieces.append(pa.array(texts, pa.utf8()).take(pa.array(places)))
        return pieces[0] if len(pieces) == 1 else pc.binary_join_element_wise(*pieces, "")

    def parse(self, text: str, at: tzinfo = UTC) -> datetime:
        """Return the time in a text, in zone `at` unless the text names one.

        Missing fields are as in 1970, and excess values carry over, so that February 30th is in March. Raise
        `DateError` when the text is not a date.
        """
        match = self.reader.match(text)
        if match is None or any(letter in _ONLY_WRITTEN for letter, _ in self.runs):
            raise DateError(f"'{text}' does not follow the format '{self.pattern}'")
        fields = _fields(match, 1900)
        return self._moment(text, fields, at, lenient=True)

    def parse_strictly(self, text: str, at: tzinfo) -> datetime:
        """Return the time in a text, parsed as by Java's DateTimeFormatter.

        The numbers of digits must match, a day and an hour are required, and excess values are errors, except that a
        day up to the 31st becomes the last of its month.
        """
        match = self.strict_reader.fullmatch(text)
        letters = {letter for letter, _ in self.runs}
        has_day = letters & {"y", "u"} and ({"M", "d"} <= letters or "D" in letters)
        has_hour = letters & {"H", "k"} or ("a" in letters and letters & {"h", "K"})
        if match is None or not has_day or not has_hour or letters & _ONLY_WRITTEN:
            raise DateError(f"'{text}' does not follow the format '{self.pattern}'")
        return self._moment(text, _fields(match, 2000), at, lenient=False)

    def _moment(self, text: str, fields: dict[str, str], at: tzinfo, *, lenient: bool) -> datetime:
        try:
            return _moment(fields, at, lenient=lenient)
        except (ValueError, OverflowError) as error:
            raise DateError(f"'{text}' is not a date: {error}") from error


def _step(letters: Iterable[str]) -> int:
    return min((_STEPS.get(letter, DAY_MS) for letter in letters), default=DAY_MS)


def _written(runs: Iterable[tuple[str, str]], moment: datetime) -> str:
    return "".join([_WRITERS[letter](moment, len(run)) if letter else run for letter, run in runs])


@functools.lru_cache(maxsize=256)
def date_format(pattern: str) -> DateFormat:
    """Return the compiled pattern; raise `DateError` for an unknown letter."""
    runs: list[tuple[str, str]] = []
    place = 0
    while place < len(pattern):
        match = _RUN.match(pattern, place)
        if match is None:
            raise DateError(f"the date format '{pattern}' has a lone quote")
        if match[1] is not None:
            runs.append(("", match[1].replace("''", "'") or "'"))
        else:
            runs.append((match[2] or "", match[0]))
        place = match.end()
    for letter, _ in runs:
        if letter and letter not in _WRITERS:
            raise DateError(f"the date format '{pattern}' has '{letter}', which is not supported")
    return DateFormat(pattern, tuple(runs), _reader(runs, strict=False), _reader(runs, strict=True))


def _reader(runs: list[tuple[str, str]], *, strict: bool) -> re.Pattern[str]:
    parts = []
    seen: set[str] = set()
    for number, (letter, run) in enumerate(runs):
        following = runs[number + 1][0] if number + 1 < len(runs) else ""
        exactly = len(run) > 1 if strict else following in _NUMBERS
        parts.append(_field(letter, len(run), seen, exactly=exactly) if letter else re.escape(run))
    return re.compile("".join(parts), re.IGNORECASE)


def _field(letter: str, width: int, seen: set[str], *, exactly: bool) -> str:
    if letter == "M" and width > 2:
        body = "[a-z]+"
    elif letter in _NUMBERS:
        body = rf"\d{{{width}}}" if exactly else r"\d+"
    else:
        # `z` and `Z` format differently; Siddhi parses a name or an offset for either
        zone_name = "z" if letter == "X" else _NAMED_ZONE
        body = {"a": "am|pm", "E": "[a-z]+", "G": "[a-z]+"}.get(letter, f"{zone_name}|{_WRITTEN_OFFSET}")
    if letter in seen:
        return f"(?:{body})"
    seen.add(letter)
    return f"(?P<{letter}{width}>{body})"


def _fields(match: re.Match[str], century: int) -> dict[str, str]:
    """Return the fields of a text by their letters.

    A year of one or two digits after the pivot is in `century`.
    """
    fields = {name[0]: value for name, value in match.groupdict().items() if value is not None}
    if ("y1" in match.groupdict() or "y2" in match.groupdict()) and len(fields["y"]) <= 2:
        year = int(fields["y"])
        fields["y"] = str(year + (2000 if year < _CENTURY_PIVOT else century))
    return fields


def _moment(fields: dict[str, str], at: tzinfo, *, lenient: bool) -> datetime:
    def number(letter: str, otherwise: int) -> int:
        return int(fields.get(letter, otherwise))

    year = int(fields.get("y") or fields.get("u") or "1970")
    hour = number("H", number("k", 0) % 24)
    if "h" in fields or "K" in fields:
        twelve = number("h", number("K", 0))
        hour = (0 if twelve == 12 else twelve) + (12 if fields.get("a", "am").lower() == "pm" else 0)
    for letter in "zZX":
        if letter in fields:
            at = zone("Z" if fields[letter] == "z" else fields[letter])
    month, day, minute, second = _month(fields.get("M", "1")), number("d", 1), number("m", 0), number("s", 0)
    if "D" in fields:
        month, day = 1, number("D", 1)
    elif not lenient:
        if day <= 31 and 1 <= month <= 12:
            day = min(day, calendar.monthrange(year, month)[1])
        datetime(year, month, day, hour, minute, second, tzinfo=at)
    years, month = divmod(month - 1, 12)
    behind = timedelta(days=day - 1, hours=hour, minutes=minute, seconds=second, milliseconds=number("S", 0))
    return datetime(year + years, month + 1, 1, tzinfo=at) + behind


def _month(text: str) -> int:
    if text.isdigit():
        return int(text)
    for place, name in enumerate(_MONTHS, start=1):
        if name.lower().startswith(text.lower()) and len(text) >= 3:
            return place
    raise ValueError(f"'{text}' is not a month")


def _number(value: Callable[[datetime], int]) -> Callable[[datetime, int], str]:
    return lambda moment, width: str(value(moment)).zfill(width)


def _named(names: list[str], value: Callable[[datetime], int]) -> Callable[[datetime, int], str]:
    return lambda moment, width: names[value(moment)] if width > 3 else names[value(moment)][:3]


def _year(moment: datetime, width: int) -> str:
    return f"{moment.year % 100:02d}" if width == 2 else str(moment.year).zfill(width)


def _write_month(moment: datetime, width: int) -> str:
    if width > 2:
        return _MONTHS[moment.month - 1][: 3 if width == 3 else None]
    return str(moment.month).zfill(width)


def _zone_offset(moment: datetime, width: int) -> str:
    offset = moment.strftime("%z")
    return offset if width == 1 else f"{offset[:3]}:{offset[3:]}"


def _iso_offset(moment: datetime, width: int) -> str:
    offset = moment.strftime("%z")
    if offset == "+0000":
        return "Z"
    return offset[:3] if width == 1 else offset if width == 2 else f"{offset[:3]}:{offset[3:]}"


_WRITERS: dict[str, Callable[[datetime, int], str]] = {
    "G": lambda _moment, _width: "AD",
    "y": _year,
    "u": _year,
    "M": _write_month,
    "d": _number(lambda moment: moment.day),
    "D": _number(lambda moment: moment.timetuple().tm_yday),
    "E": _named(_DAYS, datetime.weekday),
    "a": lambda moment, _width: "AM" if moment.hour < 12 else "PM",
    "H": _number(lambda moment: moment.hour),
    "k": _number(lambda moment: moment.hour or 24),
    "K": _number(lambda moment: moment.hour % 12),
    "h": _number(lambda moment: moment.hour % 12 or 12),
    "m": _number(lambda moment: moment.minute),
    "s": _number(lambda moment: moment.second),
    "S": _number(lambda moment: moment.microsecond // 1000),
    "w": _number(week_of_year),
    "W": _number(_week_of_month),
    "F": _number(lambda moment: (moment.day - 1) // 7 + 1),
    "z": lambda moment, _width: moment.tzname() or "UTC",
    "Z": _zone_offset,
    "X": _iso_offset,
}
