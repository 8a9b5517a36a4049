"""The partitions that a source reads: start, progress, and reports.

Workers share the partitions as members of a consumer group. Membership only determines which worker reads which
partition; where from is decided by what the worker's log has (`positions`). Lives on the source's thread; `reports` may
be read by any.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from cep_common.protocol.worker_reports import PartitionReport
from cep_worker.kafka.positions import (
    KnownPosition,
    OutOfRangeError,
    Position,
    Reset,
    in_range,
    mark,
    marked_position,
    start,
)
from cep_worker.kafka.positions import source_of as origin_of
from cep_worker.kafka.topic_ids import TopicIds

logger = logging.getLogger(__name__)

CALL_S = 10.0
"""How long requests to the brokers may take while partitions are assigned."""
COMMIT_S = 1.0

TopicPartition = tuple[str, int]


@dataclass(slots=True)
class Reading:
    """A partition that is read; `origin` is by what the log knows its batches."""

    origin: bytes
    position: Position
    committed: Position | None = None
    committing: Position | None = None
    """What may be committed with the next tick: the log has it on the disk by then."""
    end: int = -1
    ended: bool = False
    """All that there is was read. Offsets do not show it while a transaction is open: its messages have some, too."""


@dataclass(frozen=True, slots=True)
class Reader:
    """What a source reads, and its credentials.

    `listed` partitions alone, if any, from `offsets` (by topic) or where `reset` says if they were never read.
    """

    plan: str
    stream: str
    listed: Collection[int]
    offsets: Mapping[str, int]
    reset: Reset
    commits: bool
    waits: bool
    """For the brokers' answer to a commit."""
    safe_s: float
    """The time after which accepted messages are on disk, in seconds."""
    cluster: str = ""
    """The id of the brokers' cluster: topics of one name at two clusters are different topics."""


