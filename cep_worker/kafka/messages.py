"""Messages → record batches, and messages that are none of events."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Any, NamedTuple, Protocol

import msgspec
import pyarrow as pa

from cep_common.errors import InputError
from cep_common.protocol.links import StreamSchema
from cep_worker.failed_events.entries import FailedBatch
from cep_worker.formats.rejections import EventsRejectedError
from cep_worker.formats.source_mappers.csv_mapper import CsvFormat
from cep_worker.formats.source_mappers.registry import BodiesReader, BodyReader, LineReader, SourceFormat
from cep_worker.formats.text_columns import read_column
from cep_worker.formats.transport_properties import body_schema, with_properties
from siddhi.column_names import TIMESTAMP
from topology.events.frames import CURRENT, arrow_schema, concatenate

LONGEST_REASON = 500
TOGETHER = 100
"""The maximum number of messages in an entry."""
_LINE_END = b"\n"
_STORED = StreamSchema(
    "kafka",
    (
        ("topic", "string"), ("partition", "int"), ("offset", "long"), ("key", "object"), ("headers", "string"),
        ("payload", "object"),
    ),
)  # fmt: skip
"""A message among the failed events."""


@dataclass(slots=True)
class KafkaMessage:
    """A message as it came: `payload` is what its mapper reads, without the header of a sequence."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    headers: Sequence[tuple[str, bytes | None]]
    payload: bytes

    def place(self) -> str:
        """Topic, partition and offset, in the form used in messages to users."""
        return f"{self.topic}[{self.partition}] offset {self.offset}"


class Refused(NamedTuple):
    """A message that could not be converted to events, and the reason."""

    message: KafkaMessage
    reason: str


def failed_messages(refused: Sequence[Refused], now_ms: int) -> Iterator[FailedBatch]:
    """Return the messages as entries of the failed-event store.

    Successive messages with the same error share an entry, within the limits of an entry.
    """
    for _, alike in groupby(refused, key=lambda one: (one.reason, one.message.topic, one.message.partition)):
        found = list(alike)
        for place in range(0, len(found), TOGETHER):
            some = found[place : place + TOGETHER]
            last = f" to {some[-1].message.offset}" if len(some) > 1 else ""
            yield FailedBatch(stored(some, now_ms), f"{some[0].message.place()}{last}: {some[0].reason}")


class Messages(Protocol):
    """Messages that are read together."""

    def __len__(self) -> int: ...

    def payloads(self) -> list[bytes]:
        """Return what the mapper reads of each."""

    def message(self, index: int) -> KafkaMessage:
        """Return one message, with all its fields."""


class MessageReader:
    """Reads messages of a stream. The `properties` (attribute, name) are sent beside the body of a message."""

    def __init__(
        self,
        form: SourceFormat,
        schema: StreamSchema,
        properties: tuple[tuple[str, str], ...],
        timestamp: str | None,
    ) -> None:
        """InputError for a `timestamp` that cannot hold the time."""
        self._schema = schema
        self._properties = properties
        self._beside = dict(properties)
        self._time = timestamp if timestamp in self._beside else None
        """The attribute beside the body that holds the time."""
        if self._time is not None and dict(schema.attributes)[self._time] not in ("int", "long"):
            raise InputError("wrong-timestamp", f"{self._time} must be long or int to hold the time")
        body = body_schema(schema, properties) if properties else schema
        self._reader: BodyReader = form.reader(body, timestamp if self._time is None else None)
        self._bodies = self._reader if isinstance(self._reader, BodiesReader) else None
        self._at_once = self._bodies is not None or isinstance(self._reader, LineReader)
        self._at_once |= isinstance(form, CsvFormat) and not form.header

    def read(self, messages: Messages, now_ms: int) -> tuple[pa.RecordBatch | None, list[Refused]]:
        """Return the events of the messages in order, or None if there are none, and the messages without events."""
        batch = self._read_at_once(messages, now_ms) if self._at_once else None
        if batch is not None:
            return batch, []
        batches: list[pa.RecordBatch] = []
        refused: list[Refused] = []
        for index, payload in enumerate(messages.payloads()):
            try:
                batches.append(self._read_one(payload, messages, index, now_ms))
            except EventsRejectedError as error:
                refused.append(Refused(messages.message(index), _reason(error)))
        return concatenate(batches) if batches else None, refused

    def _read_at_once(self, messages: Messages, now_ms: int) -> pa.RecordBatch | None:
        """Return the events when each message holds one; None when they must be read one by one."""
        payloads = messages.payloads()
        if self._bodies is not None:
            return self._read_bodies(self._bodies, payloads, messages, now_ms)
        if not all(payloads) or not payloads or payloads[0][:1] == b"[":
            return None
        reader = self._reader
        joined = _LINE_END.join(payloads)
        if joined.count(_LINE_END) >= len(payloads):
            return None
        try:
            batch = reader.read_lines(joined, now_ms) if isinstance(reader, LineReader) else reader.read(joined, now_ms)
        except EventsRejectedError:
            return None  # which messages are to blame shows one by one
        if batch.num_rows != len(payloads):
            return None
        return self._with_columns(batch, messages) if self._properties else batch

    def _read_bodies(
        self, reader: BodiesReader, payloads: list[bytes], messages: Messages, now_ms: int
    ) -> pa.RecordBatch | None:
        """Return the events of binary messages; None when they must be read one by one."""
        if not all(payloads):
            return None
        try:
            batch = reader.read_bodies(payloads, now_ms)
        except EventsRejectedError:
            return None
        return self._with_columns(batch, messages) if self._properties else batch

    def _with_columns(self, batch: pa.RecordBatch, messages: Messages) -> pa.RecordBatch | None:
        """Return the events with what comes beside their messages; None when a value does not fit."""
        whole = [messages.message(index) for index in range(len(messages))]
        own = iter(batch.columns[2:])
        columns = [batch.column(0), batch.column(1)]
        for name, kind in self._schema.attributes:
            if name not in self._beside:
                columns.append(next(own))
                continue
            texts = [property_of(message, self._beside[name]) for message in whole]
            values, problems = read_column(kind, pa.array(texts, pa.string()))
            if problems:
                return None
            columns.append(values)
        made = pa.RecordBatch.from_arrays(columns, schema=arrow_schema(self._schema))
        return self._timed(made) if self._time is not None else made

    def _read_one(self, payload: bytes, messages: Messages, index: int, now_ms: int) -> pa.RecordBatch:
        if not payload:
            raise EventsRejectedError("no-value", "the message has no value (a tombstone)")
        batch = self._reader.read(payload, now_ms)
        if not self._properties:
            return batch
        message = messages.message(index)
        made = with_properties(batch, self._schema, self._properties, partial(property_of, message))
        timed = self._timed(made) if self._time is not None else made
        if timed is None:
            raise EventsRejectedError("bad-events", f"{self._time} is the event's timestamp and may not be null")
        return timed

    def _timed(self, batch: pa.RecordBatch) -> pa.RecordBatch | None:
        """Return the events at the times of their attribute; None when one has none."""
        times = batch.column(2 + [name for name, _ in self._schema.attributes].index(str(self._time)))
        if times.null_count:
            return None
        return batch.set_column(0, batch.schema.field(TIMESTAMP), times.cast(pa.int64()))


