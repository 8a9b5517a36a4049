"""Output rates of rows from timers, when chunks with several times move the clock past ticks in one jump."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_examples import examples

from siddhi.engine.app_runtime import AppRuntime
from siddhi.testing import Case, record_answers, restored

EXAMPLES = examples(25)
"""How many apps are tried; a few thousand find what is rare."""
DRAWS = st.randoms(use_true_random=False)
STREAMS = "@app:playback define stream S (k string, n int); define stream T (k string, n int); "
SOURCES = (
    "from every e=S -> not T[k == e.k] for {span} milliseconds select e.k as k, e.n + 100 as n insert into {to};",
    "from S#window.time({span}) select k, n + 200 as n insert expired events into {to};",
    "from S#window.timeBatch({span}) select k, n + 300 as n insert into {to};",
    "from S#window.delay({span}) select k, n + 400 as n insert into {to};",
    "from S select k, n insert into {to};",
)
SPANS = (100, 250, 1000)
RATES = ("all", "last", "first", "snapshot")

Events = list[dict[str, Any]]


def _queries(draw: Random, inner: str) -> str:
    """Return queries with up to three sources of rows from timers, some with a window before the rate."""
    sources = [draw.choice(SOURCES).format(span=draw.choice(SPANS), to=inner) for _ in range(draw.randint(1, 3))]
    if draw.random() < 0.5:
        sources.append(SOURCES[-1].format(to=inner))
    window = draw.choice(["", "", f"#window.timeBatch({draw.choice(SPANS)})", f"#window.time({draw.choice(SPANS)})"])
    selection = draw.choice(["k, n", "k, sum(n) as n", "k, n group by k"])
    rate = f"output {draw.choice(RATES)} every {draw.choice(SPANS)} milliseconds"
    return f"{' '.join(sources)} from {inner}{window} select {selection} {rate} insert into O;"


def _partitioned(queries: str) -> str:
    return f"{STREAMS} partition with (k of S, k of T) begin {queries} end;"


def _events(draw: Random, keys: str) -> Events:
    """Return events alone and in chunks; the first comes at the start, from which ticks count."""
    time, number = 1000, 0
    events: Events = [{"stream": "S", "timestamp": 1000, "data": [keys[0], 0]}]
    for _ in range(draw.randint(2, 8)):
        time += draw.choice([0, 50, 100, 150, 250, 500, 1000, 1250])
        if draw.random() < 0.15:
            events.append({"advance_time": time})
            continue
        rows = []
        for place in range(draw.choice([1, 1, 2, 2, 3])):
            time += draw.choice([0, 0, 100, 150, 900, 1000, 2300]) if place else 0
            number += 1
            rows.append({"timestamp": time, "data": [draw.choice(keys), number]})
        events.append({"stream": draw.choice("SSSST"), "batch": rows})
    return [*events, {"advance_time": time + 3000}]


def _jumps(event: dict[str, Any]) -> bool:
    return len({row["timestamp"] for row in event.get("batch", ())}) > 1


def _without_jumps(events: Events) -> Events:
    """Return `events` with the rows of each chunk at the time of its first."""
    found: Events = []
    for event in events:
        if _jumps(event):
            time = event["batch"][0]["timestamp"]
            event = {**event, "batch": [{**row, "timestamp": time} for row in event["batch"]]}  # noqa: PLW2901
        found.append(event)
    return found


def _with_moves_of_the_clock(draw: Random, events: Events) -> Events:
    """Return `events` with moves of the clock before some that do not make it jump."""
    found, clock = [], 1000
    for event in events:
        last = event.get("batch", [event])[-1]
        time = last.get("timestamp", last.get("advance_time"))
        if not _jumps(event) and time > clock and draw.random() < 0.5:
            clock = draw.randint(clock, time)
            found.append({"advance_time": clock})
        found.append(event)
        clock = max(clock, time)
    return found


def _answers(
    app: str,
    events: Events,
    rows: int | None = None,
    between: Callable[[AppRuntime], AppRuntime] | None = None,
) -> list[Any]:
    document = {"events": events, "start_time": 1000, "listen": {"streams": ["O"], "queries": []}}
    answers = record_answers(Case("rates-after-jumps", "output rates", app, document), rows, between)
    found: list[Any] = answers["streams"]["O"]
    return found


@pytest.mark.thorough
@settings(max_examples=EXAMPLES, deadline=None)
@given(draw=DRAWS, inside=st.booleans())
def test_no_cut_no_restore_and_no_move_of_the_clock_changes_what_rates_let_out(draw: Random, inside: bool) -> None:
    queries = _queries(draw, "#M" if inside else "M")
    app = _partitioned(queries) if inside else STREAMS + queries
    events = _events(draw, "abc")
    expected = _answers(app, events)
    assert _answers(app, events, 1) == expected
    assert _answers(app, events, draw.randint(2, 4), restored) == expected
    assert _answers(app, _with_moves_of_the_clock(draw, events)) == expected


@pytest.mark.thorough
@settings(max_examples=EXAMPLES, deadline=None)
@given(draw=DRAWS)
def test_rates_in_a_partition_with_one_key_are_those_outside(draw: Random) -> None:
    """Compare rates inside and outside of a partition.

    No chunk jumps past timers that feed a window in front of the rate: the window may divide their rows into other
    batches in a partition.
    """
    queries, events = _queries(draw, "#M"), _events(draw, "a")
    if "#M#window" in queries:
        events = _without_jumps(events)
    outside = STREAMS + queries.replace("#M", "M")
    assert _answers(_partitioned(queries), events) == _answers(outside, events)
