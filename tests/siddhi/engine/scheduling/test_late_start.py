"""Apps that start with their first event, like deployed plans with event time.

Periods count from there, not from 1970.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from siddhi.analysis.analyser import analyse
from siddhi.column_names import TIMESTAMP
from siddhi.engine.app_runtime import AppRuntime
from siddhi.language.parser import parse

NOW_MS = 1_700_000_000_000
CASES = [
    ("from S select a output snapshot every 1 sec insert into O;", [0, 0, 2_500]),
    ("from S select a output last every 1 sec insert into O;", [0, 2_500]),
    ("from every not S[a == 9] for 1 sec select 1 as a insert into O;", [1_000, 2_000, 3_000]),
    ("define trigger T at every 1 sec; from T select 1 as a insert into O;", [1_000, 2_000, 3_000]),
    ("define trigger T at 'start'; from T select 1 as a insert into O;", [0]),
    ("define trigger T at '* * * * * ?'; from T select 1 as a insert into O;", [1_000, 2_000, 3_000]),
    (
        "partition with (a of S) begin from S select a output last every 1 sec insert into O; end;",
        [0, 2_500],
    ),
]
EVENTS_MS = (0, 2_500, 3_200)


def playing(query: str) -> tuple[AppRuntime, list[int]]:
    """Return an app that waits for its first event, and a list of the times of its results since `NOW_MS`."""
    runtime = AppRuntime(analyse(parse(f"@app:playback define stream S (a int); {query}")))
    times: list[int] = []
    runtime.add_stream_callback("O", lambda batch: times.extend(t - NOW_MS for t in batch[TIMESTAMP].to_pylist()))
    return runtime, times


def send(runtime: AppRuntime, *times_ms: int) -> None:
    stamps = pa.array([NOW_MS + time for time in times_ms], pa.int64())
    runtime.send("S", pa.record_batch({TIMESTAMP: stamps, "a": pa.array([1] * len(times_ms), pa.int32())}))


@pytest.mark.parametrize(("query", "expected"), CASES)
def test_periods_count_from_the_first_event(query: str, expected: list[int]) -> None:
    runtime, times = playing(query)
    runtime.start(None)
    assert runtime.next_deadline_ms() is None
    for before_all in (0, -5):
        runtime.advance_time(before_all)
    for time in EVENTS_MS:
        send(runtime, time)
    assert times == expected


@pytest.mark.parametrize(("query", "expected"), CASES)
def test_the_first_event_starts_an_app_that_was_restored_before_it(query: str, expected: list[int]) -> None:
    waiting, _ = playing(query)
    waiting.start(None)
    for edited in (False, True):
        runtime, times = playing(query + (" from S select a insert into P;" if edited else ""))
        if edited:
            runtime.restore_matching(waiting.snapshot())
        else:
            runtime.restore(waiting.snapshot())
        send(runtime, *EVENTS_MS)
        assert times == expected


@pytest.mark.parametrize(("query", "expected"), CASES)
def test_batches_and_restores_make_no_difference(query: str, expected: list[int]) -> None:
    runtime, times = playing(query)
    runtime.start(None)
    told: list[Any] = []
    for time in EVENTS_MS:
        send(runtime, time)
        told += times
        restored, times = playing(query)
        restored.restore(runtime.snapshot())
        runtime = restored
    assert told == expected


def test_time_alone_may_start_an_app() -> None:
    runtime, times = playing("define trigger T at every 1 sec; from T select 1 as a insert into O;")
    runtime.start(None)
    runtime.advance_time(NOW_MS)
    assert runtime.next_deadline_ms() == NOW_MS + 1_000
    runtime.advance_time(NOW_MS + 2_000)
    assert times == [1_000, 2_000]


def test_an_app_that_started_at_0_goes_on_from_there() -> None:
    runtime, _ = playing("from S select a output last every 1 sec insert into O;")
    runtime.start(0)
    restored, times = playing("from S select a output last every 1 sec insert into O;")
    restored.restore(runtime.snapshot())
    send(restored, 700, 1_200)
    assert times == [700]  # at NOW_MS + 1_000, for NOW_MS is a whole second