def property_of(message: KafkaMessage, name: str) -> str | None:
    """Return what `trp:name` is for a message: Siddhi's properties, else the value of the last header of that name."""
    match name:
        case "topic":
            return message.topic
        case "partition":
            return str(message.partition)
        case "offset":
            return str(message.offset)
        case "key":
            return None if message.key is None else message.key.decode(errors="replace")
        case "record.timestamp":
            return str(message.timestamp_ms) if message.timestamp_ms > 0 else None
    for header, value in reversed(message.headers):
        if header == name:
            return None if value is None else value.decode(errors="replace")
    return None


def stored(refused: Sequence[Refused], now_ms: int) -> pa.RecordBatch:
    """Return the messages as the error store keeps them: all of them, so that they can be read again."""
    rows = [one.message for one in refused]
    columns: list[Any] = [
        pa.array([one.timestamp_ms if one.timestamp_ms > 0 else now_ms for one in rows], pa.int64()),
        pa.array([CURRENT] * len(rows), pa.int8()),
        pa.array([one.topic for one in rows]),
        pa.array([one.partition for one in rows], pa.int32()),
        pa.array([one.offset for one in rows], pa.int64()),
        pa.array([one.key for one in rows], pa.binary()),
        pa.array([_written_headers(one.headers) for one in rows]),
        pa.array([one.payload for one in rows], pa.binary()),
    ]
    schema = arrow_schema(_STORED)
    columns = [column.cast(field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


class StoredMessages:
    """Messages out of the error store. ValueError for events that are no messages."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        if not batch.schema.equals(arrow_schema(_STORED)):
            raise ValueError("the entry contains no Kafka messages")
        times = batch.column(0).to_pylist()
        rows = zip(times, *(column.to_pylist() for column in batch.columns[2:]), strict=True)
        self._messages = [
            KafkaMessage(topic, partition, offset, key, payload, time, _read_headers(headers), payload)
            for time, topic, partition, offset, key, headers, payload in rows
        ]

    def __len__(self) -> int:
        return len(self._messages)

    def payloads(self) -> list[bytes]:
        return [one.payload for one in self._messages]

    def message(self, index: int) -> KafkaMessage:
        return self._messages[index]


def _written_headers(headers: Sequence[tuple[str, bytes | None]]) -> str:
    pairs = [(name, None if value is None else base64.b64encode(value).decode()) for name, value in headers]
    return msgspec.json.encode(pairs).decode()


def _read_headers(text: str) -> list[tuple[str, bytes | None]]:
    pairs = msgspec.json.decode(text, type=list[tuple[str, str | None]])
    return [(name, None if value is None else base64.b64decode(value)) for name, value in pairs]


def _reason(error: EventsRejectedError) -> str:
    problems = "; ".join(f"{one.attribute} {one.problem}".strip() for one in error.details)
    return (problems or error.message)[:LONGEST_REASON]
