"""Entries of the failed-event store: where events failed, why, and the events themselves.

Only data and its encoding.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import msgspec
import pyarrow as pa

from cep_common.ids import PlanKey
from cep_common.protocol.error_records import LONGEST_TEXT
from topology.events.frames import concatenate, event_rows

Kind = Literal["stream", "sink", "source"]

LARGEST_WHOLE = 2**53
"""Greater integers are shown as strings, since not every JSON parser supports them."""


@dataclass(frozen=True, slots=True)
class FailureOrigin:
    """Where events failed: in a query on `stream`, or in a sink or source of the stream.

    `sink` is the name of the sink or source, empty for kind `stream`. Events of a source are its original messages.
    """

    key: PlanKey
    stream: str
    kind: Kind
    sink: str = ""


@dataclass(frozen=True, slots=True)
class FailedBatch:
    """Events that could not be processed, why, and the query in which they failed (empty: none)."""

    events: pa.RecordBatch
    reason: str
    query: str = ""


@dataclass(frozen=True, slots=True)
class FailedEventEntry:
    """Failed events of one origin and reason, stored at `time_ms` (time of day).

    `id` is unique among all workers.
    """

    id: str
    origin: FailureOrigin
    time_ms: int
    failed: FailedBatch

    def shown(self) -> dict[str, Any]:
        """Return the entry as JSON values."""
        return {
            "id": self.id,
            "kind": self.origin.kind,
            "stream": self.origin.stream,
            "sink": self.origin.sink,
            "query": self.failed.query,
            "reason": self.failed.reason,
            "time_ms": self.time_ms,
            "events": _shown_events(self.failed.events),
        }


def bounded(reason: str) -> str:
    """Cut the reason to the length of error texts, without characters that cannot be stored."""
    reason = reason.encode(errors="replace").decode()
    return reason if len(reason) <= LONGEST_TEXT else f"{reason[: LONGEST_TEXT - 1]}…"


def joined(failed: Iterable[FailedBatch]) -> Iterator[FailedBatch]:
    """Return the events in order, consecutive ones with the same reason joined."""
    alike: list[FailedBatch] = []
    for one in failed:
        if alike and (one.reason, one.query, one.events.schema) != (
            alike[0].reason,
            alike[0].query,
            alike[0].events.schema,
        ):
            yield _together(alike)
            alike = []
        alike.append(one)
    if alike:
        yield _together(alike)


def pieces(events: pa.RecordBatch, most_bytes: int) -> Iterator[pa.RecordBatch]:
    """Return the events in batches of at most `most_bytes`; larger single events get a batch of their own."""
    if events.num_rows <= 1 or events.nbytes <= most_bytes:
        yield events
        return
    half = events.num_rows // 2
    yield from pieces(events.slice(0, half), most_bytes)
    yield from pieces(events.slice(half), most_bytes)


def encode_events(events: pa.RecordBatch) -> bytes:
    """Return the batch with its schema, as `decode_events` reads it."""
    written = pa.BufferOutputStream()
    with pa.ipc.new_stream(written, events.schema) as stream:
        stream.write_batch(events)
    text: bytes = written.getvalue().to_pybytes()
    return text


def decode_events(text: bytes) -> pa.RecordBatch:
    """Return the batch that `encode_events` wrote.

    Raises pa.ArrowException, OSError or EOFError for other bytes.
    """
    with pa.ipc.open_stream(text) as stream:
        batch = stream.read_next_batch()
    batch.validate(full=True)
    return batch


def _together(alike: list[FailedBatch]) -> FailedBatch:
    return FailedBatch(concatenate([one.events for one in alike]), alike[0].reason, alike[0].query)


def _shown_events(events: pa.RecordBatch) -> list[dict[str, Any]]:
    """Return the events by attribute.

    Numbers that JSON cannot represent become strings, and objects become JSON values.
    """
    return [{name: _shown(value) for name, value in row.items()} for row in event_rows(events)]


def _shown(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, int) and abs(value) > LARGEST_WHOLE:
        return str(value)
    if isinstance(value, bytes):
        try:
            return msgspec.json.decode(value)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return value.decode("utf-8", "replace")
    return value
