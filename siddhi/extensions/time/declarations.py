"""`time:` functions. Dates without a zone are in UTC; "now" is the app's clock."""

from __future__ import annotations

from siddhi.extensions.declaring import Result, function
from siddhi.language.ast import AttributeType
from siddhi.parameters import INT, LONG, STRING, constant, takes, value
from siddhi.plugins.extension import Extension
from siddhi.registry import Declaration, Overload

UNITS = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND")
"""The units that can be extracted, added and subtracted."""

_DATE = value("date.value", STRING, "a date as text")
_FORMAT = value("date.format", STRING, "its format, yyyy-MM-dd HH:mm:ss.SSS unless given")
_TIME = value("timestamp.in.milliseconds", LONG)
_UNIT = constant("unit", STRING, ", ".join(UNITS))
_LOCALE = constant("locale", STRING, "such as en_US or fr_FR; says when weeks start")
_AMOUNT = value("expr", INT, "how many units")


def _time(name: str, summary: str, *overloads: Overload, result: Result = AttributeType.STRING) -> Declaration:
    return function("time", name, summary, result, *overloads)


_SHIFTED = (takes(_DATE, _AMOUNT, _UNIT), takes(_TIME, _AMOUNT, _UNIT), takes(_DATE, _AMOUNT, _UNIT, _FORMAT))

TIME = Extension(
    "time",
    (
        _time("currentDate", "today as yyyy-MM-dd", takes()),
        _time("currentTime", "now as HH:mm:ss", takes()),
        _time(
            "currentTimestamp",
            "now as yyyy-MM-dd HH:mm:ss, in a time zone if one is given",
            takes(),
            takes(value("timezone", STRING)),
        ),
        _time("date", "the day of a date as yyyy-MM-dd", takes(_DATE), takes(_DATE, _FORMAT)),
        _time("dateAdd", "the date so many units later; milliseconds are returned as text", *_SHIFTED),
        _time(
            "dateDiff",
            "the whole days from the second date to the first",
            takes(_DATE, value("date.value2", STRING)),
            takes(_DATE, value("date.value2", STRING), value("date.format1", STRING)),
            takes(_DATE, value("date.value2", STRING), value("date.format1", STRING), value("date.format2", STRING)),
            takes(_TIME, value("timestamp.in.milliseconds2", LONG)),
            result=AttributeType.LONG,
        ),
        _time(
            "dateFormat",
            "the date in another format",
            takes(_DATE, value("date.target.format", STRING)),
            takes(_DATE, value("date.target.format", STRING), value("date.source.format", STRING)),
            takes(_TIME, value("date.target.format", STRING)),
        ),
        _time("dateSub", "the date so many units earlier; milliseconds are returned as text", *_SHIFTED),
        _time("dayOfWeek", "the name of the date's day", takes(_DATE), takes(_DATE, _FORMAT)),
        _time(
            "extract",
            "one unit of a date as a number",
            takes(_UNIT, _DATE),
            takes(_UNIT, _DATE, _FORMAT),
            takes(_UNIT, _DATE, _FORMAT, _LOCALE),
            takes(_TIME, _UNIT),
            takes(_TIME, _UNIT, _LOCALE),
            result=AttributeType.INT,
        ),
        _time(
            "timestampInMilliseconds",
            "the milliseconds of a date, or of now",
            takes(),
            takes(_DATE),
            takes(_DATE, _FORMAT),
            result=AttributeType.LONG,
        ),
        _time(
            "timezoneConvert",
            "the date as clocks in another zone show it",
            takes(_DATE, value("date.source.format", STRING), value("target.timezone", STRING)),
            takes(
                _DATE,
                value("date.source.format", STRING),
                value("target.timezone", STRING),
                value("source.timezone", STRING),
            ),
        ),
        _time(
            "utcTimestamp",
            "now in UTC, as yyyy-MM-dd HH:mm:ss or in a format if one is given",
            takes(),
            takes(value("date.format", STRING)),
        ),
    ),
    ("siddhi.extensions.time.functions",),
)
