"""An edit resets only what it affects.

Random queries and edits, against an engine that ran the new text on the same window content from its start.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_examples import examples

from siddhi.analysis.analyser import analyse
from siddhi.engine.app_runtime import AppRuntime
from siddhi.engine.snapshots.matching import RestoreReport
from siddhi.language.parser import parse

HEAD = "@app:playback define stream S (k string, v int, w double, t long);"
WINDOWS = ("length(5)", "time(40)", "timeLength(50, 6)", "externalTime(t, 40)")
AGGREGATES = ("sum(v) as a", "count() as a", "avg(w) as a", "max(v) as a", "min(w) as a", "distinctCount(k) as a")


def app(*texts: str) -> AppRuntime:
    return AppRuntime(analyse(parse(" ".join((HEAD, *texts)))))


def started(*texts: str) -> AppRuntime:
    runtime = app(*texts)
    runtime.start(0)
    return runtime


def send(runtime: AppRuntime, *events: tuple[int, str | None, int | None, float | None]) -> None:
    for time, k, v, w in events:
        columns = {
            "_timestamp": pa.array([time], pa.int64()), "k": pa.array([k], pa.string()),
            "v": pa.array([v], pa.int32()), "w": pa.array([w], pa.float64()), "t": pa.array([time], pa.int64()),
        }  # fmt: skip
        runtime.send("S", pa.record_batch(columns))


def results(runtime: AppRuntime, stream: str = "O") -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    runtime.add_stream_callback(stream, lambda batch: rows.extend(batch.to_pylist()))
    return rows


def edited(old: AppRuntime, *texts: str) -> tuple[AppRuntime, RestoreReport]:
    runtime = app(*texts)
    return runtime, runtime.restore_matching(old.snapshot())


EVENTS = st.lists(
    st.tuples(
        st.integers(0, 20), st.sampled_from(["a", "b", "c", None]), st.one_of(st.none(), st.integers(-5, 5)),
        st.one_of(st.none(), st.integers(-4, 4).map(float)),
    ),
    max_size=14,
)  # fmt: skip


def timed(events: list[Any], start: int = 1) -> list[Any]:
    now, found = start, []
    for gap, *rest in events:
        now += gap
        found.append((now, *rest))
    return found


@st.composite
def queries(draw: st.DrawFn, window: str, attributes: str) -> str:
    """Return a query over the window with random other clauses."""
    group = draw(st.sampled_from(["", " group by k", " group by v", " group by k, v"]))
    having = draw(st.sampled_from(["", " having a > 1", " having not (a is null)", " having count() > 2"]))
    after = draw(st.sampled_from(["", "", "[v > 0]", "[not (k is null)]"]))
    name = draw(st.sampled_from(["", "@info(name='q')", "@info(name='other')"]))
    front = draw(st.sampled_from(["", "from S[v > 3] select k insert into X; "]))
    return f"{front}{name} from S#window.{window}{after} select {attributes}{group}{having} insert into O;"


@pytest.mark.thorough
@pytest.mark.parametrize("window", WINDOWS)
@settings(deadline=None, max_examples=examples(25))
@given(data=st.data(), before=EVENTS, after=EVENTS)
def test_results_after_an_edit_are_those_of_the_new_text_on_the_same_window(
    window: str, data: st.DataObject, before: list[Any], after: list[Any]
) -> None:
    wide = f"k, v, w, sum(v) as s, avg(w) as m, distinctCount(k) as d, {data.draw(st.sampled_from(AGGREGATES))}"
    old = started(data.draw(queries(window, wide)))
    aggregate = data.draw(st.sampled_from(AGGREGATES))
    new_text = data.draw(queries(window, f"k, {aggregate}"))
    events = timed(before)
    send(old, *events)
    new, report = edited(old, new_text)
    whole = started(new_text)
    send(whole, *events)
    if any(part.reason.value == "not-held" for part in report.left):
        return
    assert [str(part) for part in report.left if part.part.name != "query_1"] == []
    found, expected = results(new), results(whole)
    send(new, *timed(after, (events[-1][0] if events else 0) + 1))
    send(whole, *timed(after, (events[-1][0] if events else 0) + 1))
    assert found == expected


COUNT = "from S#window.length(100) select k, count() as n{group}{having} insert into {out};"


def counted(text: str) -> AppRuntime:
    runtime = started(text)
    send(runtime, *[(time, "ab"[time % 2], time, 1.0) for time in range(1, 21)])
    return runtime


@pytest.mark.parametrize("group", ["", " group by k"])
@pytest.mark.parametrize(
    "after",
    [
        "{front}@info(name='renamed') " + COUNT,
        COUNT.replace("{having}", " having n > 3"),
        COUNT.replace("k, count() as n", "k, v, count() as n"),
        COUNT.replace("count() as n", "count() as n, k as again"),
        COUNT.replace("select k, ", "select ").replace("insert", "insert all events"),
        COUNT.replace("insert", "output every 1 events insert"),
        COUNT.replace("length(100)", "length(100)[eventTimestamp() > 0]"),
        COUNT.replace("count() as n", "count() as n, count() as m"),
        COUNT.replace("{having}", " having count() > 3"),
    ],
)
def test_what_the_edit_does_not_touch_is_kept(after: str, group: str) -> None:
    old = counted(COUNT.format(group=group, having="", out="O"))
    front = "from S[v > 3] select k insert into X; from S[v > 4] select k insert into X; "
    new, report = edited(old, after.format(front=front, group=group, having="", out="Other"))
    found = results(new, "Other")
    send(new, (30, "a", 1, 1.0))
    assert [row["n"] for row in found] == [11 if group else 21]
    assert not report.left


def test_a_new_attribute_of_the_stream_resets_no_window_that_does_not_read_it() -> None:
    old = counted(COUNT.format(group="", having="", out="O"))
    text = f"{HEAD.replace('t long', 't long, gate string')} {COUNT.format(group='', having='', out='O')}"
    runtime = AppRuntime(analyse(parse(text)))
    assert not runtime.restore_matching(old.snapshot()).left


def test_an_attribute_that_was_not_held_resets_the_query_and_is_named() -> None:
    old = counted(COUNT.format(group="", having="", out="O"))
    _, report = edited(old, COUNT.format(group="", having="", out="O").replace("count() as n", "sum(v) as n"))
    (left,) = report.left
    assert "it reads attributes that its window did not store (v)" in str(left)


def test_instances_of_a_partition_are_kept_though_it_and_its_queries_are_numbered_otherwise() -> None:
    part = "partition with (k of S) begin from S#window.length(9) select k, count() as n{having} insert into O; end;"
    old = counted(part.format(having=""))
    front = "partition with (v of S) begin from S select v insert into Y; end; from S select k insert into X; "
    new, report = edited(old, front + part.format(having=" having n > 1"))
    found = results(new)
    send(new, (30, "a", 1, 1.0), (31, "b", 1, 1.0))
    assert [row["n"] for row in found] == [9, 9]
    assert not report.left


PATTERN = "from every e1=S[v > 3] -> e2=S[v < 0 and k == e1.k] select e1.k as k, e2.v as v{having} insert into {out};"


def test_partial_matches_are_kept_where_the_same_is_remembered_of_events() -> None:
    old = started(PATTERN.format(having="", out="O"))
    send(old, (1, "a", 5, 1.0), (2, "b", 6, 1.0))
    new, report = edited(old, "from S select k insert into X; " + PATTERN.format(having=" having v < -1", out="Other"))
    found = results(new, "Other")
    send(new, (3, "a", -1, 1.0), (4, "b", -2, 1.0))
    assert [(row["k"], row["v"]) for row in found] == [("b", -2)]
    assert not report.left


@pytest.mark.parametrize("group_by", ["k", "k, v", "v, k"])
def test_a_null_by_which_rows_were_grouped_is_null_again_after_an_edit(group_by: str) -> None:
    old = started(f"from S#window.length(5) select k, v, sum(v) as s group by {group_by} insert into O;")
    send(old, *timed([(0, "a", None, None), (0, None, None, None)]))
    new, _ = edited(old, "from S#window.length(5)[not (k is null)] select k, count() as n insert into O;")
    found = results(new)
    send(new, *timed([(0, "a", None, None)], 10))
    assert [(row["k"], row["n"]) for row in found] == [("a", 2)]
