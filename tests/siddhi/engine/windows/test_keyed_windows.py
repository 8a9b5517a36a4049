"""Windows for n keys give the same results as windows that process one event after the other, one for each instance."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from per_event import ONE_BY_ONE

from siddhi.analysis.analyser import analyse
from siddhi.analysis.model import AnalysedApp
from siddhi.column_names import TIMESTAMP
from siddhi.engine.app_runtime import AppRuntime
from siddhi.engine.operators.windows.base.window import WINDOWS
from siddhi.engine.scheduling.failed_events import FailedEvents
from siddhi.language.parser import parse

WINDOW_CALLS = (
    "length(3)", "length(0)", "lengthBatch(3)", "lengthBatch(3, true)", "lengthBatch(0)", "time(20)",
    "timeBatch(20)", "timeBatch(20, 5)", "timeBatch(20, true)", "externalTime(ts, 20)", "externalTimeBatch(ts, 20)",
    "externalTimeBatch(ts, 20, 7)", "timeLength(20, 3)", "timeLength(20, 0)", "delay(15)", "cron('* * * * * ?')",
    "sort(3, v)", "sort(4, k, 'desc', p, 'asc')", "sort(2, v, 'desc', ts, 'desc')", "session(12 millisec)",
    "session(12 millisec, k)", "session(12 millisec, k, 7 millisec)", "batch()", "batch(2)", "frequent(2, k)",
    "frequent(2)", "lossyFrequent(0.3, 0.2, k)", "lossyFrequent(0.2, 0.1)", "unique:ever(k)", "unique:ever(k, v)",
    "unique:first(k)", "unique:length(k, 2)", "unique:length(v, 0)", "unique:time(k, 20)",
    "unique:lengthBatch(k, 2)", "unique:firstLengthBatch(v, 3)", "unique:timeBatch(k, 20)",
    "unique:timeBatch(v, 20, 5)", "unique:firstTimeBatch(k, 20)", "unique:timeLengthBatch(k, 20, 2)",
    "expression('count() <= 3')", "expression('sum(v) < 12 and last.p - first.p < 1.5')",
    "expression('v < 6 or avg(p) > 1.0')", "expression('max(v) - min(v) <= 4')",
    "expression('eventTimestamp(last) - eventTimestamp(first) < 30')", "expression('last.k == first.k or k is null')",
    "expression('(stdDev(p) < 1.0 or p == 1.0) and distinctCount(k) <= 3')", "expression('v % 3 != 1')",
    "expression('not (last.v > first.v + 2) and count() < 4')",
    "expression('math:abs(p) * 2 < 5 and maxForever(v) < 9')", "expressionBatch('count() <= 3')",
    "expressionBatch('sum(v) < 12', v > 5)",
    "expressionBatch('last.ts - first.ts < 30', false, true)", "expressionBatch('v < 6 and min(p) > 0.0', true, true)",
    "expressionBatch('last.k == first.k', p > 1.0)", "expressionBatch('count() < 3 or sum(p) / v < 2.0', v > 3, true)",
)  # fmt: skip
PLACES = {
    "alone": "{}",
    "values": "partition with (g of S) begin {} end;",
    "ranges": "partition with (v < 5 as 'low' or v > 2 as 'high' of S) begin {} end;",
}
SEEDS = int(os.environ.get("KEYED_WINDOW_SEEDS", "1"))
"""More of them take longer."""
BY_TIMERS_OF_THEIR_OWN = ("session", "timeLength", "unique:time(")
"""Windows of which every event sets a timer one by one, which tells the order of instances whose timers are all past
when a chunk moves the clock in a jump; for n keys there is one timer for each key."""
SELECTS = ("select k, v, ts insert all events into O;", "select g, count() as n, sum(v) as s group by g insert into O;")


@contextmanager
def one_by_one() -> Iterator[None]:
    """Build windows that process one event after the other."""
    members = dict(WINDOWS._members)
    WINDOWS._members.update(ONE_BY_ONE)
    try:
        yield
    finally:
        WINDOWS._members.update(members)


Event = tuple[int, str, str | None, int | None, float, int]


def drawn(seed: int, count: int, *, scale: int = 1) -> list[Event]:
    """Return random events whose times repeat, jump, and go back."""
    draw = np.random.default_rng(seed)
    time, events = 1000, []
    for _ in range(count):
        time += int(draw.choice([0, 0, 1, 3, 9, 40])) * scale
        late = int(draw.integers(0, 35)) * scale if draw.random() < 0.2 else 0
        key = None if draw.random() < 0.1 else f"k{draw.integers(0, 5) ** 3}"
        value = None if draw.random() < 0.1 else int(draw.integers(0, 8))
        part = float(draw.integers(0, 6)) / 2
        events.append((time - late, f"g{draw.integers(0, 4)}", key, value, part, time - 3 * late))
    return events


def records(events: list[Event]) -> pa.RecordBatch:
    times, parts, keys, values, reals, others = zip(*events, strict=True)
    return pa.record_batch(
        {
            TIMESTAMP: pa.array(times, pa.int64()),
            "g": pa.array(parts),
            "k": pa.array(keys, pa.utf8()),
            "v": pa.array(values, pa.int32()),
            "p": pa.array(reals),
            "ts": pa.array(others, pa.int64()),
        }
    )


def ignored(_failed: FailedEvents) -> None:
    """Let events without a key or a time fail."""


def answers(
    app: AnalysedApp, events: list[Event], size: int, *, restored: bool = False, chunks: bool = False
) -> list[dict[str, Any]]:
    """Return the output for `events`, sent `size` at a time; `restored`: by another runtime each time."""
    rows: list[dict[str, Any]] = []

    def begun() -> AppRuntime:
        runtime = AppRuntime(app)
        runtime.add_failure_listener(ignored)
        runtime.add_stream_callback("O", lambda batch: rows.extend(batch.to_pylist()))
        return runtime

    runtime = begun()
    runtime.start(900)
    for first in range(0, len(events), size):
        some = events[first : first + size]
        if chunks:
            some = sorted(some, key=lambda event: event[0])
        runtime.send("S", records(some), as_chunk=chunks)
        if restored:
            runtime.compact()
            saved = runtime.snapshot()
            runtime = begun()
            runtime.restore(saved)
    runtime.advance_time(events[-1][0] + 60_000)
    return rows


@pytest.mark.thorough
@pytest.mark.parametrize("call", WINDOW_CALLS)
@pytest.mark.parametrize("place", PLACES)
def test_n_keys_give_what_one_event_after_the_other_gives(place: str, call: str) -> None:
    text = "define stream S (g string, k string, v int, p double, ts long);"
    for seed in range(SEEDS):
        select = SELECTS[(seed + len(call)) % 2]
        app = analyse(parse(f"@app:playback {text} {PLACES[place].format(f'from S#window.{call} {select}')}"))
        events = drawn(seed, 80, scale=60 if "cron" in call else 1)
        with one_by_one():
            expected = answers(app, events, 80)
        assert answers(app, events, 80) == expected
        assert answers(app, events, 7) == expected
        assert answers(app, events, 11, restored=True) == expected
        if place == "alone" or not call.startswith(BY_TIMERS_OF_THEIR_OWN):
            with one_by_one():
                in_chunks = answers(app, events, 4, chunks=True)
            assert answers(app, events, 4, chunks=True) == in_chunks
