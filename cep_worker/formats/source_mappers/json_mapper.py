"""JSON events of one stream → record batches.

Either all events of a body fit, or none is accepted.

The types are compiled into a msgspec decoder, which validates while it parses; then whole columns are built. Only a
body that does not fit is parsed again, event by event, to report what is wrong.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Annotated, Any

import msgspec
import numpy as np
import pyarrow as pa
from msgspec import UNSET, Meta, UnsetType

from cep_common.errors import InputError
from cep_common.protocol.links import StreamSchema
from cep_worker.formats.event_times import WRONG_TIME, strange_times, usual_timestamp
from cep_worker.formats.object_values import WRONG_OBJECT, unreadable_object
from cep_worker.formats.rejections import MOST_DETAILS, EventsRejectedError, InvalidEvent, events_rejected
from siddhi.column_names import TIMESTAMP
from topology.events.frames import CURRENT, arrow_schema

Int = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
Long = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
Float = Annotated[float, Meta(ge=-3.4028235677973366e38, le=3.4028235677973366e38)]

JSON_TYPES: dict[str, Any] = {
    "string": str,
    "int": Int,
    "long": Long,
    "float": Float,
    "double": float,
    "bool": bool,
    "object": bytes,
}
"""The JSON type of each attribute type; `object` is JSON in base64."""

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
"""The byte order mark, with which some programs begin UTF-8 texts."""
_ENVELOPED = re.compile(rb'\s*(?:\[\s*)?\{\s*"event"\s*:\s*\{')
_NO_KEY = re.compile(r"""[\x00-\x1f"\\]""")
"""Characters that the decoder does not accept in keys."""
_JSON_NAMES = {
    bool: "true or false",
    int: "a number",
    float: "a number",
    str: "text",
    list: "a list",
    dict: "an object",
}


