"""Patterns and sequences against a reference that processes one row at a time, on random events and batches."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from pattern_reference import Held, Part, collected, pattern, rounds, sequence
from pattern_runs import Event, answers, event_by_event

SEEDS = range(6)
SOON = [0, 1, *(pytest.param(seed, marks=pytest.mark.cluster) for seed in SEEDS[2:])]
"""The first ones with the fast tests."""


def random_events(seed: int, count: int = 150, late: float = 0.0) -> list[Event]:
    """Return events a few tens of milliseconds apart, so that limits are often met exactly.

    A share `late` comes later.
    """
    draw = np.random.default_rng(seed)
    time = 1000
    events = []
    for _ in range(count):
        time += int(draw.integers(0, 4)) * 10
        behind = int(draw.integers(1, 15)) * 10 if draw.random() < late else 0
        v = None if draw.random() < 0.1 else int(draw.integers(0, 10))
        k = [None, "x", "y"][int(draw.integers(0, 3))]
        events.append(Event("AB"[int(draw.integers(0, 2))], time - behind, k, v, None if v is None else v / 2))
    return events


def random_cuts(seed: int, count: int = 150) -> list[int]:
    return np.random.default_rng(seed + 1000).integers(0, count, 20).tolist()


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
    "every, no condition": (
        "every e1=A -> e2=B within 60 milliseconds select e1.v as a, e2.v as b",
        lambda events: pattern([Part("A"), Part("B")], events, every=True, within=60),
    ),
    "every, rare end, no limit": (
        "every e1=A -> e2=B[v > 7] select e1.v as a, e2.v as b",
        lambda events: pattern([Part("A"), Part("B", over(7))], events, every=True),
    ),
    "every, one stream, rising": (
        "every e1=A -> e2=A[k == e1.k and v > e1.v] select e1.v as a, e2.v as b",
        lambda events: pattern(
            [Part("A"), Part("A", lambda e, h: same_key(e, h) and higher(e, h))], events, every=True
        ),
    ),
    "every, three elements": (
        (
            "every e1=A[v > 2] -> e2=B[v > e1.v] -> e3=A[v > e2.v] within 90 milliseconds "
            "select e1.v as a, e2.v as b, e3.v as c"
        ),
        lambda events: pattern(
            [Part("A", over(2)), Part("B", higher), Part("A", higher)], events, every=True, within=90
        ),
    ),
    "every, oldest not in front": (
        "every e1=A -> e2=B[k == e1.k] -> e3=A[v > 7] within 200 milliseconds select e1.v as a, e2.v as b, e3.v as c",
        lambda events: pattern([Part("A"), Part("B", same_key), Part("A", over(7))], events, every=True, within=200),
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


@pytest.mark.parametrize("late", [0.0, 0.3])
@pytest.mark.parametrize("seed", SOON)
@pytest.mark.parametrize("name", CHAINS)
def test_a_chain_answers_as_the_reference_however_it_is_cut_and_restored(name: str, seed: int, late: float) -> None:
    query, reference = CHAINS[name]
    events = random_events(seed, late=late)
    expected = [(held[-1][0].time, values(held)) for held in reference(events)]
    cuts = random_cuts(seed)
    assert answers(query, events) == expected
    assert answers(query, events, range(len(events))) == expected
    assert answers(query, events, cuts, cuts[:5]) == expected


def test_the_reference_finds_matches_in_the_random_events() -> None:
    for _, reference in CHAINS.values():
        assert sum(len(reference(random_events(seed))) for seed in SEEDS) > 0


@pytest.mark.parametrize("seed", SOON)
@pytest.mark.parametrize(("minimum", "maximum"), [(1, 1), (1, 3), (2, 2), (2, 4), (3, 5)])
def test_a_counted_run_answers_as_the_reference(minimum: int, maximum: int, seed: int) -> None:
    events = random_events(seed)
    query = f"e1=A[v > 3]<{minimum}:{maximum}> -> e2=B[v > 2] select e1[0].v as a, e1[last].v as b, e2.v as c"
    found = collected(Part("A", over(3), minimum, maximum), Part("B", over(2)), events)
    expected = [(end.time, (run[0].v, run[-1].v, end.v)) for run, (end,) in found]
    cuts = random_cuts(seed)
    assert answers(query, events, cuts, cuts[:5]) == expected


@pytest.mark.parametrize("seed", SOON)
@pytest.mark.parametrize("name", CHAINS)
def test_the_compiled_chain_and_the_event_machine_agree_on_late_events(name: str, seed: int) -> None:
    query, _ = CHAINS[name]
    events = random_events(seed, count=400, late=0.4)
    cuts = random_cuts(seed, count=400)
    assert answers(query, events, cuts, cuts[:5]) == event_by_event(query, events)


@pytest.mark.parametrize("seed", SOON)
@pytest.mark.parametrize("name", CHAINS)
def test_partition_instances_do_not_see_each_other(name: str, seed: int) -> None:
    query, _ = CHAINS[name]
    events = random_events(seed)
    cuts = random_cuts(seed)
    together = answers(query, events, cuts, cuts[:5], partitioned=True)
    assert together == event_by_event(query, events, partitioned=True)
    alone = [
        answer
        for key in dict.fromkeys(event.k for event in events)
        for answer in answers(query, [event for event in events if event.k == key])
    ]
    assert sorted(together, key=repr) == sorted(alone, key=repr)
