"""Output of windows in cases that are easily wrong."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from siddhi.analysis.analyser import analyse
from siddhi.column_names import TIMESTAMP
from siddhi.engine.app_runtime import AppRuntime
from siddhi.language.parser import parse

KEYED = "from S select v, 'one' as k insert into K;"


def answers(query: str, *events: tuple[int, int]) -> list[tuple[Any, ...]]:
    """Return the output of `query`, given events (timestamp, v) of S."""
    runtime = AppRuntime(analyse(parse(f"@app:playback define stream S (v int); {query}")))
    runtime.start(0)
    rows: list[dict[str, Any]] = []
    runtime.add_stream_callback("O", lambda batch: rows.extend(batch.to_pylist()))
    times, values = zip(*events, strict=True)
    columns = {TIMESTAMP: pa.array(times, pa.int64()), "v": pa.array(values, pa.int32())}
    runtime.send("S", pa.RecordBatch.from_pydict(columns))
    return [tuple(value for name, value in row.items() if not name.startswith("_")) for row in rows]


@pytest.mark.parametrize("window", ["frequent(2)", "lossyFrequent(0.3, 0.05)"])
def test_without_key_and_plain_attribute_all_events_of_a_frequency_window_have_one_key(window: str) -> None:
    found = answers(f"from S#window.{window} select sum(v) as s insert into O;", (1, 5), (2, 7), (3, 1))
    assert found == [(5,), (12,), (13,)]


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("bad", ["count( <= 2", "nothing > 1", "v + 1"])
def test_an_event_whose_text_is_no_expression_fails_alone(bad: str, together: bool) -> None:
    text = "define stream S (e string, v int); from S#window.expression(e) select v, count() as n insert into Out;"
    runtime = AppRuntime(analyse(parse(text)))
    rows: list[tuple[int, int]] = []
    runtime.add_stream_callback("Out", lambda batch: rows.extend((row["v"], row["n"]) for row in batch.to_pylist()))
    runtime.start(0)
    events = pa.record_batch(
        {
            "e": ["count() <= 2", bad, "count() <= 2", "count() <= 2"],
            "v": pa.array([1, 2, 3, 4], pa.int32()),
        }
    )
    for batch in [events] if together else [events.slice(place, 1) for place in range(4)]:
        runtime.send("S", batch, 10)
    assert rows == [(1, 1), (3, 2), (4, 2)]
    assert runtime.statistics().failures["S"] == 1


@pytest.mark.parametrize(
    ("window", "sums"),
    [
        ("timeBatch(10, 25)", [(3,), (4,)]),
        ("externalTimeBatch(t, 10, 25L)", [(3,), (4,)]),
        ("externalTimeBatch(t, 10, start)", [(7,)]),
        ("externalTimeBatch(t, 10, start + t * 0L)", [(7,)]),
        ("externalTimeBatch(t, 10, start + t * 0L, 1 min)", [(7,)]),
        ("externalTimeBatch(t, 10, start, 1 min)", [(7,)]),
        ("externalTimeBatch(t, 10, 25, 1 min)", [(3,), (4,)]),
        ("externalTimeBatch(t, 10, 25, 0)", [(3,), (4,)]),
        ("unique:timeBatch(v, 10, 25)", [(3,), (4,)]),
        ("unique:externalTimeBatch(v, t, 10, 25)", [(3,), (4,)]),
    ],
)
def test_a_batch_that_begins_before_the_given_start_is_whole(window: str, sums: list[tuple[int]]) -> None:
    timed = "from S select v, eventTimestamp() as t, eventTimestamp() * 0L + 25L as start insert into M;"
    query = f"from M#window.{window} select sum(v) as total insert into O;"
    assert answers(timed + query, (3, 1), (14, 2), (16, 4), (36, 8)) == sums


@pytest.mark.parametrize("window", ["time(3)", "timeLength(3, 5)"])
def test_events_that_a_rate_held_back_enter_a_window_together_and_leave_it_no_earlier(window: str) -> None:
    held_back = "from S select v output all every 10 milliseconds insert into M;"
    query = f"from M#window.{window} select v, count() as n insert all events into O;"
    assert answers(held_back + query, (1, 1), (2, 2), (9, 3), (14, 4), (25, 5)) == [(3, 1), (3, 0), (4, 1), (4, 0)]


def test_a_batch_that_enters_a_streaming_window_and_the_end_of_that_are_told_apart() -> None:
    batches = "from S#window.timeBatch(10) select v insert into M;"
    query = "from M#window.timeBatch(3, true) select v, sum(v) as total insert all events into O;"
    assert answers(batches + query, (1, 1), (2, 2), (12, 4), (40, 8)) == [(2, 3), (2, None), (4, 4), (4, None)]


def test_late_events_stand_in_a_session_in_front_of_its_first_event_and_each_one_event_further_back() -> None:
    query = "from S#window.session(10 millisec) select v insert expired events into O;"
    assert answers(query, (20, 1), (25, 2), (15, 3), (12, 4), (60, 5)) == [(3,), (1,), (4,), (2,)]


def test_a_late_event_joins_two_sessions_that_come_as_near_as_two_gaps() -> None:
    query = f"{KEYED} from K#window.session(10 millisec, k, 10 millisec) select v insert all events into O;"
    events = [(20, 1), (39, 2), (32, 3), (42, 4), (90, 5)]
    assert answers(query, *events) == [(1,), (2,), (3,), (4,), (3,), (1,), (2,), (4,), (5,)]


def test_a_late_event_sets_the_end_of_a_session_that_is_over_anew() -> None:
    query = f"{KEYED} from K#window.session(10 millisec, k, 8 millisec) select v insert all events into O;"
    assert answers(query, (20, 1), (37, 2), (25, 3), (40, 4), (90, 5)) == [
        (1,),
        (2,),
        (3,),
        (4,),
        (1,),
        (3,),
        (2,),
        (4,),
        (5,),
    ]


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ("false, false", [(9, 1), (9, 1), (1, 4), (2, 4)]),
        ("true, false", [(9, 1), (9, 1), (1, 4), (2, 4), (7, 4)]),
        ("false, true", [(9, 1), (9, 1), (1, 2), (2, 3), (1, 4), (2, 4), (7, 4), (3, 5)]),
        ("true, true", [(9, 1), (9, 1), (1, 2), (2, 3), (7, 4), (1, 4), (2, 4), (7, 4), (3, 5)]),
    ],
)
def test_an_event_that_ends_a_batch_of_nothing_passes_and_is_not_held(
    options: str, found: list[tuple[int, int]]
) -> None:
    query = (
        f"from S#window.expressionBatch('v < 5', {options}) select v, eventTimestamp() as t insert all events into O;"
    )
    assert answers(query, (1, 9), (2, 1), (3, 2), (4, 7), (5, 3)) == found


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize(
    ("including", "text", "found"),
    [
        ("false", "count() <= 20", [(3, 4), (4, 5)]),
        ("true", "count() <= 20", [(3, 4), (4, 5)]),
        ("false", "count() <= 1", [(0, 4), (1, 4), (2, 4), (3, 4), (3, 5), (4, 5)]),
        ("true", "count() <= 1", [(0, 4), (1, 2), (2, 3), (3, 4), (3, 4), (4, 5), (4, 5)]),
    ],
)
def test_a_new_expression_lets_no_event_pass_a_streaming_batch_again(
    including: str, text: str, found: list[tuple[int, int]], together: bool
) -> None:
    """What a new expression expires goes out with the event that brings it."""
    query = f"""
        define stream S (e string, v int); from S#window.expressionBatch(e, {including}, true)
        select v, eventTimestamp() as t insert all events into O;
    """
    runtime = AppRuntime(analyse(parse(f"@app:playback {query}")))
    runtime.start(0)
    chunks: list[list[tuple[int, int]]] = []
    runtime.add_stream_callback("O", lambda batch: chunks.append([(row["v"], row["t"]) for row in batch.to_pylist()]))
    columns = {
        TIMESTAMP: pa.array([1, 2, 3, 4, 5], pa.int64()),
        "e": ["count() <= 10"] * 3 + [text] * 2,
        "v": pa.array(range(5), pa.int32()),
    }
    events = pa.record_batch(columns)
    for batch in [events] if together else [events.slice(place, 1) for place in range(5)]:
        runtime.send("S", batch)
    assert [row for chunk in chunks for row in chunk] == [(0, 1), (1, 2), (2, 3), *found]
    if not together:
        last = [row for row in found if row[1] == 5]
        assert chunks[3:] == [found[: -len(last)], last]


@pytest.mark.parametrize(
    ("streaming", "found"),
    [("false", [(1,), (1,), (6,), (2,), (9,)]), ("true", [(1,), (1,), (6,), (2,), (9,), (6,), (2,), (9,), (1,)])],
)
def test_each_event_says_for_itself_whether_it_is_the_last_of_the_batch_that_it_ends(
    streaming: str, found: list[tuple[int]]
) -> None:
    query = f"from S#window.expressionBatch('v < 5', v > 7, {streaming}) select v insert all events into O;"
    assert answers(query, (1, 1), (2, 6), (3, 2), (4, 9), (5, 1)) == found


def test_a_look_into_a_streaming_expression_batch_finds_nothing() -> None:
    text = """
        @app:playback define stream S (v int); define stream L (n int);
        define window Whole (v int) expressionBatch('count() <= 5');
        define window Passing (v int) expressionBatch('count() <= 5', false, true);
        from S insert into Whole; from S insert into Passing;
        from L join Whole select v insert into A; from L join Passing select v insert into B;
    """
    runtime = AppRuntime(analyse(parse(text)))
    runtime.start(0)
    rows: dict[str, list[int]] = {"A": [], "B": []}
    for stream, values in rows.items():
        runtime.add_stream_callback(stream, lambda batch, values=values: values.extend(batch["v"].to_pylist()))
    runtime.send("S", pa.record_batch({TIMESTAMP: [1, 2], "v": pa.array([1, 2], pa.int32())}))
    runtime.send("L", pa.record_batch({TIMESTAMP: [3], "n": pa.array([1], pa.int32())}))
    assert rows == {"A": [1, 2], "B": []}


@pytest.mark.parametrize(
    ("window", "sums"),
    [
        ("lengthBatch(2)", [(5,), (7,), (16,)]),
        ("lengthBatch(2, true)", [(5,), (8,), (12,), (9,)]),
        ("timeBatch(10)", [(5,), (7,), (16,)]),
        ("timeBatch(10, true)", [(5,), (8,), (12,), (9,)]),
        ("externalTimeBatch(t, 10)", [(5,), (7,), (16,)]),
    ],
)
def test_aggregates_behind_a_filter_go_on_into_the_next_batch_when_the_filter_drops_its_mark(
    window: str, sums: list[tuple[int]]
) -> None:
    timed = "from S select v, eventTimestamp() as t insert into M;"
    query = f"from M#window.{window}[v > 1] select sum(v) as total insert into O;"
    assert answers(timed + query, (1, 1), (2, 5), (12, 3), (13, 4), (22, 1), (23, 9), (40, 0)) == sums


def test_a_batch_that_went_out_again_after_a_timeout_leaves_the_event_for_its_mark_to_the_batch_behind() -> None:
    timed = "from S select v, eventTimestamp() as t insert into M;"
    query = "from M#window.externalTimeBatch(t, 10, 0, 5)[v > 1] select sum(v) as total insert into O;"
    events = [(1, 5), (2, 3), (7, 1), (8, 4), (12, 6), (21, 2), (40, 0)]
    assert answers(timed + query, *events) == [(8,), (20,), (26,), (2,)]


def test_the_first_event_of_the_batch_before_stands_in_for_the_mark_of_a_chunk() -> None:
    chunks = "from S#window.lengthBatch(2) select v insert into M;"
    query = "from M#window.batch()[v > 1] select sum(v) as total insert into O;"
    events = [(1, 1), (2, 5), (3, 3), (4, 4), (5, 1), (6, 9), (7, 2), (8, 2)]
    assert answers(chunks + query, *events) == [(5,), (12,), (9,), (13,)]


@pytest.mark.parametrize("partitioned", [False, True])
@pytest.mark.parametrize(("events", "found"), [("", [(1,), (3,), (5,)]), ("all events", [(1,), (3,), (1,), (5,)])])
def test_a_late_event_leaves_a_full_window_at_its_own_time_and_the_one_before_it_stays(
    events: str, found: list[tuple[int]], partitioned: bool
) -> None:
    query = f"from S#window.timeLength(40, 2) select sum(v) as total insert {events} into O;"
    app = f"partition with (1 of S) begin {query} end;" if partitioned else query
    assert answers(app, (100, 1), (50, 2), (110, 4)) == found


@pytest.mark.parametrize(
    ("events", "found"), [("", [(3, 3), (3, 4), (4, 6)]), ("all events", [(3, 3), (3, 4), (4, 4), (4, 6)])]
)
def test_the_least_and_the_most_of_open_sessions_are_left_when_another_one_is_over(
    events: str, found: list[tuple[int, int]]
) -> None:
    keyed = "from S select v, convert(v % 2, 'string') as k insert into K;"
    query = f"from K#window.session(10 millisec, k) select min(v) as least, max(v) as most insert {events} into O;"
    assert answers(keyed + query, (1, 3), (5, 4), (12, 6)) == found


def test_an_aggregate_behind_and_sees_nothing_not_even_a_reset_where_the_left_side_decides() -> None:
    query = "from S#window.expressionBatch('v < 5 and count() <= 2') select v insert into O;"
    assert answers(query, (1, 1), (2, 9), (3, 1), (4, 1), (5, 1)) == [(1,), (9,), (1,)]


def test_an_event_that_leaves_a_window_at_once_is_both_ends_of_it() -> None:
    query = "from S#window.expression('last.v == first.v and sum(v) < 10') select v insert expired events into O;"
    assert answers(query, (1, 4), (2, 20), (3, 4), (4, 4), (5, 4)) == [(4,), (20,)]


@pytest.mark.parametrize(
    ("window", "sums"),
    [
        ("externalTime(t, 10)", [1, 4, 4]),
        ("externalTimeBatch(t, 10)", [4]),
        ("externalTimeBatch(t, 10, 0)", [4]),
        ("externalTimeBatch(t, 10, 0, 1 min)", [4]),
        ("unique:externalTimeBatch(v, t, 10)", [4]),
    ],
)
@pytest.mark.parametrize("plain", ["", "v + 0 as w, "])
def test_an_event_without_the_time_that_a_window_goes_by_fails(window: str, sums: list[int], plain: str) -> None:
    text = f"define stream S (v int, t long); from S#window.{window} select {plain}sum(v) as s insert into O;"
    runtime = AppRuntime(analyse(parse(text)))
    rows: list[int] = []
    runtime.add_stream_callback("O", lambda batch: rows.extend(batch.column("s").to_pylist()))
    runtime.start(0)
    events = pa.record_batch({"v": pa.array([1, 2, 3, 4], pa.int32()), "t": pa.array([1, None, 5, 20], pa.int64())})
    runtime.send("S", events, 1)
    assert rows == sums
    assert runtime.statistics().failures["S"] == 1


def test_an_event_keeps_the_end_of_its_batch_as_its_time_when_the_next_batch_goes_out() -> None:
    timed = "from S select v, eventTimestamp() as t insert into M;"
    query = "from M#window.externalTimeBatch(t, 10, 0, 1 min, true) select v, t insert all events into O;"
    assert answers(timed + query, (1, 1), (12, 2), (25, 3)) == [(1, 10), (1, 10), (2, 20)]


def test_an_event_that_leaves_an_empty_window_at_once_leaves_with_its_own_timestamp() -> None:
    query = "from S#window.length(0) select v, eventTimestamp() as t insert expired events into O;"
    assert answers(query, (20, 1), (5, 2)) == [(1, 20), (2, 5)]


def test_waiting_events_that_were_seen_go_out_with_their_own_timestamps_and_never_expire() -> None:
    text = """
        @app:playback define stream S (v int); define stream L (n int);
        define window W (v int) expressionBatch('count() <= 2');
        from S insert into W; from L join W select v insert into Seen;
        from W select v, eventTimestamp() as t insert all events into O;
    """
    runtime = AppRuntime(analyse(parse(text)))
    runtime.start(0)
    rows: list[tuple[int, int]] = []
    runtime.add_stream_callback("O", lambda batch: rows.extend((row["v"], row["t"]) for row in batch.to_pylist()))
    for time, stream in enumerate("SLSSSS", 1):
        name = "v" if stream == "S" else "n"
        runtime.send(stream, pa.record_batch({TIMESTAMP: [time], name: pa.array([time], pa.int32())}))
    assert rows == [(1, 1), (3, 4), (3, 6), (4, 6), (5, 6)]


def test_keys_that_leave_a_frequency_window_together_leave_in_the_order_of_a_hash_map() -> None:
    keys = "from S select ifThenElse(v == 1, 'z', ifThenElse(v == 2, 'x', 'y')) as k, v insert into K;"
    query = "from K#window.frequent(2, k) select v insert all events into O;"
    assert answers(keys + query, (1, 1), (2, 2), (3, 3)) == [(1,), (2,), (2,), (1,), (3,)]


def test_an_empty_text_and_a_null_are_two_keys_of_a_frequency_window() -> None:
    keys = "from S select ifThenElse(v == 1, '', convert(v / 0, 'string')) as k, v insert into K;"
    query = "from K#window.frequent(2, k) select v insert all events into O;"
    assert answers(keys + query, (1, 1), (2, 2), (3, 3)) == [(1,), (2,), (3,)]
    assert answers(keys + query.replace("frequent(2", "frequent(1"), (1, 1), (2, 2), (3, 3)) == [(1,), (1,), (2,), (3,)]


@pytest.mark.parametrize(
    ("events", "rows"),
    [
        ("current", [(1,), (2,), (3,), (4,), (5,), (6,)]),
        ("all", [(1,), (2,), (1,), (2,), (3,), (3,), (4,), (4,), (5,), (6,), (5,), (6,)]),
    ],
)
def test_a_batch_that_comes_when_a_chunk_moves_the_clock_past_its_reader_s_end_is_in_the_reader_s_batch(
    events: str, rows: list[tuple[int]]
) -> None:
    batches = "from S#window.timeBatch(10) select v insert into M; from M#window.timeBatch(10) select v"
    text = f"@app:playback define stream S (v int); {batches} insert {events} events into O;"
    runtime = AppRuntime(analyse(parse(text)))
    runtime.start(0)
    found: list[pa.RecordBatch] = []
    runtime.add_stream_callback("O", found.append)
    for times, values in (([1], [1]), ([12], [2]), ([23], [3]), ([32], [4]), ([39, 60], [5, 6])):
        columns = {TIMESTAMP: pa.array(times, pa.int64()), "v": pa.array(values, pa.int32())}
        runtime.send("S", pa.RecordBatch.from_pydict(columns), as_chunk=True)
    runtime.advance_time(100)
    assert [(row["v"],) for batch in found for row in batch.to_pylist()] == rows
