"""The status of a plan, in the three parts that CEP's users know: topology, inflow connections, outflow connections.

Pure: everything is derived from a snapshot.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Literal

import msgspec

from cep_common.ids import PlanKey
from cep_common.protocol.registry import RegisterWorker, WorkerPlanReport
from cep_common.protocol.tasks import ComponentReport, ComponentState, RegisterTask, StatisticsLevel, StreamCount
from cep_manager.checkpoints.view import unreadable_state
from cep_manager.control.deployment.draining import Unprocessed, unprocessed_of
from cep_manager.control.members import ClusterMember
from cep_manager.control.snapshot import ClusterSnapshot
from cep_manager.monitoring.degraded import DegradedPart, degraded_parts, reason_of
from cep_manager.monitoring.topics import TopicPartition, WrittenTopic, topics_read, topics_written
from cep_manager.plans.compiled_plan import CompiledPlan
from cep_manager.plans.state import ChangeKind, PlanState

Tasks = tuple[ClusterMember[RegisterTask], ...]
WorkerReports = tuple[tuple[ClusterMember[RegisterWorker], WorkerPlanReport], ...]


class TopologyStatus(msgspec.Struct, frozen=True):
    """The topology: `reason` says why it is not active, and is empty when it is.

    `since_ms` is the time in this state. `intake` is False when no events are taken in; `trace` says whether workers
    write its events to their logs, `statistics` what its stages count. `change` is the kind of the change in progress,
    empty when there is none; `change_error` says why the last change failed, empty when it did not.

    `interruption` says why it last stopped being active, `interrupted_ms` how long ago (empty and 0: never since it was
    deployed). `last_error` is the latest error of any stage or worker of the plan, empty when there was none.
    `state_left` names what the topology could not take over from an earlier form of the plan. `undeploying` is what a
    plan that is being undeployed waits for; empty: it is not.

    `waits_for` is what event time waits for: `awaited` are streams whose first event holds event time back while others
    have events. Under the system clock processing time is `behind_ms` behind the time of day. `late` counts events that
    came behind the clock, by stream.

    `state_unreadable` says that another version of the software wrote the state from which the plan would start, and
    what people can decide; empty: it can start.
    """

    state: PlanState
    reason: str
    since_ms: int
    restarts: int
    tasks_live: int
    tasks_required: int
    interruption: str
    interrupted_ms: int
    intake: bool
    change: ChangeKind | Literal[""]
    change_error: str
    trace: bool
    statistics: StatisticsLevel
    last_error: str
    state_left: tuple[str, ...] = ()
    undeploying: str = ""
    waits_for: tuple[str, ...] = ()
    awaited: tuple[str, ...] = ()
    behind_ms: int = 0
    late: tuple[StreamCount, ...] = ()
    state_unreadable: str = ""


class InflowStatus(msgspec.Struct, frozen=True):
    """A worker's connections to receivers; one is required for each imported stream."""

    worker: str
    host: str
    established: int
    required: int


class LostWorker(msgspec.Struct, frozen=True):
    """A worker that served the plan and was last heard `silent_ms` ago."""

    worker: str
    host: str
    silent_ms: int


class OutflowStatus(msgspec.Struct, frozen=True):
    """Publisher instances that are connected to a worker."""

    connected: int
    required: int


class TaskStatus(msgspec.Struct, frozen=True):
    """A task of the topology and the stage instances that run in it.

    Its process holds `memory_bytes` and has used `cpu_ms` of processor time; in a `stage_host` these are the task's
    part of the process that it shares.
    """

    task: int
    host: str
    process_id: int
    live: bool
    instances: tuple[str, ...]
    memory_bytes: int
    cpu_ms: int
    stage_host: str = ""


class PlanStatus(msgspec.Struct, frozen=True):
    """`connected` is True when every connection of the live workers, in and out, is established.

    `state` is the in-memory state of the plan's stages, summed over parallel instances; `tasks` has the location of
    each of them. `unprocessed` is what workers have of it: events that its topology has not taken over, and results.
    `topics` are the partitions that its sources read, `topics_written` the topics that its sinks have written.
    """

    topology: TopologyStatus
    inflow: tuple[InflowStatus, ...]
    outflow: OutflowStatus
    connected: bool
    lost_workers: tuple[LostWorker, ...] = ()
    state: tuple[ComponentState, ...] = ()
    tasks: tuple[TaskStatus, ...] = ()
    unprocessed: Unprocessed = Unprocessed()
    degraded: tuple[DegradedPart, ...] = ()
    topics: tuple[TopicPartition, ...] = ()
    topics_written: tuple[WrittenTopic, ...] = ()


