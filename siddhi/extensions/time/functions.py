"""`time:` functions over the values of a row, and over the app's clock."""

from __future__ import annotations

import calendar
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial, wraps
from typing import Any

from siddhi.analysis import model
from siddhi.engine.columnar.strings import StringPool
from siddhi.engine.operators.expressions.compiler import FUNCTIONS
from siddhi.engine.operators.expressions.evaluation import ExpressionNode
from siddhi.engine.operators.expressions.leaves import ClockNode
from siddhi.engine.operators.functions.rows import Nulls, RowError, RowFunction, row_function
from siddhi.extensions.time.date_format import (
    DEFAULT_FORMAT,
    DateError,
    date_format,
    from_milliseconds,
    to_milliseconds,
    week_of_year,
    zone,
)
from siddhi.extensions.time.declarations import UNITS

_SECONDS = {"WEEK": 7 * 86400, "DAY": 86400, "HOUR": 3600, "MINUTE": 60, "SECOND": 1}
_MONTHS = {"YEAR": 12, "QUARTER": 3, "MONTH": 1}
_SUNDAY_FIRST = frozenset({"US", "CA", "IN", "JP", "KR", "BR", "MX", "ZA", "PH", "TH", "TW", "IL", "CO", "PE"})
"""Countries whose first week holds January 1st and whose weeks start on Sunday; others count as ISO 8601 does."""


def _row(compute: Callable[..., object]) -> Callable[..., object]:
    """Return `compute` with errors of dates as errors of the row."""

    @wraps(compute, assigned=())
    def guarded(*values: Any) -> object:
        try:
            return compute(*values)
        except (DateError, OverflowError) as error:
            raise RowError(str(error)) from error

    return guarded


def _parse(text: str, pattern: str = DEFAULT_FORMAT) -> datetime:
    return date_format(pattern).parse(text)


def _shifted(moment: datetime, amount: int, unit: str) -> datetime:
    """Return the moment so many units later; a unit that there is not is none at all."""
    if unit in _SECONDS:
        return moment + timedelta(seconds=amount * _SECONDS[unit])
    if unit not in _MONTHS:
        return moment
    months = 12 * moment.year + moment.month - 1 + amount * _MONTHS[unit]
    year, month = divmod(months, 12)
    if not 1 <= year <= 9999:
        raise DateError(f"the year {year} is beyond the calendar")
    day = min(moment.day, calendar.monthrange(year, month + 1)[1])
    return moment.replace(year=year, month=month + 1, day=day)


def _shift(sign: int) -> Callable[..., object]:
    def shift(date: str | int, amount: int, unit: str, pattern: str = DEFAULT_FORMAT) -> str:
        if isinstance(date, int):
            known = unit if sign > 0 else unit.upper()  # only when it adds milliseconds, Siddhi asks for capitals
            return str(to_milliseconds(_shifted(from_milliseconds(date), sign * amount, known)))
        return date_format(pattern).format(_shifted(_parse(date, pattern), sign * amount, unit.upper()))

    return shift


def _days_between(one: str | int, other: str | int, first: str = DEFAULT_FORMAT, second: str = DEFAULT_FORMAT) -> int:
    if isinstance(one, str) and isinstance(other, str):
        one, other = to_milliseconds(_parse(one, first)), to_milliseconds(_parse(other, second))
    difference = int(one) - int(other)
    return abs(difference) // 86_400_000 * (1 if difference > 0 else -1)


def _reformat(date: str | int, target: str, source: str = DEFAULT_FORMAT) -> str:
    moment = from_milliseconds(date) if isinstance(date, int) else _parse(date, source)
    return date_format(target).format(moment)


def _day(date: str, pattern: str = DEFAULT_FORMAT) -> str:
    return date_format("yyyy-MM-dd").format(_parse(date, pattern))


def _weekday(date: str, pattern: str = "yyyy-MM-dd") -> str:
    return date_format("EEEE").format(_parse(date, pattern))


def _extract(first: str | int, second: str, *more: str) -> int:
    if isinstance(first, int):
        moment, unit, locale = from_milliseconds(first), second, more[0] if more else ""
    else:
        moment, unit, locale = _parse(second, *more[:1]), first, more[1] if len(more) > 1 else ""
    unit = unit.upper()
    if unit not in UNITS:
        return 0
    if unit == "WEEK":
        return _week(moment, locale)
    if unit == "QUARTER":
        return (moment.month + 2) // 3
    return int(getattr(moment, unit.lower()))


def _week(moment: datetime, locale: str) -> int:
    country = locale.rpartition("_")[2]
    if country and country not in _SUNDAY_FIRST:
        return moment.isocalendar().week
    return week_of_year(moment)


def _convert_zone(date: str, pattern: str, target: str, source: str = "UTC") -> str:
    compiled = date_format(pattern)
    return compiled.format(compiled.parse_strictly(date, zone(source)).astimezone(zone(target)))


def _clock_text(pattern: str, clock: int, zone_name: str | None = None) -> str:
    return date_format(pattern).format(from_milliseconds(clock, zone("UTC" if zone_name is None else zone_name)))


def _utc_text(clock: int, pattern: str = "yyyy-MM-dd HH:mm:ss") -> str:
    return _clock_text(pattern, clock)


def _with_clock(compute: Callable[..., object], nulls: Nulls = Nulls.FAIL) -> Any:
    """Return a function whose first value is the app's clock."""

    def make(call: model.Call, arguments: tuple[ExpressionNode, ...], pool: StringPool) -> ExpressionNode:
        return RowFunction(call, (ClockNode(), *arguments), pool, compute=_row(compute), nulls=nulls)

    return make


def _timestamp(call: model.Call, arguments: tuple[ExpressionNode, ...], pool: StringPool) -> ExpressionNode:
    if not arguments:
        return ClockNode()

    def milliseconds(date: str, pattern: str = DEFAULT_FORMAT) -> int:
        return to_milliseconds(_parse(date, pattern))

    return RowFunction(call, arguments, pool, compute=_row(milliseconds), nulls=Nulls.NULL)


FUNCTIONS.register("currentDate", "time")(_with_clock(partial(_clock_text, "yyyy-MM-dd")))
FUNCTIONS.register("currentTime", "time")(_with_clock(partial(_clock_text, "HH:mm:ss")))
FUNCTIONS.register("currentTimestamp", "time")(_with_clock(partial(_clock_text, "yyyy-MM-dd HH:mm:ss"), Nulls.PASS))
FUNCTIONS.register("utcTimestamp", "time")(_with_clock(_utc_text))
FUNCTIONS.register("timestampInMilliseconds", "time")(_timestamp)
row_function("time", "date", _row(_day), Nulls.NULL)
row_function("time", "dateAdd", _row(_shift(1)), Nulls.NULL)
row_function("time", "dateDiff", _row(_days_between), Nulls.NULL)
row_function("time", "dateFormat", _row(_reformat), Nulls.NULL)
row_function("time", "dateSub", _row(_shift(-1)), Nulls.NULL)
row_function("time", "dayOfWeek", _row(_weekday), Nulls.NULL)
row_function("time", "extract", _row(_extract), Nulls.NULL)
row_function("time", "timezoneConvert", _row(_convert_zone), Nulls.NULL)
