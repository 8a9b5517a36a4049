"""Joins in one loop over the output of windows give the same results as joins chunk by chunk, key by key."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from random_examples import FULL_LENGTH

from siddhi.analysis.analyser import analyse
from siddhi.analysis.model import AnalysedApp
from siddhi.column_names import TIMESTAMP
from siddhi.engine.app_runtime import AppRuntime
from siddhi.engine.operators.base.choices import Execution
from siddhi.engine.operators.joins import build
from siddhi.language.parser import parse

SEEDS = int(os.environ.get("MOVING_JOIN_SEEDS", "1"))
"""How often each join is tried, each time with other events."""
WINDOWS = (
    "length(3)", "time(20)", "lengthBatch(3)", "lengthBatch(2, true)", "timeBatch(20)", "timeBatch(20, true)",
    "externalTime(ts, 20)", "externalTimeBatch(ts, 20)", "timeLength(20, 3)", "session(12 millisec)",
    "session(12 millisec, k)", "batch()", "unique:ever(k)", "unique:first(k)", "unique:length(k, 2)",
    "unique:time(k, 20)", "unique:lengthBatch(k, 2)", "unique:timeBatch(k, 20)", "cron('* * * * * ?')",
    "sort(3, k, 'desc', v, 'asc')", "frequent(2, k)", "lossyFrequent(0.3, 0.1, k)", "delay(20)",
    "timeLength(20, 0)", "length(0)", "unique:length(k, 0)", "session(12 millisec, k, 7 millisec)", "batch(2)",
    "unique:firstLengthBatch(k, 2)", "unique:firstTimeBatch(k, 20)", "unique:timeLengthBatch(k, 20, 2)",
    "unique:externalTimeBatch(k, ts, 20)", "timeBatch(20, 5)",
)  # fmt: skip
FORMS = (
    "S{a} as a join T{b} as b on a.k == b.k", "S{a} as a left outer join T{b} as b on a.k == b.k and a.v > b.v",
    "S{a} as a full outer join T{b} as b on a.v == b.v", "S{a} as a unidirectional join T{b} as b",
    "S as a join T{b} as b on a.v > b.v", "S{a} as a right outer join T{b} as b on a.k == b.k and a.v == b.v",
    "S{a} as a join S{b} as b on a.k == b.k",
)  # fmt: skip
SELECTS = (
    "select a.k as k, b.v as v insert into O;", "select a.ts as s, b.ts as t insert all events into O;",
    "select a.k as k, count() as n group by a.k insert into O;",
    "select a.v as v, eventTimestamp() as t, sum(b.v) as n insert all events into O;",
)  # fmt: skip
PLACES = {"alone": "{}", "values": "partition with (g of S, g of T) begin {} end;"}
DEFINITIONS = "".join(f"define stream {name} (g string, k string, v int, ts long);" for name in "ST")


@contextmanager
def chunk_after_chunk() -> Iterator[None]:
    """Build joins that process chunk after chunk."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(build, "_unmovable", lambda _sides, _condition: "a test asks for it")
        yield


Event = tuple[str, int, str, str | None, int | None, int]


def drawn(seed: int, count: int, *, scale: int = 1) -> list[Event]:
    """Return random events of two streams whose times repeat, jump, and go back."""
    draw = np.random.default_rng(seed)
    time, events = 1000, []
    for _ in range(count):
        time += int(draw.choice([0, 0, 1, 3, 9, 40])) * scale
        late = int(draw.integers(0, 35)) * scale if draw.random() < 0.1 else 0
        key = None if draw.random() < 0.1 else f"k{draw.integers(0, 3)}"
        value = None if draw.random() < 0.1 else int(draw.integers(0, 5))
        stream = "ST"[int(draw.integers(0, 2))]
        events.append((stream, time - late, f"g{draw.integers(0, 3)}", key, value, time))
    return events


def records(events: list[Event]) -> pa.RecordBatch:
    _, times, parts, keys, values, others = zip(*events, strict=True)
    return pa.record_batch(
        {
            TIMESTAMP: pa.array(times, pa.int64()),
            "g": pa.array(parts),
            "k": pa.array(keys, pa.utf8()),
            "v": pa.array(values, pa.int32()),
            "ts": pa.array(others, pa.int64()),
        }
    )