def plan_status(snapshot: ClusterSnapshot, key: PlanKey) -> PlanStatus:
    """Return the status of a deployed plan; KeyError when it is not deployed."""
    record = snapshot.plans[key]
    reports = worker_reports(snapshot, key, record.epoch)
    here = (report for one, report in snapshot.reports_of(key) if one.live(snapshot.now_ms, snapshot.lease_ms))
    inflow = _inflow(snapshot, key, record.compiled) if record.compiled is not None else ()
    outflow = _outflow(reports, record.compiled)
    tasks = snapshot.tasks.get(key, ())
    parts = degraded_parts(key, reports)
    return PlanStatus(
        topology=TopologyStatus(
            state=shown_state(record.state, parts),
            reason=record.reason or (reason_of(parts) if record.state is PlanState.ACTIVE else ""),
            since_ms=max(0, snapshot.now_ms - record.state_since_ms),
            restarts=record.restarts,
            tasks_live=sum(task.live(snapshot.now_ms, snapshot.lease_ms) for task in tasks),
            tasks_required=record.workers,
            interruption=record.interruption,
            interrupted_ms=snapshot.now_ms - record.interrupted_ms if record.interruption else 0,
            intake=record.stored.settings.intake,
            trace=record.traced(),
            statistics=record.statistics_level(),
            change=record.change() or "",
            change_error=record.change_error,
            last_error=_last_error(tasks, reports),
            state_left=tuple(text for task in tasks for text in task.latest.left),
            undeploying=record.drain_reason if record.draining is not None else "",
            waits_for=_waits_for(tasks, record.compiled),
            awaited=awaited_streams(tasks),
            behind_ms=max((one.behind_ms for one in _components(tasks)), default=0),
            late=late_events(tasks),
            state_unreadable=unreadable_state(snapshot, record),
        ),
        inflow=inflow,
        outflow=outflow,
        connected=_all_established(record.compiled, inflow, outflow),
        lost_workers=tuple(
            LostWorker(worker.latest.worker, worker.latest.host, snapshot.now_ms - worker.heard_ms)
            for worker in snapshot.lost_workers
            if any(report.key == key for report in worker.latest.plans)
        ),
        state=_held(tasks),
        tasks=tuple(
            TaskStatus(
                task=task.latest.task,
                host=task.latest.host,
                process_id=task.latest.process_id,
                live=task.live(snapshot.now_ms, snapshot.lease_ms),
                instances=tuple(component.instance for component in task.latest.components),
                memory_bytes=task.latest.memory_bytes,
                cpu_ms=task.latest.cpu_ms,
                stage_host=task.latest.stage_host,
            )
            for task in tasks
        ),
        unprocessed=unprocessed_of(key, here, snapshot.away_workers, record.first_epoch),
        degraded=parts,
        topics=topics_read(key, reports),
        topics_written=topics_written(key, reports),
    )


def topology_up_ms(snapshot: ClusterSnapshot, key: PlanKey) -> int:
    """Return for how long the plan's topology has been running in its present form, by its oldest live task.

    0: it does not.
    """
    live = (task for task in snapshot.tasks.get(key, ()) if task.live(snapshot.now_ms, snapshot.lease_ms))
    return max((task.up_ms(snapshot.now_ms) for task in live), default=0)


def plan_state(snapshot: ClusterSnapshot, key: PlanKey) -> PlanState:
    """Return the state of a deployed plan as users are shown it."""
    record = snapshot.plans[key]
    return shown_state(record.state, degraded_parts(key, worker_reports(snapshot, key, record.epoch)))


def shown_state(state: PlanState, parts: tuple[DegradedPart, ...]) -> PlanState:
    """Return the state that users see: an active plan with a faulty part is degraded."""
    return PlanState.DEGRADED if state is PlanState.ACTIVE and parts else state


