"""Reads events from text: one line per attribute, or values found by regular expressions.

    symbol:"WSO2",               symbol = 'WSO2', price = 55.6, volume = 100
    price:55.6,
    volume:100
    ~~~~~~~~~~                   separates events, with event.grouping.enabled
    symbol:"IBM",
    …

RE2 runs the regular expressions: its time is linear in the text for every pattern. Bodies come from outside, and with
`re` a single body could block the whole worker.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from cep_common.errors import ConfigError
from cep_common.protocol.links import StreamSchema
from cep_worker.formats.rejections import MOST_DETAILS, EventsRejectedError, InvalidEvent, events_rejected
from cep_worker.formats.text_columns import TextColumns
from query_plan.connectors.attribute_paths import by_attribute, refuse_transport, split_options, split_paths
from query_plan.connectors.mappers import TextSourceOptions
from query_plan.connectors.options import read_options

_GROUP = re.compile(r"\s*(?P<pattern>[^\[\]\s]+)\s*(?:\[\s*(?P<number>\d{1,3})\s*\])?\s*")
_QUOTES = ("'", '"')


@dataclass(frozen=True, slots=True)
class TextFormat:
    """`delimiter` is the line that separates events; empty: a body is one event.

    `patterns` are RE2 patterns, and `groups` give for each attribute the pattern and the group that match it; without
    patterns each line holds one attribute. With `lenient` missing attributes are null.
    """

    delimiter: str = ""
    lenient: bool = False
    patterns: tuple[str, ...] = ()
    groups: tuple[tuple[int, int], ...] = ()

    def reader(self, schema: StreamSchema, timestamp: str | None) -> TextEvents | MatchedEvents:
        """Return a reader of the events of `schema`.

        Raises:
            InputError: `timestamp` cannot be used as the time of events.
        """
        return MatchedEvents(self, schema, timestamp) if self.patterns else TextEvents(self, schema, timestamp)


def text_format(given: Mapping[str, str], schema: StreamSchema, where: str) -> TextFormat:
    """Return the format with the options of a mapper.

    Raises:
        ConfigError: an option cannot be used.
    """
    paths, others = split_paths(given)
    written, others = split_options(others, "regex")
    options = read_options(TextSourceOptions, others, where)
    if "\n" in options.delimiter or not options.delimiter.strip():
        raise ConfigError(f"{where}: delimiter: must be a separate line")
    delimiter = options.delimiter.strip() if options.event_grouping_enabled == "true" else ""
    lenient = options.fail_on_missing_attribute == "false"
    if bool(paths) != bool(written):
        raise ConfigError(f"{where}: regex.A='…' and @attributes(attribute='A[1]') go together")
    if not paths:
        return TextFormat(delimiter, lenient)
    patterns = {name: _pattern(name, text, where) for name, text in written.items()}
    chosen = by_attribute(paths, [name for name, _ in schema.attributes], where)
    groups = tuple(_group(name, text, patterns, where) for name, text in chosen.items())
    return TextFormat(delimiter, lenient, tuple(pattern for pattern, _ in patterns.values()), groups)


def _pattern(name: str, text: str, where: str) -> tuple[str, int]:
    """Return a pattern in RE2's syntax, and the number of its groups."""
    pattern, count = named_groups(text)
    try:
        pc.extract_regex(pa.array([""]), pattern)
    except pa.ArrowInvalid as error:
        why = str(error).removeprefix("Invalid regular expression: ")
        advice = "lookaround, backreferences and possessive quantifiers are not supported"
        raise ConfigError(f"{where}: regex.{name}: {text!r} cannot be used: {why}; {advice}") from error
    return pattern, count


def _group(attribute: str, text: str, patterns: Mapping[str, tuple[str, int]], where: str) -> tuple[int, int]:
    """Return the numbers of the pattern and the group that `A[1]` names; `A` means `A[1]`."""
    refuse_transport(attribute, text, where)
    found = _GROUP.fullmatch(text)
    if found is None or found["pattern"] not in patterns:
        known = ", ".join(f"{name}[1]" for name in patterns)
        raise ConfigError(f"{where}: {attribute}: must name a pattern and its group, as {known}, not {text!r}")
    group = int(found["number"] or 1)
    if group > patterns[found["pattern"]][1]:
        raise ConfigError(f"{where}: {attribute}: regex.{found['pattern']} has no group {group}")
    return list(patterns).index(found["pattern"]), group


def named_groups(pattern: str) -> tuple[str, int]:
    """Return `pattern` with its groups renamed to g1, g2, … (the whole is g0), and the number of groups."""
    parts: list[str] = []
    place, count, in_class = 0, 0, False
    while place < len(pattern):
        rest = pattern[place:]
        piece = rest[0]
        if rest.startswith("\\Q"):
            end = rest.find("\\E", 2)
            piece = rest if end < 0 else rest[: end + 2]
        elif piece == "\\":
            piece = rest[:2]
        elif in_class:
            in_class = piece != "]"
        elif piece == "[":
            piece = next(start for start in ("[^]", "[]", "[^", "[") if rest.startswith(start))
            in_class = True
        elif group := re.match(r"\((?!\?)|\(\?P?<[A-Za-z]\w*>", rest):
            piece, count = group[0], count + 1
            parts.append(f"(?P<g{count}>")
            place += len(piece)
            continue
        parts.append(piece)
        place += len(piece)
    return f"(?P<g0>{''.join(parts)})", count


