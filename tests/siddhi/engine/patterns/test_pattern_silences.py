"""Absent events paired with events, under `every` in a sequence, and across `within`."""

from __future__ import annotations

import numpy as np
import pytest
from pattern_runs import Event, Make, answers
from random_patterns import random_events

from siddhi.engine.operators.patterns.build import build_state_machine
from siddhi.engine.operators.patterns.machine.event_machine import EventMachineOperator
from siddhi.testing import Case, record_answers


@pytest.mark.parametrize(
    "sequence", ["every e1=A, not B for 100 milliseconds, e2=A", "every (e1=A, not B for 100 milliseconds), e2=A"]
)
def test_every_in_a_sequence_holds_the_silence_before_the_last_event(sequence: str) -> None:
    query = f"{sequence} select e1.v as v, e2.v as w"
    events = [
        Event("A", 1000, "x", 1),
        Event("B", 1050, "x", 0),
        Event("A", 1200, "x", 2),
    ]
    # The elements in the `every` wait for the end of the waiting time, so B comes too early.
    assert answers(query, events) == [(1200, (1, 2))]


def test_every_in_a_sequence_that_ends_with_a_silence_holds_its_first_element() -> None:
    query = "every e1=A, not B for 100 milliseconds select e1.v as v"
    events = [
        Event("A", 1000, "x", 1),
        Event("B", 1050, "x", 0),
        Event("A", 1200, "x", 2),
        Event("B", 1400, "x", 0),
    ]
    assert answers(query, events) == [(1300, (2,))]


@pytest.mark.parametrize(
    "pair",
    [
        "e2=A and not B[k == e2.k] for 100 milliseconds",
        "not B[k == e2.k] for 100 milliseconds and e2=A",
    ],
)
@pytest.mark.parametrize(("key", "expected"), [("x", [(1100, (2,))]), ("y", [])])
def test_a_silence_may_refer_to_the_event_beside_it_on_either_side(
    pair: str, key: str, expected: list[tuple[int, tuple[int]]]
) -> None:
    events = [
        Event("A", 1000, "x", 1),
        Event("A", 1010, "y", 2),
        Event("B", 1050, key, 0),
        Event("A", 1500, "z", 3),
    ]
    assert answers(f"e1=A -> {pair} select e2.v as v", events) == expected


def test_each_side_of_an_expired_pair_starts_a_round_of_its_own() -> None:
    query = "every (not B[v > 3] and e1=A[v > 5]) -> e2=B[v < 7] within 500 milliseconds select e1.v as v, e2.v as w"
    events = [
        Event("A", 1000, "x", 9),
        Event("B", 1100, "x", 8),
        Event("B", 1700, "x", 5),
        Event("A", 1800, "x", 7),
        Event("B", 1900, "x", 1),
    ]
    # B at 1700 blocks one of the two rounds that are open after the expiry; the other one takes A.
    assert answers(query, events) == [(1900, (7, 1))]


def test_a_silence_that_is_answered_by_an_earlier_match_takes_its_pair_with_it() -> None:
    query = (
        "every not C[v > 6] for 300 milliseconds or e1=C[v > 5], e2=B[k == e1.k]<0:1> within 500 milliseconds "
        "select e1.v as v, e2[0].v as w"
    )
    assert answers(query, [Event("C", 23900, "a", 6), Event("B", 23930, "a", 7)], cuts=[1]) == []


def test_a_round_forgets_an_event_of_the_round_before_when_another_is_tried() -> None:
    query = (
        "every not B and e1=B[v < 3] -> e2=B and e3=C[v < 3] within 1500 milliseconds "
        "select e1.v as v, e2.v as w, e3.v as x"
    )
    events = [
        Event("B", 1230, "b", 2),
        Event("B", 3300, "b", 2),
        Event("C", 3760, "b", 2),
        Event("B", 6670, "b", 1),
        Event("C", 7570, "a", 7),
        Event("B", 7730, "b", 8),
    ]
    assert answers(query, events) == []
    # Without the tested event the old one is still there, which a new round keeps from the previous one.
    assert answers(query, events[:4] + events[5:]) == [(7730, (1, 8, 2))]


