"""`@purge`: idle keys are dropped, with all state of the partition's queries for them."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from siddhi.analysis.analyser import analyse
from siddhi.engine.app_runtime import AppRuntime
from siddhi.language.parser import parse
from siddhi.testing import record_batch

INTERVAL, IDLE = 1_000, 2_000
RULE = "@purge(enable='true', interval='1 sec', idle.period='2 sec')"

QUERIES = {
    "running": "from S select k, n, sum(v) as s, count() as c, avg(p) as a insert into O;",
    "extremes": "from S select k, n, max(v) as m, minForever(v) as l, stdDev(p) as d insert into O;",
    "grouped": "from S select k, n, v, distinctCount(p) as d, or(v > 3) as o, sum(p) as s group by v insert into O;",
    "sets": "from S select k, n, sizeOfSet(unionSet(createSet(v))) as z insert into O;",
    "length": "from S#window.length(3) select k, n, sum(v) as s, min(v) as m group by v insert into O;",
    "batch": "from S#window.lengthBatch(2) select k, n, sum(v) as s, count() as c insert into O;",
    "chain": "from every e1=S -> e2=S[v > e1.v] select e2.k as k, e2.n as n, e1.v as a, e2.v as b insert into O;",
    "sequence": "from every e1=S, e2=S[v > e1.v] select e2.k as k, e2.n as n, e1.v as a, e2.v as b insert into O;",
    "counted": "from e1=S<2:> -> e2=S[v > 7] select e2.k as k, e2.n as n, e1[0].v as a, e1[last].v as b insert into O;",
    "join": """from S#window.length(2) as s join T#window.length(2) as t on s.v < t.v
        select s.k as k, s.n as n, t.n as m insert into O;""",
    "inner": """from S#window.length(3) select k, n, v, sum(v) as s insert into #I;
        from #I[s > 4] select k, n, s, count() as c group by v insert into O;""",
    "every-n": "from S select k, n, v output all every 2 events insert into O;",
    "first-n": "from S select k, n, v, sum(v) as s group by v output first every 2 events insert into O;",
    "last-n": "from S select k, n, v, sum(v) as s group by v output last every 3 events insert into O;",
    "filter": "from S[sum(v) > 9] select k, n, v insert into O;",
}

Event = tuple[str, int, str, int]


def app_text(query: str, *, purge: bool) -> str:
    return f"""@app:playback
        define stream S (k string, n int, v int, p double);
        define stream T (k string, n int, v int, p double);
        {RULE if purge else ""} partition with (k of S, k of T) begin {query} end;"""


def renamed(events: Sequence[Event], query: str) -> list[Event]:
    """Return `events` with a new key after each purge of the key, found by checking every purge time.

    Events of a stream that `query` does not read do not count.
    """
    lives: dict[str, int] = {}
    seen: dict[str, int] = {}
    found: list[Event] = []
    purge = INTERVAL
    for stream, time, key, value in events:
        while purge <= time:
            for silent in [name for name, last in seen.items() if last + IDLE <= purge]:
                del seen[silent]
                lives[silent] += 1
            purge += INTERVAL
        if not re.search(rf"\b{stream}\b", query):
            found.append((stream, time, key, value))
            continue
        lives.setdefault(key, 0)
        seen[key] = time
        found.append((stream, time, f"{key}{lives[key]}", value))
    return found


def rows_of(runtime: AppRuntime, rows: list[Any]) -> AppRuntime:
    runtime.add_stream_callback("O", lambda batch: rows.extend(batch.to_pylist()))
    return runtime


def send(runtime: AppRuntime, events: Sequence[Event], first: int) -> None:
    streams = sorted({event[0] for event in events})
    batches = []
    for stream in streams:
        lines = [
            {"timestamp": time, "data": [key, first + number, value, value / 2]}
            for number, (name, time, key, value) in enumerate(events)
            if name == stream
        ]
        batches.append((stream, record_batch(runtime.app.streams[stream].schema, lines)))
    runtime.send_merged(batches, np.array([streams.index(event[0]) for event in events], dtype=np.int64))


def plain(rows: list[Any]) -> list[Any]:
    """Return the rows sorted, with the original keys."""
    return sorted(((row["n"], repr({**row, "k": row["k"][0]})) for row in rows), key=repr)


