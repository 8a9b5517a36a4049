"""What a worker tells of itself at one moment. Data alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from cep_common.ids import PlanKey
from cep_common.messages import WorkerPlanReport
from cep_worker.connectors import Declared


@dataclass(frozen=True, slots=True)
class ConnectorFigures:
    """A source or sink: the plan that declares it (empty: a file does), its stream, and whether something is wrong."""

    direction: Literal["source", "sink"]
    type: str
    tenant: int
    plan: str
    stream: str
    failing: bool
    waiting_events: int
    dropped_events: int


@dataclass(frozen=True, slots=True)
class HeldFigures:
    """Results of a plan that wait on disk, for their checkpoint or for sinks: events, the bytes of their files, and for
    how long the oldest have waited."""

    events: int = 0
    size_bytes: int = 0
    oldest_ms: int = 0


@dataclass(frozen=True, slots=True)
class SpoolFigures:
    """The log of an imported stream: its bytes on disk, events that were accepted and turned out to be unreadable, and
    whether nothing more can be stored now."""

    stream: str
    size_bytes: int
    lost_events: int
    full: bool


@dataclass(frozen=True, slots=True)
class WorkerFigures:
    """`spools` is told of plans that keep logs, `held` of plans that deliver exactly once. `taken` are the events that
    were taken in for each tenant since the worker started."""

    plans: tuple[WorkerPlanReport, ...]
    spools: tuple[tuple[PlanKey, SpoolFigures], ...]
    held: tuple[tuple[PlanKey, HeldFigures], ...]
    connectors: tuple[ConnectorFigures, ...]
    taken: tuple[tuple[int, int], ...]
    leaving: bool


def figures_of(
    direction: Literal["source", "sink"],
    declared: Declared,
    error: str,
    waiting_events: int = 0,
    dropped_events: int = 0,
) -> ConnectorFigures:
    """The figures of what is declared; `error` is empty when all is well."""
    return ConnectorFigures(
        direction=direction,
        type=declared.connector.type,
        tenant=declared.stream.tenant(),
        plan=declared.key.plan if declared.key is not None else "",
        stream=declared.connector.stream,
        failing=bool(error),
        waiting_events=waiting_events,
        dropped_events=dropped_events,
    )
