"""Parquet files as events of a stream: typed by it, bounded, and refused in words."""

import io
import json
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from manager_world import FakeView, World

from cep_manager.errors import EventFileError
from cep_manager.events import parquet
from cep_manager.events.parquet import AT_ONCE, read_parquet
from cep_manager.events.parquet_rows import MOST_ROWS, RowsRefusedError, bounded, events
from cep_manager.web.app import create_app

ATTRIBUTES = (("tailnum", "string"), ("delay", "long"))


def file_of(**columns: Any) -> bytes:
    held = io.BytesIO()
    pq.write_table(pa.table(columns), held)
    return held.getvalue()


def rows(file: bytes, *attributes: tuple[str, str]) -> list[dict[str, Any]]:
    text = "".join(events(io.BytesIO(file), list(attributes)))
    return [json.loads(line) for line in text.splitlines()]


def test_rows_are_events_in_a_process_of_their_own() -> None:
    file = file_of(tailnum=["N1", None], delay=[2**62, 3], more=[1, 2])
    told = read_parquet(file, ATTRIBUTES).decode()
    assert told == '{"tailnum":"N1","delay":4611686018427387904}\n{"tailnum":null,"delay":3}\n'


def test_values_are_told_as_the_stream_types_them() -> None:
    at = datetime(2026, 1, 1, 0, 0, 1, tzinfo=UTC)
    file = file_of(
        i=[7.0], f=[float("nan")], b=[True], s=[5], o=[b"\x00\x01"], _timestamp=pa.array([at], pa.timestamp("us"))
    )
    types = (("i", "int"), ("f", "double"), ("b", "bool"), ("s", "string"), ("o", "object"))
    assert rows(file, *types) == [
        {"i": 7, "f": None, "b": True, "s": "5", "o": "AAE=", "_timestamp": 1_767_225_601_000}
    ]


def test_an_attribute_may_be_called_as_the_time_is() -> None:
    file = file_of(_timestamp=["five", None], _kind=[1, 2])
    assert rows(file, ("_timestamp", "string"), ("_kind", "int")) == [
        {"_timestamp": "five", "_kind": 1},
        {"_timestamp": None, "_kind": 2},
    ]


def test_a_file_without_an_attribute_names_it_and_what_there_is() -> None:
    with pytest.raises(EventFileError, match="no column delay; its columns are tailnum, late"):
        read_parquet(file_of(tailnum=["N1"], late=[1]), ATTRIBUTES)


@pytest.mark.parametrize("file", [b"", b"tailnum,delay\nN1,5\n", b"PAR1" + b"\xff" * 40 + b"PAR1"])
def test_what_is_no_parquet_is_refused(file: bytes) -> None:
    with pytest.raises(RowsRefusedError, match="not a Parquet file"):
        rows(file, *ATTRIBUTES)


def test_a_damaged_file_is_refused_and_harms_nobody() -> None:
    good = file_of(tailnum=[f"N{n}" for n in range(500)], delay=list(range(500)))
    with pytest.raises(EventFileError):
        read_parquet(good[:60] + b"\xff" * 400 + good[460:], ATTRIBUTES)


def test_too_many_rows_are_refused_before_they_are_read() -> None:
    file = file_of(n=pa.repeat(1, MOST_ROWS + 1))
    with pytest.raises(RowsRefusedError, match=f"{MOST_ROWS + 1} rows; at most {MOST_ROWS}"):
        rows(file, ("n", "int"))


def test_a_small_file_that_holds_gigabytes_is_refused_before_they_are_made() -> None:
    always_the_same = pa.DictionaryArray.from_arrays(pa.repeat(pa.scalar(0, pa.int32()), MOST_ROWS), ["N" * 20_000])
    file = io.BytesIO()
    pq.write_table(pa.table({"tailnum": always_the_same}), file, compression="zstd")
    assert len(file.getvalue()) < 10_000
    with pytest.raises(EventFileError, match="more than 128 MiB as text"):
        read_parquet(file.getvalue(), (("tailnum", "string"),))


def test_lines_are_counted_before_they_are_handed_on() -> None:
    lines = bounded(iter(["é\n", "b\n", "c\n"]), 5)
    assert (next(lines), next(lines)) == ("é\n".encode(), b"b\n")
    with pytest.raises(RowsRefusedError):
        next(lines)


def test_a_file_too_many_is_refused_at_once() -> None:
    held = [parquet._free.acquire(blocking=False) for _ in range(AT_ONCE)]
    try:
        assert all(held)
        with pytest.raises(EventFileError, match="try again"):
            read_parquet(b"", ATTRIBUTES)
    finally:
        for _ in held:
            parquet._free.release()


@pytest.mark.parametrize("kind", ["int", "long", "bool", "double", "float"])
def test_what_is_no_number_or_infinite_is_no_value(kind: str) -> None:
    file = file_of(n=[float("nan"), float("inf"), -float("inf"), 1.0])
    assert [one["n"] for one in rows(file, ("n", kind))] == [None, None, None, 1]


def test_a_time_that_no_calendar_has_is_told_as_such() -> None:
    file = file_of(n=[1], _timestamp=pa.array([2**62], pa.timestamp("us")))
    with pytest.raises(RowsRefusedError, match="a time outside the years 1 to 9999"):
        rows(file, ("n", "int"))


@pytest.mark.thorough
def test_the_call_takes_files_that_are_larger_than_other_bodies() -> None:
    world = World()
    world.active()
    client = create_app(FakeView(world), body_bytes=100).test_client()
    file = file_of(tailnum=["N1"], delay=[5])
    assert len(file) > 100
    answer = client.post("/api/v1/event-streams/Arrivals:1.0.0/parquet", data=file)
    assert (answer.status_code, answer.get_data()) == (200, b'{"tailnum":"N1","delay":5}\n')
    refused = client.post("/api/v1/event-streams/Arrivals:1.0.0/parquet", data=b"none")
    assert (refused.status_code, refused.get_json()["code"]) == (422, "event-file")
    assert client.post("/api/v1/event-streams/None/parquet", data=file).status_code == 404
