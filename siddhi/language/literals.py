"""Parse and print the literals of SiddhiQL: numbers, strings, names and times."""

from __future__ import annotations

import re

from siddhi.language.ast import AttributeType

UNIT_MILLISECONDS = {
    "year": 31_536_000_000,
    "month": 2_592_000_000,
    "week": 604_800_000,
    "day": 86_400_000,
    "hour": 3_600_000,
    "min": 60_000,
    "sec": 1_000,
    "millisec": 1,
}
"""Milliseconds of each unit by canonical name, largest first; a month has 30 days, a year 365."""

UNITS = tuple(UNIT_MILLISECONDS)

RESERVED_NAMES = frozenset({"not", "true", "false", "every", "or", "from", "window"})
"""Names that must be quoted with back-quotes, because a keyword may occur in the same place."""

_WORDS = """
aggregate aggregation all and app as asc at begin bool by current day days define delete desc double end events every
expired false first float for from full function group having hour hours in inner insert int into is join last left
limit long millisec millisecond milliseconds min minute minutes month months not null object of offset on or order
outer output partition per raw return right sec second seconds select set snapshot stream string table trigger true
unidirectional update week weeks window with within year years
"""
KEYWORDS = frozenset(_WORDS.split())
"""All keywords of the language. Most are valid as names too, but not of triggers, aggregations, functions and their
languages."""

_NAME = re.compile(r"[a-zA-Z_][a-zA-Z_0-9]*")
_INTEGER_LIMITS = {AttributeType.INT: 31, AttributeType.LONG: 63}


def name_value(text: str) -> str:
    """Return the name in `text`, without back-quotes."""
    return text[1:-1] if text.startswith("`") else text


def name_text(name: str) -> str:
    """Return `name` as SiddhiQL, quoted if necessary."""
    if _NAME.fullmatch(name) and name.casefold() not in RESERVED_NAMES:
        return name
    return f"`{name}`"


def identifier_text(name: str) -> str:
    """Return `name` as SiddhiQL where keywords are not valid as names."""
    return name_text(name) if name.casefold() not in KEYWORDS else f"`{name}`"


def is_plain_name(text: str) -> bool:
    """Return whether the text is a name that needs no quotes."""
    return _NAME.fullmatch(text) is not None


def string_value(text: str) -> str:
    """Return the characters between the quotes; there are no escapes."""
    return text[3:-3] if text.startswith('"""') else text[1:-1]


def string_text(value: str) -> str:
    """Return `value` in the simplest quotes that can contain it; raise ValueError when none can."""
    has_control = any(ord(character) < 0x20 for character in value)
    if not has_control and '"' not in value:
        return f"'{value}'" if "'" not in value else f'"{value}"'
    if '"""' in value or value.endswith('"'):
        raise ValueError("a SiddhiQL string cannot hold three double quotes in a row or end with a double quote")
    return f'"""{value}"""'


def number_value(text: str, number_type: AttributeType) -> int | float:
    """Return the value of a number literal (suffix allowed); raise OverflowError when an int or long does not fit."""
    if number_type in _INTEGER_LIMITS:
        value = int(text.rstrip("lL"))
        limit = 1 << _INTEGER_LIMITS[number_type]
        if not -limit <= value < limit:
            raise OverflowError(f"{text} does not fit in {number_type.value}")
        return value
    return float(text.rstrip("fFdD"))


def number_text(value: float, number_type: AttributeType) -> str:
    """Return a number literal that reads back as `value` of `number_type`."""
    if number_type in _INTEGER_LIMITS:
        return f"{int(value)}L" if number_type is AttributeType.LONG else str(int(value))
    digits = repr(float(value)).replace("inf", "1e999")
    return f"{digits}f" if number_type is AttributeType.FLOAT else digits
