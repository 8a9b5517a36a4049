"""`time:` functions over the values of a row, and over the app's clock."""

from __future__ import annotations

import calendar
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial, wraps
from typing import Any

import numpy as np

from siddhi.analysis import model
from siddhi.engine.columnar.strings import NULL_CODE, StringPool
from siddhi.engine.jit.arrays import Int64Array
from siddhi.engine.operators.expressions.compiler import FUNCTIONS
from siddhi.engine.operators.expressions.evaluation import Evaluation, ExpressionNode, Value, broadcast
from siddhi.engine.operators.expressions.leaves import ClockNode, scalar_or_none
from siddhi.engine.operators.functions.conversion import java_texts
from siddhi.engine.operators.functions.rows import Nulls, RowError, RowFunction, row_function
from siddhi.engine.tuning import MAX_SINGLE_CALLS
from siddhi.extensions.time.date_format import (
    DAY_MS,
    DEFAULT_FORMAT,
    DateError,
    date_format,
    from_milliseconds,
    in_calendar,
    to_milliseconds,
    week_of_year,
    zone,
)
from siddhi.extensions.time.declarations import UNITS
from siddhi.language.ast import AttributeType

_SECONDS = {"WEEK": 7 * 86400, "DAY": 86400, "HOUR": 3600, "MINUTE": 60, "SECOND": 1}
_MONTHS = {"YEAR": 12, "QUARTER": 3, "MONTH": 1}
_SUNDAY_FIRST = frozenset({"US", "CA", "IN", "JP", "KR", "BR", "MX", "ZA", "PH", "TH", "TW", "IL", "CO", "PE"})
"""Countries whose first week contains January 1st and whose weeks start on Sunday; others follow ISO 8601."""


def _row(compute: Callable[..., object]) -> Callable[..., object]:
    """Return `compute` with errors of dates converted to errors of the row."""

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
    """Return the time so many units later; an unknown unit adds nothing."""
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
            known = unit if sign > 0 else unit.upper()  # Siddhi requires capitals only for added milliseconds
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


class _Floored(ExpressionNode):
    """Times rounded down to the start of their step in milliseconds; those outside the calendar stay unchanged."""

    type = AttributeType.LONG

    def __init__(self, moment: ExpressionNode, step: int) -> None:
        self.moment = moment
        self.step = step
        self.can_fail, self.stateful, self.by_row = moment.can_fail, moment.stateful, moment.by_row

    def evaluate(self, evaluation: Evaluation) -> Value:
        values, valid = self.moment.evaluate(evaluation)
        if not in_calendar(np.atleast_1d(values)):
            return Value(values, valid)
        return Value(values - values % self.step, valid)


class _Formatted(RowFunction):
    """The texts of times, each formatted once for all times that differ only in milliseconds."""

    def evaluate(self, evaluation: Evaluation) -> Value:
        moment, pattern = self.arguments[0], scalar_or_none(self.arguments[1])
        if evaluation.size > MAX_SINGLE_CALLS and pattern is not None:
            values, valid = broadcast(moment.evaluate(evaluation), evaluation.size)
            known = values if valid is None else np.where(valid, values, 0)
            with suppress(DateError):  # the rows fail
                texts = date_format(pattern).format_all(known) if in_calendar(known) else None
                if texts is not None:
                    codes = self.pool.encode(texts)
                    return Value(codes if valid is None else np.where(valid, codes, NULL_CODE))
        return super().evaluate(evaluation)


