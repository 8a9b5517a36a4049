"""Timed operators of every kind: batches and restores do not change the results, whatever the times of the events."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_examples import examples
from timed_apps import STREAMS, Event, answers, random_app, random_events

from siddhi.analysis.analyser import analyse
from siddhi.engine.app_runtime import AppRuntime
from siddhi.language.parser import parse
from siddhi.testing import record_batch

EXAMPLES = examples(15)
"""How many apps are tried; a few thousand find what is rare."""
DRAWS = st.randoms(use_true_random=False)


def _cuts(draw: Random) -> set[int]:
    return {place for place in range(27) if draw.random() < 0.4}


@pytest.mark.thorough
@settings(max_examples=EXAMPLES, deadline=None)
@given(draw=DRAWS)
def test_no_cut_and_no_restore_changes_an_answer(draw: Random) -> None:
    text, events = random_app(draw), random_events(draw)
    alone = answers(text, events)
    restores = {draw.randrange(27) for _ in range(3)}
    assert answers(text, events, cuts=()) == alone
    assert answers(text, events, cuts=_cuts(draw), restores=restores) == alone


@pytest.mark.thorough
@settings(max_examples=EXAMPLES, deadline=None)
@given(
    window=st.sampled_from(["time(30)", "externalTime(t, 30)", "timeLength(30, 3)", "timeLength(30, 8)"]),
    selection=st.sampled_from(
        [
            "k, v, sum(v) as s, count() as c, min(v) as least, distinctCount(k) as d",
            "k, v, max(v) as s, avg(v) as c group by k",
            "k, v, max(v) as s, sum(v) as c group by k, t",
        ]
    ),
    partitioned=st.booleans(),
    draw=DRAWS,
)
def test_a_window_fused_with_its_selection_answers_as_one_that_is_not(
    window: str, selection: str, partitioned: bool, draw: Random
) -> None:
    clock = draw.choice(["@app:playback ", ""])
    events = [Event(event.stream and "S", event.time, event.k, event.v) for event in random_events(draw)]

    def app(after: str) -> str:
        query = f"from S#window.{window}{after} select {selection} insert into O;"
        return f"{clock}{STREAMS}{f'partition with (k of S) begin {query} end;' if partitioned else query}"

    apart = answers(app("#log('')"), events)
    assert answers(app(""), events, cuts=()) == apart
    assert answers(app(""), events, cuts=_cuts(draw), restores={draw.randrange(27) for _ in range(3)}) == apart


@pytest.mark.thorough
@pytest.mark.parametrize("late", [0, 20])
def test_what_has_left_a_window_takes_no_memory_though_an_event_from_the_future_stays(late: int) -> None:
    text = f"{STREAMS} from S#window.time(30) select k, v insert expired events into O;"
    runtime = AppRuntime(analyse(parse(text)))
    found: list[int] = []
    runtime.add_stream_callback("O", lambda batch: found.extend(batch.column("v").to_pylist()))
    runtime.start(0)
    runtime.advance_time(1_000)
    schema = runtime.app.streams["S"].schema
    sizes = []
    runtime.send("S", record_batch(schema, [{"timestamp": 10**9, "data": ["future", -1, 0]}]))
    for time in range(1_000, 7_000, 10):
        stamps = [time + number - late * (number % 2) for number in range(10)]
        batch = record_batch(schema, [{"timestamp": stamp, "data": ["a", stamp, 0]} for stamp in stamps])
        runtime.send("S", batch, time + 10)
        runtime.advance_time(time + 10)
        sizes.append(runtime.statistics().state[0].size)
    assert len(found) >= 6_000 - 60
    assert max(size.rows for size in sizes) <= 80
    assert max(size.bytes for size in sizes[300:]) <= 1.5 * max(size.bytes for size in sizes[:300])
