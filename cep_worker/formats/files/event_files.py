"""Files of events → record batches of a stream: Parquet, CSV, JSON and NDJSON.

Every reader takes the time of an event from the field `timestamp_field`. Its default is `_timestamp`, or `ts` if that
field exists and is not an attribute, or the time of reading.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from cep_common.errors import InputError
from cep_common.protocol.links import StreamSchema
from cep_worker.formats.event_times import USUAL_TIMESTAMP, timestamp_among
from cep_worker.formats.files.table_files import read_csv, read_parquet
from cep_worker.formats.rejections import EventsRejectedError
from cep_worker.formats.source_mappers.json_mapper import JsonEvents

CHUNK_BYTES = 1_048_576
LONGEST_LINE_BYTES = 16_777_216

Now = Callable[[], int]
"""Returns the time of events without a time, in milliseconds."""


def read_events(
    path: str, schema: StreamSchema, now_ms: Now, timestamp_field: str | None = None, batch_rows: int = 4_096
) -> Iterator[pa.RecordBatch]:
    """Yield the events of a file in order, in batches of at most `batch_rows`.

    The suffix gives the format: .parquet, .csv, .json (a list), .ndjson or .jsonl. `-` is NDJSON from standard input,
    yielded as it arrives.

    Raises:
        InputError: events do not fit; names the file and the line or row. Earlier batches have been yielded.
    """
    if path == "-":
        yield from _sliced(read_lines(sys.stdin.buffer, schema, now_ms, timestamp_field), batch_rows)
        return
    file = Path(path)
    if not file.is_file():
        raise InputError("no-file", f"{path}: no such file")
    match file.suffix.lower():
        case ".parquet":
            yield from read_parquet(file, schema, now_ms, timestamp_field, batch_rows)
        case ".csv":
            yield from _sliced(read_csv(file, schema, now_ms, timestamp_field), batch_rows)
        case ".json":
            yield from _sliced(_read_json(file, schema, now_ms, timestamp_field), batch_rows)
        case ".ndjson" | ".jsonl":
            try:
                with file.open("rb") as lines:
                    yield from _sliced(read_lines(lines, schema, now_ms, timestamp_field), batch_rows)
            except InputError as error:
                raise InputError(error.reason_code, f"{path}: {error.message}") from error
        case suffix:
            known = ".parquet, .csv, .json, .ndjson, .jsonl"
            raise InputError("unknown-format", f"{path}: unknown file type {suffix or '(no suffix)'}; known: {known}")


def count_events(path: str) -> int | None:
    """Return the number of events in a file if it is known without reading the whole file, for progress bars."""
    if path.endswith(".parquet"):
        try:
            return int(pq.read_metadata(path).num_rows)
        except (pa.ArrowException, OSError):
            return None
    return None


def read_lines(
    lines: BinaryIO, schema: StreamSchema, now_ms: Now, timestamp_field: str | None = None
) -> Iterator[pa.RecordBatch]:
    """Return the events of NDJSON, a batch for each piece that can be read at once.

    InputError names the line.
    """
    reader: JsonEvents | None = None
    rest = b""
    first_line = 1
    while piece := _read_some(lines):
        whole, separator, rest = (rest + piece).rpartition(b"\n")
        if len(rest) > LONGEST_LINE_BYTES:
            raise InputError("too-large", f"a line of more than {LONGEST_LINE_BYTES} bytes")
        if separator and whole.strip():
            reader = reader or _line_reader(whole, schema, timestamp_field)
            yield _numbered(reader, whole, now_ms(), first_line)
        first_line += whole.count(b"\n") + len(separator)
    if rest.strip():
        reader = reader or _line_reader(rest, schema, timestamp_field)
        yield _numbered(reader, rest, now_ms(), first_line)


def _read_some(lines: BinaryIO) -> bytes:
    """Return the available bytes; none at the end of the input."""
    read1 = getattr(lines, "read1", lines.read)
    data: bytes = read1(CHUNK_BYTES)
    return data


def _numbered(reader: JsonEvents, text: bytes, now_ms: int, first_line: int) -> pa.RecordBatch:
    """Return the events of `text`, or an InputError whose line numbers include empty lines."""
    try:
        return reader.read_lines(text, now_ms)
    except EventsRejectedError as error:
        if not error.details:
            raise
        misfit = error.details[0]
        full = [number for number, line in enumerate(text.split(b"\n"), first_line) if line.strip()]
        what = f"{misfit.attribute} {misfit.problem}".strip()
        raise InputError(error.reason_code, f"line {full[misfit.index]}: {what}") from error


def _line_reader(text: bytes, schema: StreamSchema, timestamp_field: str | None) -> JsonEvents:
    first = next(line for line in text.split(b"\n") if line.strip())
    return JsonEvents(schema, timestamp_field or _usual_timestamp(first, schema))


def _usual_timestamp(first_event: bytes, schema: StreamSchema) -> str | None:
    """Return `ts` if the first event has its time there."""
    try:
        event = msgspec.json.decode(first_event)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None  # reading the events reports the problem
    if isinstance(event, list) and event:
        event = event[0]
    if isinstance(event, dict) and isinstance(event.get("event"), dict):
        event = event["event"]
    has_usual = isinstance(event, dict) and timestamp_among(event, schema) == USUAL_TIMESTAMP
    return USUAL_TIMESTAMP if has_usual else None


def _read_json(file: Path, schema: StreamSchema, now_ms: Now, timestamp_field: str | None) -> Iterator[pa.RecordBatch]:
    text = file.read_bytes()
    reader = JsonEvents(schema, timestamp_field or _usual_timestamp(text, schema))
    try:
        yield reader.read(text, now_ms())
    except EventsRejectedError as error:
        if not error.details:
            raise InputError(error.reason_code, f"{file}: {error.message}") from error
        misfit = error.details[0]
        what = f"{misfit.attribute} {misfit.problem}".strip()
        raise InputError(error.reason_code, f"{file}: event {misfit.index + 1}: {what}") from error


def _sliced(batches: Iterator[pa.RecordBatch], batch_rows: int) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for start in range(0, batch.num_rows, batch_rows):
            yield batch.slice(start, batch_rows)
