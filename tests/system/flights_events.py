"""The flights as batches for the system, results as rows, and the comparison of every row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import flights_reference
import pyarrow as pa
import pyarrow.parquet as pq
from flights_reference import FLIGHTS, Row

from siddhi.column_names import KIND, TIMESTAMP

PLAN_FILE = FLIGHTS / "KnockOnDelays.siddhiql"
PLAN = "KnockOnDelays"
IMPORTED = ("Arrivals", "Departures")
EXPORTED = tuple(flights_reference.COLUMNS)

Rows = dict[str, list[Row]]


def plan_text() -> str:
    return PLAN_FILE.read_text(encoding="utf-8")


def flight_batches(stream: str, batch_rows: int) -> Iterator[pa.RecordBatch]:
    """The stream's events in file order: `_timestamp`, `_kind`, then the attributes."""
    table = pq.read_table(FLIGHTS / f"{stream.lower()}.parquet").combine_chunks()
    for start in range(0, table.num_rows, batch_rows):
        part = table.slice(start, batch_rows).to_batches()[0]
        names = [name for name in part.schema.names if name != "ts"]
        columns = [part.column("ts"), pa.array([0] * part.num_rows, pa.int8())]
        columns += [part.column(name) for name in names]
        fields = [pa.field(TIMESTAMP, pa.int64(), nullable=False), pa.field(KIND, pa.int8(), nullable=False)]
        fields += [pa.field(name, part.schema.field(name).type) for name in names]
        yield pa.record_batch(columns, schema=pa.schema(fields))


def last_time_ms(batch: pa.RecordBatch) -> int:
    """The watermark after `batch`, whose rows are in time order."""
    return int(batch.column(TIMESTAMP)[batch.num_rows - 1].as_py())


def rows_of(batch: pa.RecordBatch) -> Iterator[Row]:
    """The rows with the time first; a result holds current events alone."""
    assert batch.column(KIND).to_pylist() == [0] * batch.num_rows
    columns = [batch.column(name).to_pylist() for name in batch.schema.names if name != KIND]
    yield from zip(*columns, strict=True)


def assert_all_rows_equal(found: Mapping[str, Sequence[Row]]) -> None:
    """Every row of every exported stream is what the reference computes, in its order."""
    expected = flights_reference.reference()
    counts = {stream: len(rows) for stream, rows in found.items()}
    right = {stream: len(rows) for stream, rows in expected.items()}
    assert counts == right, f"{counts} rows, not {right}"
    for stream, rows in expected.items():
        wrong = [place for place, row in enumerate(rows) if found[stream][place] != row]
        assert not wrong, (
            f"{stream}: {len(wrong)} of {len(rows)} rows differ; row {wrong[0]} is {found[stream][wrong[0]]}, "
            f"not {rows[wrong[0]]}"
        )
