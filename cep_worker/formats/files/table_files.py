"""Tables of events, Parquet and CSV → record batches of a stream.

Columns are matched by name, additional ones are ignored.

Values are never changed to fit: 5.0 is an int, 5.5 is not. A NaN where an int is expected is null, since tables of
floating point encode null so.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from cep_common.errors import InputError
from cep_common.protocol.links import StreamSchema
from cep_worker.formats.event_times import WRONG_TIME, strange_times, timestamp_among
from siddhi.arrow_types import ARROW_TYPES_BY_NAME
from siddhi.column_names import TIMESTAMP
from topology.events.frames import CURRENT, arrow_schema

Now = Callable[[], int]


def read_parquet(
    file: Path, schema: StreamSchema, now_ms: Now, timestamp_field: str | None, batch_rows: int
) -> Iterator[pa.RecordBatch]:
    """Return the rows of a Parquet file.

    InputError names the column and the row.
    """
    try:
        table = pq.ParquetFile(file)
    except (pa.ArrowException, OSError) as error:
        raise InputError("broken-file", f"{file}: is not a Parquet file: {error}") from error
    time_column = _time_column(table.schema_arrow.names, schema, timestamp_field, file)
    columns = _wanted(table.schema_arrow.names, schema, time_column, file)
    first_row = 1
    with table:
        for rows in table.iter_batches(batch_size=batch_rows, columns=columns):
            yield _event_batch(rows, schema, time_column, now_ms(), file, first_row)
            first_row += rows.num_rows


def read_csv(file: Path, schema: StreamSchema, now_ms: Now, timestamp_field: str | None) -> Iterator[pa.RecordBatch]:
    """Return the rows of a CSV file with a header.

    An empty field is null, `""` is empty text. InputError names column and row.
    """
    with file.open("rb") as opened:
        header = opened.readline().decode("utf-8-sig", errors="replace").strip()
    names = [name.strip().strip('"') for name in header.split(",")]
    time_column = _time_column(names, schema, timestamp_field, file)
    types = {name: ARROW_TYPES_BY_NAME[kind] for name, kind in schema.attributes}
    if time_column is not None and time_column not in types:
        types[time_column] = pa.int64()
    convert = pyarrow.csv.ConvertOptions(
        column_types=types,
        include_columns=_wanted(names, schema, time_column, file),
        null_values=[""],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    first_row = 1
    try:
        rows_of = pyarrow.csv.open_csv(
            file, pyarrow.csv.ReadOptions(use_threads=False), pyarrow.csv.ParseOptions(), convert
        )
        for rows in rows_of:
            yield _event_batch(rows, schema, time_column, now_ms(), file, first_row)
            first_row += rows.num_rows
    except pa.ArrowException as error:
        raise InputError("bad-events", f"{file}: {_readable(str(error), names)}") from error


def _readable(error: str, names: Sequence[str]) -> str:
    """Return pyarrow's message with the column's name instead of its number, and the line number (the header is 1)."""
    pattern = r"In CSV column #(\d+): Row #(\d+): "
    return re.sub(pattern, lambda found: f"line {found[2]}: {names[int(found[1])]}: ", error)


def _time_column(names: Sequence[str], schema: StreamSchema, asked: str | None, file: Path) -> str | None:
    if asked is not None:
        if asked not in names:
            raise InputError("wrong-timestamp", f"{file}: there is no column {asked} for the timestamp")
        return asked
    return timestamp_among(names, schema)


def _wanted(names: Sequence[str], schema: StreamSchema, time_column: str | None, file: Path) -> list[str]:
    missing = [f"{name} {kind}" for name, kind in schema.attributes if name not in names]
    if missing:
        raise InputError(
            "bad-events", f"{file}: columns are missing for stream {schema.stream}: {', '.join(missing)}; "
            f"there are {', '.join(names)}"
        )  # fmt: skip
    wanted = [name for name, _ in schema.attributes]
    return wanted if time_column is None or time_column in wanted else [*wanted, time_column]


def _event_batch(
    rows: pa.RecordBatch, schema: StreamSchema, time_column: str | None, now_ms: int, file: Path, first_row: int
) -> pa.RecordBatch:
    count = rows.num_rows
    if time_column is None:
        times = pa.array(np.full(count, now_ms, np.int64))
    else:
        times = _fitted(rows, time_column, "long", file, first_row)
        if time_column == TIMESTAMP and TIMESTAMP in dict(schema.attributes):
            times = times.fill_null(now_ms)  # an attribute that is not the time may be null
        elif times.null_count:
            row = first_row + pc.index(times.is_null(), True).as_py()
            raise InputError("bad-events", f"{file}: row {row}: {time_column} is the timestamp and may not be null")
    if strange := strange_times(times):
        raise InputError("bad-events", f"{file}: row {first_row + strange[0]}: {time_column} {WRONG_TIME}")
    kinds = pa.array(np.full(count, CURRENT, np.int8))
    columns = [_fitted(rows, name, kind, file, first_row) for name, kind in schema.attributes]
    return pa.RecordBatch.from_arrays([times, kinds, *columns], schema=arrow_schema(schema))


def _fitted(rows: pa.RecordBatch, name: str, kind: str, file: Path, first_row: int) -> pa.Array:
    """Return the column `name` as the Arrow type of `kind`."""
    column = rows.column(name)
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if not _may_become(column.type, kind):
        raise InputError("bad-events", f"{file}: column {name} is {column.type}, expected {kind}")
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("ms", column.type.tz), safe=False)
    if pa.types.is_floating(column.type) and kind in ("int", "long"):
        column = pc.if_else(pc.is_nan(column), pa.scalar(None, column.type), column)
    try:
        return column.cast(ARROW_TYPES_BY_NAME[kind])
    except pa.ArrowException:
        index = _first_misfit(column, ARROW_TYPES_BY_NAME[kind])
        row = first_row + index
        raise InputError(
            "bad-events", f"{file}: row {row}: {name}: {column[index].as_py()!r} is not a valid {kind}"
        ) from None


def _may_become(kind: pa.DataType, wanted: str) -> bool:
    number = pa.types.is_integer(kind) or pa.types.is_floating(kind)
    match wanted:
        case "string":
            return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_null(kind))
        case "long":
            return bool(number or pa.types.is_timestamp(kind) or pa.types.is_null(kind))
        case "int" | "float" | "double":
            return bool(number or pa.types.is_null(kind))
        case "bool":
            return bool(pa.types.is_boolean(kind) or pa.types.is_null(kind))
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_null(kind))


def _first_misfit(column: pa.Array, kind: pa.DataType) -> int:
    """Return the position of the first value that cannot be cast; there is one."""
    low, high = 0, len(column)  # the misfit is in [low, high)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            column.slice(low, middle - low).cast(kind)
        except pa.ArrowException:
            high = middle
        else:
            low = middle
    return low
