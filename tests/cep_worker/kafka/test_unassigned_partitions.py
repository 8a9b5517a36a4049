"""Partitions that no member of a group of static members reads: two checks in a row must find them."""

from __future__ import annotations

import logging
import struct
from types import SimpleNamespace
from typing import Any

import pytest

from cep_worker.kafka.unassigned import CHECK_S, STABLE, UnassignedPartitions, partitions_in, unassigned


class FakeKafkaError(Exception):
    """As the library's, with an error of that name."""

    def __init__(self, name: str) -> None:
        super().__init__(SimpleNamespace(name=lambda: name, str=lambda: "Broker: no"))


KAFKA = SimpleNamespace(KafkaException=FakeKafkaError)
T = struct.pack(">hi", 3, 1) + struct.pack(">h", 1) + b"t"
"""An assignment of partitions of topic t, without their count and numbers."""


class FakeGroup:
    """Brokers with topic t, of three partitions, and one member of the group."""

    def __init__(self) -> None:
        self.assigned = [0]
        self.state = STABLE
        self.failure = ""

    def list_topics(self, topic: str, timeout: float) -> Any:
        return SimpleNamespace(topics={topic: SimpleNamespace(partitions=[0, 1, 2])})

    def list_groups(self, group: str, timeout: float) -> Any:
        if self.failure:
            raise FakeKafkaError(self.failure)
        assignment = T + struct.pack(f">i{len(self.assigned)}ii", len(self.assigned), *self.assigned, -1)
        members = [SimpleNamespace(assignment=one) for one in (assignment, b"")]
        return [SimpleNamespace(id=group, error=None, state=self.state, members=members)]


def checks() -> UnassignedPartitions:
    return UnassignedPartitions(KAFKA, ["t"], "g", "source kafka", 0)


def test_partitions_that_no_member_reads_are_found() -> None:
    assert unassigned({"t": 3, "u": 1}, {("t", 0), ("u", 0), ("u", 7)}) == {("t", 1), ("t", 2)}
    assert unassigned({"t": 1}, {("t", 0)}) == frozenset()


def test_an_assignment_of_several_topics_is_read() -> None:
    other = struct.pack(">h", 3) + b"u.v" + struct.pack(">i", 0)
    both = struct.pack(">hi", 0, 2) + other + T[6:] + struct.pack(">3i", 2, 5, 0)
    assert partitions_in(both) == {("t", 5), ("t", 0)}
    assert partitions_in(b"") == partitions_in(None) == set()


def test_only_what_two_checks_find_is_unassigned() -> None:
    group, watched = FakeGroup(), checks()
    assert watched.check(group, group, CHECK_S) == []
    assert watched.check(group, group, 2 * CHECK_S - 1) == []
    group.assigned = [0, 2]
    assert watched.check(group, group, 2 * CHECK_S) == [("t", 1)]
    group.assigned = [0, 1, 2]
    assert watched.check(group, group, 3 * CHECK_S) == []
    group.assigned = [0]
    assert watched.check(group, group, 4 * CHECK_S) == []


def test_a_group_that_rebalances_has_no_unassigned_partitions() -> None:
    group, watched = FakeGroup(), checks()
    group.state = "PreparingRebalance"
    assert [watched.check(group, group, number * CHECK_S) for number in (1, 2, 3)] == [[], [], []]


@pytest.mark.parametrize(("failure", "logged"), [("GROUP_AUTHORIZATION_FAILED", 1), ("_TIMED_OUT", 0)])
def test_a_check_that_brokers_refuse_is_logged_once(
    caplog: pytest.LogCaptureFixture, failure: str, logged: int
) -> None:
    group, watched = FakeGroup(), checks()
    group.failure = failure
    with caplog.at_level(logging.WARNING):
        assert [watched.check(group, group, number * CHECK_S) for number in (1, 2, 3)] == [[], [], []]
    texts = [one.getMessage() for one in caplog.records]
    assert [one.startswith("source kafka: cannot check whether all partitions are assigned in group g: ")
            for one in texts] == [True] * logged  # fmt: skip
