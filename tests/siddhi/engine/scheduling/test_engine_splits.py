"""All batches of the same events give the same output, and so does a snapshot restored at any point."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from random_examples import examples

from siddhi.analysis.analyser import analyse
from siddhi.analysis.model import AnalysedApp
from siddhi.engine.app_runtime import AppRuntime
from siddhi.language.parser import parse
from siddhi.testing import record_batch

DEFINITIONS = """
@app:playback
define stream S (k string, v int, p double);
define stream T (k string, v int, p double);
"""

QUERIES = {
    "length": "from S#window.length(3) select k, avg(p) as a, max(v) as m group by k insert all events into O;",
    "time": "from S[v > 2]#window.time(30) select k, sum(v) as s, count() as c, min(p) as m insert all events into O;",
    "batches": """
        from S#window.lengthBatch(4) select k, sum(v) as s, distinctCount(v) as d group by k insert all events into M;
        from M#window.timeBatch(25) select k, sum(s) as s, count() as c insert into O;""",
    "external": "from S#window.externalTimeBatch(@v, 30) select k, count() as c group by k insert all events into O;",
    "cron": """
        define trigger Tick at '0/2 * * * * ?';
        from S#window.cron('* * * * * ?') select k, sum(v) as s, count() as c group by k insert all events into O;
        from Tick select triggered_time as t insert into P;""",
    "sort": "from S#window.sort(3, v, 'desc', k) select k, v, stdDev(p) as d insert all events into O;",
    "session": "from S#window.session(20 millisec, k) select k, count() as c insert all events into O;",
    "rates": """
        from S select k, v output last every 3 events insert into O;
        from S select k, sum(v) as v group by k output all every 20 millisec insert into P;
        from S#window.length(2) select k, v output snapshot every 15 millisec insert into Q;""",
    "diamond": """
        from S select k, v insert into M;
        from S[v > 4] select k, v * 10 as v insert into M;
        from M#window.length(2) select k, sum(v) as s insert into O;""",
    "pattern": """
        from every e1=S[v > 4] -> e2=T[k == e1.k and v > e1.v] within 40 millisec
        select e1.k as k, e1.v as a, e2.v as b insert into O;""",
    "absent": "from every e1=S[v > 6] -> not T[k == e1.k] for 15 millisec select e1.k as k, e1.v as v insert into O;",
    "join": """
        from S#window.length(3) as s join T#window.time(25) as t on s.k == t.k
        select s.k as k, s.v as a, t.v as b insert all events into O;""",
    "table": """
        define table K (k string, v int);
        from T select k, v update or insert into K set K.v = v on K.k == k;
        from S join K on S.k == K.k select S.k as k, S.v as v, K.v as w insert into O;""",
    "partition": """
        partition with (k of S, k of T) begin
        from S#window.time(20) select k, sum(v) as s insert all events into #I;
        from every e1=#I -> e2=T[v > e1.s] select e1.k as k, e1.s as s, e2.v as v insert into O;
        end;""",
    "in front": """
        define stream M (k string, v int);
        from M#window.time(20) select k, count() as c insert all events into O;
        from S#window.timeBatch(20) select k, v insert into M;""",
    "expressions of keys": """
        partition with (k of S, k of T) begin
        from S#window.expression('distinctCount(k) * count() <= 4') select k, v insert all events into O;
        from S#window.expressionBatch('sum(v) < 20') as s join T#window.time(25) as t on s.v > t.v
        select s.k as k, s.v as v, t.v as w insert all events into P;
        end;""",
}

Event = tuple[str, int, list[Any]]

event_lists = st.lists(
    st.tuples(
        st.sampled_from("ST"),
        st.integers(0, 15),
        st.tuples(
            st.sampled_from(["a", "b", None]),
            st.one_of(st.none(), st.integers(0, 9)),
            st.one_of(st.none(), st.integers(0, 40).map(lambda n: n / 4)),
        ),
    ),
    min_size=1,
    max_size=25,
)