class _Shifted(RowFunction):
    """Times some units earlier or later, as texts of their milliseconds."""

    def __init__(self, call: model.Call, arguments: tuple[ExpressionNode, ...], pool: StringPool, *, sign: int) -> None:
        super().__init__(call, arguments, pool, compute=_row(_shift(sign)), nulls=Nulls.NULL)
        self.sign = sign

    def evaluate(self, evaluation: Evaluation) -> Value:
        moment, amount, unit = self.arguments[0], scalar_or_none(self.arguments[1]), scalar_or_none(self.arguments[2])
        if evaluation.size <= MAX_SINGLE_CALLS or amount is None or unit is None:
            return super().evaluate(evaluation)
        values, valid = broadcast(moment.evaluate(evaluation), evaluation.size)
        known = values if valid is None else np.where(valid, values, 0)
        shifted = self._shifted(known, self.sign * amount, unit if self.sign > 0 else unit.upper())
        if shifted is None:
            return super().evaluate(evaluation)
        return Value(self.pool.encode(java_texts(Value(shifted, valid), AttributeType.LONG, self.pool)))

    @staticmethod
    def _shifted(moments: Int64Array, amount: int, unit: str) -> Int64Array | None:
        """Return the times so many units later; None if one is beyond the calendar."""
        if not in_calendar(moments):
            return None
        days, places = np.unique(moments // DAY_MS, return_inverse=True)
        try:
            later = [to_milliseconds(_shifted(from_milliseconds(day * DAY_MS), amount, unit)) for day in days.tolist()]
        except (DateError, OverflowError):
            return None
        shifted: Int64Array = np.array(later, dtype=np.int64)[places] + moments % DAY_MS
        return shifted if in_calendar(shifted) else None


def _shift_function(sign: int) -> Any:
    def make(call: model.Call, arguments: tuple[ExpressionNode, ...], pool: StringPool) -> ExpressionNode:
        if arguments[0].type is AttributeType.LONG:
            return _Shifted(call, arguments, pool, sign=sign)
        return RowFunction(call, arguments, pool, compute=_row(_shift(sign)), nulls=Nulls.NULL)

    return make


def _format_function(call: model.Call, arguments: tuple[ExpressionNode, ...], pool: StringPool) -> ExpressionNode:
    kind = _Formatted if arguments[0].type is AttributeType.LONG else RowFunction
    return kind(call, arguments, pool, compute=_row(_reformat), nulls=Nulls.NULL)


def _extract_function(call: model.Call, arguments: tuple[ExpressionNode, ...], pool: StringPool) -> ExpressionNode:
    if arguments[0].type is AttributeType.LONG:
        unit = str(scalar_or_none(arguments[1])).upper()
        arguments = (_Floored(arguments[0], 1_000 * min(_SECONDS.get(unit, 86400), 86400)), *arguments[1:])
    return RowFunction(call, arguments, pool, compute=_row(_extract), nulls=Nulls.NULL)


def _with_clock(compute: Callable[..., object], nulls: Nulls = Nulls.FAIL, *, takes_pattern: bool = False) -> Any:
    """Return a function whose first value is the app's clock."""

    def make(call: model.Call, arguments: tuple[ExpressionNode, ...], pool: StringPool) -> ExpressionNode:
        clock: ExpressionNode = ClockNode()
        pattern = scalar_or_none(arguments[0]) if takes_pattern and arguments else ""
        if pattern is not None and "S" not in pattern:
            clock = _Floored(clock, 1_000)  # the text has no milliseconds
        return RowFunction(call, (clock, *arguments), pool, compute=_row(compute), nulls=nulls)

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
FUNCTIONS.register("utcTimestamp", "time")(_with_clock(_utc_text, takes_pattern=True))
FUNCTIONS.register("timestampInMilliseconds", "time")(_timestamp)
row_function("time", "date", _row(_day), Nulls.NULL)
FUNCTIONS.register("dateAdd", "time")(_shift_function(1))
row_function("time", "dateDiff", _row(_days_between), Nulls.NULL)
FUNCTIONS.register("dateFormat", "time")(_format_function)
FUNCTIONS.register("dateSub", "time")(_shift_function(-1))
row_function("time", "dayOfWeek", _row(_weekday), Nulls.NULL)
FUNCTIONS.register("extract", "time")(_extract_function)
row_function("time", "timezoneConvert", _row(_convert_zone), Nulls.NULL)
