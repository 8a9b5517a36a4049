"""Durations and times near the limits of a long: windows store the right events, and the engine continues."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_examples import examples

from siddhi.analysis.analyser import analyse
from siddhi.column_names import TIMESTAMP
from siddhi.engine.app_runtime import AppRuntime
from siddhi.engine.columnar.java_text import parse_floating
from siddhi.language.parser import parse

LONGEST = "9223372036854775807 milliseconds"
LATEST_MS = 253_402_300_799_999
STREAM = "define stream S (k string, t long); "


def batch(rows: list[tuple[int, str, int]]) -> pa.RecordBatch:
    times, keys, longs = zip(*rows, strict=True)
    return pa.RecordBatch.from_pydict(
        {TIMESTAMP: pa.array(times, pa.int64()), "k": list(keys), "t": pa.array(longs, pa.int64())}
    )


def counts(text: str, rows: list[tuple[int, str, int]]) -> list[Any]:
    engine = AppRuntime(analyse(parse(f"@app:playback {STREAM} from S{text} insert into Out;")))
    out: list[Any] = []
    engine.add_stream_callback("Out", lambda found: out.extend(found.column(2).to_pylist()))
    engine.start(None)
    for row in rows:
        engine.send("S", batch([row]), row[0])
    engine.send("S", batch(rows), rows[-1][0])
    return out


ROWS = [(1_000, "a", 5), (2_000, "a", 6), (LATEST_MS, "a", 7)]


@pytest.mark.parametrize(
    "window",
    [f"time({LONGEST})", "time(9223372036854775807L)", f"externalTime(t, {LONGEST})", f"timeLength({LONGEST}, 100)"],
)
@pytest.mark.parametrize("select", ["count() as c", "count() as c group by k", "count() as c having c > 0"])
def test_what_is_to_stay_for_ever_stays(window: str, select: str) -> None:
    assert counts(f"#window.{window} select {select}", ROWS) == [1, 2, 3, 4, 5, 6]


WINDOWS = [
    "time({d})", "timeBatch({d})", "timeBatch({d}, 0)", "externalTime(t, {d})", "externalTimeBatch(t, {d})",
    "externalTimeBatch(t, {d}, t, {d}, true)", "timeLength({d}, 3)", "delay({d})", "session({d}, k)",
    "session({d}, k, {d})", "unique:time(k, {d})", "unique:timeBatch(k, {d})", "unique:externalTimeBatch(k, t, {d})",
]  # fmt: skip
LONGS = st.one_of(
    st.integers(-(2**63), 2**63 - 1), st.sampled_from([2**63 - 1, -(2**63), LATEST_MS, 0, 5]), st.integers(0, 9_999)
)
DURATIONS = st.one_of(st.integers(1, 2**63 - 1), st.sampled_from([2**63 - 1, 2**62, 300_000 * 31_536_000_000, 1_000]))


@settings(max_examples=examples(60), deadline=None)
@given(
    window=st.sampled_from(WINDOWS),
    duration=DURATIONS,
    times=st.lists(st.integers(0, LATEST_MS), min_size=1, max_size=6),
    longs=st.lists(LONGS, min_size=6, max_size=6),
)
def test_no_time_stops_a_window(window: str, duration: int, times: list[int], longs: list[int]) -> None:
    text = window.format(d=f"{duration} milliseconds")
    rows = [(time, "ab"[time & 1], long) for time, long in zip(times, longs, strict=False)]
    with np.errstate(all="raise"):
        counts(f"#window.{text} select k, count() as c", rows)


def test_hexadecimal_numbers_that_are_too_large_are_infinite() -> None:
    assert parse_floating("0x1p999999") == float("inf")
    assert parse_floating("-0x1p999999") == float("-inf")