def app_of(query: str) -> AnalysedApp:
    text = DEFINITIONS
    if query.lstrip().startswith("define"):
        table, query = query.split(";", 1)
        text += table + ";"
    if "@v" in query:
        text = text.replace("v int", "v long")
        query = query.replace("@v", "v")
    return analyse(parse(text + query))


def timed(drawn: Sequence[tuple[str, int, tuple[Any, ...]]]) -> list[Event]:
    """Return the drawn events with gaps converted to timestamps; `v` is never null, as it is a time."""
    clock, events = 1000, []
    for stream, gap, values in drawn:
        clock += gap
        events.append((stream, clock, list(values)))
    return events


def suited(events: list[Event], plan: str) -> list[Event]:
    """Return `events` for windows that sort or measure by attributes: without nulls, with `v` as the time."""
    if plan not in ("external", "sort", "session"):
        return events
    return [
        (s, t, [k or "c", t if plan == "external" else v or 0, p if p is not None else 1.5])
        for s, t, (k, v, p) in events
    ]


def listen(runtime: AppRuntime, app: AnalysedApp) -> dict[str, list[Any]]:
    rows: dict[str, list[Any]] = {}
    for stream in "OPQ":
        if stream in app.streams:
            kept = rows.setdefault(stream, [])
            runtime.add_stream_callback(stream, lambda batch, kept=kept: kept.extend(batch.to_pylist()))
    return rows


def send(runtime: AppRuntime, app: AnalysedApp, events: Sequence[Event]) -> None:
    streams = [stream for stream in "ST" if any(event[0] == stream for event in events)]
    batches = []
    for stream in streams:
        rows = [{"timestamp": time, "data": data} for name, time, data in events if name == stream]
        batches.append((stream, record_batch(app.streams[stream].schema, rows)))
    runtime.send_merged(batches, np.array([streams.index(event[0]) for event in events], dtype=np.int64))


@pytest.fixture(scope="module", params=list(QUERIES))
def plan(request: pytest.FixtureRequest) -> tuple[str, AnalysedApp]:
    return request.param, app_of(QUERIES[request.param])


@pytest.mark.thorough
@settings(max_examples=examples(12), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(drawn=event_lists, data=st.data())
def test_any_split_and_a_snapshot_anywhere_give_the_same_output(
    plan: tuple[str, AnalysedApp], drawn: list[Any], data: st.DataObject
) -> None:
    name, app = plan
    events = suited(timed(drawn), name)
    whole = AppRuntime(app)
    expected = listen(whole, app)
    whole.start(0)
    send(whole, app, events)
    whole.advance_time(5000)

    split = AppRuntime(app)
    found = listen(split, app)
    split.start(0)
    cuts = sorted(data.draw(st.sets(st.integers(1, len(events)), max_size=6)) | {0, len(events)})
    restored = data.draw(st.sampled_from(cuts))
    for start, stop in itertools.pairwise(cuts):
        if start == restored:
            saved = split.snapshot()
            split = AppRuntime(app)
            kept, found = found, listen(split, app)
            for stream, rows in kept.items():
                found[stream][:0] = rows
            split.restore(saved)
        send(split, app, events[start:stop])
    split.advance_time(5000)

    # As text: a standard deviation may be NaN, which is not equal to itself.
    assert repr(found) == repr(expected)


@pytest.mark.parametrize("query", list(QUERIES))
def test_one_event_at_a_time_gives_what_one_batch_gives(query: str) -> None:
    app = app_of(QUERIES[query])
    generator = np.random.default_rng(7)
    drawn = [
        ("ST"[generator.integers(2)], int(generator.integers(12)), ("abc"[generator.integers(3)], int(v), v / 2))
        for v in generator.integers(0, 10, 150).tolist()
    ]
    events = suited(timed(drawn), query)
    outputs = []
    for size in (1, 7, len(events)):
        runtime = AppRuntime(app)
        outputs.append(listen(runtime, app))
        runtime.start(0)
        for start in range(0, len(events), size):
            send(runtime, app, events[start : start + size])
        runtime.advance_time(9000)
    assert outputs[0] == outputs[2]
    assert outputs[1] == outputs[2]
    assert any(outputs[2].values())
