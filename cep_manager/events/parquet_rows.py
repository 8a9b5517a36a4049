"""The process that reads a Parquet file of events: the file is read from standard input, events are written as NDJSON.

Called as `python -m cep_manager.events.parquet_rows ATTRIBUTES`, these as JSON. Ends with `REFUSED` and the reason on
standard error when the file cannot be taken.
"""

from __future__ import annotations

import base64
import json
import math
import resource
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from siddhi.confinement import end_with_parent
from siddhi.float_values import written_batch

REFUSED = 3
MEMORY_BYTES = 3 * 2**30
CPU_S = 50
MOST_ROWS = 200_000
MOST_ANSWER_BYTES = 128 * 2**20
"""Files are compressed: few bytes may be very many events."""
BATCH_ROWS = 500
"""Few, since one value may be as large as a megabyte: the number of rows in memory at a time."""
LONGEST_LIST = 500
"""Maximum number of characters of a file's column names in a message."""
TIME = "_timestamp"


class RowsRefusedError(Exception):
    """The file is invalid; the message is for the user."""


def main() -> int:
    """Write the events, or the reason why they cannot be read; return the exit status."""
    end_with_parent()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))
    attributes = [(str(name), str(kind)) for name, kind in json.loads(sys.argv[1])]
    try:
        for line in bounded(events(sys.stdin.buffer, attributes), MOST_ANSWER_BYTES):
            sys.stdout.buffer.write(line)
    except RowsRefusedError as error:
        sys.stderr.buffer.write(str(error).encode(errors="replace"))
        return REFUSED
    return 0


def bounded(lines: Iterator[str], most_bytes: int) -> Iterator[bytes]:
    """Yield the lines in UTF-8. Raises RowsRefusedError once they exceed `most_bytes`."""
    size = 0
    for line in lines:
        encoded = line.encode()
        size += len(encoded)
        if size > most_bytes:
            raise RowsRefusedError(f"the file's events are more than {most_bytes >> 20} MiB as text; send a part of it")
        yield encoded


def events(file: BinaryIO, attributes: list[tuple[str, str]]) -> Iterator[str]:
    """Yield the file's events, each as a line of JSON. Raises RowsRefusedError."""
    try:
        opened = pq.ParquetFile(pa.BufferReader(file.read()))
    except (pa.ArrowException, OSError) as error:
        raise RowsRefusedError(f"this is not a Parquet file: {str(error).splitlines()[0]}") from error
    columns = opened.schema_arrow.names
    lacking = [name for name, _ in attributes if name not in columns]
    if lacking:
        there = ", ".join(columns[:20])[:LONGEST_LIST]
        raise RowsRefusedError(f"the file has no column {', '.join(lacking)}; its columns are {there}")
    if opened.metadata.num_rows > MOST_ROWS:
        raise RowsRefusedError(f"the file has {opened.metadata.num_rows} rows; at most {MOST_ROWS} are read at once")
    wanted = [name for name, _ in attributes]
    converters = {name: _CONVERTERS[kind] for name, kind in attributes}
    if TIME in columns and TIME not in converters:
        wanted.append(TIME)
        converters[TIME] = _whole
    try:
        for batch in opened.iter_batches(BATCH_ROWS, columns=wanted):
            for row in written_batch(batch).to_pylist():
                yield _line(row, converters)
    except (pa.ArrowException, OSError) as error:
        raise RowsRefusedError(f"the file is damaged: {str(error).splitlines()[0]}") from error
    except UnicodeDecodeError as error:
        raise RowsRefusedError(f"the file has text that is not UTF-8: {error.reason}") from error
    except (ValueError, OverflowError) as error:
        why = str(error).splitlines()[0]
        raise RowsRefusedError(f"the file has a time outside the years 1 to 9999 (in microseconds): {why}") from error


def _line(row: dict[str, Any], converters: dict[str, Callable[[Any], Any]]) -> str:
    event = {name: None if row[name] is None else convert(row[name]) for name, convert in converters.items()}
    return json.dumps(event, separators=(",", ":"), ensure_ascii=False, allow_nan=False) + "\n"


def _whole(value: Any) -> Any:
    """Convert the value of an integer column; times become ms since 1970, in UTC unless they carry a zone."""
    if isinstance(value, datetime):
        aware = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
        return round(aware.timestamp() * 1_000)
    return int(value) if isinstance(value, int | float) and float(value).is_integer() else _text_or_same(value)


def _fraction(value: Any) -> Any:
    if isinstance(value, int | float):
        return value if math.isfinite(value) else None
    return _text_or_same(value)


def _text(value: Any) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def _text_or_same(value: Any) -> Any:
    """Return a value that does not fit the stream unchanged, so that the worker reports the reason.

    NaN and infinity become null, since JSON cannot express them.
    """
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, str | int | float | bool) else _text(value)


def _binary(value: Any) -> str:
    return base64.b64encode(value if isinstance(value, bytes) else str(value).encode()).decode()


_CONVERTERS: dict[str, Callable[[Any], Any]] = {
    "string": _text,
    "int": _whole,
    "long": _whole,
    "float": _fraction,
    "double": _fraction,
    "bool": _text_or_same,
    "object": _binary,
}

if __name__ == "__main__":
    sys.exit(main())
