"""Files of events: what is read, and how an event that does not fit is pointed at."""

from __future__ import annotations

import datetime
import io
import math
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from worker_world import values

from cep_common.errors import InputError
from cep_common.protocol.links import StreamSchema
from cep_worker.formats.files.event_files import count_events, read_events, read_lines

SCHEMA = StreamSchema("Trips", (("carrier", "string"), ("delay", "int"), ("price", "double")))
NOW = 77


def rows(path: Path, timestamp_field: str | None = None, batch_rows: int = 4_096) -> list[list[tuple[Any, ...]]]:
    return [values(batch) for batch in read_events(str(path), SCHEMA, lambda: NOW, timestamp_field, batch_rows)]


def parquet(path: Path, **columns: Any) -> Path:
    file = path / "trips.parquet"
    pq.write_table(pa.table(columns), file)
    return file


def text(path: Path, name: str, content: str) -> Path:
    file = path / name
    file.write_text(content)
    return file


def test_parquet_is_read_by_column_name_with_further_columns_left_out(tmp_path: Path) -> None:
    file = parquet(tmp_path, price=[1.5, None, 2.0], extra=[1, 2, 3], delay=[1, None, -3], ts=[10, 20, 30],
                   carrier=pa.array(["UA", None, "AA"]).dictionary_encode())  # fmt: skip
    assert rows(file, batch_rows=2) == [[(10, "UA", 1, 1.5), (20, None, None, None)], [(30, "AA", -3, 2.0)]]
    assert count_events(str(file)) == 3


def test_whole_numbers_of_floating_point_are_ints_and_nan_is_null(tmp_path: Path) -> None:
    file = parquet(tmp_path, carrier=["a", "b"], delay=[5.0, math.nan], price=[1, 2], ts=[1, 2])
    assert rows(file) == [[(1, "a", 5, 1.0), (2, "b", None, 2.0)]]


def test_times_may_be_timestamps_of_any_unit(tmp_path: Path) -> None:
    moment = datetime.datetime(2013, 1, 1, 0, 0, 1, tzinfo=datetime.UTC)
    file = parquet(tmp_path, carrier=["a"], delay=[1], price=[1.0], at=pa.array([moment], pa.timestamp("us", "UTC")))
    assert rows(file, "at")[0][0][0] == 1_356_998_401_000


def test_events_without_a_time_are_of_now(tmp_path: Path) -> None:
    file = parquet(tmp_path, carrier=["a"], delay=[1], price=[1.0])
    assert rows(file) == [[(NOW, "a", 1, 1.0)]]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"carrier": ["a"], "price": [1.0]}, "columns are missing for stream Trips: delay int"),
        ({"carrier": [1], "delay": [1], "price": [1.0]}, "column carrier is int64, expected string"),
        ({"carrier": ["a"], "delay": ["1"], "price": [1.0]}, "column delay is string, expected int"),
        (
            {"carrier": ["a"] * 3, "delay": [1, 2, 2**31], "price": [1.0] * 3},
            "row 3: delay: 2147483648 is not a valid int",
        ),
        ({"carrier": ["a"] * 3, "delay": [1, 2.5, 3], "price": [1.0] * 3}, "row 2: delay: 2.5 is not a valid int"),
        ({"carrier": ["a"] * 2, "delay": [1] * 2, "price": [1.0] * 2, "ts": [1, None]}, "row 2: ts is the timestamp"),
    ],
)
def test_a_table_that_does_not_fit_is_refused_by_column_and_row(
    tmp_path: Path, columns: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError) as refused:
        rows(parquet(tmp_path, **columns))
    assert message in refused.value.message


def test_an_empty_field_of_csv_is_null_and_quotes_are_text(tmp_path: Path) -> None:
    file = text(tmp_path, "t.csv", 'ts,carrier,delay,price,extra\n1,UA,5,1.5,x\n2,,,,\n3,"",-1,NaN,x\n')
    first, second, third = rows(file)[0]
    assert (first, second) == ((1, "UA", 5, 1.5), (2, None, None, None))
    assert third[:3] == (3, "", -1)
    assert math.isnan(third[3])


def test_a_wrong_value_of_csv_is_named_by_column_and_line(tmp_path: Path) -> None:
    file = text(tmp_path, "t.csv", "carrier,delay,price\nUA,1,1\nUA,x,1\n")
    with pytest.raises(InputError, match=r"line 3: delay: .* invalid value 'x'"):
        rows(file)


