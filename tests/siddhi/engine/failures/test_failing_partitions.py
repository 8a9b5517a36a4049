"""Events that fail inside a partition fail in the stream on which they arrived."""

from __future__ import annotations

from typing import Any

import pytest

from siddhi.testing import Case, restored, run_case

STREAMS = """@app:playback
@OnError(action='STREAM') define stream S (k string, v int, o object);
define stream Other (k string, v int);
define stream Lost (k string, v int);
define table T (k string, v int);
"""
FAULTS = "from !S select k, v insert into Lost;"
BY_VALUE = "partition with (k of S) begin "
BY_RANGE = "partition with (v < 5 as 'low' or v > 2 as 'high' of S) begin "
GOOD, BAD = 7, "no number"


def differences(
    query: str, events: list[Any], batch_rows: int | None = None, between: Any = None, **streams: list[Any]
) -> tuple[str, ...]:
    """Return the differences between these rows (time, values) and the output of `query`.

    Its input is events (k, v, o) of S, one each millisecond, or chunks of them.
    """
    steps: list[dict[str, Any]] = []
    at = 0
    for event in events:
        chunk = event if isinstance(event, list) else [event]
        rows = [{"timestamp": at + place, "data": list(row)} for place, row in enumerate(chunk, 1)]
        at += len(chunk)
        steps += [{"stream": "S", "batch": rows}] if isinstance(event, list) else [{"stream": "S", **rows[0]}]
    expected = {stream: [[time, list(row)] for time, *row in rows] for stream, rows in streams.items()}
    document = {"listen": {"streams": list(streams)}, "events": steps, "expect": {"streams": expected}}
    return run_case(Case("failing", "failing", STREAMS + query + FAULTS, document), batch_rows, between).differences


@pytest.mark.parametrize("between", [None, restored])
@pytest.mark.parametrize("batch_rows", [None, 1])
@pytest.mark.parametrize(
    "query",
    [
        "from S[cast(o, 'int') > 1] select k, v insert into O;",
        "from S select k, cast(o, 'int') - 7 + v as v insert into O;",
        "from S[cast(o, 'int') > 1] select k, v insert into #I; from #I insert into O;",
        "from every e=S[cast(e.o, 'int') > 1] select e.k as k, e.v as v insert into O;",
        "from S#window.lengthBatch(1)[cast(o, 'int') > 1] select k, v insert into O;",
    ],
)
def test_they_go_to_its_fault_stream(query: str, batch_rows: int | None, between: Any) -> None:
    events = [("a", 1, BAD), ("b", 2, GOOD), ("a", 3, GOOD), ("b", 4, BAD)]
    lost, found = [(1, "a", 1), (4, "b", 4)], [(2, "b", 2), (3, "a", 3)]
    app = BY_VALUE + query + " end;"
    assert differences(app, events, batch_rows, between, O=found, Lost=lost) == ()


@pytest.mark.parametrize("batch_rows", [None, 1])
def test_they_fail_in_joins_and_changes_of_tables(batch_rows: int | None) -> None:
    events = [("a", 1, GOOD), ("a", 2, BAD), ("b", 3, GOOD), ("a", 4, GOOD)]
    query = (
        "from S#window.length(1) as l join S#window.length(9) as r on cast(l.o, 'int') > 1 "
        "select r.k, r.v insert into O;"
    )
    found, lost = [(1, "a", 1), (3, "b", 3)], [(2, "a", 2), (4, "a", 4)]
    assert differences(f"{BY_VALUE} {query} end;", events, batch_rows, O=found, Lost=lost) == ()
    query = "from S select k, v, o update T set T.v = cast(o, 'int') on T.k == k;"
    app = f"from S select k, v insert into T; {BY_VALUE} {query} end;"
    assert differences(app, events, batch_rows, Lost=[(2, "a", 2)]) == ()


@pytest.mark.parametrize("loop", ["", "from Other insert into Back; from Back[v < 0] insert into Other;"])
@pytest.mark.parametrize("batch_rows", [None, 1])
def test_later_readers_inside_and_outside_do_not_get_them(batch_rows: int | None, loop: str) -> None:
    inside = (
        "from S select k insert into First; from S[cast(o, 'int') > 1] select k, v insert into Other; "
        "from S select k insert into Second;"
    )
    head, tail = "from S select k, v insert into Before; ", "end; from S select k insert into After; "
    app = head + BY_VALUE + inside + tail + loop
    events = [("a", 1, BAD), ("b", 2, GOOD)]
    both, good = [(1, "a"), (2, "b")], [(2, "b")]
    before = [(1, "a", 1), (2, "b", 2)]
    streams: dict[str, list[Any]] = {
        "Before": before,
        "First": both,
        "Second": good,
        "After": good,
        "Lost": [(1, "a", 1)],
    }
    assert differences(app, events, batch_rows, **streams) == ()


@pytest.mark.parametrize("loop", ["", "from O insert into Back; from Back[v < 0] insert into O;"])
def test_a_chunk_fails_as_a_whole_and_what_comes_behind_does_nothing(loop: str) -> None:
    chunk = [("a", 1, GOOD), ("a", 2, GOOD), ("b", 3, BAD), ("b", 4, GOOD), ("c", 5, GOOD)]
    app = f"{BY_VALUE} from S[cast(o, 'int') > 1] select k, v insert into O; end; {loop}"
    lost = [(1, "a", 1), (2, "a", 2), (3, "b", 3), (4, "b", 4), (5, "c", 5)]
    assert differences(app, [chunk], O=[(1, "a", 1), (2, "a", 2)], Lost=lost) == ()


@pytest.mark.parametrize("batch_rows", [None, 1])
def test_a_range_behind_one_in_which_an_event_failed_does_not_get_it(batch_rows: int | None) -> None:
    app = BY_RANGE + "from S[cast(o, 'int') > 1] select k, v insert into O; end;"
    events = [("a", 3, GOOD), ("b", 4, BAD), ("c", 9, GOOD)]
    found, lost = [(1, "a", 3), (1, "a", 3), (3, "c", 9)], [(2, "b", 4)]
    assert differences(app, events, batch_rows, O=found, Lost=lost) == ()
