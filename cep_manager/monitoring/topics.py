"""The topics that a plan's sources read and its sinks write, by what workers say of them. Pure."""

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


class WrittenTopic(msgspec.Struct, frozen=True):
    """A topic that a sink of the plan writes for `stream` at a `worker`: the brokers have `messages` of it.

    Of a sink that delivers in transactions `committed` and `aborted` count those of all its topics, `checkpoint` is
    that of the results that were committed last, and `in_doubt` says that the brokers have not answered the last
    commit. Otherwise `committed` is None. All counts begin with the sink.
    """

    worker: str
    stream: str
    topic: str
    messages: int
    committed: int | None = None
    aborted: int = 0
    checkpoint: int = 0
    in_doubt: bool = False


def topics_written(
    key: PlanKey, workers: tuple[tuple[ClusterMember[RegisterWorker], WorkerPlanReport], ...]
) -> tuple[WrittenTopic, ...]:
    """Return the topics that the plan's sinks have written, in order of topic."""
    found: list[WrittenTopic] = []
    for worker, _ in workers:
        for sink in worker.latest.connectors:
            if (sink.tenant, sink.plan) != (key.tenant, key.plan):
                continue
            transactions = sink.transactions
            counts = (
                ()
                if transactions is None
                else (transactions.committed, transactions.aborted, transactions.checkpoint, transactions.in_doubt)
            )
            found += (
                WrittenTopic(worker.latest.worker, sink.stream, one.topic, one.messages, *counts)
                for one in sink.written
            )
    return tuple(sorted(found, key=lambda one: (one.topic, one.stream, one.worker)))


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
