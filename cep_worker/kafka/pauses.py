"""Which partitions a source does not read now: those that are ahead of others, or all while its plan has no room."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from cep_worker.inflows.inflow import latest_timestamp_ms
from cep_worker.kafka.alignment import PartitionAlignment, Place
from cep_worker.kafka.client import pause
from topology.events.watermarks import NO_WATERMARK

logger = logging.getLogger(__name__)


class Pauses:
    """Pauses and resumes partitions at a consumer. Belongs to the source's thread."""

    def __init__(self, kafka: Any, where: str) -> None:
        """`where` names the source in logs."""
        self._kafka = kafka
        self._where = where
        self._alignment = PartitionAlignment()
        self._ahead: frozenset[Place] = frozenset()
        self._new: set[Place] = set()
        """Partitions that were assigned since: the client may remember that they were paused."""

    def assigned(self, place: Place) -> None:
        """Note that the consumer has got the partition; it may be another consumer than before."""
        self._ahead -= {place}
        self._new.add(place)

    def took(self, place: Place, batch: pa.RecordBatch | None, waited_s: float) -> None:
        """Note that the worker has the events of the partition; arguments as of `PartitionAlignment.took`."""
        newest_ms = None if batch is None else latest_timestamp_ms(batch)
        rows = 0 if batch is None else batch.num_rows
        self._alignment.took(place, NO_WATERMARK if newest_ms is None else newest_ms, rows, waited_s)

    def align(self, consumer: Any, unread: Mapping[Place, bool], waited_s: float) -> frozenset[Place]:
        """Read no partition whose events would wait for too many of others.

        Arguments as of `PartitionAlignment.look`.

        Returns:
            The partitions for which event time must wait.

        Raises:
            KafkaException: the consumer cannot pause or resume them.
        """
        ahead, awaited = self._alignment.look(unread, waited_s)
        stopped, resumed = ahead - self._ahead, self._ahead - ahead
        if stopped:
            consumer.pause(self._places(stopped))
            logger.info("%s: partitions are paused, they are far ahead of others in event time: %s",
                        self._where, _named(stopped))  # fmt: skip
        if again := ((resumed | self._new) & unread.keys()) - ahead:
            consumer.resume(self._places(again))
        if resumed:
            logger.info("%s: partitions are read again: %s", self._where, _named(resumed))
        self._ahead, self._new = ahead, set()
        return awaited

    def pause_all(self, consumer: Any) -> Any:
        """See `cep_worker.kafka.client.pause`."""
        return pause(self._kafka, consumer)

    def resume_all(self, consumer: Any) -> None:
        """Read all partitions again but those that are ahead of others."""
        consumer.resume([one for one in consumer.assignment() if (one.topic, one.partition) not in self._ahead])

    def _places(self, places: Iterable[Place]) -> list[Any]:
        return [self._kafka.TopicPartition(topic, number) for topic, number in places]


def _named(places: Iterable[Place]) -> str:
    return ", ".join(f"{topic}[{number}]" for topic, number in sorted(places))
