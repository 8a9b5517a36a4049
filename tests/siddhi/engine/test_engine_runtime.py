"""The interface of a running app: inputs, refusals and reports."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from siddhi.analysis.analyser import analyse
from siddhi.column_names import KIND, TIMESTAMP
from siddhi.engine.app_runtime import AppRuntime
from siddhi.engine.snapshots.envelope import sealed, unsealed
from siddhi.engine.snapshots.snapshot import read_snapshot
from siddhi.errors import SiddhiRuntimeError, SnapshotError
from siddhi.language.parser import parse


def started(text: str) -> AppRuntime:
    runtime = AppRuntime(analyse(parse(text)))
    runtime.start(0)
    return runtime


def rows_of(runtime: AppRuntime, stream: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    runtime.add_stream_callback(stream, lambda batch: rows.extend(batch.to_pylist()))
    return rows


def records(times: list[int] | None, **columns: pa.Array) -> pa.RecordBatch:
    named = {} if times is None else {TIMESTAMP: pa.array(times, pa.int64())}
    return pa.RecordBatch.from_pydict({**named, **columns})


def ints(*values: int | None) -> pa.Array:
    return pa.array(values, pa.int32())


def test_columns_are_found_by_name_whatever_their_order_and_whatever_stands_beside_them() -> None:
    runtime = started("@app:playback define stream S (a int, b int); from S select a - b as d insert into O;")
    rows = rows_of(runtime, "O")
    runtime.send("S", records([5], extra=ints(9), b=ints(1), a=ints(4)))
    assert rows == [{TIMESTAMP: 5, KIND: 0, "d": 3}]


def test_each_batch_of_a_stream_may_have_another_schema() -> None:
    runtime = started("define stream S (a int, b int, s string); from S[a > 0] select a - b as d, s insert into O;")
    rows = rows_of(runtime, "O")
    text = pa.array(["x"])
    runtime.send("S", records([5], a=ints(4), b=ints(1), s=text))
    runtime.send("S", records(None, s=text.dictionary_encode(), b=ints(1), a=ints(3)), 7)
    runtime.send("S", records([9], b=ints(1), a=ints(2), s=pa.nulls(1)))
    assert [(row[TIMESTAMP], row["d"], row["s"]) for row in rows] == [(5, 3, "x"), (7, 2, "x"), (9, 1, None)]


@pytest.mark.parametrize(
    ("stream", "batch", "code"),
    [
        ("S", records([1], a=ints(1)), "missing-attribute"),
        ("S", records([1], a=ints(1), b=pa.array([1.5])), "wrong-type"),
        ("S", pa.record_batch({TIMESTAMP: pa.array([1], pa.int32()), "a": ints(1), "b": ints(1)}), "wrong-type"),
        ("Z", records([1], a=ints(1), b=ints(1)), "unknown-stream"),
    ],
)
def test_a_batch_that_does_not_fit_is_refused_and_the_app_goes_on(
    stream: str, batch: pa.RecordBatch, code: str
) -> None:
    runtime = started("@app:playback define stream S (a int, b int); from S select a, b insert into O;")
    rows = rows_of(runtime, "O")
    with pytest.raises(SiddhiRuntimeError) as caught:
        runtime.send(stream, batch)
    assert caught.value.problems[0].code == code
    runtime.send("S", records([2], a=ints(1), b=ints(2)))
    assert [row["b"] for row in rows] == [2]


def test_strings_of_a_chunk_stay_what_they_are_when_those_no_longer_held_are_forgotten_before_it() -> None:
    runtime = started("@app:playback define stream S (s string, a int); from S[s != ''] select s, a insert into O;")
    rows = rows_of(runtime, "O")
    for chunk in range(140):
        names = [f"name {chunk} {number}" for number in range(500)]
        rows.clear()
        runtime.send("S", records([10 * chunk] * 500, s=pa.array(names), a=ints(*range(500))), as_chunk=True)
        assert [row["s"] for row in rows] == names


def test_live_apps_measure_windows_by_the_given_clock_and_fire_timers_at_their_own_time() -> None:
    runtime = started("define stream S (a int); from S#window.time(1 sec) select a insert expired events into O;")
    rows = rows_of(runtime, "O")
    runtime.send("S", records(None, a=ints(1)), now_ms=1000)
    assert runtime.next_deadline_ms() == 2000
    runtime.send("S", records(None, a=ints(2)), now_ms=1500)
    runtime.advance_time(9000)
    assert [(row[TIMESTAMP], row["a"]) for row in rows] == [(2000, 1), (2500, 2)]
    assert runtime.next_deadline_ms() is None


def test_a_failing_event_is_dropped_counted_and_kept_from_later_queries_but_not_from_earlier_ones() -> None:
    runtime = started(
        "@app:playback define stream S (a int, b string);"
        "from S select a insert into First; from S select a + b as c insert into Bad; from S select a insert into Last;"
    )
    first, bad, last = (rows_of(runtime, stream) for stream in ("First", "Bad", "Last"))
    runtime.send("S", records([1, 2], a=ints(1, 2), b=pa.array([None, "x"], pa.utf8())))
    assert [row["a"] for row in first] == [1, 2]
    assert [row["c"] for row in bad] == [None]
    assert [row["a"] for row in last] == [1]
    assert runtime.statistics().failures["S"] == 1


@pytest.mark.parametrize("action", ["STREAM", "STORE", "store"])
def test_failing_events_of_a_stream_with_on_error_arrive_in_its_fault_stream(action: str) -> None:
    runtime = started(
        f"@app:playback @OnError(action='{action}') define stream S (a int, b string);"  # noqa: S608 - SiddhiQL
        "from S select a + b as c insert into O; from !S select a, b insert into E;"
    )
    failed = rows_of(runtime, "E")
    runtime.send("S", records([1, 2], a=ints(1, 2), b=pa.array([None, "x"], pa.utf8())))
    assert [(row[TIMESTAMP], row["a"], row["b"]) for row in failed] == [(2, 2, "x")]


def test_events_of_a_chunk_give_one_row_per_aggregate_and_events_of_a_batch_one_each() -> None:
    text = "@app:playback define stream S (a int); from S select sum(a) as s insert into O;"
    batch = records([1, 2, 3], a=ints(1, 2, 3))
    alone, together = started(text), started(text)
    alone_rows, together_rows = rows_of(alone, "O"), rows_of(together, "O")
    alone.send("S", batch)
    together.send("S", batch, as_chunk=True)
    assert [row["s"] for row in alone_rows] == [1, 3, 6]
    assert [row["s"] for row in together_rows] == [6]


def test_several_streams_run_in_the_order_that_is_given() -> None:
    runtime = started(
        "@app:playback define stream A (a int); define stream B (a int);"
        "from every x=A -> y=B select x.a as x, y.a as y insert into O;"
    )
    rows = rows_of(runtime, "O")
    runtime.send_merged(
        [("A", records([1, 3], a=ints(1, 2))), ("B", records([2, 4], a=ints(7, 8)))], np.array([0, 1, 0, 1])
    )
    assert [(row["x"], row["y"]) for row in rows] == [(1, 7), (2, 8)]


def test_a_stream_that_feeds_itself_is_followed_to_the_end_before_the_next_event() -> None:
    runtime = started("@app:playback define stream S (a int); from S[a < 2000] select a + 1 as a insert into S;")
    rows = rows_of(runtime, "S")
    runtime.send("S", records([1, 2], a=ints(0, 1999)))
    assert [row["a"] for row in rows] == [*range(2000, -1, -1), 2000, 1999]


def refusal(data: bytes) -> str:
    """Return the code with which an app refuses the snapshot `data`, completely or by matching."""
    app = analyse(parse("define stream S (a int); from S#window.length(5) select a insert into O;"))
    with pytest.raises(SnapshotError) as caught:
        AppRuntime(app).restore(data)
    (problem,) = caught.value.problems
    assert problem.hint
    if problem.code != "snapshot-of-another-app":
        with pytest.raises(SnapshotError, match=problem.code):
            AppRuntime(app).restore_matching(data)
    return problem.code


@pytest.mark.parametrize("data", [b"", b"\x93\x01\x02\x03", b"not a snapshot" * 10])
def test_bytes_that_are_no_snapshot_are_refused(data: bytes) -> None:
    assert refusal(data) == "snapshot-unknown"


@pytest.mark.parametrize("format_version", [4, 6, 7, 11, 13])
def test_a_snapshot_of_a_former_format_is_refused(format_version: int) -> None:
    """In format 6 the slots of `A and not B` had other places, and sessions did not store the positions of late events.

    In 7 `min` and `max` of sessions stored all values, an aggregate in `having` one for each group, and patterns did
    not store what `order by` reads. Until 13 partitions had a copy of each window for every key.
    """
    former = bytearray(started("define stream S (a int); from S#window.length(5) select a insert into O;").snapshot())
    former[4:6] = format_version.to_bytes(2, "little")
    assert refusal(bytes(former)) == "snapshot-format"


def test_a_snapshot_that_is_torn_or_foreign_is_refused() -> None:
    mine = started("define stream S (a int); from S#window.length(5) select a insert into O;")
    mine.send("S", records([1, 2], a=ints(7, 8)))
    whole = mine.snapshot()
    flipped = bytearray(whole)
    flipped[-3] ^= 1
    other = started("define stream S (a int); from S#window.length(6) select a insert into O;").snapshot()
    assert all(refusal(whole[:length]) == "snapshot-torn" for length in range(34, len(whole), 37))
    assert refusal(whole + b"x") == "snapshot-torn"
    assert refusal(bytes(flipped)) == "snapshot-torn"
    assert refusal(other) == "snapshot-of-another-app"


def test_whatever_bytes_come_they_are_read_or_refused_with_a_code() -> None:
    """A changed snapshot is refused as torn.

    One with a corrected checksum, which does not occur by accident, is read as plain values or refused.
    """
    text = """@app:playback define stream S (a int, k string); define table T (a int, k string);
        from S insert into T; partition with (k of S) begin
        from S#window.length(2) select k, sum(a) as a insert into O; from e1=S -> e2=S select e1.a insert into M; end;
        from S#window.time(1 sec) select k, unionSet(createSet(k)) as a insert into P;"""
    app = analyse(parse(text))
    mine = AppRuntime(app)
    mine.start(0)
    rows = 2000
    mine.send("S", records(list(range(rows)), a=ints(*range(rows)), k=pa.array([None, *"abcdefg"] * (rows // 8))))
    whole = mine.snapshot()
    app_id, body = unsealed(whole)
    generator = random.Random(5)  # noqa: S311 - no secret
    codes = []
    for _ in range(3000):
        changed = bytearray(body)
        for _ in range(generator.choice([1, 1, 2, 8])):
            place = generator.randrange(min(len(changed), 3000)) if generator.random() < 0.7 else len(changed) - 1
            changed[place] = generator.choice([0, 1, 0x7F, 0x80, 0xC0, 0xC7, 0xD9, 0xDD, 0xFF])
        if generator.random() < 0.1:
            del changed[generator.randrange(len(changed)) :]
        try:
            read_snapshot(sealed([bytes(changed)], app_id))
        except SnapshotError as error:
            codes.append(error.problems[0].code)
        if changed != body:
            with pytest.raises(SnapshotError, match="snapshot-torn"):
                read_snapshot(whole[: len(whole) - len(body)] + changed)
    assert len(codes) > 500
    assert set(codes) == {"snapshot-damaged"}


def test_the_first_event_sets_the_clock_at_one_go_and_silences_before_it_end_there() -> None:
    runtime = started(
        "@app:playback define stream A (a int); define stream B (a int);"
        "from every not A for 300 milliseconds, e=B select e.a insert into O;"
    )
    rows = rows_of(runtime, "O")
    runtime.send("B", records([1067, 1500, 2000], a=ints(1, 2, 3)))
    # Without an A each B comes after a waiting time of 300 ms (decision 82).
    assert [row["a"] for row in rows] == [1, 2, 3]
    runtime.send("A", records([2100], a=ints(9)))
    runtime.send("B", records([2500, 2900], a=ints(4, 5)))
    assert [row["a"] for row in rows] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("restored", [False, True])
def test_an_event_at_time_0_sets_the_clock_as_any_other_does(restored: bool) -> None:
    text = (
        "@app:playback define stream S (a int);"
        " from S#window.timeBatch(1 sec) select currentTimeMillis() as t insert into O;"
    )
    whole, parts = started(text), started(text)
    rows = rows_of(whole, "O")
    whole.send("S", records([0, 5_000, 7_000], a=ints(1, 2, 3)))
    parts.send("S", records([0], a=ints(1)))
    if restored:
        saved, parts = parts.snapshot(), started(text)
        parts.restore(saved)
    cut = rows_of(parts, "O")
    parts.send("S", records([5_000], a=ints(2)))
    parts.send("S", records([7_000], a=ints(3)))
    assert cut == rows
    assert rows[0]["t"] == 1_000


def test_a_stream_that_feeds_itself_without_end_is_told_and_one_that_comes_to_an_end_is_not() -> None:
    text = "@app:playback define stream S (n int); from S[n < {limit}] select n + 1 as n insert into S;"
    counting = started(text.format(limit=5000))
    seen = rows_of(counting, "S")
    counting.send("S", records([1], n=ints(0)))
    assert len(seen) == 5001
    endless = started(text.format(limit=2_000_000_000))
    with pytest.raises(SiddhiRuntimeError, match="'S' causes an endless sequence of others") as caught:
        endless.send("S", records([1], n=ints(0)))
    assert caught.value.problems[0].code == "endless-loop"


def test_a_lossy_count_that_allows_no_error_never_ends_a_bucket() -> None:
    query = "from S#window.lossyFrequent(0.5, 0.0) select n insert into O;"
    runtime = started(f"@app:playback define stream S (n int); {query}")
    rows = rows_of(runtime, "O")
    runtime.send("S", records([1, 2, 3, 4], n=ints(7, 7, 8, 7)))
    assert [row["n"] for row in rows] == [7, 7, 7]


def test_the_rate_of_an_instance_ticks_from_its_first_event_also_when_a_timer_sends_the_first_row() -> None:
    runtime = started(
        "@app:playback define stream S (a int, k string); partition with (k of S) begin "
        "from S#window.session(20 millisec) select a output all every 15 millisec insert expired events into O; end;"
    )
    rows = rows_of(runtime, "O")
    runtime.send("S", records([10], a=ints(1), k=pa.array(["x"])))
    runtime.advance_time(39)
    assert rows == []
    runtime.advance_time(40)
    assert [row["a"] for row in rows] == [1]


def test_the_timestamp_of_the_only_element_may_be_asked_for_by_its_name() -> None:
    runtime = started(
        "define stream S (n int); from every e=S[eventTimestamp(e) > 5L] select eventTimestamp(e) as t insert into O;"
    )
    rows = rows_of(runtime, "O")
    runtime.send("S", records([5, 6], n=ints(1, 2)), 10)
    assert [row["t"] for row in rows] == [6]