def test_ndjson_and_json_are_read_with_their_own_or_the_usual_timestamp(tmp_path: Path) -> None:
    own = '{"_timestamp":5,"carrier":"UA","delay":1,"price":1}'
    usual = own.replace("_timestamp", "ts")
    assert rows(text(tmp_path, "a.ndjson", f"{own}\n{own}")) == [[(5, "UA", 1, 1.0)], [(5, "UA", 1, 1.0)]]
    assert rows(text(tmp_path, "a.jsonl", f"\n{usual}\n")) == [[(5, "UA", 1, 1.0)]]
    assert rows(text(tmp_path, "a.json", f"[{usual},{usual},{usual}]"), batch_rows=2) == [
        [(5, "UA", 1, 1.0)] * 2,
        [(5, "UA", 1, 1.0)],
    ]
    assert rows(text(tmp_path, "b.json", f'[{{"event":{own}}}]')) == [[(5, "UA", 1, 1.0)]]


def test_a_wrong_line_of_ndjson_is_named_with_its_file(tmp_path: Path) -> None:
    good = '{"carrier":"UA","delay":1,"price":1}'
    for name, content, said in (("a.ndjson", "{", "is not JSON"), ("b.jsonl", '{"delay":1}', "carrier is missing")):
        file = text(tmp_path, name, f"{good}\n{content}\n")
        with pytest.raises(InputError) as refused:
            rows(file)
        assert refused.value.message.startswith(f"{file}: line 2: ")
        assert said in refused.value.message


STAMPED = StreamSchema("S", (("_timestamp", "long"), ("a", "int")))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("s.csv", "a,_timestamp\n1,5\n2,\n"),
        ("s.ndjson", '{"_timestamp":5,"a":1}\n{"_timestamp":null,"a":2}'),
        ("s.json", '[{"_timestamp":5,"a":1},{"_timestamp":null,"a":2}]'),
    ],
)
def test_an_attribute_called_timestamp_is_also_the_time_of_its_event(tmp_path: Path, name: str, content: str) -> None:
    batches = read_events(str(text(tmp_path, name, content)), STAMPED, lambda: NOW)
    assert [row for batch in batches for row in values(batch)] == [(5, 5, 1), (NOW, None, 2)]


def test_the_time_may_stand_elsewhere_than_in_an_attribute_called_so(tmp_path: Path) -> None:
    file = parquet(tmp_path, _timestamp=[5], a=[1], at=[9])
    assert [values(batch) for batch in read_events(str(file), STAMPED, lambda: NOW, "at")] == [[(9, 5, 1)]]
    named = StreamSchema("S", (("_timestamp", "string"), ("a", "int")))
    lines = text(tmp_path, "s.ndjson", '{"_timestamp":"five","a":1,"ts":9}')
    assert [values(batch) for batch in read_events(str(lines), named, lambda: NOW)] == [[(9, "five", 1)]]
    table = text(tmp_path, "s.csv", "_timestamp,a\nfive,1\n")
    assert [values(batch) for batch in read_events(str(table), named, lambda: NOW)] == [[(NOW, "five", 1)]]


def test_a_wrong_line_is_named_by_its_number_in_the_file(tmp_path: Path) -> None:
    good = '{"carrier":"UA","delay":1,"price":1}'
    file = text(tmp_path, "a.ndjson", f"{good}\n\n\n{good}\n" + good.replace("1", '"1"', 1))
    with pytest.raises(InputError, match="line 5: delay must be int, not text"):
        rows(file)
    broken = text(tmp_path, "b.ndjson", f"\n{good}\n{{\n")
    with pytest.raises(InputError, match="line 3: is not JSON"):
        rows(broken)
    whole = text(tmp_path, "b.json", f"[{good}, {{}}]")
    with pytest.raises(InputError, match="event 2: carrier is missing"):
        rows(whole)


def test_lines_that_trickle_in_are_handed_out_as_they_come() -> None:
    line = b'{"carrier":"UA","delay":1,"price":1}'
    pieces = [line + b"\n" + line[:10], line[10:] + b"\n", b""]

    class Trickle(io.RawIOBase):
        def read(self, size: int = -1) -> bytes:
            return pieces.pop(0)

    batches = read_lines(Trickle(), SCHEMA, lambda: NOW)  # type: ignore[arg-type]
    assert [batch.num_rows for batch in batches] == [1, 1]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("none.parquet", None, "no such file"),
        ("a.parquet", "x", "is not a Parquet file"),
        ("a.txt", "x", "unknown file type .txt"),
        ("a.json", "x", "is not JSON"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path, name: str, content: str | None, message: str) -> None:
    file = text(tmp_path, name, content) if content is not None else tmp_path / name
    with pytest.raises(InputError, match=message):
        rows(file)