def awaited_streams(tasks: Tasks) -> tuple[str, ...]:
    """Return the streams whose first event holds event time back."""
    return tuple(dict.fromkeys(stream for one in _components(tasks) for stream in one.awaits if "/" not in stream))


def late_events(tasks: Tasks) -> tuple[StreamCount, ...]:
    """Return events that came behind the clock, by stream, since the tasks started."""
    counts = Counter[str]()
    for component in _components(tasks):
        counts.update({one.stream: one.events for one in component.late})
    return tuple(StreamCount(stream, events) for stream, events in sorted(counts.items()))


def _waits_for(tasks: Tasks, compiled: CompiledPlan | None) -> tuple[str, ...]:
    """Describe what event time waits for."""
    awaited = awaited_streams(tasks)
    senders = dict.fromkeys(name for one in _components(tasks) for name in one.awaits if "/" in name)
    first = [f"the first event of {stream}" for stream in awaited] if compiled is None or compiled.playback else []
    return (*first, *(f"the data waiting at {name}" for name in senders))


def _components(tasks: Tasks) -> Iterator[ComponentReport]:
    return (component for task in tasks for component in task.latest.components)


def _held(tasks: tuple[ClusterMember[RegisterTask], ...]) -> tuple[ComponentState, ...]:
    sums: dict[tuple[str, str], Counter[str]] = {}
    for task in tasks:
        for component in task.latest.components:
            for part in component.held:
                counts = {name: value for name, value in msgspec.structs.asdict(part).items() if isinstance(value, int)}
                sums.setdefault((part.kind, part.name), Counter()).update(counts)
    return tuple(ComponentState(kind, name, **counts) for (kind, name), counts in sums.items())


def worker_reports(snapshot: ClusterSnapshot, key: PlanKey, epoch: int) -> WorkerReports:
    """Return each live worker's report on the plan in its epoch; workers that do not serve it yet are left out."""
    return tuple(
        (worker, report)
        for worker, report in snapshot.reports_of(key)
        if report.epoch == epoch and worker.live(snapshot.now_ms, snapshot.lease_ms)
    )


def _inflow(snapshot: ClusterSnapshot, key: PlanKey, compiled: CompiledPlan) -> tuple[InflowStatus, ...]:
    """Return every live worker owes a connection for each imported stream, whether it knows the plan already or not."""
    required = len(compiled.imported)
    reports = dict(_connected_streams(snapshot, key))
    return tuple(
        InflowStatus(
            worker=worker.latest.worker,
            host=worker.latest.host,
            established=min(required, reports.get(worker.latest.worker, 0)),
            required=required,
        )
        for worker in snapshot.workers
        if worker.live(snapshot.now_ms, snapshot.lease_ms)
    )


def _connected_streams(snapshot: ClusterSnapshot, key: PlanKey) -> list[tuple[str, int]]:
    epoch = snapshot.plans[key].epoch
    return [
        (worker.latest.worker, sum(connection.connected for connection in report.inflow))
        for worker, report in worker_reports(snapshot, key, epoch)
    ]


def _outflow(reports: WorkerReports, compiled: CompiledPlan | None) -> OutflowStatus:
    required = compiled.publisher_instances() if compiled is not None else 0
    linked = {publisher for _, report in reports for publisher in report.publishers}
    return OutflowStatus(connected=min(required, len(linked)), required=required)


def _all_established(compiled: CompiledPlan | None, inflow: tuple[InflowStatus, ...], outflow: OutflowStatus) -> bool:
    if compiled is None or outflow.connected < outflow.required:
        return False
    if not compiled.imported:
        return True
    return bool(inflow) and all(worker.established == worker.required for worker in inflow)


def _last_error(
    tasks: tuple[ClusterMember[RegisterTask], ...],
    reports: WorkerReports,
) -> str:
    errors = [
        (component.last_error_ms, f"{component.instance}: {component.last_error}")
        for task in tasks
        for component in task.latest.components
        if component.last_error
    ]
    if errors:
        return max(errors)[1]
    return next((f"{worker.latest.worker}: {report.last_error}" for worker, report in reports if report.last_error), "")