@pytest.mark.parametrize("make", [build_state_machine, EventMachineOperator])
@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("every e1=A*, not B for 200 milliseconds", [(200, None), (3200, 4)]),
        ("e1=A?, not B for 200 milliseconds", [(200, None), (3200, 4)]),
        ("e1=A<0:2> -> not B for 200 milliseconds", [(200, None)]),
        ("e1=A<0:2> -> not B for 1050 milliseconds", []),
        ("e1=A<0:1> -> e2=A<0:1> -> not B for 990 milliseconds", [(990, None)]),
    ],
)
def test_a_silence_behind_an_optional_element_counts_from_the_start_of_the_attempt(
    make: Make, query: str, expected: list[tuple[int, int | None]]
) -> None:
    events = [
        Event("A", 1000, "x", 1),
        Event("A", 1100, "x", 2),
        Event("B", 1150, "x", 0),
        Event("C", 2000, "x", 3),
        Event("A", 3000, "x", 4),
        Event("C", 4000, "x", 9),
    ]
    for cuts, restarts in (([], []), (range(len(events)), []), ([2], [2])):
        found = answers(f"{query} select e1[0].v as v", events, cuts, restarts, make)
        assert found == [(time, (value,)) for time, value in expected]


@pytest.mark.parametrize("partitioned", [False, True])
def test_no_silence_ends_before_the_clock(partitioned: bool) -> None:
    query = "from every e1=A*, not B[k == e1.k] for 200 milliseconds select e1[0].v as v insert into Out;"
    if partitioned:
        query = f"partition with (k of A, k of B) begin {query} end;"
    document = {
        "id": "optional",
        "app": f"@app:playback define stream A (k string, v int); define stream B (k string, v int); {query}",
        "start_time": 900,
        "events": [
            {"stream": "A", "timestamp": 1200, "data": ["a", 1]},
            {"stream": "B", "timestamp": 1900, "data": ["a", 2]},
            {"advance_time": 5000},
        ],
        "listen": {"streams": ["Out"]},
    }
    rows = record_answers(Case("optional", "", str(document["app"]), document))["streams"]["Out"]
    # B does not break a silence without A: its attempt begins with the event.
    assert rows == [*([] if partitioned else [[1100, [None]]]), [1400, [1]], [2100, [None]]]


def test_a_partial_match_may_wait_twice_at_a_silence() -> None:
    query = "every e1=C[v < 2]<0:2>, e2=A[v < 2] and not B for 700 milliseconds select e1[0].v as v, e2.v as w"
    events = [Event("A", 4480, "a", 3), Event("C", 4940, "b", 1), Event("B", 5000, "a", 6)]
    assert answers(query, events) == []


def test_a_partial_match_that_waits_twice_at_a_count_collects_an_event_twice() -> None:
    query = (
        "every (not B[k == e1.k] for 300 milliseconds and e1=A[v > 3] -> not A for 100 milliseconds and e3=B[v > 6]) "
        "-> e4=B[v < 5]<1:2> select e1.v as v, e3.v as w, e4[0].v as x"
    )
    events = [
        Event("A", 9240, "a", 6),
        Event("B", 25240, "a", 7),
        Event("A", 26150, "b", 7),
        Event("B", 26560, "b", 7),
        Event("B", 26730, "a", 1),
    ]
    assert answers(query, events) == [(26730, (6, 7, 1)), (26730, (7, 7, 1))]


def test_rounds_that_share_what_they_have_collected_collect_an_event_one_after_the_other() -> None:
    query = (
        "every not B and e1=A -> e2=A -> e3=C<2> -> e4=C within 3 sec "
        "select e1.v as a, e2.v as b, e3[0].v as c, e3[1].v as d, e3[2].v as e, e4.v as f"
    )
    times = [("A", 2350), ("A", 4850), ("C", 4851), ("A", 7357), ("A", 9357), ("A", 9358), ("A", 11058)]
    events = [Event(stream, time, "x", place) for place, (stream, time) in enumerate(times)]
    events += [Event("C", 11513, "x", 7), Event("C", 11713, "x", 8)]
    # A round starts with the list of the one before it: each of the two adds the same event to it.
    assert answers(query, events) == [(11713, (4, 5, 2, 7, 7, 8))]


def test_an_alarm_that_waited_for_a_later_one_sees_the_clock_of_that_one() -> None:
    query = "every e1=B, e2=A, not A for 500 milliseconds select e1.v as v, e2.v as w"
    events = [
        Event("B", 3101, "x", 1),
        Event("A", 3201, "x", 2),
        Event("A", 1701, "x", 3),  # a late one: the silence counts from its time, but the clock stands at 3201
        Event("B", 4511, "x", 4),
        Event("A", 4611, "x", 5),
        Event("B", 4712, "x", 6),
        Event("C", 9000, "x", 7),
    ]
    assert answers(query, events) == [(5111, (4, 5))]