class TextEvents:
    """Reads `name:value` for each attribute, with a comma at the end of a line that is not the last.

    Other text is ignored. If an attribute has several values, the first is used.
    """

    def __init__(self, form: TextFormat, schema: StreamSchema, timestamp: str | None) -> None:
        self._form = form
        self._columns = TextColumns(schema, timestamp)
        self._stream = schema.stream
        self._attributes = schema.attributes

    def read(self, body: bytes, now_ms: int) -> pa.RecordBatch:
        """Return the events of `body`.

        Raises EventsRejectedError.
        """
        misfits: list[InvalidEvent] = []
        columns: list[list[str | None]] = [[] for _ in self._attributes]
        events = split_events(body, self._form.delimiter)
        for index, event in enumerate(events):
            texts = dict(_lines(event))
            for (name, kind), column in zip(self._attributes, columns, strict=True):
                text, problem = self._value(kind, texts.get(name))
                column.append(text)
                if problem:
                    misfits.append(InvalidEvent(index, name, problem))
            if len(misfits) >= MOST_DETAILS:  # more details do not help users
                raise events_rejected(self._stream, misfits, len(events))
        return self._columns.batch([pa.array(column, pa.string()) for column in columns], now_ms, misfits)

    def _value(self, kind: str, text: str | None) -> tuple[str | None, str]:
        """Return the text of a value, and what is wrong with it (empty: nothing)."""
        if text is None or (kind != "string" and not text):
            return None, "" if self._form.lenient else f"is missing ({kind})"
        if text == "null":
            return None, ""
        if kind != "string":
            return without_commas(kind, text), ""
        if len(text) < 2 or text[0] not in _QUOTES or text[-1] != text[0]:
            return None, "must be in quotes"
        lines = text.split("\n")
        if not self._form.delimiter and TextSourceOptions().delimiter in lines:
            return None, "contains a delimiter line; set event.grouping.enabled='true'"
        return text[1:-1], ""


class MatchedEvents:
    """Read attributes from the groups of patterns that match the text of an event."""

    def __init__(self, form: TextFormat, schema: StreamSchema, timestamp: str | None) -> None:
        self._form = form
        self._columns = TextColumns(schema, timestamp)
        self._attributes = schema.attributes

    def read(self, body: bytes, now_ms: int) -> pa.RecordBatch:
        """Return the events of `body`.

        Raises EventsRejectedError.
        """
        events = pa.array(split_events(body, self._form.delimiter), pa.string())
        matches = [pc.extract_regex(events, pattern) for pattern in self._form.patterns]
        misfits: list[InvalidEvent] = []
        columns = []
        for (name, kind), (pattern, group) in zip(self._attributes, self._form.groups, strict=True):
            texts = pc.struct_field(matches[pattern], [f"g{group}"])
            if kind != "string":
                texts = pc.if_else(pc.equal(texts, ""), pa.scalar(None, pa.string()), texts)
                texts = texts if kind in ("bool", "object") else pc.replace_substring(texts, ",", "")
            if not self._form.lenient:
                misfits += [
                    InvalidEvent(row, name, f"is not found ({kind})") for row in _null_rows(texts)[:MOST_DETAILS]
                ]
            columns.append(texts)
        return self._columns.batch(columns, now_ms, misfits)


def _null_rows(texts: pa.Array) -> Sequence[int]:
    return pc.indices_nonzero(texts.is_null()).to_pylist() if texts.null_count else ()


def without_commas(kind: str, text: str) -> str:
    """Remove the commas between the digits of a number, as Siddhi's mapper does."""
    return text if kind in ("bool", "object") else text.replace(",", "")


def split_events(body: bytes, delimiter: str) -> list[str]:
    """Return the texts of the events of a body, separated by lines `delimiter`, if there is one.

    Raises:
        EventsRejectedError: the body is not UTF-8.
    """
    try:
        text = body.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        problem = f"is not UTF-8: {error.reason} at byte {error.start}"
        raise EventsRejectedError("broken-text", f"the body {problem}") from error
    parts = re.split(rf"(?m)^{re.escape(delimiter)}[ \t]*$", text) if delimiter else [text]
    return [part.strip("\n") for part in parts if part.strip()]


def _lines(event: str) -> Iterator[tuple[str, str]]:
    """Return names and values in reverse order, so that a dictionary keeps the first value of each name."""
    for line in reversed(event.split(",\n")):
        name, separator, value = line.partition(":")
        if separator:
            yield name.strip(), value.strip()