def answers(
    app: AnalysedApp, events: list[Event], size: int, *, restored: bool = False, chunks: bool = False
) -> list[dict[str, Any]]:
    """Return the output for `events`, sent `size` at a time; `restored`: by another runtime each time."""
    rows: list[dict[str, Any]] = []

    def begun() -> AppRuntime:
        runtime = AppRuntime(app)
        runtime.add_failure_listener(lambda _failed: None)
        runtime.add_stream_callback("O", lambda batch: rows.extend(batch.to_pylist()))
        return runtime

    runtime = begun()
    runtime.start(900)
    for first in range(0, len(events), size):
        some = events[first : first + size]
        if chunks:
            for stream in "ST":
                if own := sorted((one for one in some if one[0] == stream), key=lambda event: event[1]):
                    runtime.send(stream, records(own), as_chunk=True)
        else:
            parts = [[one for one in some if one[0] == stream] for stream in "ST"]
            filled = [(stream, records(own)) for stream, own in zip("ST", parts, strict=True) if own]
            place = {stream: number for number, (stream, _) in enumerate(filled)}
            runtime.send_merged(filled, np.array([place[one[0]] for one in some]))
        if restored:
            runtime.compact()
            saved = runtime.snapshot()
            runtime = begun()
            runtime.restore(saved)
    runtime.advance_time(events[-1][1] + 60_000)
    return rows


def check(text: str, events: list[Event], *, in_turn: bool) -> None:
    """Compare both; rows of several instances from a chunk with a jump may be in any order if not `in_turn`."""
    app = analyse(parse(f"@app:playback {DEFINITIONS} {text}"))
    with chunk_after_chunk():
        expected = answers(app, events, len(events))
        in_chunks = answers(app, events, 6, chunks=True)
    assert answers(app, events, len(events)) == expected
    assert answers(app, events, 7) == expected
    assert answers(app, events, 13, restored=True) == expected
    own = answers(app, events, 6, chunks=True)
    if in_turn:
        assert own == in_chunks
    else:
        assert sorted(map(repr, own)) == sorted(map(repr, in_chunks))


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    "window", ["expression('last.k == first.k')", "expression('v > 1')", "expressionBatch('v > 1')"]
)
def test_rows_that_a_condition_does_not_keep_leave_in_both_ways(window: str, place: str) -> None:
    for number, form in enumerate(FORMS):
        query = f"from {form.format(a=f'#window.{window}', b='#window.length(3)')} {SELECTS[number % len(SELECTS)]}"
        check(PLACES[place].format(query), drawn(number, 40), in_turn=place == "alone")


@pytest.mark.thorough
@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("place", PLACES)
def test_one_loop_gives_what_chunk_after_chunk_gives(place: str, window: str) -> None:
    """Test each window in a third of the joins, or in all at full length."""
    start = WINDOWS.index(window)
    for seed in range(SEEDS):
        forms = list(enumerate(FORMS, start=start + seed))
        for number, form in forms if FULL_LENGTH else forms[(start + (place == "values")) % 3 :: 3]:
            other = WINDOWS[(number * 7 + seed) % len(WINDOWS)]
            query = f"from {form.format(a=f'#window.{window}', b=f'#window.{other}')} {SELECTS[number % len(SELECTS)]}"
            events = drawn(seed, 40, scale=60 if "cron" in query else 1)
            try:
                check(PLACES[place].format(query), events, in_turn=place == "alone")
            except AssertionError as error:
                raise AssertionError(f"{PLACES[place].format(query)} (seed {seed})") from error


def test_it_says_that_it_is_compiled() -> None:
    join = "S#window.lengthBatch(3) as a join T#window.session(1 sec) as b on a.k == b.k"
    query = f"from {join} select a.k as k insert into O;"
    for place in PLACES.values():
        app = analyse(parse(f"{DEFINITIONS} {place.format(query)}"))
        (explained,) = AppRuntime(app).explain().queries
        assert explained.operators[0].execution == Execution.COMPILED.value
        assert not explained.warnings