class Readings:
    """The partitions that are assigned to one consumer, and those that were."""

    def __init__(
        self,
        kafka: Any,
        reader: Reader,
        newest: Callable[[Sequence[bytes]], list[int | None]],
        tell: Callable[[str, int], None],
        joined: Callable[[str, int, bool], None],
        ids: TopicIds,
        other: Any = None,
    ) -> None:
        """`newest` asks the worker's log, `tell` gets what a user should know and how many messages are gone.

        `other` is a consumer that reads nothing: what is committed is committed to its group, too, and found there. One
        of the two groups is the plan's own, in which no stranger commits. `joined` is called for each partition that is
        assigned, with whether it has unread messages. There is no call for those that go: with each change of the group
        all of them go and most come back, and event time must not overtake a partition because of that.
        """
        self._kafka = kafka
        self._reader = reader
        self._newest = newest
        self._tell = tell
        self._joined = joined
        self._ids = ids
        self._other = other
        self._readings: dict[TopicPartition, Reading] = {}
        self._former: dict[TopicPartition, Position] = {}
        """The positions of partitions that another consumer reads now."""
        self._commit_at = 0.0
        self.reports: tuple[PartitionReport, ...] = ()

    def reading(self, topic: str, partition: int) -> Reading | None:
        """Return the partition, if it is read here now."""
        return self._readings.get((topic, partition))

    def unread(self) -> int:
        """Return how many messages are not read yet, as far as is known."""
        return sum(max(0, one.end - one.position.offset) for one in self._readings.values())

    def have_unread(self) -> dict[TopicPartition, bool]:
        """Return for each partition whether it has messages that are not read yet, as far as is known."""
        return {place: not one.ended and one.end > one.position.offset for place, one in self._readings.items()}

    def assigned(self, consumer: Any, partitions: list[Any]) -> None:
        """As `on_assign` of the library. Raises KafkaException, InputError, OutOfRangeError: nothing is read then."""
        wanted = [one for one in partitions if not self._reader.listed or one.partition in self._reader.listed]
        reader = self._reader
        places = [(reader.plan, reader.stream, one.topic, one.partition) for one in wanted]
        origins = [origin_of(*place, reader.cluster) for place in places]
        newest = self._newest([*origins, *(origin_of(*place) for place in places)]) if wanted else []
        groups = [one for one in (consumer, self._other) if one is not None]
        committed = [one.committed(wanted, timeout=CALL_S) if wanted else [] for one in groups]
        found: dict[TopicPartition, Reading] = {}
        numbers = zip(newest[: len(wanted)], newest[len(wanted) :], strict=True)
        for one, origin, both, *offsets in zip(wanted, origins, numbers, *committed, strict=True):
            found[one.topic, one.partition] = self._begin(consumer, one, origin, both, offsets)
        self._readings = found
        consumer.assign([self._at(topic, number, one.position) for (topic, number), one in found.items()])
        for (topic, number), is_unread in self.have_unread().items():
            self._joined(topic, number, is_unread)
        names = ", ".join(f"{topic}[{number}]@{one.position.offset}" for (topic, number), one in found.items())
        logger.info("partitions assigned: plan=%s stream=%s partitions=%s",
                    self._reader.plan, self._reader.stream, names or "none")  # fmt: skip
        self._report()
        self.commit(consumer, at_once=True)

    def revoked(self, consumer: Any, _partitions: list[Any]) -> None:
        """As `on_revoke`: all partitions go, perhaps to another worker, which continues where this one is."""
        try:
            self.commit(consumer, at_once=True)
        except self._kafka.KafkaException as error:  # the next reader gets some messages again
            logger.warning("offsets cannot be committed: plan=%s reason=%s", self._reader.plan, error.args[0].str())
        self.lost(consumer, _partitions)

    def lost(self, consumer: Any, _partitions: list[Any]) -> None:
        """As `on_lost`: the group has given the partitions to others already."""
        for (topic, number), one in self._readings.items():
            self._former[topic, number] = one.position
        self._readings = {}
        self._report()

    def took(self, topic: str, partition: int, position: Position) -> None:
        """Note that the log has all messages before the position."""
        one = self._readings.get((topic, partition))
        if one is not None:
            one.position = max(one.position, position)
            one.ended = False

    def reached_end(self, topic: str, partition: int, reading: Reading, end: Position) -> None:
        """Note that all before `end` is read: marks of transactions, and what was aborted, are no messages.

        Unless the partition was given away since `reading` came there, or begun again: it may be behind that end now.
        """
        one = self._readings.get((topic, partition))
        if one is reading and one.position.generation == end.generation:
            one.position = max(one.position, end)
            one.end = max(one.end, end.offset)
            one.ended = True

    def out_of_range(self, consumer: Any, topic: str, partition: int) -> None:
        """Continue where `reset` says if the brokers have no message at the partition's position.

        Raises KafkaException and OutOfRangeError.
        """
        one = self._readings.get((topic, partition))
        if one is None:
            return
        low, high = consumer.get_watermark_offsets(self._kafka.TopicPartition(topic, partition), timeout=CALL_S)
        try:
            found = in_range(one.position, low, high, self._reader.reset)
        except OutOfRangeError as error:
            raise OutOfRangeError(f"{topic}[{partition}]: {error}") from error
        if found.note:
            self._tell(f"{topic}[{partition}]: {found.note}", found.lost)
        one.position = found.position
        self._ids.note_generation(topic, found.position.generation)
        consumer.seek(self._at(topic, partition, found.position))

    def tick(self, consumer: Any) -> None:
        """Commit now and then, and report."""
        for (topic, number), one in self._readings.items():
            _, high = consumer.get_watermark_offsets(self._kafka.TopicPartition(topic, number), cached=True)
            one.end = max(high, one.end, one.position.offset) if high >= 0 else one.end
        if time.monotonic() >= self._commit_at:
            self._commit_at = time.monotonic() + max(COMMIT_S, self._reader.safe_s)
            self.commit(consumer)
        self._report()

    def commit(self, consumer: Any, *, at_once: bool = False) -> None:
        """Commit the log's position in each partition to the brokers.

        As it was with the last call, since that is on the disk by now, or `at_once` as it is. Raises KafkaException.
        """
        offsets, positions = [], []
        for (topic, number), one in self._readings.items():
            wanted = one.position if at_once else one.committing
            one.committing = one.position
            if wanted is not None and wanted != one.committed and (one.committed is None or wanted > one.committed):
                positions.append((one, wanted))
                offsets.append(self._at(topic, number, wanted))
        if not offsets or not self._reader.commits:
            return
        consumer.commit(offsets=offsets, asynchronous=not (self._reader.waits or at_once))
        for one, position in positions:
            one.committed = position
        if self._other is not None:
            with suppress(self._kafka.KafkaException):  # a group whose members are others takes no commit of ours
                self._other.commit(offsets=offsets, asynchronous=not at_once)
                self._other.poll(0)

    def _begin(
        self,
        consumer: Any,
        one: Any,
        origin: bytes,
        numbers: tuple[int | None, int | None],
        committed: Sequence[Any],
    ) -> Reading:
        """Decide where to read the partition from.

        Args:
            consumer: Asked for the offsets that there are.
            one: The partition.
            origin: By what the log knows its batches.
            numbers: What the log has under the origin, and under the one that names no cluster.
            committed: What is committed, in each group.
        """
        reader = self._reader
        low, high = consumer.get_watermark_offsets(one, timeout=CALL_S)
        marked = unmarked = None
        for place in (each for each in committed if each.offset >= 0):
            position = marked_position(reader.plan, reader.stream, place.metadata, place.offset)
            if position is None:
                unmarked = place.offset
            elif marked is None or position > marked:
                marked = position
        number, before = numbers
        if number is None and before is not None and self._is_ours(one.topic, marked is not None):
            number = before
        own = [self._former.get((one.topic, one.partition)), None if number is None else Position.behind(number)]
        # Siddhi begins behind the offset that `topic.offsets.map` names.
        wanted = reader.offsets[one.topic] + 1 if one.topic in reader.offsets else None
        known = KnownPosition(
            low,
            high,
            max((each for each in own if each is not None), default=None),
            marked,
            unmarked,
            None if wanted is None else max(low, min(wanted, high)),
            self._ids.generation(one.topic),
        )
        try:
            found = start(known, reader.reset)
        except OutOfRangeError as error:
            raise OutOfRangeError(f"{one.topic}[{one.partition}]: {error}") from error
        if found.note:
            self._tell(f"{one.topic}[{one.partition}]: {found.note}", found.lost)
        self._ids.note_generation(one.topic, found.position.generation)
        return Reading(origin, found.position, marked, end=high)

    def _is_ours(self, topic: str, is_marked: bool) -> bool:
        """Return whether a position that names no cluster is one of this cluster's topic.

        Where ids of topics do not tell, commits do: with such a position its reader left a mark at the cluster.
        """
        had = self._ids.had(topic)
        return had if had is not None else is_marked or not self._reader.commits

    def _at(self, topic: str, partition: int, position: Position) -> Any:
        metadata = mark(self._reader.plan, self._reader.stream, position.generation)
        return self._kafka.TopicPartition(topic, partition, position.offset, metadata)

    def _report(self) -> None:
        self.reports = tuple(
            PartitionReport(
                topic, number, one.position.offset, -1 if one.committed is None else one.committed.offset, one.end
            )
            for (topic, number), one in sorted(self._readings.items())
        )
