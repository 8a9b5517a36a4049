"""What a worker tells of itself at one moment. Data alone."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Literal

from cep_common.error_records import LONGEST_TEXT
from cep_common.ids import PlanKey
from cep_common.messages import WorkerPlanReport
from cep_common.worker_reports import (
    MOST_PARTITIONS,
    AsideReport,
    ConnectorReport,
    HeldReport,
    ListenerReport,
    PartitionReport,
    SpoolReport,
)
from cep_worker.plans.connectors import Declared


@dataclass(frozen=True, slots=True)
class ConnectorFigures:
    """A source or sink: the plan that declares it (empty: a file does), its stream, and what is wrong (empty:
    nothing)."""

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

    @property
    def failing(self) -> bool:
        """Something is wrong with it now."""
        return bool(self.error)

    def report(self) -> ConnectorReport:
        """What managers are told of it."""
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
        )


@dataclass(frozen=True, slots=True)
class HeldFigures:
    """Results of a plan that wait on disk, for their checkpoint or for sinks: events, the bytes of their files, and for
    how long the oldest have waited. `lost_events` turned out to be unreadable; damaged files that were set aside take
    `set_aside_bytes`. `released_events` wait for sinks alone, in `maximum_bytes` at most; it is `full` when they take
    these."""

    events: int = 0
    size_bytes: int = 0
    oldest_ms: int = 0
    lost_events: int = 0
    set_aside_bytes: int = 0
    released_events: int = 0
    maximum_bytes: int = 0
    full: bool = False

    def report(self) -> HeldReport:
        """What managers are told of it."""
        return HeldReport(**dataclasses.asdict(self))


@dataclass(frozen=True, slots=True)
class SpoolFigures:
    """The log of an imported stream: its bytes on disk, events that were accepted and turned out to be unreadable,
    whether nothing more can be stored now, and why. It has `segments` files of at most `maximum_bytes` together; the
    oldest event that is still needed has been there for `oldest_ms`. Files to be written over take `spare_bytes`,
    damaged ones that were set aside `set_aside_bytes`."""

    stream: str
    size_bytes: int
    lost_events: int
    full: bool
    maximum_bytes: int = 0
    segments: int = 0
    oldest_ms: int = 0
    problem: str = ""
    spare_bytes: int = 0
    set_aside_bytes: int = 0
    secured: bool = True
    """The topology will ask for none of its events again."""

    def report(self) -> SpoolReport:
        """What managers are told of it."""
        return SpoolReport(
            stream=self.stream,
            size_bytes=self.size_bytes,
            maximum_bytes=self.maximum_bytes,
            segments=self.segments,
            oldest_ms=self.oldest_ms,
            lost_events=self.lost_events,
            problem=self.problem,
            set_aside_bytes=self.set_aside_bytes,
            secured=self.secured,
        )


@dataclass(frozen=True, slots=True)
class WorkerParts:
    """What a worker has beside its plans."""

    connectors: tuple[ConnectorReport, ...] = ()
    listeners: tuple[ListenerReport, ...] = ()
    leaving: bool = False
    aside: tuple[AsideReport, ...] = ()


@dataclass(frozen=True, slots=True)
class WorkerFigures:
    """`spools` is told of plans that keep logs, `held` of plans that deliver exactly once. `taken` are the events that
    were taken in for each tenant since the worker started; `kept` are the entries of its error store, `aside` what is
    set aside of plans that are missing."""

    plans: tuple[WorkerPlanReport, ...]
    spools: tuple[tuple[PlanKey, SpoolFigures], ...]
    held: tuple[tuple[PlanKey, HeldFigures], ...]
    connectors: tuple[ConnectorFigures, ...]
    taken: tuple[tuple[int, int], ...]
    leaving: bool
    kept: tuple[tuple[PlanKey, int], ...] = ()
    aside: tuple[AsideReport, ...] = ()


def figures_of(
    direction: Literal["source", "sink"],
    declared: Declared,
    error: str,
    waiting_events: int = 0,
    dropped_events: int = 0,
    delivered_events: int = 0,
    partitions: tuple[PartitionReport, ...] = (),
) -> ConnectorFigures:
    """The figures of what is declared; `error` is empty when all is well."""
    return ConnectorFigures(
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
    )
