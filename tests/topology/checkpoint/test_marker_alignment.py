"""Aligning markers: a snapshot holds what all producers sent before their markers, and nothing that they sent later."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from topology.acks import Ack
from topology.checkpoint.alignment import Aligned, Aligner, Step
from topology.events.bundle import Bundle


def bundle(source: str, ticket: int) -> Bundle:
    return Bundle(source, source, ticket)


def pushed(aligner: Aligner, *bundles: Bundle) -> list[Step]:
    return [step for one in bundles for step in aligner.push(one)]


def test_what_follows_a_marker_waits_until_all_markers_have_come() -> None:
    aligner = Aligner.of(["a", "b"])
    assert pushed(aligner, bundle("a", 0), Bundle.marker("a", 7), bundle("a", 1), bundle("b", 0)) == [
        bundle("a", 0),
        bundle("b", 0),
    ]
    assert aligner.is_waiting()
    assert pushed(aligner, Bundle.marker("b", 7)) == [Aligned(7), bundle("a", 1)]
    assert not aligner.is_waiting()


def test_one_producer_need_not_wait_for_anybody() -> None:
    assert pushed(Aligner.of(["a"]), Bundle.marker("a", 1), bundle("a", 0)) == [Aligned(1), bundle("a", 0)]


def test_a_checkpoint_that_is_given_up_holds_nothing_back_nor_do_its_markers_that_come_later() -> None:
    aligner = Aligner.of(["a", "b"])
    pushed(aligner, Bundle.marker("a", 1), bundle("a", 0))
    assert aligner.abandon(1) == [bundle("a", 0)]
    assert pushed(aligner, Bundle.marker("b", 1), bundle("b", 0)) == [bundle("b", 0)]
    assert pushed(aligner, Bundle.marker("b", 2), Bundle.marker("a", 2)) == [Aligned(2)]


def test_a_later_marker_of_a_producer_says_that_the_earlier_one_will_not_come() -> None:
    aligner = Aligner.of(["a", "b"])
    steps = pushed(aligner, Bundle.marker("a", 1), bundle("a", 0), Bundle.marker("a", 2), Bundle.marker("b", 2))
    assert steps == [bundle("a", 0), Aligned(2)]


def test_markers_are_settled_here_and_bundles_that_wait_are_not() -> None:
    settled: list[str] = []
    aligner = Aligner.of(["a", "b"])
    marker = Bundle("a", "a", -1, receipt=Ack(lambda: settled.append("marker")), checkpoint=1)
    held = Bundle("a", "a", 0, receipt=Ack(lambda: settled.append("bundle")))
    pushed(aligner, marker, held)
    assert settled == ["marker"]


@settings(deadline=None)
@given(st.data(), st.integers(1, 3), st.integers(1, 4))
def test_whatever_comes_first_each_snapshot_divides_every_producers_bundles_at_its_marker(
    data: st.DataObject, producers: int, checkpoints: int
) -> None:
    names = [f"p#{index}" for index in range(producers)]
    ways = {name: [] for name in names}
    for name in names:
        for checkpoint in range(1, checkpoints + 1):
            count = data.draw(st.integers(0, 3))
            ways[name] += [bundle(name, 10 * checkpoint + index) for index in range(count)]
            ways[name].append(Bundle.marker(name, checkpoint))
    aligner, steps = Aligner.of(names), []
    while any(ways.values()):
        name = data.draw(st.sampled_from([name for name in names if ways[name]]))
        steps += aligner.push(ways[name].pop(0))
    reached = 1
    for step in steps:
        if isinstance(step, Aligned):
            assert step.checkpoint == reached
            reached += 1
        else:
            assert step.ticket // 10 == reached
    assert reached == checkpoints + 1
    assert not aligner.is_waiting()


@pytest.mark.parametrize("number", [1, 2])
def test_a_marker_that_comes_again_is_of_no_interest(number: int) -> None:
    aligner = Aligner.of(["a"])
    pushed(aligner, Bundle.marker("a", 2))
    assert pushed(aligner, Bundle.marker("a", number)) == []
