"""`str:` functions over the values of a row. Indexes count characters."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from siddhi.analysis import model
from siddhi.engine.columnar.java_text import parse_integer
from siddhi.engine.columnar.strings import StringPool
from siddhi.engine.limits import MAX_RESULT_CHARACTERS
from siddhi.engine.operators.expressions.compiler import FUNCTIONS
from siddhi.engine.operators.expressions.evaluation import ExpressionNode
from siddhi.engine.operators.functions.choice import Coalesce
from siddhi.engine.operators.functions.conversion import java_text
from siddhi.engine.operators.functions.rows import (
    Nulls,
    RowError,
    RowFunction,
    TextTooLongError,
    row_function,
)
from siddhi.extensions import java_regex
from siddhi.language.ast import AttributeType

_BLANKS = "".join(map(chr, range(0x21)))
_PLACE = re.compile(r"\{\{(.*?)\}\}", re.DOTALL)
_HEXADECIMAL = re.compile(r"(?:[0-9a-fA-F]{2})*")


def pattern(text: str) -> re.Pattern[str]:
    """Return the compiled pattern; `RowError` when it is none."""
    try:
        return java_regex.compile_pattern(text)
    except java_regex.PatternError as error:
        raise RowError(str(error)) from error


def group(match: re.Match[str], number: int) -> str | None:
    """Return the group of a match; `RowError` when the pattern has no such group."""
    try:
        found: str | None = match[number]
    except IndexError as error:
        raise RowError(f"the pattern has no group {number}") from error
    return found


def _filled(places: re.Pattern[str], fill: Callable[[re.Match[str]], str], text: str, limit: int = 0) -> str:
    """Return `text` with the first `limit` (0: all) places replaced by what `fill` gives.

    Raise TextTooLongError before the result takes too much memory.
    """
    length = len(text)

    def bounded(match: re.Match[str]) -> str:
        nonlocal length
        part = fill(match)
        length += len(part) - len(match[0])
        if length > MAX_RESULT_CHARACTERS:
            raise TextTooLongError(length)
        return part

    return places.sub(bounded, text, count=limit)


def _char_at(text: str, index: int) -> str:
    if not 0 <= index < len(text):
        raise RowError(f"'{text}' has no character {index}")
    return text[index]


def _frequency(text: str, character: str) -> int:
    if len(character) != 1:
        raise RowError(f"'{character}' is not one character")
    return text.count(character)


def _concat(*texts: str | None) -> str:
    return "".join(text for text in texts if text is not None)


def _contains(text: str | None, part: str | None) -> bool:
    if text is None:
        return False
    if part is None:
        raise RowError("argument 2 is null")
    return part in text


def _equals_ignore_case(one: str | None, other: str | None) -> bool:
    if one is None:
        raise RowError("argument 1 is null")
    return other is not None and len(one) == len(other) and _folded(one) == _folded(other)


def _folded(text: str) -> str:
    return "".join(character.upper().lower() for character in text)


def _fill_template(template: str | None, *texts: str | None) -> str:
    """Return the template with the texts by their numbers from 1; the place of a null keeps its number."""
    if template is None:
        raise RowError("argument 1 is null")

    def filled(place: re.Match[str]) -> str:
        number = parse_integer(place[1].strip(), 32)
        if number is None or not 1 <= number <= len(texts):
            raise RowError(f"there is no value for '{place[0]}'")
        text = texts[number - 1]
        return place[1] if text is None else text

    return _filled(_PLACE, filled, template)


def _fill_template_by_key(template: str | None, values: object) -> str:
    """Return the template filled with the values of a map by their keys.

    The place of a value that is missing keeps its key.
    """
    if template is None or not isinstance(values, dict):
        raise RowError("a template and a map are needed")

    def filled(place: re.Match[str]) -> str:
        text = java_text(values.get(place[1].strip()), AttributeType.OBJECT)
        return place[1] if text is None else text

    return _filled(_PLACE, filled, template)


@FUNCTIONS.register("fillTemplate", "str")
def _template(call: model.Call, arguments: tuple[ExpressionNode, ...], pool: StringPool) -> ExpressionNode:
    if arguments[1].type is AttributeType.OBJECT:
        return RowFunction(call, arguments, pool, compute=_fill_template_by_key, nulls=Nulls.PASS)
    return RowFunction(call, arguments, pool, compute=_fill_template, nulls=Nulls.PASS, texts=True)


def _locate(part: str, text: str, start: int = 0) -> int:
    """Return the index of `part` from `start` on; one below `start`, as in Siddhi, when it is not there."""
    if not 0 <= start <= len(text):
        raise RowError(f"'{text}' has no character {start}")
    return text[start:].find(part) + start


def _repeat(text: str, times: int) -> str:
    if len(text) * times > MAX_RESULT_CHARACTERS:
        raise TextTooLongError(len(text) * times)
    return text * times


def _replace(limit: int) -> Any:
    def replaced(text: str, regex: str, replacement: str) -> str:
        try:
            return _filled(pattern(regex), lambda match: java_regex.expand(match, replacement), text, limit)
        except java_regex.PatternError as error:
            raise RowError(str(error)) from error

    return replaced


def _split(text: str, regex: str, number: int) -> str:
    parts = java_regex.split(pattern(regex), text)
    if not 0 <= number < len(parts):
        raise RowError(f"'{text}' has no part {number}")
    return parts[number]


def _compare(one: str, other: str) -> int:
    """Return Java's compareTo: the difference of the first code units that differ, else of the lengths."""
    left, right = one.encode("utf-16-be"), other.encode("utf-16-be")
    for place in range(0, min(len(left), len(right)), 2):
        difference = int.from_bytes(left[place : place + 2]) - int.from_bytes(right[place : place + 2])
        if difference:
            return difference
    return (len(left) - len(right)) // 2


def _substring(text: str, begin: int | str, third: int | None = None) -> str | None:
    if isinstance(begin, str):
        match = pattern(begin).search(text)
        return "" if match is None else group(match, third or 0)
    end = len(text) if third is None else begin + third
    if not 0 <= begin <= end <= len(text):
        raise RowError(f"'{text}' has no part from {begin} to {end}")
    return text[begin:end]


def _unhex(text: str) -> str:
    if not _HEXADECIMAL.fullmatch(text):
        raise RowError(f"'{text}' is not in base 16")
    return bytes.fromhex(text).decode("latin-1")


FUNCTIONS.register("coalesce", "str")(Coalesce)
row_function("str", "charAt", _char_at)
row_function("str", "charFrequency", _frequency)
row_function("str", "concat", _concat, Nulls.PASS, texts=True)
row_function("str", "contains", _contains, Nulls.PASS)
row_function("str", "equalsIgnoreCase", _equals_ignore_case, Nulls.PASS)
row_function("str", "hex", lambda text: "".join(f"{ord(character):x}" for character in text))
row_function("str", "length", len)
row_function("str", "locate", _locate)
row_function("str", "lower", str.lower)
row_function("str", "regexp", lambda text, regex: pattern(regex).fullmatch(text) is not None)
row_function("str", "repeat", _repeat)
row_function("str", "replaceAll", _replace(0))
row_function("str", "replaceFirst", _replace(1))
row_function("str", "reverse", lambda text: text[::-1])
row_function("str", "split", _split)
row_function("str", "strcmp", _compare)
row_function("str", "substr", _substring)
row_function("str", "trim", lambda text: text.strip(_BLANKS))
row_function("str", "unhex", _unhex)
row_function("str", "upper", str.upper)
