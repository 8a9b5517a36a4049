"""A lenient JSON reader, for texts such as `{name: 'Ann', tags: [a, 2,]}`.

Names and texts may be in single quotes or unquoted, extra commas are allowed, and text after the value is ignored.
"""

from __future__ import annotations

import re

import msgspec

from siddhi.nesting import DEEPEST, ObjectError, TooDeepError, whole_text

_SPACE = re.compile(r"\s*")
_GAP = re.compile(r"[\s,]*")
_QUOTED = re.compile(r"(['\"])((?:\\.|(?!\1)[^\\])*)\1", re.DOTALL)
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_ESCAPED = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_NAME = re.compile(r"[^:]*")
_WORD = re.compile(r"[^,\[\]{}]*")


def read_lenient(text: str) -> object:
    """Return the value at the start of a text.

    Raise ObjectError when it has no end, TooDeepError when it is too deep.
    """
    value, _ = _value(text, 0, 0)
    return value


def _value(text: str, place: int, depth: int) -> tuple[object, int]:
    place = _after(_SPACE, text, place)
    if depth == DEEPEST and text.startswith(("{", "["), place):
        raise TooDeepError
    if text.startswith("{", place):
        return _map(text, place + 1, depth + 1)
    if text.startswith("[", place):
        return _list(text, place + 1, depth + 1)
    quoted = _QUOTED.match(text, place)
    if quoted:
        return _unescaped(quoted[2]), quoted.end()
    end = _after(_WORD, text, place)
    word = text[place:end].strip()
    if not word:
        raise ObjectError("not JSON: a value is missing")
    try:
        return msgspec.json.decode(word), end
    except msgspec.DecodeError:
        return word, end


def _map(text: str, place: int, depth: int) -> tuple[object, int]:
    entries: dict[str, object] = {}
    while True:
        place = _after(_GAP, text, place)
        if text.startswith("}", place):
            return entries, place + 1
        quoted = _QUOTED.match(text, place)
        end = quoted.end() if quoted else _after(_NAME, text, place)
        name = _unescaped(quoted[2]) if quoted else text[place:end].strip()
        end = _after(_SPACE, text, end)
        if not text.startswith(":", end):
            raise ObjectError("not JSON: a name without a value")
        entries[name], place = _value(text, end + 1, depth)


def _list(text: str, place: int, depth: int) -> tuple[object, int]:
    items: list[object] = []
    while True:
        place = _after(_GAP, text, place)
        if text.startswith("]", place):
            return items, place + 1
        item, place = _value(text, place, depth)
        items.append(item)


def _after(pattern: re.Pattern[str], text: str, place: int) -> int:
    """Return the position after the pattern's match, which may be empty."""
    match = pattern.match(text, place)
    return place if match is None else match.end()


def _unescaped(text: str) -> str:
    return whole_text(_ESCAPE.sub(_letter, text)) if "\\" in text else text


def _letter(escape: re.Match[str]) -> str:
    code, sign = escape.groups()
    return chr(int(code, 16)) if code else _ESCAPED.get(sign, sign)