class JsonEvents:
    """Reads JSON events of `schema`.

    The event time is read from `timestamp_key` (an attribute of type long or int, or a separate key). Without
    `timestamp_key` it is read from `_timestamp`, which may be an attribute of type long; an event without a
    `_timestamp` gets the current time. `lenient` reads a missing attribute as null.
    """

    def __init__(self, schema: StreamSchema, timestamp_key: str | None = None, lenient: bool = False) -> None:
        self._schema = schema
        self._arrow_schema = arrow_schema(schema)
        self._types = dict(schema.attributes)
        self._lenient = lenient
        named = timestamp_key or usual_timestamp(schema)
        kind = None if named is None else self._types.get(named)
        if kind not in (None, "int", "long"):
            raise InputError("wrong-timestamp", f"{named} is {kind}; a timestamp must be long or int")
        self._time_attribute = named if named in self._types else None
        self._time_key = named if named not in self._types else None
        """The separate key of the time, if any. Without one, every event gets the current time."""
        for key in (*self._types, *filter(None, [self._time_key])):
            if _NO_KEY.search(key):
                raise InputError(
                    "wrong-key",
                    f"{key!a} contains control characters, quotes or backslashes, which are not allowed in a key",
                )
        event: Any = self._event_type()
        self._event_class = event
        envelope: Any = msgspec.defstruct("Envelope", [("event", event)], forbid_unknown_fields=True)
        self._one = msgspec.json.Decoder(event)
        self._list: Any = list[event]
        self._many = msgspec.json.Decoder(list[event])
        self._enveloped_one = msgspec.json.Decoder(envelope)
        self._enveloped_many = msgspec.json.Decoder(list[envelope])
        self._getters = [attrgetter(f"a{position}") for position in range(len(schema.attributes))]

    def read(self, body: bytes, now_ms: int) -> pa.RecordBatch:
        """Return the events of a JSON text: one event, `{"event": {…}}`, or a list of either.

        Raises EventsRejectedError.
        """
        return self.batch(self.decode(body), now_ms)

    def decode(self, body: bytes) -> list[Any]:
        """Return the decoded events of a JSON text for `batch`, which may combine those of several texts.

        Raises:
            EventsRejectedError: an event does not fit.
        """
        body = body.removeprefix(BYTE_ORDER_MARK)
        try:
            return self._read_typed(body)
        except msgspec.ValidationError:
            return self._explain(_unpacked(decoded(body)), first_index=0)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise EventsRejectedError("broken-json", f"the body is not JSON: {error}") from error

    def read_lines(self, body: bytes, now_ms: int, first_index: int = 0) -> pa.RecordBatch:
        """Return the events of NDJSON, one per line; empty lines are skipped.

        Problems are numbered by event, the first is `first_index`. Raises EventsRejectedError.
        """
        body = body.removeprefix(BYTE_ORDER_MARK) if first_index == 0 else body
        try:
            decoder = self._enveloped_one if _ENVELOPED.match(body) else self._one
            events = decoder.decode_lines(body)
            if decoder is self._enveloped_one:
                events = [event.event for event in events]
            return self.batch(events, now_ms, first_index)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return self.convert(decoded_lines(body, first_index), now_ms, first_index)

    def convert(self, values: Sequence[Any], now_ms: int, first_index: int = 0) -> pa.RecordBatch:
        """Convert decoded JSON values, bare or in envelopes; problems are numbered from `first_index`.

        Raises:
            EventsRejectedError: an event does not fit.
        """
        try:
            events = msgspec.convert(values, self._list)
        except msgspec.ValidationError:
            events = self._explain([_unwrapped(value) for value in values], first_index)
        return self.batch(events, now_ms, first_index)

    def _event_type(self) -> type[msgspec.Struct]:
        """Return a struct with the attributes `a0`, `a1`, … and the time `t`, each under its own key in JSON."""
        fields: list[Any] = []
        keys: dict[str, str] = {}
        for position, (name, kind) in enumerate(self._schema.attributes):
            keys[f"a{position}"] = name
            value = JSON_TYPES[kind] | None
            fields.append((f"a{position}", value, None) if self._lenient else (f"a{position}", value))
        if self._time_key is not None:
            keys["t"] = self._time_key
            # a key that the user chose is required, `_timestamp` is optional
            fields.append(("t", Long | UnsetType, UNSET) if self._time_key == TIMESTAMP else ("t", Long))
        return msgspec.defstruct("Event", fields, rename=keys, forbid_unknown_fields=True, kw_only=True, gc=False)

    def _read_typed(self, body: bytes) -> list[Any]:
        enveloped = _ENVELOPED.match(body)
        if body.lstrip()[:1] == b"[":
            return [item.event for item in self._enveloped_many.decode(body)] if enveloped else self._many.decode(body)
        return [self._enveloped_one.decode(body).event] if enveloped else [self._one.decode(body)]

    def batch(self, events: list[Any], now_ms: int, first_index: int = 0) -> pa.RecordBatch:
        """Return the batch of decoded events; problems are numbered from `first_index`.

        Raises:
            EventsRejectedError: a value or time is out of range.
        """
        columns = [list(map(getter, events)) for getter in self._getters]
        try:
            arrays = [
                pa.array(self._times(events, columns, now_ms, first_index), pa.int64()),
                pa.array(np.full(len(events), CURRENT, np.int8)),
                *(
                    pa.array(column, field.type)
                    for column, field in zip(columns, list(self._arrow_schema)[2:], strict=True)
                ),
            ]
        except (pa.ArrowException, UnicodeEncodeError) as error:
            raise EventsRejectedError("wrong-value", f"a value cannot be stored: {error}") from error
        batch = pa.RecordBatch.from_arrays(arrays, schema=self._arrow_schema)
        if strange := strange_times(arrays[0], MOST_DETAILS):
            attribute = self._time_key or self._time_attribute or TIMESTAMP
            misfits = [InvalidEvent(first_index + row, attribute, WRONG_TIME) for row in strange]
            raise events_rejected(self._schema.stream, misfits, len(events))
        unreadable = unreadable_object(batch)
        if unreadable is not None:
            misfit = InvalidEvent(first_index + unreadable[0], unreadable[1], WRONG_OBJECT)
            raise events_rejected(self._schema.stream, [misfit], len(events))
        return batch

    def _times(
        self, events: list[Any], columns: list[list[Any]], now_ms: int, first_index: int
    ) -> Sequence[int | None]:
        """Return the time of each event, whose attributes are in `columns`."""
        if self._time_key is not None:
            return [now_ms if time is UNSET else time for time in map(attrgetter("t"), events)]
        if self._time_attribute is None:
            return [now_ms] * len(events)
        times = columns[list(self._types).index(self._time_attribute)]
        if self._time_attribute == TIMESTAMP:
            return [now_ms if time is None else time for time in times]
        self._refuse_null_times(times, self._time_attribute, first_index)
        return times

    def _refuse_null_times(self, times: list[int | None], attribute: str, first_index: int) -> None:
        if None in times:
            index = times.index(None)
            misfit = InvalidEvent(first_index + index, attribute, "is the event's timestamp and may not be null")
            raise events_rejected(self._schema.stream, [misfit], len(times))

    def _explain(self, events: list[Any], first_index: int) -> list[Any]:
        """Return events that the fast decoder rejected but that are valid, or raise EventsRejectedError.

        Valid are lists that mix bare and enveloped events, and values other than text for strings and objects.
        """
        events = [self._as_texts(event) for event in events]
        misfits: list[InvalidEvent] = []
        for index, event in enumerate(events, first_index):
            misfits += self._misfits(index, event)
            if len(misfits) >= MOST_DETAILS:
                break
        if misfits:
            raise events_rejected(self._schema.stream, misfits, len(events))
        try:
            return [msgspec.convert(event, self._event_class) for event in events]
        except msgspec.ValidationError as error:
            raise EventsRejectedError("bad-events", f"an event does not fit {self._schema.stream}: {error}") from error

    def _as_texts(self, event: Any) -> Any:
        """Return the event with JSON text as values of strings and objects, which accept any JSON value."""
        if not isinstance(event, dict):
            return event
        return {name: text_of(self._types.get(name, ""), value) for name, value in event.items()}

    def _misfits(self, index: int, event: Any) -> Iterable[InvalidEvent]:
        if not isinstance(event, dict):
            yield InvalidEvent(index, "", f"must be an object, not {_json_name(event)}")
            return
        for name, kind in self._schema.attributes:
            if name in event:
                problem = _value_problem(kind, event[name])
                if problem:
                    yield InvalidEvent(index, name, problem)
            elif not self._lenient:
                yield InvalidEvent(index, name, f"is missing ({kind})")
        time_key = self._time_key
        if time_key is not None and (time_key in event or time_key != TIMESTAMP):
            problem = _value_problem("long", event[time_key]) if time_key in event else "is missing (milliseconds)"
            if event.get(time_key, 0) is None:
                problem = "is the event's timestamp and may not be null"
            if problem:
                yield InvalidEvent(index, time_key, problem)
        for name in event:
            if name not in self._types and name != time_key:
                yield InvalidEvent(index, str(name)[:100], "is not an attribute of the stream")


