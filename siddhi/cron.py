"""Cron texts as Quartz reads them: when triggers `at '…'` fire and `cron` windows let their events out.

    ┌ seconds 0-59
    │ ┌ minutes 0-59
    │ │ ┌ hours 0-23
    │ │ │ ┌ days of the month 1-31, L, L-3, LW, 15W, ?
    │ │ │ │ ┌ months 1-12, JAN-DEC
    │ │ │ │ │ ┌ days of the week 1-7 (1 is Sunday), SUN-SAT, 6#3, FRI#3, 6L, L, ?
    │ │ │ │ │ │ ┌ years 1970-2099, may be left out
    0 0 9 ? * MON-FRI *

Times are UTC. croniter computes them; this module translates Quartz's syntax and numbering.
"""

from __future__ import annotations

import calendar
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from croniter import CroniterBadDateError, croniter

SHAPE = "write seconds, minutes, hours, day of month, month and day of week, such as '0 */5 * * * ?'"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LAST_YEAR = 2099
_MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_WEEKDAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
_ITEM = re.compile(r"(?P<low>\*|\w+)(-(?P<high>\w+))?(/(?P<step>\d+))?", re.ASCII)


class CronError(ValueError):
    """An invalid cron expression; `hint` shows the probable intention."""

    def __init__(self, message: str, hint: str = SHAPE) -> None:
        """Create the error.

        Args:
            message: What is wrong with the expression.
            hint: What a valid one looks like.
        """
        super().__init__(message)
        self.hint = hint


@dataclass(frozen=True, slots=True)
class _Field:
    """The values of a field; `shift` is the difference between Quartz's and croniter's numbers."""

    name: str
    low: int
    high: int
    names: tuple[str, ...] = ()
    shift: int = 0

    def number(self, text: str) -> int:
        """Return the number of `text`; raise `CronError` when it is invalid in this field."""
        if text in self.names:
            return self.names.index(text) + 1
        if text.isdecimal() and self.low <= int(text) <= self.high:
            return int(text)
        values = f"{self.low} to {self.high}"
        if self.names:
            values += f" or {self.names[0]} to {self.names[-1]}"
        raise CronError(f"'{text}' is not a value of {self.name}", f"{self.name} go from {values}")

    def translated(self, text: str) -> str:
        """Return the field `text` in croniter's syntax."""
        return ",".join(self._item(item) for item in text.split(","))

    def _item(self, text: str) -> str:
        found = _ITEM.fullmatch(text)
        if found is None or (found["low"] == "*" and found["high"]):
            raise CronError(f"'{text}' cannot be read as {self.name}")
        step = f"/{self._step(found['step'])}" if found["step"] else ""
        if found["low"] == "*":
            return f"*{step}"
        low = self.number(found["low"])
        high = low if found["high"] is None else self.number(found["high"])
        if found["high"] is None:
            return f"{low - self.shift}{step}"
        if high == low:
            return str(low - self.shift)
        if high < low and self is _YEARS:
            raise CronError(f"'{text}' ends before it begins", "write the earlier year first")
        return f"{low - self.shift}-{high - self.shift}{step}"

    def _step(self, text: str) -> int:
        step = int(text)
        if not 0 < step <= self.high:
            raise CronError(f"{self.name} cannot go in steps of {step}", f"steps of {self.name} go up to {self.high}")
        return step


_SECONDS = _Field("seconds", 0, 59)
_MINUTES = _Field("minutes", 0, 59)
_HOURS = _Field("hours", 0, 23)
_DAYS = _Field("days of the month", 1, 31)
_MONTH = _Field("months", 1, 12, _MONTHS)
_WEEKDAY = _Field("days of the week", 1, 7, _WEEKDAYS, shift=1)
_YEARS = _Field("years", 1970, _LAST_YEAR)


@dataclass(frozen=True, slots=True)
class CronSchedule:
    """A parsed cron expression.

    `before_last` is set if only the day that many days before the last of the month matches.
    """

    text: str
    expression: str
    before_last: int | None = None

    def next_after(self, time_ms: int) -> int | None:
        """Return the first matching time after `time_ms` (both milliseconds since 1970, UTC).

        Return None when there is none until the end of 2099.
        """
        try:
            now = _EPOCH + timedelta(milliseconds=time_ms)
        except OverflowError:
            return None
        times = croniter(
            self.expression, now, ret_type=datetime, second_at_beginning=True, max_years_between_matches=_LAST_YEAR
        )
        while now.year <= _LAST_YEAR:
            try:
                found: datetime = times.get_next(start_time=now)
            except CroniterBadDateError:
                return None
            day = self._day(found)
            if day == found.day and found.year <= _LAST_YEAR:
                return (found - _EPOCH) // timedelta(milliseconds=1)
            midnight = found.replace(hour=0, minute=0, second=0)
            days = day - found.day if found.day < day else _month_days(found) + 1 - found.day
            now = midnight + timedelta(days=days, seconds=-1)
        return None

    def _day(self, time: datetime) -> int:
        """Return the only day of the month that matches, or the day of `time` when all do."""
        return time.day if self.before_last is None else _month_days(time) - self.before_last


def parse_cron(text: str) -> CronSchedule:
    """Return the schedule of the Quartz cron expression `text`.

    Raise `CronError` when it is invalid or never matches.
    """
    fields = text.upper().split()
    if len(fields) not in (6, 7):
        count = f"{len(fields)} field" + ("" if len(fields) == 1 else "s")
        raise CronError(f"a cron expression has 6 or 7 fields, this one has {count}")
    seconds, minutes, hours, days, months, weekdays, *years = fields
    if (days == "?") is (weekdays == "?"):
        hint = "write ? for the one that you do not need"
        raise CronError("either the day of the month or the day of the week must be ?", hint)
    month_days, before_last = ("?", None) if days == "?" else _days_of_month(days)
    parts = [
        _SECONDS.translated(seconds),
        _MINUTES.translated(minutes),
        _HOURS.translated(hours),
        month_days,
        _MONTH.translated(months),
        "?" if weekdays == "?" else _days_of_week(weekdays),
        *map(_YEARS.translated, years),
    ]
    schedule = CronSchedule(text, " ".join(parts), before_last)
    if schedule.next_after(-1) is None:
        raise CronError(f"'{text}' never matches a time", "check the days and months: they never occur together")
    return schedule


def _days_of_month(text: str) -> tuple[str, int | None]:
    """Return the days of the month for croniter, and the offset from the last day, if the field has one."""
    if text == "L":
        return "l", None
    if text == "LW":
        return "31w", None
    before = re.fullmatch(r"L-(\d+)", text, re.ASCII)
    if before is not None:
        if int(before[1]) >= _DAYS.high:
            raise CronError(f"no month has a day {before[1]} days before its last", "L-1 to L-30 can be written")
        return "*", int(before[1])
    nearest = re.fullmatch(r"(\d+)W", text, re.ASCII)
    if nearest is not None:
        return f"{_DAYS.number(nearest[1])}w", None
    return _DAYS.translated(text), None


def _days_of_week(text: str) -> str:
    if text == "L":
        return str(_WEEKDAY.high - _WEEKDAY.shift)
    special = re.fullmatch(r"(\w+)(?:#([1-5])|L)", text, re.ASCII)
    if special is None or text in _WEEKDAYS:
        return _WEEKDAY.translated(text)
    day = _WEEKDAY.number(special[1]) - _WEEKDAY.shift
    return f"{day}#{special[2]}" if special[2] else f"L{day}"


def _month_days(time: datetime) -> int:
    return calendar.monthrange(time.year, time.month)[1]
