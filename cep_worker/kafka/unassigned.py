"""Finds partitions that no member of a group of static members reads.

Brokers give a static member that returns what it had, without a rebalance. If it led the group, no member has noticed
partitions that were added meanwhile. Brokers rebalance when the leader joins again.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Collection, Mapping
from typing import Any

from cep_worker.kafka.client import WEAK, explained

logger = logging.getLogger(__name__)

CHECK_S = 10.0
"""How often the assignments of the group are compared with the partitions of its topics."""
METADATA_S = 1.0
LIST_S = 2.0
"""How long a check waits for the brokers: nothing is read meanwhile, but the client goes on sending heartbeats."""

STABLE = "Stable"
"""The state of a group that does not rebalance."""

Partition = tuple[str, int]


class UnassignedPartitions:
    """Compares the assignments of `group` with the partitions of `topics`, from `now_s` on; `where` is for the log."""

    def __init__(self, kafka: Any, topics: Collection[str], group: str, where: str, now_s: float) -> None:
        self._kafka = kafka
        self._topics = topics
        self._group = group
        self._where = where
        self._checked_s = now_s
        self._found: frozenset[Partition] = frozenset()
        self._problem = ""

    def check(self, consumer: Any, admin: Any, now_s: float) -> list[Partition]:
        """Return the partitions that were unassigned in this check and in the one before, if it is time for a check.

        One check is not enough: a group that has just been rebalanced may have such partitions for a moment.
        """
        if now_s - self._checked_s < CHECK_S:
            return []
        self._checked_s = now_s
        before, self._found = self._found, frozenset()
        problem = ""
        try:
            self._found = self._unassigned(consumer, admin)
        except self._kafka.KafkaException as error:
            if error.args[0].name() not in WEAK:  # the consumer itself reports brokers that do not answer
                problem = explained(error.args[0])
        if problem and problem != self._problem:
            what = f"cannot check whether all partitions are assigned in group {self._group}"
            logger.warning("%s: %s: %s", self._where, what, problem)
        self._problem = problem
        return sorted(before & self._found)

    def _unassigned(self, consumer: Any, admin: Any) -> frozenset[Partition]:
        known = {topic: consumer.list_topics(topic, timeout=METADATA_S).topics[topic] for topic in self._topics}
        counts = {topic: len(one.partitions) for topic, one in known.items()}
        # Not `describe_consumer_groups`: when the group's broker dies, librdkafka may abort the process (issue 4605).
        for group in admin.list_groups(self._group, timeout=LIST_S):
            if group.error is not None:
                raise self._kafka.KafkaException(group.error)
            if group.state == STABLE:
                assigned = {one for member in group.members for one in partitions_in(member.assignment)}
                return unassigned(counts, assigned)
        return frozenset()


def partitions_in(assignment: bytes | None) -> set[Partition]:
    """Return the partitions in a member's assignment, as consumers of all clients write it.

    That is a version (2 bytes), a count of topics (4) and, for each, its name after its length (2), a count of
    partitions (4) and their numbers (4 each); anything may follow. It is empty when a member has none.
    """
    found: set[Partition] = set()
    if not assignment:
        return found
    place, topics = 6, struct.unpack_from(">i", assignment, 2)[0]
    for _ in range(topics):
        length = struct.unpack_from(">h", assignment, place)[0]
        topic = assignment[place + 2 : place + 2 + length].decode()
        place += 2 + length
        count = struct.unpack_from(">i", assignment, place)[0]
        found.update((topic, number) for number in struct.unpack_from(f">{count}i", assignment, place + 4))
        place += 4 + 4 * count
    return found


def unassigned(counts: Mapping[str, int], assigned: Collection[Partition]) -> frozenset[Partition]:
    """Return the partitions of topics with so many partitions that no member of a group reads."""
    every = {(topic, number) for topic, count in counts.items() for number in range(count)}
    return frozenset(every - {*assigned})
