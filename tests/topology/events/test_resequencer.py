"""Bundles of parallel instances go back into their origin's order."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from topology_builders import bundle

from topology.events.bundle import Bundle
from topology.events.resequencer import Resequencer


def ticket(number: int, origin: str = "o", source: str = "") -> Bundle:
    return bundle(("S", [(number, number)]), origin=origin, ticket=number, source=source)


@pytest.mark.thorough
@given(st.data())
@settings(deadline=None)
def test_any_order_of_arrival_gives_each_origins_order(data: st.DataObject) -> None:
    ways = data.draw(st.dictionaries(st.sampled_from(["o", "p"]), st.integers(1, 3), min_size=1))
    sent = [
        ticket(number, origin, f"{origin} way {way}")
        for origin, count in ways.items()
        for number in range(data.draw(st.integers(0, 6)))
        for way in range(count)
    ]
    resequencer = Resequencer(ways)
    got: list[Bundle] = []
    for one in data.draw(st.permutations(sent)):
        got += resequencer.push(one)
        assert resequencer.held_rows() + sum(bundle.rows() for bundle in got) <= len(sent)
    assert resequencer.held_rows() == 0
    for origin in ways:
        mine = [one for one in got if one.origin == origin]
        assert mine == sorted(mine, key=lambda one: (one.ticket, one.source))
    assert len(got) == len(sent)


def test_nothing_goes_before_its_predecessor_is_complete() -> None:
    resequencer = Resequencer({"o": 2})
    assert resequencer.push(ticket(1, source="a")) == []
    assert resequencer.push(ticket(1, source="b")) == []
    assert resequencer.push(ticket(0, source="b")) == []
    assert resequencer.held_rows() == 3
    released = resequencer.push(ticket(0, source="a"))
    assert [(one.ticket, one.source) for one in released] == [(0, "a"), (0, "b"), (1, "a"), (1, "b")]


def test_an_origin_with_one_direct_way_is_not_held() -> None:
    resequencer = Resequencer({"o": 1})
    late = ticket(9, origin="direct")
    assert resequencer.push(late) == [late]
    assert resequencer.held_rows() == 0
