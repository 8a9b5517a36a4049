"""Patterns and sequences against a reference that takes one row at a time, on random events cut at random."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pattern_reference import Held, Part, collected, pattern, rounds, sequence
from pattern_runs import Event, answers, event_by_event

EVENTS = st.lists(
    st.tuples(
        st.sampled_from("AB"),
        st.integers(0, 40),
        st.sampled_from(["x", "y", None]),
        st.one_of(st.none(), st.integers(0, 9)),
    ),
    max_size=40,
)
CUTS = st.lists(st.integers(0, 40), max_size=6)


def timed(drawn: Sequence[tuple[str, int, str | None, int | None]]) -> list[Event]:
    """Events with times that never fall."""
    time = 1000
    events = []
    for stream, gap, k, v in drawn:
        time += gap
        events.append(Event(stream, time, k, v, None if v is None else v / 2))
    return events


def same_key(event: Event, held: Held) -> bool:
    return event.k is not None and event.k == held[0][0].k


def higher(event: Event, held: Held) -> bool:
    return event.v is not None and held[-1][0].v is not None and event.v > held[-1][0].v


def over(limit: int) -> Callable[[Event, Held], bool]:
    return lambda event, _held: event.v is not None and event.v > limit


def values(held: Held) -> tuple[int | None, ...]:
    return tuple(chain[0].v for chain in held)


CHAINS: dict[str, tuple[str, Callable[[list[Event]], list[Held]]]] = {
    "every, same key, within": (
        "every e1=A[v > 4] -> e2=B[k == e1.k] within 60 milliseconds select e1.v as a, e2.v as b",
        lambda events: pattern([Part("A", over(4)), Part("B", same_key)], events, every=True, within=60),
    ),
    "every, one stream, rising": (
        "every e1=A -> e2=A[k == e1.k and v > e1.v] select e1.v as a, e2.v as b",
        lambda events: pattern(
            [Part("A"), Part("A", lambda e, h: same_key(e, h) and higher(e, h))], events, every=True
        ),
    ),
    "every, three elements": (
        "every e1=A[v > 2] -> e2=B[v > e1.v] -> e3=A[v > e2.v] within 90 milliseconds select e1.v as a, e2.v as b, e3.v as c",
        lambda events: pattern(
            [Part("A", over(2)), Part("B", higher), Part("A", higher)], events, every=True, within=90
        ),
    ),
    "once": (
        "e1=A[v > 4] -> e2=A[p > e1.p] select e1.v as a, e2.v as b",
        lambda events: pattern([Part("A", over(4)), Part("A", higher)], events, every=False),
    ),
    "rounds": (
        "every (e1=A -> e2=B[k == e1.k]) within 50 milliseconds select e1.v as a, e2.v as b",
        lambda events: rounds([Part("A"), Part("B", same_key)], events, within=50),
    ),
    "sequence": (
        "every e1=A[v > 2], e2=A[v > e1.v] select e1.v as a, e2.v as b",
        lambda events: sequence(
            [Part("A", over(2)), Part("A", higher)], [e for e in events if e.stream == "A"], every=True
        ),
    ),
    "sequence of two streams": (
        "every e1=A, e2=B[v > e1.v], e3=A within 50 milliseconds select e1.v as a, e2.v as b, e3.v as c",
        lambda events: sequence([Part("A"), Part("B", higher), Part("A")], events, every=True, within=50),
    ),
    "sequence once": (
        "e1=A, e2=B select e1.v as a, e2.v as b",
        lambda events: sequence([Part("A"), Part("B")], events, every=False),
    ),
}


@pytest.mark.parametrize("name", CHAINS)
@settings(max_examples=25, deadline=None)
@given(drawn=EVENTS, cuts=CUTS, restarts=CUTS)
def test_a_chain_answers_as_the_reference_however_it_is_cut_and_restored(
    name: str, drawn: list[tuple[str, int, str | None, int | None]], cuts: list[int], restarts: list[int]
) -> None:
    query, reference = CHAINS[name]
    events = timed(drawn)
    expected = [(held[-1][0].time, values(held)) for held in reference(events)]
    inside = [cut for cut in cuts if cut < len(events)]
    restored = [cut for cut in restarts if cut < len(events)]
    assert answers(query, events, inside, restored) == expected


@settings(max_examples=40, deadline=None)
@given(drawn=EVENTS, minimum=st.integers(1, 3), extra=st.integers(0, 2), cuts=CUTS)
def test_a_counted_run_answers_as_the_reference(
    drawn: list[tuple[str, int, str | None, int | None]], minimum: int, extra: int, cuts: list[int]
) -> None:
    events = timed(drawn)
    query = f"e1=A[v > 3]<{minimum}:{minimum + extra}> -> e2=B[v > 2] select e1[0].v as a, e1[last].v as b, e2.v as c"
    found = collected(Part("A", over(3), minimum, minimum + extra), Part("B", over(2)), events)
    expected = [(end.time, (run[0].v, run[-1].v, end.v)) for run, (end,) in found]
    assert answers(query, events, [cut for cut in cuts if cut < len(events)]) == expected


@pytest.mark.parametrize("name", CHAINS)
@settings(max_examples=25, deadline=None)
@given(drawn=EVENTS, late=st.lists(st.integers(0, 80), min_size=40, max_size=40), cuts=CUTS)
def test_the_compiled_chain_and_the_event_machine_agree_on_late_events(
    name: str, drawn: list[tuple[str, int, str | None, int | None]], late: list[int], cuts: list[int]
) -> None:
    query, _ = CHAINS[name]
    events = [
        Event(event.stream, max(0, event.time - (delay if delay > 50 else 0)), event.k, event.v, event.p)
        for event, delay in zip(timed(drawn), late, strict=False)
    ]
    inside = [cut for cut in cuts if cut < len(events)]
    assert answers(query, events, inside, inside[:2]) == event_by_event(query, events)


@pytest.mark.parametrize("name", CHAINS)
@settings(max_examples=25, deadline=None)
@given(drawn=EVENTS, cuts=CUTS)
def test_partition_instances_do_not_see_each_other(
    name: str, drawn: list[tuple[str, int, str | None, int | None]], cuts: list[int]
) -> None:
    query, _ = CHAINS[name]
    events = timed(drawn)
    inside = [cut for cut in cuts if cut < len(events)]
    together = answers(query, events, inside, inside[:1], partitioned=True)
    assert together == event_by_event(query, events, partitioned=True)
    alone = [
        answer
        for key in dict.fromkeys(event.k for event in events)
        for answer in answers(query, [event for event in events if event.k == key])
    ]
    assert sorted(together, key=repr) == sorted(alone, key=repr)