def text_of(kind: str, value: Any) -> Any:
    """Convert a value of a string or object attribute to text: its JSON, in base64 for an object.

    Text, null, and values of other types are returned unchanged.
    """
    if value is None or isinstance(value, str) or kind not in ("string", "object"):
        return value
    text = msgspec.json.encode(value)
    return base64.b64encode(text).decode() if kind == "object" else text.decode()


def _value_problem(kind: str, value: Any) -> str:
    """Return why `value` is not of type `kind`; empty if it is."""
    if value is None:
        return ""
    try:
        msgspec.convert(value, JSON_TYPES[kind])
    except msgspec.ValidationError:
        if isinstance(value, int | float) and not isinstance(value, bool) and kind in ("int", "long", "float"):
            whole = kind == "float" or isinstance(value, int)
            return f"is out of range for {kind}" if whole else f"must be {kind}, not a number with a fraction"
        if kind == "object" and isinstance(value, str):
            return WRONG_OBJECT
        return f"must be {kind}, not {_json_name(value)}"
    return ""


def _json_name(value: Any) -> str:
    return "null" if value is None else _JSON_NAMES.get(type(value), type(value).__name__)


def decoded(body: bytes) -> Any:
    """Return the value of a JSON text.

    Raises:
        EventsRejectedError: the text is not JSON.
    """
    try:
        return msgspec.json.decode(body.removeprefix(BYTE_ORDER_MARK))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise EventsRejectedError("broken-json", f"the body is not JSON: {error}") from error


def decoded_lines(body: bytes, first_index: int) -> list[Any]:
    """Decode one JSON text per line and skip empty lines.

    Raises:
        EventsRejectedError: a line is not JSON; the first line has the number `first_index`.
    """
    lines = filter(None, map(bytes.strip, body.split(b"\n")))
    return [_decoded_line(line, first_index + index) for index, line in enumerate(lines)]


def _decoded_line(line: bytes, index: int) -> Any:
    try:
        return msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        misfit = InvalidEvent(index, "", f"is not JSON: {error}")
        raise EventsRejectedError("broken-json", f"line {index + 1} is not JSON: {error}", [misfit]) from error


def _unpacked(value: Any) -> list[Any]:
    return [_unwrapped(item) for item in value] if isinstance(value, list) else [_unwrapped(value)]


def _unwrapped(value: Any) -> Any:
    """Return the event in its envelope `{"event": {…}}`, or bare."""
    if isinstance(value, dict) and len(value) == 1 and isinstance(value.get("event"), dict):
        return value["event"]
    return value
