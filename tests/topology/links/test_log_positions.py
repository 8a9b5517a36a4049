"""How far workers' logs have been taken, and what of it checkpoints hold."""

from __future__ import annotations

import pytest

from topology.errors import TopologyError
from topology.links.positions import Positions


def test_what_was_taken_before_is_not_taken_again() -> None:
    positions = Positions()
    assert positions.take("w/S", "log", 3)
    assert not positions.take("w/S", "log", 3)
    assert not positions.take("w/S", "log", 2)
    assert positions.take("w/S", "log", 4)
    assert positions.of("w/S", "log") == 4


def test_a_log_that_was_begun_anew_begins_at_its_first_position() -> None:
    positions = Positions()
    positions.take("w/S", "old", 100)
    assert positions.of("w/S", "new") == 0
    assert positions.take("w/S", "new", 1)


def test_events_that_are_in_no_log_are_always_taken() -> None:
    positions = Positions()
    assert positions.take("w/S", "", 0)
    assert positions.take("w/S", "", 0)
    assert Positions.restored([positions.snapshot()]).taken == {}


def test_secured_is_what_a_complete_checkpoint_holds() -> None:
    positions = Positions()
    positions.take("w/S", "log", 3)
    positions.mark(1)
    positions.take("w/S", "log", 9)
    positions.mark(2)
    assert positions.secured_of("w/S", "log") == 0
    positions.complete(1)
    assert positions.secured_of("w/S", "log") == 3
    positions.abandon(2)
    positions.complete(2)
    assert positions.secured_of("w/S", "log") == 3


def test_receivers_begin_from_the_farthest_that_any_of_them_had_taken() -> None:
    one, other = Positions(), Positions()
    one.take("w/S", "log", 5)
    one.take("v/S", "v", 1)
    other.take("w/S", "log", 8)
    both = Positions.restored([one.snapshot(), other.snapshot()])
    assert (both.of("w/S", "log"), both.of("v/S", "v")) == (8, 1)
    assert both.secured_of("w/S", "log") == 8


@pytest.mark.parametrize("turned", [False, True])
def test_a_log_that_was_begun_anew_is_known_whichever_receiver_still_remembers_the_former_one(turned: bool) -> None:
    before = Positions()
    before.take("w/S", "old", 5_000)
    one, other = (Positions.restored([before.snapshot()]) for _ in range(2))
    one.take("w/S", "new", 7)
    assert [position.log for position in one.taken.values()] == ["new"]
    both = Positions.restored([other.snapshot(), one.snapshot()] if turned else [one.snapshot(), other.snapshot()])
    assert both.of("w/S", "new") == 7
    assert both.of("w/S", "old") == 5_000


def test_what_goes_to_another_topology_is_taken_there_and_no_more_secured_than_before() -> None:
    former = Positions()
    former.take("w/S", "log", 3)
    former.mark(1)
    former.take("w/S", "log", 9)
    former.complete(1)
    following = Positions.restored([former.snapshot()], [former.secured_snapshot()])
    assert (following.of("w/S", "log"), following.secured_of("w/S", "log")) == (9, 3)
    following.mark(2)
    following.complete(2)
    assert following.secured_of("w/S", "log") == 9


def test_a_state_that_is_none_is_refused() -> None:
    with pytest.raises(TopologyError, match="positions"):
        Positions.restored([b"\xc1"])


def test_logs_are_kept_back_to_the_oldest_checkpoint_that_is_retained() -> None:
    positions = Positions()
    told = []
    for checkpoint in range(1, 6):
        positions.take("w/S", "log", 10 * checkpoint)
        positions.mark(checkpoint)
        positions.complete(checkpoint, max(1, checkpoint - 2))
        told.append((positions.secured_of("w/S", "log"), positions.unneeded_of("w/S", "log")))
    assert told == [(10, 10), (20, 10), (30, 10), (40, 20), (50, 30)]
    restored = Positions.restored([positions.snapshot()])
    restored.mark(6)
    restored.complete(6, 4)
    assert restored.unneeded_of("w/S", "log") == 0, "what a checkpoint of a former attempt holds is unknown"
    restored.complete(6, 6)
    assert restored.unneeded_of("w/S", "log") == 50
