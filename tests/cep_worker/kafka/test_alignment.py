"""Partitions that are ahead of others in event time wait for them: how many rows that are, and who waits for whom."""

from __future__ import annotations

import random

import pytest

from cep_worker.kafka.alignment import PartitionAlignment, Place

A, B, C = ("t", 0), ("t", 1), ("t", 2)


def test_a_partition_that_is_far_ahead_waits_until_the_others_have_caught_up() -> None:
    alignment = PartitionAlignment(most_rows=10)
    alignment.took(A, 100, 6, 0.0)
    alignment.took(A, 200, 6, 0.0)
    assert alignment.look({A: True, B: True}, 0.0)[0] == {A}, "B has given nothing, and has messages"
    alignment.took(B, 99, 1, 0.0)
    assert alignment.look({A: True, B: True}, 0.0)[0] == {A}
    alignment.took(B, 100, 1, 0.0)
    assert alignment.look({A: True, B: True}, 0.0)[0] == {A}, "six rows of twelve are ahead, more than half of ten"
    alignment.took(B, 200, 1, 0.0)
    assert alignment.look({A: True, B: True}, 0.0)[0] == set()


def test_few_rows_may_be_any_time_ahead() -> None:
    alignment = PartitionAlignment(most_rows=10)
    alignment.took(A, 10**12, 10, 0.0)
    alignment.took(B, 1, 1, 0.0)
    assert alignment.look({A: True, B: True}, 0.0)[0] == set()


def test_a_partition_whose_messages_are_all_read_holds_up_no_other() -> None:
    alignment = PartitionAlignment(most_rows=10)
    alignment.took(A, 100, 20, 0.0)
    alignment.took(B, 1, 1, 0.0)
    assert alignment.look({A: True, B: False}, 0.0) == (set(), {A})
    assert alignment.look({A: False, B: False}, 0.0) == (set(), set())


def test_a_partition_that_gives_none_of_its_messages_holds_up_others_for_a_while() -> None:
    alignment = PartitionAlignment(most_rows=10, stalled_s=5.0)
    alignment.took(A, 100, 20, 0.0)
    alignment.took(B, 1, 1, 0.0)
    assert alignment.look({A: True, B: True}, 4.9) == ({A}, {A, B})
    assert alignment.look({A: True, B: True}, 5.0) == (set(), {A}), "its leader is away, for example"
    alignment.took(A, 300, 20, 5.1)
    alignment.took(B, 2, 1, 5.2)
    assert alignment.look({A: True, B: True}, 5.2)[0] == {A}


def test_time_waits_for_a_partition_that_gets_messages_after_a_long_silence() -> None:
    """It was silent because it had nothing to give, not because it is stalled."""
    alignment = PartitionAlignment(most_rows=10, stalled_s=5.0)
    alignment.took(A, 100, 1, 0.0)
    alignment.took(B, 100, 1, 0.0)
    assert alignment.look({A: False, B: False}, 60.0)[1] == set()
    alignment.took(A, 200, 1, 60.1)
    assert alignment.look({A: True, B: True}, 60.1)[1] == {A, B}
    assert alignment.look({A: True, B: True}, 66.0)[1] == set(), "now it is stalled"


def test_time_waits_for_a_partition_that_comes_back_after_a_long_time() -> None:
    alignment = PartitionAlignment(most_rows=10, stalled_s=5.0)
    alignment.took(A, 100, 1, 0.0)
    assert alignment.look({B: True}, 60.0)[1] == {B}
    assert alignment.look({A: True, B: True}, 60.0)[1] == {A, B}


def test_rows_still_count_when_a_partition_comes_back_after_a_rebalance() -> None:
    alignment = PartitionAlignment(most_rows=10)
    alignment.took(A, 100, 20, 0.0)
    assert alignment.look({}, 0.0)[0] == set()
    assert alignment.look({A: True, B: True}, 0.0)[0] == {A}


@pytest.mark.parametrize("seed", range(50))
def test_rows_that_wait_are_bounded_and_all_are_read(seed: int) -> None:
    """Batches of random size from partitions at random distances, of which the client gives one at a time."""
    chance = random.Random(seed)  # noqa: S311 - a simulation
    most, batch = chance.randrange(1, 200), chance.randrange(1, 50)
    times: dict[Place, list[int]] = {
        place: sorted(chance.randrange(100_000 * chance.randrange(1, 4)) for _ in range(chance.randrange(1, 2_000)))
        for place in (A, B, C)
    }
    left = {place: list(reversed(one)) for place, one in times.items()}
    alignment = PartitionAlignment(most)
    newest = dict.fromkeys(left, -1)
    taken: dict[Place, list[int]] = {place: [] for place in left}
    while any(left.values()):
        ahead, awaited = alignment.look({place: bool(one) for place, one in left.items()}, 0.0)
        assert awaited == {place for place, one in left.items() if one}
        readable = [place for place, one in left.items() if one and place not in ahead]
        assert readable, "all wait for each other"
        place = chance.choice(readable)
        some = [left[place].pop() for _ in range(min(batch, len(left[place])))]
        taken[place] += some
        newest[place] = some[-1]
        alignment.took(place, some[-1], len(some), 0.0)
        behind = min((newest[other] for other in left if left[other]), default=10**9)
        for other, rows in taken.items():
            # Batches count as a whole, by their newest row.
            assert sum(one > behind for one in rows) <= most + 2 * batch, other
    assert taken == times
