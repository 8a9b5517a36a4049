"""Few rows are copied in one call, many are viewed: both give the same values."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pytest

from siddhi.analysis.analyser import analyse
from siddhi.engine.app_runtime import AppRuntime
from siddhi.engine.columnar.strings import StringPool
from siddhi.engine.ingest.batch_reader import BatchReader
from siddhi.engine.tuning import MAX_COPIED_READ_ROWS, STRING_DEMAND_HOLD_ROWS, STRING_DEMAND_PROBE_ROWS
from siddhi.errors import SiddhiRuntimeError
from siddhi.language.ast import AttributeType
from siddhi.language.parser import parse

TYPES = {
    "name": AttributeType.STRING,
    "whole": AttributeType.INT,
    "count": AttributeType.LONG,
    "part": AttributeType.FLOAT,
    "price": AttributeType.DOUBLE,
    "flag": AttributeType.BOOL,
}


def _records(rows: int, nulls: bool) -> pa.RecordBatch:
    draw = np.random.default_rng(3)
    names = ["", "a", "eight888", "more than eight bytes", "ä", "a" * 2_000, *(f"name {n}" for n in range(rows))]
    values = {
        "_timestamp": pa.array(range(1_000, 1_000 + rows), pa.int64()),
        "whole": pa.array(draw.integers(-9, 9, rows), pa.int32()),
        "flag": pa.array(draw.random(rows) < 0.5),
        "name": pa.array([names[n] for n in draw.integers(0, len(names), rows)]),
        "count": pa.array(draw.integers(-(2**60), 2**60, rows)),
        "part": pa.array(draw.random(rows).astype(np.float32)),
        "unread": pa.array([None] * rows, pa.null()),
        "price": pa.array(draw.random(rows)),
    }
    if nulls:
        for name in TYPES:
            null = pa.array(draw.random(rows) < 0.3)
            values[name] = pa.compute.if_else(null, pa.scalar(None, values[name].type), values[name])
    return pa.record_batch(values)


def _read(inlet: BatchReader, records: pa.RecordBatch) -> dict[str, list[object]]:
    columns, stamps = inlet.read(records, 0)
    return {"_timestamp": stamps.tolist(), **{name: columns[name].to_list() for name in TYPES}}


@pytest.mark.parametrize("nulls", [False, True])
def test_few_rows_anywhere_in_a_batch_are_read_as_they_are(nulls: bool) -> None:
    pool = StringPool()
    inlet = BatchReader("S", "S", TYPES, pool)
    whole = _records(MAX_COPIED_READ_ROWS + 80, nulls)
    expected = {name: whole.column(name).to_pylist() for name in ("_timestamp", *TYPES)}
    assert _read(inlet, whole) == expected  # as views; from now on the inlet knows the requested columns
    assert inlet._reader is not None
    for start, rows in [
        (0, 1),
        (1, 1),
        (MAX_COPIED_READ_ROWS + 79, 1),
        (7, 8),
        (61, 64),
        (13, 100),
        (77, MAX_COPIED_READ_ROWS),
        (3, 9),
    ]:
        part = {name: values[start : start + rows] for name, values in expected.items()}
        assert _read(inlet, whole.slice(start, rows)) == part


def test_what_lies_under_a_null_is_never_read() -> None:
    inlet = BatchReader("S", "S", TYPES, StringPool())
    records = _records(9, nulls=False)
    mask = np.array([False, True, True, False, False, True, False, False, True])
    junk = {"whole": np.int32, "count": np.int64, "part": np.float32, "price": np.float64}
    arrays = {name: records.column(name) for name in records.schema.names}
    for name, dtype in junk.items():
        arrays[name] = pa.array(np.full(9, 77, dtype), mask=mask)
    arrays["flag"] = pa.array(np.ones(9, np.bool_), mask=mask)
    masked = pa.record_batch(arrays)
    for _ in range(2):  # as views, then copied
        columns, _ = inlet.read(masked, 0)
        for name in (*junk, "flag"):
            assert columns[name].valid is not None
            assert columns[name].values[mask].tolist() == [0] * 4
    assert inlet._reader is not None


def test_a_time_that_is_null_counts_the_same_however_its_batch_was_cut() -> None:
    app = "@app:playback define stream S (ts long, name string);"
    query = "from S#window.externalTime(ts, 1 sec) select count() as c, distinctCount(name) as d insert into Out;"
    stamps = np.arange(1_000, 1_000 + 300 * 600, 300)
    mask = np.arange(600) % 7 == 3
    records = pa.record_batch(
        {"_timestamp": stamps, "ts": pa.array(stamps, mask=mask), "name": [f"n{n % 5}" for n in range(600)]}
    )
    answers = []
    for size in (1, 100, 600):
        runtime = AppRuntime(analyse(parse(app + query)))
        out: list[object] = []
        runtime.add_stream_callback("Out", lambda found, out=out: out.extend(found.to_pylist()))
        runtime.start(1)
        for start in range(0, 600, size):
            runtime.send("S", records.slice(start, size))
        answers.append(out)
    assert answers[0] == answers[1] == answers[2]


def test_strings_of_events_that_a_filter_holds_back_are_not_kept() -> None:
    app = "@app:playback define stream S (level string, price double, text string);"
    query = "from S[level == 'E' and price > 0]#window.length(10) select text, price insert into Out;"
    runtime = AppRuntime(analyse(parse(app + query)))
    texts: list[object] = []
    runtime.add_stream_callback("Out", lambda records: texts.extend(records.column("text").to_pylist()))
    runtime.start(1)
    for number in range(2_000):
        level = "E" if number % 100 == 0 else "I"
        values = {"_timestamp": [2 + number], "level": [level], "price": [1.0], "text": [f"text {number}"]}
        runtime.send("S", pa.record_batch(values))
    assert texts == [f"text {number}" for number in range(0, 2_000, 100)]
    assert runtime.statistics().strings == 2 + 20  # levels, and the texts that came into the window


def test_strings_of_which_a_filter_lets_many_pass_are_read_with_the_rest_and_are_the_same() -> None:
    app = "@app:playback define stream S (price double, count int, name string);"
    query = "from S[price > 0 and count > 0]#window.length(3) select name insert into Out;"
    runtime = AppRuntime(analyse(parse(app + query)))
    names: list[object] = []
    runtime.add_stream_callback("Out", lambda records: names.extend(records.column("name").to_pylist()))
    runtime.start(1)
    passing = []
    for number in range(STRING_DEMAND_PROBE_ROWS + STRING_DEMAND_HOLD_ROWS // 64):
        price = 1.0 if number % 3 else -1.0
        name = f"name {number % 7}" if number % 3 else f"held back {number}"
        values = {"_timestamp": [2 + number], "price": [price], "name": [name]}
        runtime.send("S", pa.record_batch({**values, "count": pa.array([1], pa.int32())}))
        if price > 0:
            passing.append(name)
        if number == STRING_DEMAND_PROBE_ROWS - 2:
            assert runtime.statistics().strings == 7
    assert names == passing
    assert runtime.statistics().strings > 7


def test_whoever_goes_through_the_columns_finds_those_that_nobody_has_asked_for() -> None:
    inlet = BatchReader("S", "S", TYPES, StringPool())
    records = _records(5, nulls=False)
    for _ in range(2):  # the second time two columns are read at once
        columns, _ = inlet.read(records, 0)
        for name in ("price", "count"):
            assert columns[name].values.tolist() == records.column(name).to_pylist()
    assert inlet._reader is not None
    assert list(columns) == list({**columns}) == list(dict(columns.items())) == list(TYPES)
    assert len(columns) == len(TYPES)
    assert "name" in columns
    assert columns.get("nothing") is None
    assert {**columns}["name"].to_list() == records.column("name").to_pylist()
    with pytest.raises(KeyError):
        columns["unread"]


def test_numbers_that_only_pass_by_are_read_with_what_is_looked_at() -> None:
    inlet = BatchReader("S", "S", TYPES, StringPool())
    records = _records(5, nulls=False)
    columns, _ = inlet.read(records, 0)
    passing = columns["price"].take(np.array([3, 1]))
    assert inlet._reader is None
    assert columns["flag"].values.tolist() == records.column("flag").to_pylist()
    assert inlet._reader is not None
    assert passing.to_list() == records.column("price").take([3, 1]).to_pylist()


def test_strings_that_only_pass_by_are_not_kept() -> None:
    app = "@app:playback define stream S (name string, price double, count long);"
    runtime = AppRuntime(analyse(parse(app + "from S[price > 0 and count > 0] select name, price insert into Out;")))
    out: list[object] = []
    runtime.add_stream_callback("Out", lambda records: out.extend(records.column("name").to_pylist()))
    runtime.start(1)
    for number in range(4):
        records = {"_timestamp": [2 + number], "name": [f"name {number}"], "price": [1.0], "count": [1]}
        runtime.send("S", pa.record_batch(records))
    assert out == [f"name {number}" for number in range(4)]
    assert runtime.statistics().strings == 0


def test_a_batch_of_another_schema_is_read_by_its_own() -> None:
    inlet = BatchReader("S", "S", TYPES, StringPool())
    records = _records(5, nulls=False)
    turned = records.select(records.schema.names[::-1])
    for part in (records, turned, records, turned):
        assert _read(inlet, part) == {name: part.column(name).to_pylist() for name in ("_timestamp", *TYPES)}


@pytest.mark.parametrize("known", [False, True])
def test_an_event_without_a_time_is_refused(known: bool) -> None:
    inlet = BatchReader("S", "S", TYPES, StringPool())
    records = _records(5, nulls=False)
    if known:
        _read(inlet, records)
    stamps = pa.array([1, None, 3, 4, 5], pa.int64())
    without = records.set_column(records.schema.get_field_index("_timestamp"), "_timestamp", stamps)
    with pytest.raises(SiddhiRuntimeError) as refused:
        _read(inlet, without)
    assert [problem.code for problem in refused.value.problems] == ["null-timestamp"]


def test_a_dictionary_of_something_else_is_refused_by_its_type() -> None:
    records = _records(5, nulls=False)
    for name, values in (("name", [1, 2, 1, 1, 2]), ("whole", ["a", "b", "a", "a", "b"])):
        inlet = BatchReader("S", "S", TYPES, StringPool())
        place = records.schema.get_field_index(name)
        with pytest.raises(SiddhiRuntimeError, match=f"attribute '{name}' of a batch for stream 'S' is dictionary"):
            _read(inlet, records.set_column(place, name, pa.array(values).dictionary_encode()))
    place = records.schema.get_field_index("name")
    coded = records.set_column(place, "name", records.column("name").dictionary_encode())
    assert _read(BatchReader("S", "S", TYPES, StringPool()), coded)["name"] == records.column("name").to_pylist()
