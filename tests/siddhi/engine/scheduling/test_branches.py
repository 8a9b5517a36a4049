"""The order of a stream with several producers.

An event passes the first query and everything that follows it before the second query gets it.
"""

from __future__ import annotations

import pyarrow as pa
import pytest

from siddhi.analysis.analyser import analyse
from siddhi.engine.app_runtime import AppRuntime
from siddhi.engine.streams.graph import Graph
from siddhi.language.parser import parse

STREAMS = "@app:playback " + "".join(f"define stream {name} (way string); " for name in ("A", "B", "X", "Y", "M"))


def fed(ways: str, stream: str) -> str:
    """Return the queries by which two single events of `stream` reach M, in order.

    `ways` has the streams that each query reads and feeds: query 1 first.
    """
    queries = [
        f"from {source} select '{number}' as way insert into {target};"
        for number, (source, target) in enumerate(ways.split(), start=1)
    ]
    runtime = AppRuntime(analyse(parse(STREAMS + " ".join(queries))))
    runtime.start(0)
    found: list[str] = []
    runtime.add_stream_callback("M", lambda batch: found.extend(batch.column("way").to_pylist()))
    runtime.send(stream, pa.RecordBatch.from_pydict({"_timestamp": [1, 2], "way": ["", ""]}))
    return "".join(found)


@pytest.mark.parametrize(
    ("ways", "numbers"),
    [
        ("AX AM XM", "32"),
        ("AX XM AM XM", "243"),
        ("AX XM XM AM", "234"),
        ("AX AM XM AM XM", "3524"),
        ("AM AX XM AM XM", "1354"),
        ("AX XY YM XM AM YM", "3645"),
    ],
)
def test_a_stream_is_fed_in_the_order_of_a_walk_into_depth(ways: str, numbers: str) -> None:
    assert fed(ways, "A") == 2 * numbers


def test_ways_that_cross_keep_the_order_of_the_event_that_goes_them() -> None:
    crossing = "AX AY BY BX XM YM"
    assert fed(crossing, "A") == "5656"
    assert fed(crossing, "B") == "6565"


def fed_by_timers(ways: str) -> str:
    """As `fed`, for an event of A and one of B at the same time.

    A star marks a query with a batch window, whose timer is due at the time of all others.
    """
    queries = [
        f"from {way[0]}{'#window.timeBatch(10)' if '*' in way else ''} select '{number}' as way insert into {way[-1]};"
        for number, way in enumerate(ways.split(), start=1)
    ]
    runtime = AppRuntime(analyse(parse(STREAMS + " ".join(queries))))
    runtime.start(0)
    found: list[str] = []
    runtime.add_stream_callback("M", lambda batch: found.extend(batch.column("way").to_pylist()))
    for stream in "AB":
        runtime.send(stream, pa.RecordBatch.from_pydict({"_timestamp": [1], "way": [""]}))
    runtime.advance_time(40)
    return "".join(found)