def _after_silences(events: list[Event], waiting_ms: int, *, sequence: bool) -> list[tuple[int, tuple[int | None]]]:
    """Return the results of `every not B for t -> e1=A`, or of the sequence; waiting times end on time."""
    found: list[tuple[int, tuple[int | None]]] = []
    clock = over = 0
    end = waiting_ms
    for event in events:
        clock = max(clock, event.time)
        while end <= clock:
            end += waiting_ms
            over = 1 if sequence else over + 1
        if event.stream == "A":
            found += [(event.time, (event.v,))] * over
        if event.stream == "A" or sequence:
            over = 0
        if event.stream == "B":
            end = max(end, event.time + waiting_ms)
    return found


@pytest.mark.thorough
@pytest.mark.parametrize("make", [build_state_machine, EventMachineOperator])
@pytest.mark.parametrize("sequence", [False, True])
def test_late_events_and_cuts_take_no_silence_away(make: Make, *, sequence: bool) -> None:
    query = f"every not B for 50 milliseconds{',' if sequence else ' ->'} e1=A select e1.v as v"
    matches = 0
    for seed in range(25):
        events = [event for event in random_events(seed, 60, late=0.3) if event.stream != "C"]
        expected = _after_silences(events, 50, sequence=sequence)
        cuts = np.random.default_rng(seed).integers(0, len(events), 6).tolist()
        for edges, restarts in (([], []), (cuts, cuts[:2]), (range(len(events)), [])):
            assert answers(query, events, edges, restarts, make) == expected, seed
        matches += len(expected)
    assert matches > 100


@pytest.mark.parametrize("make", [build_state_machine, EventMachineOperator])
@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("e1=A<1:3> -> not B for 200 milliseconds", [(1320, (1, 2))]),
        ("e1=A<0:3> -> not B for 200 milliseconds", [(200, (None, None))]),
        ("every e1=A<1:3> -> not B for 200 milliseconds or e2=C", [(1320, (1, 2)), (1320, (2, 2))]),
    ],
)
def test_a_count_that_takes_another_event_sets_the_silence_behind_it_back(
    make: Make, query: str, expected: list[tuple[int, tuple[int | None, int | None]]]
) -> None:
    events = [Event("A", 1050, "x", 1), Event("A", 1120, "x", 2), Event("B", 1800, "x", 0)]
    assert answers(f"{query} select e1[0].v as v, e1[last].v as w", events, make=make) == expected


_CHUNKS = (
    "@app:playback define stream A (k string); define stream B (k string); "
    "from every e=A -> not B[k == e.k] for 1 sec select e.k as k insert into M; "
)


def _played_in_chunks(app: str, times: list[int], cuts: set[int], stream: str) -> list[list[object]]:
    """Return the rows of a stream when events are sent in chunks that end at `cuts`."""
    chunks: list[list[dict[str, object]]] = [[]]
    for place, time in enumerate(times):
        chunks[-1].append({"timestamp": time, "data": [f"event {place}"]})
        if place in cuts:
            chunks.append([])
    events: list[dict[str, object]] = [{"stream": "A", "batch": chunk} for chunk in chunks if chunk]
    document = {
        "events": [*events, {"advance_time": 20_000}],
        "start_time": 900,
        "listen": {"streams": [stream], "queries": []},
    }
    rows: list[list[object]] = record_answers(Case("chunks", "chunks", app, document))["streams"][stream]
    return rows


def test_silences_end_at_the_same_times_however_events_are_cut_into_chunks() -> None:
    times = [1000, 2500, 2600, 4000, 4100, 9000]
    expected = [[time + 1000, [f"event {place}"]] for place, time in enumerate(times)]
    for mask in range(1 << (len(times) - 1)):
        cuts = {place for place in range(len(times)) if mask >> place & 1}
        assert _played_in_chunks(_CHUNKS, times, cuts, "M") == expected, cuts


def test_a_window_takes_a_silence_that_is_over_with_the_chunk_that_begins_it() -> None:
    app = _CHUNKS + "from M#window.delay(500) select k insert into O;"
    assert _played_in_chunks(app, [1000, 9000], {0, 1}, "O") == [[2500, ["event 0"]], [10_500, ["event 1"]]]
    # In one chunk the clock is at 9000 when the first silence ends; Siddhi lets its row out at the next change, 9001.
    assert _played_in_chunks(app, [1000, 9000], {1}, "O") == [[9000, ["event 0"]], [10_500, ["event 1"]]]