@pytest.mark.thorough
@pytest.mark.parametrize("name", list(QUERIES))
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_key_that_comes_back_after_a_purge_is_like_a_key_never_seen(name: str, data: st.DataObject) -> None:
    steps = st.tuples(st.sampled_from("SSST"), st.integers(0, 60), st.sampled_from("abc"), st.integers(0, 9))
    drawn = data.draw(st.lists(steps, min_size=2, max_size=40))
    times = itertools.accumulate(20 * gap for _, gap, _, _ in drawn)
    events = [(stream, time, key, value) for (stream, _, key, value), time in zip(drawn, times, strict=True)]

    expected: list[Any] = []
    forever = rows_of(AppRuntime(analyse(parse(app_text(QUERIES[name], purge=False)))), expected)
    forever.start(0)
    send(forever, renamed(events, QUERIES[name]), 0)

    found: list[Any] = []
    app = analyse(parse(app_text(QUERIES[name], purge=True)))
    purged = rows_of(AppRuntime(app), found)
    purged.start(0)
    cuts = sorted(data.draw(st.sets(st.integers(1, len(events)), max_size=4)) | {0, len(events)})
    restored = data.draw(st.sampled_from(cuts))
    for start, stop in itertools.pairwise(cuts):
        if start == restored:
            saved = purged.snapshot()
            purged = rows_of(AppRuntime(app), found)
            purged.restore(saved)
        send(purged, events[start:stop], start)
    assert plain(found) == plain(expected)


@pytest.mark.parametrize(
    "query",
    [
        "from S#window.time(10 sec) select k, n, count() as c insert expired events into O;",
        "from every e1=S -> not T for 10 sec select e1.k as k, e1.n as n insert into O;",
        "from S#window.timeBatch(10 sec) select k, n, count() as c insert into O;",
        "from S select k, n output last every 10 sec insert into O;",
    ],
)
def test_timers_of_a_key_that_was_given_up_do_not_fire(query: str) -> None:
    rows: list[Any] = []
    runtime = rows_of(AppRuntime(analyse(parse(app_text(query, purge=True)))), rows)
    runtime.start(0)
    stays = [("S", time, "b", 1) for time in range(400, 12_000, 1_800)]
    send(runtime, sorted([("S", 200, "a", 1), *stays], key=lambda event: event[1]), 0)
    assert {row["k"] for row in rows} == {"b"}


def test_an_app_with_nothing_else_to_do_wakes_up_to_purge() -> None:
    runtime = AppRuntime(analyse(parse(app_text(QUERIES["running"], purge=True))))
    runtime.start(1000)
    assert runtime.next_deadline_ms() is None
    send(runtime, [("S", 1_400, "a", 1)], 0)
    assert runtime.next_deadline_ms() == 4_000
    runtime.advance_time(4_000)
    assert runtime.next_deadline_ms() is None


def test_events_without_a_key_keep_no_key_alive() -> None:
    query = "from S select k, n, count() as c insert into O; from T select 'x' as k, n, count() as c insert into O;"
    text = app_text(query, purge=True).replace(", k of T", "")
    rows: list[Any] = []
    runtime = rows_of(AppRuntime(analyse(parse(text))), rows)
    runtime.start(0)
    events = [("S", 200, "a", 1), ("T", 1_800, "", 0), ("T", 2_800, "", 0), ("T", 3_200, "", 0), ("S", 3_400, "a", 1)]
    send(runtime, events, 0)
    assert [(row["n"], row["c"]) for row in rows] == [(0, 1), (1, 1), (2, 2), (4, 1)]


def test_ids_of_keys_that_were_given_up_are_given_out_again() -> None:
    runtime = AppRuntime(analyse(parse(app_text(QUERIES["grouped"], purge=True))))
    runtime.start(0)
    sizes = []
    for round_ in range(12):
        events = [("S", round_ * 4_000 + number % 40 * 20, f"k{round_}-{number}", 1) for number in range(200)]
        send(runtime, sorted(events, key=lambda event: event[1]), 0)
        sizes.append(sum(part.size.bytes for part in runtime.statistics().state))
    assert max(sizes[3:]) < 1.2 * sizes[2]