@pytest.mark.parametrize("columnar", [True, False])
@pytest.mark.parametrize(
    ("ways", "numbers"),
    [
        ("A*M B*M", "12"),
        ("B*M A*M", "12"),
        ("A*X B*Y YM XM", "43"),
        ("B*X A*Y YM XM", "43"),
        ("A*X B*Y XM YM YM", "345"),
        ("AX A*M X*M", "23"),
        ("AX X*M A*M", "23"),
        ("A*M AX X*M", "13"),
        ("AX A*Y X*M YM", "43"),
        ("AX A*M XY Y*M B*M", "245"),
        ("A*X X*M A*M", "32"),
    ],
)
def test_timers_of_one_time_fire_in_text_order_with_all_that_follows(
    ways: str, numbers: str, columnar: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not columnar:
        monkeypatch.setattr(Graph, "columnar", lambda *_, **_alone: None)
    assert fed_by_timers(ways) == numbers


def test_what_a_timer_sends_is_merged_by_the_text_and_what_an_event_sends_by_its_walk() -> None:
    text = """from A select '1' as way insert into X; from A#window.time(10) select '2' as way insert all events into M;
        from X#window.time(10) select '3' as way insert all events into M;"""
    runtime = AppRuntime(analyse(parse(STREAMS + text)))
    runtime.start(0)
    found: list[str] = []
    runtime.add_stream_callback("M", lambda batch: found.extend(batch.column("way").to_pylist()))
    runtime.send("A", pa.RecordBatch.from_pydict({"_timestamp": [1], "way": [""]}))
    runtime.advance_time(11)
    assert "".join(found) == "3223"


@pytest.mark.parametrize("columnar", [True, False])
def test_timers_of_named_windows_fire_in_the_order_of_a_hash_map_and_before_those_of_queries(
    columnar: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not columnar:
        monkeypatch.setattr(Graph, "columnar", lambda *_, **_alone: None)
    text = """define window W (way string) timeBatch(10); define window V (way string) timeBatch(10);
        from A#window.timeBatch(10) select 'query' as way insert into M;
        from A insert into W; from A insert into V;
        from W select 'W' as way insert into M; from V select 'V' as way insert into M;"""
    runtime = AppRuntime(analyse(parse(STREAMS + text)))
    runtime.start(0)
    found: list[str] = []
    runtime.add_stream_callback("M", lambda batch: found.extend(batch.column("way").to_pylist()))
    runtime.send("A", pa.RecordBatch.from_pydict({"_timestamp": [1], "way": [""]}))
    runtime.advance_time(11)
    assert found == ["V", "W", "query"]


@pytest.mark.parametrize("columnar", [True, False])
def test_a_timer_waits_its_turn_when_another_sends_to_its_query(
    columnar: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not columnar:
        monkeypatch.setattr(Graph, "columnar", lambda *_, **_alone: None)
    text = """from A#window.timeBatch(10) insert into X; from B#window.timeBatch(10) select '2' as way insert into M;
        from X select '3' as way output all every 11 milliseconds insert into M;"""
    runtime = AppRuntime(analyse(parse(STREAMS + text)))
    runtime.start(0)
    found: list[str] = []
    runtime.add_stream_callback("M", lambda batch: found.extend(batch.column("way").to_pylist()))
    for stream in "AB":
        runtime.send(stream, pa.RecordBatch.from_pydict({"_timestamp": [1], "way": [""]}))
    runtime.advance_time(11)
    assert found == ["2", "3"]


def let_out(text: str, end: int, *events: tuple[str, str]) -> list[str]:
    """Return the output M of `text` until `end`, given events (stream, way) at time 1."""
    runtime = AppRuntime(analyse(parse(STREAMS + text)))
    runtime.start(0)
    found: list[str] = []
    runtime.add_stream_callback("M", lambda batch: found.extend(batch.column("way").to_pylist()))
    for stream, way in events:
        runtime.send(stream, pa.RecordBatch.from_pydict({"_timestamp": [1], "way": [way]}))
    runtime.advance_time(end)
    return found


@pytest.mark.parametrize("columnar", [True, False])
@pytest.mark.parametrize(
    ("reader_first", "window", "ways"),
    [
        (True, "timeBatch(10)", ["waiting"]),
        (False, "timeBatch(10)", ["waiting", "sent"]),
        # The event is already as old as the window: it leaves immediately.
        (True, "time(10)", ["waiting", "waiting", "sent", "sent"]),
        (False, "time(10)", ["waiting", "waiting", "sent", "sent"]),
    ],
)
def test_the_timer_of_a_query_fires_before_another_sends_to_it_where_the_text_has_it_in_front(
    reader_first: bool, window: str, ways: list[str], columnar: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not columnar:
        monkeypatch.setattr(Graph, "columnar", lambda *_, **_alone: None)
    queries = [f"from X#window.{window} insert all events into M;", "from A#window.timeBatch(10) insert into X;"]
    text = " ".join(queries if reader_first else reversed(queries))
    assert let_out(text, 11, ("X", "waiting"), ("A", "sent")) == ways


@pytest.mark.parametrize("columnar", [True, False])
def test_a_timer_that_is_set_for_the_present_keeps_no_later_one_from_firing(
    columnar: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not columnar:
        monkeypatch.setattr(Graph, "columnar", lambda *_, **_alone: None)
    text = """from X#window.time(10) select '1' as way insert expired events into M;
        from A#window.timeBatch(10) insert into X; from X#window.timeBatch(10) select '3' as way insert into M;"""
    assert let_out(text, 40, ("A", "")) == ["1", "3"]


def test_streams_are_told_in_text_order_of_the_queries_that_feed_them() -> None:
    text = (
        "@app:playback define stream S (i int); define stream T (i int);"
        " from S select i insert into A; from S select i insert into B; from T select i insert into A;"
    )
    runtime = AppRuntime(analyse(parse(text)))
    runtime.start(1)
    told: list[str] = []
    for stream in "BA":
        runtime.add_stream_callback(stream, lambda _, stream=stream: told.append(stream))
    runtime.send("S", pa.record_batch({"_timestamp": pa.array([2], pa.int64()), "i": pa.array([1], pa.int32())}))
    assert told == ["A", "B"]
