"""The metrics of a worker at one moment.

Data alone.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Literal

from cep_common.ids import PlanKey
from cep_common.protocol.error_records import LONGEST_TEXT
from cep_common.protocol.registry import WorkerPlanReport
from cep_common.protocol.worker_reports import (
    MOST_PARTITIONS,
    ConnectorReport,
    ListenerReport,
    OrphanReport,
    PartitionReport,
    PreparedResultsReport,
    TransactionReport,
    WalReport,
    WrittenTopicReport,
)
from cep_worker.plans.connectors import DeclaredConnector


@dataclass(frozen=True, slots=True)
class ConnectorMetrics:
    """The metrics of a source or sink, with its plan (empty: an artefact), its stream, and its error, if any."""

    direction: Literal["source", "sink"]
    type: str
    tenant: int
    plan: str
    stream: str
    error: str
    waiting_events: int
    dropped_events: int
    delivered_events: int = 0
    since_ms: int = 0
    partitions: tuple[PartitionReport, ...] = ()
    written: tuple[WrittenTopicReport, ...] = ()
    transactions: TransactionReport | None = None

    @property
    def failing(self) -> bool:
        """Return whether it has an error now."""
        return bool(self.error)

    def report(self) -> ConnectorReport:
        """Return the report for managers."""
        return ConnectorReport(
            direction=self.direction,
            type=self.type,
            tenant=self.tenant,
            plan=self.plan,
            stream=self.stream,
            error=self.error[:LONGEST_TEXT],
            waiting_events=self.waiting_events,
            dropped_events=self.dropped_events,
            delivered_events=self.delivered_events,
            since_ms=self.since_ms,
            partitions=tuple(sorted(self.partitions, key=lambda one: -one.lag)[:MOST_PARTITIONS]),
            written=tuple(sorted(self.written, key=lambda one: -one.messages)[:MOST_PARTITIONS]),
            transactions=self.transactions,
        )


@dataclass(frozen=True, slots=True)
class PreparedResultsMetrics:
    """Results of a plan that wait on disk for their checkpoint or for sinks.

    Attributes:
        events: how many.
        size_bytes: the bytes of their files.
        oldest_ms: how long the oldest has waited.
        lost_events: results that could not be read again.
        damaged_file_bytes: the size of damaged files that were moved aside.
        released_events: those that wait only for sinks.
        maximum_bytes: how much released results may take.
        full: whether they take that much, so that publishers wait.
    """

    events: int = 0
    size_bytes: int = 0
    oldest_ms: int = 0
    lost_events: int = 0
    damaged_file_bytes: int = 0
    released_events: int = 0
    maximum_bytes: int = 0
    full: bool = False

    def report(self) -> PreparedResultsReport:
        """Return the report for managers."""
        return PreparedResultsReport(**dataclasses.asdict(self))


@dataclass(frozen=True, slots=True)
class WalMetrics:
    """The write-ahead log of an imported stream.

    `lost_events` were accepted and cannot be read. It is `full` when nothing more can be stored, for the reason
    `problem`. It has `segments` files of at most `maximum_bytes` together; the oldest event that is still needed is
    `oldest_ms` old. Recycled files take `spare_bytes`, damaged ones that were moved aside `damaged_file_bytes`.
    """

    stream: str
    size_bytes: int
    lost_events: int
    full: bool
    maximum_bytes: int = 0
    segments: int = 0
    oldest_ms: int = 0
    problem: str = ""
    spare_bytes: int = 0
    damaged_file_bytes: int = 0
    secured: bool = True
    """Whether the topology will request none of its events again."""

    def report(self) -> WalReport:
        """Return the report for managers."""
        return WalReport(
            stream=self.stream,
            size_bytes=self.size_bytes,
            maximum_bytes=self.maximum_bytes,
            segments=self.segments,
            oldest_ms=self.oldest_ms,
            lost_events=self.lost_events,
            problem=self.problem,
            damaged_file_bytes=self.damaged_file_bytes,
            secured=self.secured,
        )


@dataclass(frozen=True, slots=True)
class WorkerParts:
    """The parts of a worker other than its plans."""

    connectors: tuple[ConnectorReport, ...] = ()
    listeners: tuple[ListenerReport, ...] = ()
    leaving: bool = False
    orphans: tuple[OrphanReport, ...] = ()


@dataclass(frozen=True, slots=True)
class WorkerMetrics:
    """All metrics of a worker.

    Attributes:
        plans: the report of each plan.
        write_ahead_logs: the logs of plans that keep some.
        prepared: the prepared results of exactly-once plans.
        connectors: its sources and sinks.
        taken: the events accepted for each tenant since the worker started.
        leaving: whether it is shutting down.
        kept: the number of entries in its failed-event store.
        orphans: the data of missing plans.
    """

    plans: tuple[WorkerPlanReport, ...]
    write_ahead_logs: tuple[tuple[PlanKey, WalMetrics], ...]
    prepared: tuple[tuple[PlanKey, PreparedResultsMetrics], ...]
    connectors: tuple[ConnectorMetrics, ...]
    taken: tuple[tuple[int, int], ...]
    leaving: bool
    kept: tuple[tuple[PlanKey, int], ...] = ()
    orphans: tuple[OrphanReport, ...] = ()


def connector_metrics(
    direction: Literal["source", "sink"],
    declared: DeclaredConnector,
    error: str,
    waiting_events: int = 0,
    dropped_events: int = 0,
    delivered_events: int = 0,
    partitions: tuple[PartitionReport, ...] = (),
    written: tuple[WrittenTopicReport, ...] = (),
    transactions: TransactionReport | None = None,
) -> ConnectorMetrics:
    """Return the metrics of a connector; `error` is empty if it has none."""
    return ConnectorMetrics(
        direction=direction,
        type=declared.connector.type,
        tenant=declared.stream.tenant(),
        plan=declared.key.plan if declared.key is not None else "",
        stream=declared.connector.stream,
        error=error,
        waiting_events=waiting_events,
        dropped_events=dropped_events,
        delivered_events=delivered_events,
        partitions=partitions,
        written=written,
        transactions=transactions,
    )
