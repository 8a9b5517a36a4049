"""Old buckets are purged according to `@purge`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_examples import examples

from siddhi.analysis.analyser import analyse
from siddhi.analysis.model import AnalysedApp
from siddhi.analysis.query.on_demand import analyse_on_demand_query
from siddhi.engine.app_runtime import AppRuntime
from siddhi.errors import SiddhiAnalysisError
from siddhi.language.parser import parse, parse_on_demand_query
from siddhi.testing import record_batch

SHORT = "@purge(enable='true', interval='10 sec', @retentionPeriod(sec='120 sec', min='all'))"


def app_of(annotation: str = "", durations: str = "sec...min", before: str = "") -> AnalysedApp:
    return analyse(
        parse(
            f"{before} define stream S (k string, v int); {annotation} define aggregation A "
            f"from S select k, sum(v) as s, distinctCount(v) as d, v as last group by k aggregate every {durations};"
        )
    )


def started(app: AnalysedApp) -> AppRuntime:
    runtime = AppRuntime(app)
    runtime.start(0)
    return runtime


def send(runtime: AppRuntime, now_ms: int, *rows: Sequence[Any]) -> None:
    schema = runtime.app.streams["S"].schema
    runtime.send("S", record_batch(schema, [{"timestamp": now_ms, "data": row} for row in rows]), now_ms)


def ask(runtime: AppRuntime, per: str) -> list[tuple[Any, ...]]:
    text = f"from A within 0L, 9999999999999L per '{per}' select *"
    found = runtime.query(analyse_on_demand_query(parse_on_demand_query(text), runtime.app))
    return [] if found is None else list(zip(*(column.to_pylist() for column in found.columns[2:]), strict=True))


def test_buckets_go_at_the_first_point_at_which_they_are_too_old() -> None:
    runtime = started(app_of(SHORT))
    send(runtime, 5_500, ["x", 1], ["y", 2])
    send(runtime, 20_500, ["y", 3])
    assert runtime.next_deadline_ms() == 130_000  # the bucket of second 5 is too old from 125,001 on
    runtime.advance_time(129_999)
    assert len(ask(runtime, "sec")) == 3
    runtime.advance_time(130_000)
    assert ask(runtime, "sec") == [(20_000, "y", 3, 1, 3)]
    assert ask(runtime, "min") == [(0, "x", 1, 1, 1), (0, "y", 5, 2, 3)]
    assert runtime.next_deadline_ms() == 150_000
    runtime.advance_time(150_000)
    assert ask(runtime, "sec") == []
    assert runtime.next_deadline_ms() is None


def test_groups_find_their_buckets_after_others_have_gone() -> None:
    runtime = started(app_of(SHORT.replace("min='all'", "min='120 min'")))
    send(runtime, 1_000, ["gone", 7])
    send(runtime, 7_300_000, ["x", 1], ["y", 1])
    send(runtime, 7_400_000, ["y", 1], ["x", 4], ["z", 9])
    assert ask(runtime, "min") == [
        (7_260_000, "x", 1, 1, 1),
        (7_260_000, "y", 1, 1, 1),
        (7_380_000, "y", 1, 1, 1),
        (7_380_000, "x", 4, 1, 4),
        (7_380_000, "z", 9, 1, 9),
    ]


def test_without_purge_a_live_app_keeps_seconds_for_two_minutes_and_a_replay_keeps_all() -> None:
    live, replay = started(app_of()), started(app_of(before="@app:playback"))
    for runtime in (live, replay):
        send(runtime, 1_000, ["x", 1])
        runtime.advance_time(3_600_000)
    assert ask(live, "sec") == []
    assert len(ask(live, "min")) == len(ask(replay, "sec")) == 1
    assert replay.next_deadline_ms() is None


def test_purge_can_be_switched_off() -> None:
    runtime = started(app_of("@purge(enable='false')"))
    send(runtime, 1_000, ["x", 1])
    runtime.advance_time(3_600_000)
    assert len(ask(runtime, "sec")) == 1


def test_nothing_else_is_looked_at_where_purge_is_switched_off() -> None:
    assert (
        not app_of("@purge(enable='false', interval='soon', @retentionPeriod(sec='1 sec'))")
        .aggregations["A"]
        .retention.enabled
    )


@pytest.mark.parametrize(
    ("annotation", "code"),
    [
        ("@purge(enable='perhaps')", "wrong-option"),
        ("@purge(interval='soon')", "not-a-time"),
        ("@purge(@retentionPeriod(sec='1 sec'))", "wrong-option"),
        ("@purge(interval='1000')", "not-a-time"),
        ("@purge(interval='500 millisec')", "not-a-time"),
        ("@purge(interval='1 week')", "not-a-time"),
        ("@purge(@retentionPeriod(sec=' all '))", "not-a-time"),
        ("@purge(@retentionPeriod(sec='1 min 60 sec'))", "wrong-option"),
        ("@purge(@retentionPeriod(hour='2 day'))", "unknown-duration"),
        ("@purge(@retentionPeriod(weeks='2 day'))", "unknown-duration"),
    ],
)
def test_a_purge_that_cannot_be_is_refused_where_it_stands(annotation: str, code: str) -> None:
    with pytest.raises(SiddhiAnalysisError) as caught:
        app_of(annotation)
    (problem,) = caught.value.problems
    assert problem.code == code
    assert problem.span is not None


@settings(max_examples=examples(25), deadline=None)
@given(
    gaps=st.lists(st.sampled_from([0, 900, 4_000, 10_000, 60_000, 150_000]), min_size=2, max_size=20),
    cuts=st.lists(st.tuples(st.integers(0, 20), st.booleans()), max_size=4),
)
def test_what_is_given_up_does_not_depend_on_the_cut(gaps: list[int], cuts: list[tuple[int, bool]]) -> None:
    app = app_of(SHORT, before="@app:playback")
    clock, sent = 0, []
    for place, gap in enumerate(gaps):
        clock += gap
        sent.append({"timestamp": clock, "data": ["xyz"[place % 3], place % 4]})
    schema = app.streams["S"].schema
    whole, split = started(app), started(app)
    whole.send("S", record_batch(schema, sent))
    begin = 0
    for cut, restored in [*sorted(cuts), (len(sent), False)]:
        if piece := sent[begin:cut]:
            split.send("S", record_batch(schema, piece))
        begin = max(begin, cut)
        if restored:
            state = split.snapshot()
            split = AppRuntime(app)
            split.restore(state)
    assert ask(whole, "sec") == ask(split, "sec")
    assert whole.snapshot() == split.snapshot()
