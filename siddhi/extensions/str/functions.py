"""`str:` functions over the values of a row. Indexes count characters."""

from __future__ import annotations

import functools
import re
from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from siddhi.analysis import model
from siddhi.engine.columnar.java_text import parse_integer
from siddhi.engine.columnar.strings import StringPool
from siddhi.engine.limits import MAX_RESULT_CHARACTERS
from siddhi.engine.operators.expressions.compiler import FUNCTIONS
from siddhi.engine.operators.expressions.evaluation import Evaluation, ExpressionNode, Value, broadcast
from siddhi.engine.operators.expressions.leaves import ColumnNode, ConstantNode, StringConstantNode, scalar_or_none
from siddhi.engine.operators.functions.choice import Coalesce
from siddhi.engine.operators.functions.conversion import java_text, java_texts
from siddhi.engine.operators.functions.rows import (
    Nulls,
    RowError,
    RowFunction,
    TextTooLongError,
    row_function,
)
from siddhi.engine.tuning import MAX_SINGLE_CALLS
from siddhi.extensions import java_regex
from siddhi.language.ast import AttributeType

_BLANKS = "".join(map(chr, range(0x21)))
_PLACE = re.compile(r"\{\{(.*?)\}\}", re.DOTALL)
_HEXADECIMAL = re.compile(r"(?:[0-9a-fA-F]{2})*")


def pattern(text: str) -> re.Pattern[str]:
    """Return the compiled pattern; raise `RowError` for an invalid one."""
    try:
        return java_regex.compile_pattern(text)
    except java_regex.PatternError as error:
        raise RowError(str(error)) from error


def group(match: re.Match[str], number: int) -> str | None:
    """Return the group of a match; raise `RowError` when the pattern has no such group."""
    try:
        found: str | None = match[number]
    except IndexError as error:
        raise RowError(f"the pattern has no group {number}") from error
    return found


def _filled(places: re.Pattern[str], fill: Callable[[re.Match[str]], str], text: str, limit: int = 0) -> str:
    """Return `text` with the first `limit` (0: all) matches replaced by the result of `fill`.

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
    """Return the template with the texts filled in by their numbers from 1.

    The placeholder of a null keeps its number.
    """
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

    The placeholder of a missing value keeps its key.
    """
    if template is None or not isinstance(values, dict):
        raise RowError("a template and a map are needed")

    def filled(place: re.Match[str]) -> str:
        text = java_text(values.get(place[1].strip()), AttributeType.OBJECT)
        return place[1] if text is None else text

    return _filled(_PLACE, filled, template)


class _Joined(RowFunction):
    """A text joined from pieces.

    It is computed for whole columns, or by row if a row could fail or there are objects or few rows.
    """

    def __init__(self, call: model.Call, arguments: tuple[ExpressionNode, ...], pool: StringPool) -> None:
        super().__init__(call, arguments, pool, compute=self.of_row, nulls=Nulls.PASS, texts=True)
        self._columnar = all(argument.type is not AttributeType.OBJECT for argument in arguments)
        self.by_row = not self._columnar
        varied = {node.column: node.type for node in arguments if isinstance(node, ColumnNode)}
        constant = all(isinstance(node, ColumnNode | ConstantNode | StringConstantNode) for node in arguments)
        self._of_one_text = constant and list(varied.values()) == [AttributeType.STRING]
        """Whether the result depends on a single text, for which it is cached."""

    @staticmethod
    @abstractmethod
    def of_row(*texts: Any) -> str:
        """Return the text of a row. Raises RowError."""

    @abstractmethod
    def pieces(self, evaluation: Evaluation) -> list[pa.StringArray | str] | None:
        """Return the pieces to join, in order, if nulls are left out; None if rows could fail."""

    def evaluate(self, evaluation: Evaluation) -> Value:
        whole = self._columnar and evaluation.size > MAX_SINGLE_CALLS and not (self._of_one_text and self.remembers)
        pieces = self.pieces(evaluation) if whole else None
        if pieces is None or sum(map(_longest, pieces)) > MAX_RESULT_CHARACTERS:
            return super().evaluate(evaluation)
        if all(isinstance(piece, str) for piece in pieces):
            return Value(np.int64(self.pool.code("".join(pieces))))
        # null_handling="skip" gives no text at all for a row whose pieces are all null.
        joined = pc.binary_join_element_wise(*pieces, "", null_handling="replace", null_replacement="")
        return Value(self.pool.encode(joined))

    def piece(self, evaluation: Evaluation, argument: ExpressionNode) -> pa.StringArray | str | None:
        """Return the texts of an argument: one for a constant, which is None for null."""
        value = argument.evaluate(evaluation)
        if value.values.ndim == 0 and value.valid is None:
            item = self.pool.text(value.values) if argument.type is AttributeType.STRING else value.values.item()
            return java_text(item, argument.type)
        return java_texts(broadcast(value, evaluation.size), argument.type, self.pool)


def _longest(piece: pa.StringArray | str) -> int:
    """Return the size of the longest text of a piece in bytes."""
    return len(piece.encode()) if isinstance(piece, str) else pc.max(pc.binary_length(piece)).as_py() or 0


@FUNCTIONS.register("concat", "str")
class Concat(_Joined):
    """The texts of the arguments, one after the other; nulls are left out."""

    @staticmethod
    def of_row(*texts: Any) -> str:
        return "".join(text for text in texts if text is not None)

    def pieces(self, evaluation: Evaluation) -> list[pa.StringArray | str] | None:
        found = [self.piece(evaluation, argument) for argument in self.arguments]
        return [piece for piece in found if piece is not None]


class FilledTemplate(_Joined):
    """The template of the first argument with the texts of the others by their numbers."""

    of_row = staticmethod(_fill_template)

    def pieces(self, evaluation: Evaluation) -> list[pa.StringArray | str] | None:
        template, *rest = self.arguments
        text = scalar_or_none(template)
        parts = None if text is None else _parts(text, len(rest))
        if parts is None:
            return None
        texts = [self.piece(evaluation, argument) for argument in rest]
        found: list[pa.StringArray | str] = []
        for number, part in parts:
            piece = part if number is None else texts[number - 1]
            found.append(part if piece is None else piece if isinstance(piece, str) else piece.fill_null(part))
        return found


@functools.lru_cache(maxsize=256)
def _parts(template: str, count: int) -> tuple[tuple[int | None, str], ...] | None:
    """Return the parts of a template: texts, each with None, and placeholders, each with its number.

    Return None if a placeholder has no value among `count`.
    """
    parts: list[tuple[int | None, str]] = []
    end = 0
    for place in _PLACE.finditer(template):
        number = parse_integer(place[1].strip(), 32)
        if number is None or not 1 <= number <= count:
            return None
        parts += [(None, template[end : place.start()]), (number, place[1])]
        end = place.end()
    return (*parts, (None, template[end:]))


@FUNCTIONS.register("fillTemplate", "str")
def _template(call: model.Call, arguments: tuple[ExpressionNode, ...], pool: StringPool) -> ExpressionNode:
    if arguments[1].type is AttributeType.OBJECT:
        return RowFunction(call, arguments, pool, compute=_fill_template_by_key, nulls=Nulls.PASS)
    return FilledTemplate(call, arguments, pool)


def _locate(part: str, text: str, start: int = 0) -> int:
    """Return the index of `part` from `start` on; if it is missing, an index below `start`, as in Siddhi."""
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
