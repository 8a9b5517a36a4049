"""Counts in sequences equal their elements written out, and pairs accept their sides in either order."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pytest
from pattern_runs import Event, answers

FILTERS = {"S": "v < 4", "T": "v > 2", "U": ""}
"""What an event of the one stream A has to be to count as S, T or U; some are two of them."""


def random_events(seed: int, streams: str = "A", count: int = 120) -> list[Event]:
    draw = np.random.default_rng(seed)
    time = 1000
    events = []
    for _ in range(count):
        time += int(draw.integers(0, 4)) * 10
        k = "xy"[int(draw.integers(0, 2))]
        events.append(Event(streams[int(draw.integers(0, len(streams)))], time, k, int(draw.integers(0, 7))))
    return events


def written_out(kinds: Sequence[tuple[str, int]], *, once: bool, within: str) -> str:
    """Return the sequence with each element as often as it must occur."""
    elements = [kind for kind, minimum in kinds for _ in range(minimum)]
    chain = ", ".join(f"e{place}=A[{FILTERS[kind] or 'true'}]" for place, kind in enumerate(elements))
    read = ", ".join(f"e{place}.v as v{place}" for place in range(len(elements)))
    return f"{'' if once else 'every '}{chain} {within} select {read}"


def counted(kinds: Sequence[tuple[str, int]], tail: str, *, once: bool, within: str) -> str:
    """Return the sequence with counts, the last one written as `tail`."""
    last = len(kinds) - 1
    chain = ", ".join(
        f"c{place}=A[{FILTERS[kind] or 'true'}]{tail if place == last else f'<{minimum}>'}"
        for place, (kind, minimum) in enumerate(kinds)
    )
    places = [(place, number) for place, (_, minimum) in enumerate(kinds) for number in range(minimum)]
    read = ", ".join(f"c{place}[{number}].v as v{row}" for row, (place, number) in enumerate(places))
    return f"{'' if once else 'every '}{chain} {within} select {read}"


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("partitioned", [False, True])
def test_a_count_in_a_sequence_is_its_element_written_out(seed: int, partitioned: bool) -> None:
    draw = np.random.default_rng(seed + 500)
    kinds = [("STU"[int(draw.integers(0, 3))], int(draw.integers(1, 4))) for _ in range(int(draw.integers(2, 4)))]
    if all(minimum == 1 for _, minimum in kinds):
        kinds[0] = (kinds[0][0], 2)
    least = kinds[-1][1]
    tail = [f"<{least}>", f"<{least}:>", f"<{least}:{least + 2}>", "+" if least == 1 else f"<{least}>"][
        int(draw.integers(0, 4))
    ]
    once = seed % 6 == 5
    within = "within 80 milliseconds" if seed % 2 else ""
    events = random_events(seed)
    expected = answers(written_out(kinds, once=once, within=within), events, partitioned=partitioned)
    query = counted(kinds, tail, once=once, within=within)
    cuts = draw.integers(0, len(events), 12).tolist()
    assert answers(query, events, partitioned=partitioned) == expected
    assert answers(query, events, cuts, cuts[:6], partitioned=partitioned) == expected


def test_the_counted_sequences_match() -> None:
    for text, times in {
        "every c=A[v < 4]<2>, d=A[v > 3]<2>, e=B": [1004],
        "every c=A[v < 4]<2>, d=A[v > 3]+": [1002],
        "every c=A[v < 4], d=A[v > 3]<2:>": [1003],
        "every c=A[v < 4]+, d=A[v > 3]<2:3>": [1003],
        "every c=A[v < 4]<2:>, d=A[v > 3]<1:3>, e=A[v > 3], f=B": [1004],
    }.items():
        events = [Event("A", 1000 + place, "x", v) for place, v in enumerate([1, 2, 5, 6])]
        events += [Event("B", 1004, "x", 0)]
        for cuts in ([], range(5)):
            assert [time for time, _ in answers(f"{text} select c[0].v as v", events, cuts, cuts)] == times


@pytest.mark.parametrize("count", ["<2:3>", "<2:>", "<3:5>"])
def test_a_run_between_two_counts_takes_the_events_in_front_of_the_next_element(count: str) -> None:
    least = int(count[1])
    most = int(count[3]) if count[3].isdigit() else 99
    query = f"every c=A{count}, e=B select c[0].v as a, c[last].v as b, e.v as c"
    for run in range(8):
        events = [Event("A", 1000 + v, "x", v) for v in range(run)] + [Event("B", 1100, "x", 50)]
        expected = [(1100, (max(run - most, 0), run - 1, 50))] if run >= least else []
        for cuts in ([], range(len(events))):
            assert answers(query, events, cuts, cuts) == expected


def test_an_event_that_ends_a_run_may_begin_the_next() -> None:
    query = "every c=A[v > 2 and (c[last] is null or v > c[last].v)]<2:>, e=B select c[0].v as a, c[last].v as b"
    events = [Event("A", 1000 + place, "x", v) for place, v in enumerate([3, 6, 8, 4, 5])]
    events.append(Event("B", 1010, "x", 0))
    assert answers(query, events) == [(1010, (4, 5))]


# ---- pairs

Pair = tuple[str, str]


def rounds_of_pairs(events: Sequence[Event], left: str, right: str, within: int | None) -> list[tuple[int, Pair]]:
    """Return the matches of `every (left and right)` over one or two streams, with the first event of each side."""
    matches: list[tuple[int, Pair]] = []
    held: dict[str, Event] = {}
    for event in events:
        if held and within is not None and event.time - min(e.time for e in held.values()) > within:
            held = {}
        for side, text in (("l", left), ("r", right)):
            if side not in held and _fits(event, text):
                held[side] = event
        if len(held) == 2:
            matches.append((event.time, (held["l"].v, held["r"].v)))  # type: ignore[arg-type]
            held = {}
    return matches


def _fits(event: Event, text: str) -> bool:
    stream, _, condition = text.partition("[")
    assert event.v is not None
    bound = int(condition[4]) if condition else 0
    return event.stream == stream and (not condition or (event.v > bound if condition[2] == ">" else event.v < bound))


SIDES = [("A", "B"), ("A[v > 3]", "A[v < 3]"), ("A[v > 2]", "A[v < 5]"), ("A[v > 4]", "B[v < 4]")]


@pytest.mark.parametrize("sides", SIDES)
@pytest.mark.parametrize("form", ["every (e1={} and e2={})", "every e1={} and e2={}", "e1={} and e2={}"])
@pytest.mark.parametrize("within", [None, 30])
@pytest.mark.parametrize("partitioned", [False, True])
def test_a_lone_pair_matches_whichever_side_comes_last(
    sides: Pair,
    form: str,
    within: int | None,
    partitioned: bool,
) -> None:
    limit = "" if within is None else f"within {within} milliseconds"
    query = f"{form.format(*sides)} {limit} select e1.v as a, e2.v as b"
    for seed in range(2):
        events = random_events(seed, "AB", 60)
        found = answers(query, events, [7, 20, 33], [20, 33], partitioned=partitioned)
        expected: list[tuple[int, Pair]] = []
        for key in "xy" if partitioned else ["xy"]:
            own = rounds_of_pairs([event for event in events if event.k in key], *sides, within)
            expected += own if form.startswith("every") else own[:1]
        if form.startswith("every") or within is None:
            assert sorted(found) == sorted(expected)


@pytest.mark.parametrize(("left", "right"), SIDES)
@pytest.mark.parametrize("arrow", ["->", ","])
@pytest.mark.parametrize("place", ["first", "middle", "last", "twice"])
@pytest.mark.parametrize("every", ["", "every "])
def test_a_pair_matches_in_every_place_and_order(left: str, right: str, arrow: str, place: str, every: str) -> None:
    pair, events = f"e1={left} and e2={right}", {"l": _event(left), "r": _event(right)}
    chain, order = {
        "first": (f"{pair} {arrow} e3=C", "*c"),
        "middle": (f"e3=C {arrow} {pair} {arrow} e4=C", "c*c"),
        "last": (f"e3=C {arrow} {pair}", "c*"),
        "twice": (f"{pair} {arrow} e3=C {arrow} e4={left} and e5={right}", "*c*"),
    }[place]
    for sides in itertools.permutations("lr"):
        steps = "".join("".join(sides) if step == "*" else step for step in order)
        row = [Event("C", 0, "x", 0) if step == "c" else events[step] for step in steps]
        timed = [Event(event.stream, 1000 + number, "x", event.v) for number, event in enumerate(row)]
        for cuts in ([], range(len(timed))):
            found = answers(f"{every}{chain} select e1.v as a, e2.v as b", timed, cuts, cuts)
            assert found == [(timed[-1].time, (events["l"].v, events["r"].v))]


def _event(text: str) -> Event:
    """Return an event that only fits this side."""
    value = 6 if ">" in text else 0
    return Event(text[0], 0, "x", value)


@pytest.mark.parametrize(("left", "right"), SIDES)
def test_a_silence_behind_a_pair_counts_from_the_side_that_came_last(left: str, right: str) -> None:
    query = f"every (e1={left} and e2={right}) -> not C for 100 milliseconds select e1.v as a, e2.v as b"
    for first, second in itertools.permutations([_event(left), _event(right)]):
        events = [
            Event(first.stream, 1000, "x", first.v),
            Event(second.stream, 1050, "x", second.v),
            Event("C", 1300, "x", 0),
        ]
        assert [time for time, _ in answers(query, events, [1, 2], [1, 2])] == [1150]


def test_in_a_sequence_an_event_that_fits_neither_side_of_a_pair_ends_it() -> None:
    query = "every e0=C, e1=A[v > 4] and e2=A[v < 2] select e1.v as a, e2.v as b"
    values = [("C", 0), ("A", 5), ("A", 3), ("A", 1), ("C", 0), ("A", 6), ("A", 0)]
    events = [Event(stream, 1000 + place, "x", v) for place, (stream, v) in enumerate(values)]
    for cuts in ([], range(len(events))):
        assert answers(query, events, cuts, cuts) == [(1006, (6, 0))]


def test_a_run_takes_no_event_once_the_match_is_past_the_elements_behind_it() -> None:
    query = "every c=B<2:4> -> d=A<0:1> -> e=B or f=A -> g=C select c[2].v as a, c[last].v as b, e.v as e, g.v as g"
    values = [("B", 0), ("B", 1), ("B", 2), ("C", 3)]
    events = [Event(stream, 1000 + place, "x", v) for place, (stream, v) in enumerate(values)]
    for cuts in ([], range(len(events))):
        assert answers(query, events, cuts, cuts) == [(1003, (None, 1, 2, 3))]
