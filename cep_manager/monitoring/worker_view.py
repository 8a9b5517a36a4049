"""Workers as the web shows them. Pure: from a snapshot."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import msgspec

from cep_common.ids import Endpoint, PlanKey
from cep_common.protocol.error_records import ErrorRecord
from cep_common.protocol.registry import RegisterWorker, WorkerPlanReport
from cep_common.protocol.worker_reports import (
    ConnectorReport,
    ListenerReport,
    PreparedResultsReport,
    PublisherReport,
    WalReport,
)
from cep_manager.control.members import ClusterMember, undelivered_results
from cep_manager.control.snapshot import ClusterSnapshot
from cep_manager.errors import UnknownWorkerError
from cep_manager.monitoring.rates import per_second

WorkerState = Literal["live", "leaving", "lost"]


class InflowView(msgspec.Struct, frozen=True):
    """A worker's connection to a receiver; see `InflowReport`."""

    stream: str
    connected: bool
    receiver: str
    sent_events: int
    events_per_s: float
    waiting_events: int
    in_flight_rows: int
    window_rows: int


class OutflowView(msgspec.Struct, frozen=True):
    """An exported stream at a worker.

    Events that came, those that sinks and listeners got, their rate, and those that wait in memory.
    """

    stream: str
    received_events: int
    delivered_events: int
    waiting_events: int
    events_per_s: float


class WorkerPlanView(msgspec.Struct, frozen=True):
    """A worker's report on one plan; see `WorkerPlanReport`."""

    plan: str
    tenant: int
    epoch: int
    inflow: tuple[InflowView, ...]
    outflow: tuple[OutflowView, ...]
    publishers: tuple[PublisherReport, ...]
    write_ahead_logs: tuple[WalReport, ...]
    prepared: PreparedResultsReport | None
    last_error: str
    errors: tuple[ErrorRecord, ...]


class WorkerDetails(msgspec.Struct, frozen=True):
    """A worker: one that lives or leaves, or that was `lost` within the last minute.

    `cpu` is the share of one core that its process uses, 1.0: all of it. `errors` counts those of all its plans since
    it started; rates are of the last seconds, 0 of a lost one. See `RegisterWorker`.
    """

    worker: str
    host: str
    process_id: int
    state: WorkerState
    synchronised: bool
    http_address: str
    ingress: Endpoint | None
    egress: Endpoint | None
    up_ms: int
    silent_ms: int
    memory_bytes: int
    cpu_ms: int
    cpu: float
    fsync: str
    events_in_per_s: float
    events_out_per_s: float
    waiting_events: int
    wal_bytes: int
    prepared_results: int
    errors: int
    plans: tuple[WorkerPlanView, ...]
    connectors: tuple[ConnectorReport, ...]
    listeners: tuple[ListenerReport, ...]


class WorkerList(msgspec.Struct, frozen=True):
    """All workers, in order of name, those that were lost lately at the end."""

    workers: tuple[WorkerDetails, ...]


def worker_list(snapshot: ClusterSnapshot) -> WorkerList:
    """Return all workers."""
    live = [_details(snapshot, worker, lost=False) for worker in snapshot.workers]
    lost = [_details(snapshot, worker, lost=True) for worker in snapshot.lost_workers]
    return WorkerList((*live, *lost))


def worker_details(snapshot: ClusterSnapshot, name: str) -> WorkerDetails:
    """Return the worker of that name. Raises UnknownWorkerError."""
    for lost, members in ((False, snapshot.workers), (True, snapshot.lost_workers)):
        for worker in members:
            if worker.latest.worker == name:
                return _details(snapshot, worker, lost=lost)
    raise UnknownWorkerError(f"there is no worker {name}, nor was one lost within the last minute")


def _details(snapshot: ClusterSnapshot, worker: ClusterMember[RegisterWorker], *, lost: bool) -> WorkerDetails:
    latest = worker.latest
    if lost:
        worker = msgspec.structs.replace(worker, earlier=())  # what it did before tells nothing of now: rates are 0
    plans = tuple(_plan(worker, plan) for plan in sorted(latest.plans, key=lambda one: one.key))
    return WorkerDetails(
        worker=latest.worker,
        host=latest.host,
        process_id=latest.process_id,
        state="lost" if lost else "leaving" if latest.leaving else "live",
        synchronised=latest.revision == snapshot.revision,
        http_address=latest.http_address,
        ingress=latest.ingress,
        egress=latest.egress,
        up_ms=worker.up_ms(worker.heard_ms if lost else snapshot.now_ms),
        silent_ms=snapshot.now_ms - worker.heard_ms,
        memory_bytes=latest.memory_bytes,
        cpu_ms=latest.cpu_ms,
        cpu=round(per_second(worker, _cpu_ms) / 1_000, 3),
        fsync=latest.fsync,
        events_in_per_s=round(sum(one.events_per_s for plan in plans for one in plan.inflow), 3),
        events_out_per_s=round(sum(one.events_per_s for plan in plans for one in plan.outflow), 3),
        waiting_events=sum(
            sum(one.waiting_events for one in plan.inflow) + undelivered_results(plan) for plan in latest.plans
        ),
        wal_bytes=sum(wal.size_bytes for plan in latest.plans for wal in plan.write_ahead_logs),
        prepared_results=sum(plan.prepared.events for plan in latest.plans if plan.prepared is not None),
        errors=sum(record.count for plan in latest.plans for record in plan.errors),
        plans=plans,
        connectors=latest.connectors,
        listeners=latest.listeners,
    )


def _plan(worker: ClusterMember[RegisterWorker], plan: WorkerPlanReport) -> WorkerPlanView:
    return WorkerPlanView(
        plan=plan.key.plan,
        tenant=plan.key.tenant,
        epoch=plan.epoch,
        inflow=tuple(
            InflowView(
                stream=one.stream,
                connected=one.connected,
                receiver=one.receiver,
                sent_events=one.sent_events,
                events_per_s=per_second(worker, _sent(plan.key, one.stream)),
                waiting_events=one.waiting_events,
                in_flight_rows=one.in_flight_rows,
                window_rows=one.window_rows,
            )
            for one in plan.inflow
        ),
        outflow=tuple(
            OutflowView(
                one.stream,
                one.received_events,
                one.delivered_events,
                one.waiting_events,
                per_second(worker, _delivered(plan.key, one.stream)),
            )
            for one in plan.outflow
        ),
        publishers=plan.links or tuple(PublisherReport(name, 0, 0) for name in plan.publishers),
        write_ahead_logs=plan.write_ahead_logs,
        prepared=plan.prepared,
        last_error=plan.last_error,
        errors=plan.errors,
    )


def _cpu_ms(report: RegisterWorker) -> int:
    return report.cpu_ms


def _sent(key: PlanKey, stream: str) -> Callable[[RegisterWorker], int | None]:
    def counter(report: RegisterWorker) -> int | None:
        found = [one for plan in report.plans if plan.key == key for one in plan.inflow if one.stream == stream]
        return sum(one.sent_events for one in found) if found else None

    return counter


def _delivered(key: PlanKey, stream: str) -> Callable[[RegisterWorker], int | None]:
    def counter(report: RegisterWorker) -> int | None:
        found = [one for plan in report.plans if plan.key == key for one in plan.outflow if one.stream == stream]
        return sum(one.delivered_events for one in found) if found else None

    return counter
