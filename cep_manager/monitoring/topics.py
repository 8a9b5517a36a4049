"""The topics that a plan's sources read, by what workers say of them. Pure."""

from __future__ import annotations

import msgspec

from cep_common.ids import PlanKey
from cep_common.protocol.registry import RegisterWorker, WorkerPlanReport
from cep_manager.control.members import ClusterMember


class TopicPartition(msgspec.Struct, frozen=True):
    """A partition that a source of the plan reads for `stream` at a `worker`.

    Events before `position` are in the worker's log, those before `committed` are committed at the brokers, the next
    message has the offset `end` (-1: not known yet), and `lag` messages are not read.
    """

    worker: str
    stream: str
    topic: str
    partition: int
    position: int
    committed: int
    end: int
    lag: int


def topics_read(
    key: PlanKey, workers: tuple[tuple[ClusterMember[RegisterWorker], WorkerPlanReport], ...]
) -> tuple[TopicPartition, ...]:
    """Return the partitions that the plan's sources read, in order of topic and partition."""
    found = [
        TopicPartition(
            worker.latest.worker, source.stream, one.topic, one.partition, one.position, one.committed, one.end, one.lag
        )
        for worker, _ in workers
        for source in worker.latest.connectors
        if (source.tenant, source.plan) == (key.tenant, key.plan)
        for one in source.partitions
    ]
    return tuple(sorted(found, key=lambda one: (one.topic, one.partition, one.stream, one.worker)))
