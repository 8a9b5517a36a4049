"""Output rates for n keys give the same results as limiters for single rows, one for each instance."""

from __future__ import annotations

import os

import numpy as np
import pyarrow as pa
import pytest
from per_row import limiter_by_row
from random_examples import FULL_LENGTH

from siddhi.analysis.analyser import analyse
from siddhi.analysis.model import AnalysedApp
from siddhi.column_names import TIMESTAMP
from siddhi.engine.app_runtime import AppRuntime
from siddhi.engine.planner import query as query_module
from siddhi.language.parser import parse

SEEDS = int(os.environ.get("LIMITER_SEEDS", "0"))
"""With more than none all inputs come in all places with every rate; else some do, so that it takes seconds."""
RATES = (
    "all every 3 events", "all every 1 events", "first every 3 events", "first every 1 events", "last every 3 events",
    "all every 20 milliseconds", "first every 20 milliseconds", "last every 20 milliseconds",
    "snapshot every 20 milliseconds",
)  # fmt: skip
INPUTS = ("S", "S[v > 1]", "S#window.length(3)", "S#window.time(30)", "S#window.timeBatch(20)", "S#window.batch()",
          "S#window.lengthBatch(2)", "S#window.sort(3, v)")  # fmt: skip
SELECTIONS = (
    "k, v, p", "k, v, p group by k", "k, sum(v) as s group by k", "sum(v) as s, count() as n", "k, p, sum(v) as s",
    "k, v, max(v) as m group by k having m > 2", "p, v group by k",
)  # fmt: skip
PLACES = {
    "alone": "{}",
    "values": "partition with (g of S) begin {} end;",
    "ranges": "partition with (v < 5 as 'low' or v > 2 as 'high' of S) begin {} end;",
    "purged": "@purge(enable='true', interval='1 sec', idle.period='1 sec') partition with (g of S) begin {} end;",
}

Event = tuple[int, str, str | None, int | None, float]


def drawn(seed: int, count: int, *, scale: int = 1) -> list[Event]:
    """Return random events whose times repeat, jump, and go back."""
    draw = np.random.default_rng(seed)
    time, events = 1000, []
    for _ in range(count):
        time += int(draw.choice([0, 0, 1, 3, 9, 40])) * scale
        late = int(draw.integers(0, 35)) if draw.random() < 0.1 else 0
        key = None if draw.random() < 0.1 else f"k{draw.integers(0, 5) ** 3}"
        value = None if draw.random() < 0.1 else int(draw.integers(0, 8))
        events.append(
            (time - late, f"g{draw.integers(0, 4)}", key, value, float(draw.choice([0.0, -0.0, np.nan, 1.5])))
        )
    return events


def records(events: list[Event]) -> pa.RecordBatch:
    times, parts, keys, values, reals = zip(*events, strict=True)
    return pa.record_batch(
        {
            TIMESTAMP: pa.array(times, pa.int64()),
            "g": pa.array(parts),
            "k": pa.array(keys, pa.utf8()),
            "v": pa.array(values, pa.int32()),
            "p": pa.array(reals),
        }
    )


def answers(
    app: AnalysedApp, events: list[Event], size: int, *, restored: bool = False, chunks: bool = False
) -> list[str]:
    """Return the output for `events`, sent `size` at a time; `restored`: by another runtime each time."""
    rows: list[str] = []

    def begun() -> AppRuntime:
        runtime = AppRuntime(app)
        runtime.add_failure_listener(lambda _failed: None)
        runtime.add_stream_callback("O", lambda batch: rows.extend(map(repr, batch.to_pylist())))
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
    runtime.advance_time(events[-1][0] + 200)
    return rows


def app_of(source: str, selection: str, rate: str, place: str) -> AnalysedApp:
    query = f"from {source} select {selection} output {rate} insert into O;"
    text = PLACES[place].format(query)
    return analyse(parse(f"@app:playback define stream S (g string, k string, v int, p double); {text}"))


def combinations() -> list[tuple[str, str, str, str]]:
    """Return every rate in every place, with inputs and selections in turn, each of which occurs with each rate."""
    found = []
    for number, rate in enumerate(RATES):
        for turn in range(len(INPUTS) * len(PLACES)):
            if not SEEDS and not FULL_LENGTH and (turn + 3 * number) % 9:
                continue
            source, place = INPUTS[turn % len(INPUTS)], list(PLACES)[turn // len(INPUTS)]
            found.append((source, SELECTIONS[(turn + number) % len(SELECTIONS)], rate, place))
    return found


@pytest.mark.thorough
@pytest.mark.parametrize("rate", RATES)
def test_limiters_for_n_keys_give_what_those_by_row_give(rate: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for source, selection, other, place in combinations():
        if other != rate:
            continue
        app = app_of(source, selection, rate, place)
        for seed in range(max(SEEDS, 1)):
            events = drawn(seed + 1, 60, scale=20 if place == "purged" else 1)
            for chunks in (False, True):
                with monkeypatch.context() as patched:
                    patched.setattr(query_module, "build_limiter", limiter_by_row)
                    expected = answers(app, events, 5, chunks=chunks)
                about = f"{source} | {selection} | {rate} | {place} | chunks {chunks} | seed {seed}"
                assert answers(app, events, 5, chunks=chunks) == expected, about
                assert answers(app, events, 5, restored=True, chunks=chunks) == expected, about
                if not chunks:
                    assert answers(app, events, 1) == expected, about
                    assert answers(app, events, 60) == expected, about
