"""Columns of texts → record batches: the shared last step of reading CSV, XML and text bodies.

Texts are parsed by Java's rules. Whole columns are converted by Arrow. Only a column that Arrow rejects is converted
value by value, to accept what Java accepts or to report the error.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cep_common.errors import InputError
from cep_common.protocol.links import StreamSchema
from cep_worker.formats.event_times import WRONG_TIME, strange_times, usual_timestamp
from cep_worker.formats.object_values import WRONG_OBJECT, is_readable
from cep_worker.formats.rejections import MOST_DETAILS, InvalidEvent, events_rejected
from siddhi.arrow_types import ARROW_TYPES_BY_NAME
from siddhi.column_names import TIMESTAMP
from siddhi.engine.columnar.java_text import parse_floating, parse_integer
from topology.events.frames import CURRENT, arrow_schema

_FLOATING = r"^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?$"
_PLAIN = {"int": r"^-?[0-9]{1,10}$", "long": r"^-?[0-9]{1,19}$", "float": _FLOATING, "double": _FLOATING}
"""Texts that Arrow parses as Java does."""
_BITS = {"int": 32, "long": 64}
_LONGEST_NUMBER = 1_000
"""The maximum length of a number; longer texts are rejected since they take time to parse."""
_LARGEST_FLOAT = 3.4028235677973366e38
_BLANKS = "".join(map(chr, range(0x21)))
_MOST_SHOWN = 40


class TextColumns:
    """Makes batches of `schema` from texts, a column per attribute.

    `timestamp` is the attribute that holds the event's time; None uses `_timestamp` if that is an attribute of type
    long and not null, else the current time. Raises InputError for an attribute that cannot hold the time.
    """

    def __init__(self, schema: StreamSchema, timestamp: str | None = None) -> None:
        types = dict(schema.attributes)
        named = timestamp or usual_timestamp(schema)
        if timestamp is not None and timestamp not in types:
            raise InputError(
                "wrong-timestamp", f"{timestamp} is not an attribute; with this mapper it must be an attribute"
            )
        if named in types and types[named] not in ("int", "long"):
            raise InputError("wrong-timestamp", f"{named} is {types[named]}; a timestamp must be long or int")
        self._schema = schema
        self._arrow_schema = arrow_schema(schema)
        self._time = named if named in types else None

    def batch(self, columns: Sequence[pa.Array], now_ms: int, misfits: Sequence[InvalidEvent] = ()) -> pa.RecordBatch:
        """Return the events with these attribute values: one list of strings per attribute, all of the same length.

        Raises:
            EventsRejectedError: values do not fit, or there are `misfits` already.
        """
        found = list(misfits)
        arrays = []
        for (name, kind), texts in zip(self._schema.attributes, columns, strict=True):
            array, problems = read_column(kind, texts)
            arrays.append(array)
            found += [InvalidEvent(row, name, problem) for row, problem in problems]
        count = len(columns[0])
        times = self._times(arrays, count, now_ms, found)
        if found:
            place = {name: position for position, (name, _) in enumerate(self._schema.attributes)}
            found.sort(key=lambda misfit: (misfit.index, place.get(misfit.attribute, -1)))
            raise events_rejected(self._schema.stream, found, max(count, found[-1].index + 1))
        kinds = pa.array(np.full(count, CURRENT, np.int8))
        return pa.RecordBatch.from_arrays([times, kinds, *arrays], schema=self._arrow_schema)

    def _times(self, arrays: list[pa.Array], count: int, now_ms: int, found: list[InvalidEvent]) -> pa.Array:
        """Return the time of each event; missing times are added to `found`."""
        if self._time is None:
            return pa.array(np.full(count, now_ms, np.int64))
        times = arrays[[name for name, _ in self._schema.attributes].index(self._time)].cast(pa.int64())
        if self._time != TIMESTAMP and len(found) < MOST_DETAILS:
            indexes = {misfit.index for misfit in found}
            nulls = np.flatnonzero(times.is_null().to_numpy(zero_copy_only=False))
            rows = [row for row in nulls if row not in indexes][:MOST_DETAILS]
            found += [
                InvalidEvent(int(row), self._time, "is the event's timestamp and may not be null") for row in rows
            ]
        found += [InvalidEvent(row, self._time, WRONG_TIME) for row in strange_times(times, MOST_DETAILS)]
        return times.fill_null(now_ms)


def read_column(kind: str, texts: pa.Array) -> tuple[pa.Array, list[tuple[int, str]]]:
    """Parse `texts` as values of type `kind` and return them with the problems by row.

    Rows with a problem are null. After a hundred problems parsing stops, and the rest is null.
    """
    wanted = ARROW_TYPES_BY_NAME[kind]
    if kind == "string":
        return texts.cast(wanted), []
    plain = _PLAIN.get(kind)
    if plain is not None and pc.all(pc.match_substring_regex(texts, plain)).as_py() is not False:
        try:
            values = texts.cast(wanted)
        except pa.ArrowInvalid:
            pass  # out of range
        else:
            if kind in _BITS or not pc.any(pc.is_inf(values)).as_py():
                return values, []
    values, problems = [], []
    for row, text in enumerate(texts.to_pylist()):
        try:
            values.append(None if text is None else _read_value(kind, text))
        except ValueError as problem:
            values.append(None)
            problems.append((row, str(problem)))
            if len(problems) >= MOST_DETAILS:  # more details do not help users
                values += [None] * (len(texts) - len(values))
                break
    return pa.array(values, wanted), problems


def _read_value(kind: str, text: str) -> Any:
    """Return the value that `text` denotes.

    Raises ValueError with the reason.
    """
    if kind == "object":
        return _read_object(text)
    stripped = text.strip(_BLANKS)
    if kind == "bool":
        if stripped.lower() in ("true", "false"):
            return stripped.lower() == "true"
    elif len(stripped) <= _LONGEST_NUMBER:
        number = _read_integer(kind, stripped) if kind in _BITS else _read_floating(kind, stripped)
        if number is not None:
            return number
    shown = text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…"
    raise ValueError(f"must be {kind}, not {shown!r}")


def _read_integer(kind: str, text: str) -> int | None:
    number = parse_integer(text, _BITS[kind])
    if number is None and text.lstrip("+-").isdecimal() and len(text) - len(text.lstrip("+-")) <= 1:
        raise ValueError(f"is out of range for {kind}")
    return number


def _read_floating(kind: str, text: str) -> float | None:
    try:
        number = parse_floating(text)
    except OverflowError:  # float.fromhex raises it
        raise ValueError(f"is out of range for {kind}") from None
    if number is None or text.endswith(("NaN", "Infinity")):
        return number
    if abs(number) == float("inf") or (kind == "float" and abs(number) >= _LARGEST_FLOAT):
        raise ValueError(f"is out of range for {kind}")
    return number


def _read_object(text: str) -> bytes:
    try:
        value = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ValueError(WRONG_OBJECT) from None
    if not is_readable(value):
        raise ValueError(WRONG_OBJECT)
    return value
