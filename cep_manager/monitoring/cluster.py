"""The processes that are up, for the web API. Pure: derived from a snapshot."""

from __future__ import annotations

from cep_manager.control.snapshot import ClusterSnapshot
from cep_manager.election.leadership import ElectionStatus
from cep_manager.election.messages import ManagerSighting
from cep_manager.monitoring.cluster_model import (
    DriverTopology,
    DriverView,
    ElectionView,
    EndpointView,
    ManagerMember,
    ManagerRole,
    StageHostView,
    TaskView,
    WorkerView,
)


def driver_view(snapshot: ClusterSnapshot) -> DriverView | None:
    """Return the driver that was heard last, if one ever was."""
    driver = snapshot.driver
    if driver is None:
        return None
    latest = driver.latest
    return DriverView(
        driver=latest.driver,
        host=latest.host,
        process_id=latest.process_id,
        master=latest.master,
        slots_total=latest.slots_total,
        slots_free=latest.slots_free,
        web_url=latest.web_url,
        live=driver.live(snapshot.now_ms, snapshot.lease_ms),
        up_ms=driver.up_ms(snapshot.now_ms),
        silent_ms=snapshot.now_ms - driver.heard_ms,
        topologies=tuple(
            DriverTopology(
                plan=report.key.plan,
                tenant=report.key.tenant,
                epoch=report.epoch,
                state=report.state,
                reason=report.reason,
                restarts=report.restarts,
                wanted=report.key in snapshot.plans and report.epoch in snapshot.plans[report.key].epochs(),
            )
            for report in latest.topologies
        ),
        stage_hosts=tuple(
            StageHostView(
                name=one.host,
                tenant=one.tenant,
                state=one.state,
                plans=one.plans,
                host=one.address,
                process_id=one.process_id,
                memory_bytes=one.memory_bytes,
                cpu_ms=one.cpu_ms,
                up_ms=one.up_ms,
            )
            for one in latest.stage_hosts
        ),
    )


def worker_views(snapshot: ClusterSnapshot) -> tuple[WorkerView, ...]:
    """Return every worker that has not been silent for a lease."""
    return tuple(
        WorkerView(
            worker=worker.latest.worker,
            host=worker.latest.host,
            process_id=worker.latest.process_id,
            http_address=worker.latest.http_address,
            ingress=worker.latest.ingress,
            egress=worker.latest.egress,
            synchronised=worker.latest.revision == snapshot.revision,
            up_ms=worker.up_ms(snapshot.now_ms),
            silent_ms=snapshot.now_ms - worker.heard_ms,
            plans=tuple(report.key.topology() for report in worker.latest.plans),
        )
        for worker in snapshot.workers
    )


def task_views(snapshot: ClusterSnapshot) -> tuple[TaskView, ...]:
    """Return every task of every plan's current epoch, silent ones too."""
    return tuple(
        TaskView(
            plan=key.plan,
            tenant=key.tenant,
            epoch=task.latest.epoch,
            task=task.latest.task,
            host=task.latest.host,
            process_id=task.latest.process_id,
            live=task.live(snapshot.now_ms, snapshot.lease_ms),
            up_ms=task.up_ms(snapshot.now_ms),
            silent_ms=snapshot.now_ms - task.heard_ms,
            instances=tuple(component.instance for component in task.latest.components),
        )
        for key in sorted(snapshot.tasks)
        for task in snapshot.tasks[key]
    )


def endpoint_views(snapshot: ClusterSnapshot) -> tuple[EndpointView, ...]:
    """Return every endpoint that is not forgotten yet."""
    return tuple(
        EndpointView(
            role=record.role,
            plan=record.key.plan,
            tenant=record.key.tenant,
            epoch=record.epoch,
            instance=record.instance,
            host=record.endpoint.host,
            port=record.endpoint.port,
            channel=record.endpoint.channel,
            live=snapshot.now_ms - record.heard_ms < snapshot.lease_ms,
            connections=record.live_connections(snapshot.now_ms, snapshot.lease_ms),
            silent_ms=snapshot.now_ms - record.heard_ms,
        )
        for record in sorted(snapshot.endpoints, key=lambda one: (one.role, one.key, one.epoch, one.instance))
    )


SILENT_MS = 5_000
"""A manager that has not updated the database for this long is shown as silent."""


def election_view(election_status: ElectionStatus, leads: bool) -> ElectionView:
    """Return the leader and all managers; `leads` says whether this manager leads now."""
    members = tuple(_member(sight, election_status) for sight in election_status.sights)
    leader = next((member for member in members if member.role == "leader"), None)
    return ElectionView(leads, leader, members, election_status.problem, election_status.changes)


def _member(sight: ManagerSighting, election_status: ElectionStatus) -> ManagerMember:
    manager = sight.manager
    asked = manager.instance == election_status.me.instance
    silent_ms = 0 if asked else election_status.now_ms - sight.heard_ms
    leader = election_status.leader is not None and election_status.leader.instance == manager.instance
    role: ManagerRole = "leader" if leader else "silent" if silent_ms >= SILENT_MS else "standby"
    return ManagerMember(
        control=manager.control,
        http_address=manager.http_address,
        role=role,
        asked=asked,
        token=election_status.token if leader else 0,
        since_ms=election_status.since_ms if leader else 0,
        silent_ms=silent_ms,
    )
