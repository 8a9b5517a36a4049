"""Tracks live members: the driver, the workers, the tasks of each topology.

Pure, under leases that each registration renews. Each member keeps its reports of the last seconds, from which rates
are computed.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Generic, TypeVar

import msgspec

from cep_common.ids import PlanKey
from cep_common.lease import AdaptiveLease
from cep_common.protocol.drivers import RegisterDriver, TopologyReport
from cep_common.protocol.registry import Message, RegisterWorker, WorkerPlanReport
from cep_common.protocol.tasks import RegisterTask

Report = TypeVar("Report", bound=RegisterTask | RegisterWorker | RegisterDriver)

RATE_WINDOW_MS = 5_000
"""Rates are taken over at most this long."""

LOST_SHOWN_MS = 60_000
"""How long a worker that stopped sending heartbeats is listed as lost."""

MAXIMUM_REPORTS = 16
"""Reports kept for each member, however fast it beats."""


def waiting_events(report: WorkerPlanReport) -> int:
    """Return events that the worker accepted and the topology has not taken over."""
    return sum(inflow.waiting_events + inflow.in_flight_rows for inflow in report.inflow)


def undelivered_results(report: WorkerPlanReport) -> int:
    """Return how many results wait at the worker: on disk for their checkpoint or sinks, in memory for sinks."""
    prepared = report.prepared.events if report.prepared is not None else 0
    return prepared + sum(outflow.waiting_events for outflow in report.outflow)


def has_left(report: WorkerPlanReport) -> bool:
    """Return whether the worker may have to send events of the plan, or has results of it."""
    return waiting_events(report) > 0 or undelivered_results(report) > 0 or not is_secured(report)


def is_secured(report: WorkerPlanReport) -> bool:
    """Return whether the topology will ask for none of the worker's events again."""
    return all(wal.secured for wal in report.write_ahead_logs)


def brings_back(report: RegisterWorker, former: RegisterWorker) -> bool:
    """Return whether the worker has what the `former` one of its name had: its folder, or a copy that it started from.

    A worker that does not report its identity is assumed to have it.
    """
    known = former.identity in ("", report.identity, report.copy_of)
    return known or not report.identity


class Timed(msgspec.Struct, Generic[Report], frozen=True):
    """A report and when it came (monotonic)."""

    at_ms: int
    report: Report


class ClusterMember(msgspec.Struct, Generic[Report], frozen=True):
    """A peer that registers: its first registration, its latest report, and the earlier ones of the rate window.

    `peer` is the routing id that the latest report came from.
    """

    since_ms: int
    heard_ms: int
    latest: Report
    earlier: tuple[Timed[Report], ...] = ()
    peer: bytes = b""

    def up_ms(self, now_ms: int) -> int:
        """Return the uptime that the process reports; the manager may have heard it only later."""
        return self.latest.up_ms + max(0, now_ms - self.heard_ms)

    def live(self, now_ms: int, lease_ms: int) -> bool:
        """Return whether the last report is less than `lease_ms` old."""
        return now_ms - self.heard_ms < lease_ms


def same_process(one: Report, other: Report) -> bool:
    """Return whether both reports come from one process."""
    return (one.host, one.process_id) == (other.host, other.process_id)


def heard(member: ClusterMember[Report] | None, report: Report, peer: bytes, now_ms: int) -> ClusterMember[Report]:
    """`member` after another report.

    A report of another process, or of one whose counters restarted, begins a new member.
    """
    if member is None or not same_process(member.latest, report) or report.up_ms < member.latest.up_ms:
        return ClusterMember(since_ms=now_ms, heard_ms=now_ms, latest=report, peer=peer)
    earlier = (*member.earlier, Timed(member.heard_ms, member.latest))
    kept = tuple(timed for timed in earlier if now_ms - timed.at_ms <= RATE_WINDOW_MS)[-MAXIMUM_REPORTS:]
    return ClusterMember(since_ms=member.since_ms, heard_ms=now_ms, latest=report, earlier=kept, peer=peer)


class ClusterMembers:
    """The driver, the live workers by name, those lost lately, all tasks by plan, epoch and number."""

    def __init__(self, lease_ms: int, delays: AdaptiveLease) -> None:
        """Peer may be silent for `lease_ms`, which the owner changes; `delays` learns how late heartbeats come."""
        self.lease_ms = lease_ms
        self._delays = delays
        self.driver: ClusterMember[RegisterDriver] | None = None
        self.workers: dict[str, ClusterMember[RegisterWorker]] = {}
        self.lost_workers: dict[str, ClusterMember[RegisterWorker]] = {}
        self.away_workers: dict[str, ClusterMember[RegisterWorker]] = {}
        """All that have ended, lost or not, and may still have events of a plan.

        Entries are removed when the worker returns.
        """
        self.tasks: dict[PlanKey, dict[tuple[int, int], ClusterMember[RegisterTask]]] = {}

    def live_driver(self, now_ms: int) -> ClusterMember[RegisterDriver] | None:
        """Return the driver unless it is silent."""
        if self.driver is not None and self.driver.live(now_ms, self.lease_ms):
            return self.driver
        return None

    def live_workers(self, now_ms: int) -> int:
        """Return the number of workers that are not silent."""
        return sum(worker.live(now_ms, self.lease_ms) for worker in self.workers.values())

    def live_by_name(self, now_ms: int) -> dict[str, ClusterMember[RegisterWorker]]:
        """Return the workers that are not silent."""
        return {name: one for name, one in self.workers.items() if one.live(now_ms, self.lease_ms)}

    def served_plans(self, now_ms: int) -> list[WorkerPlanReport]:
        """Return the reports of all live workers on the plans they serve."""
        live = (worker for worker in self.workers.values() if worker.live(now_ms, self.lease_ms))
        return [report for worker in live for report in worker.latest.plans]

    def accepts_driver(self, report: RegisterDriver, now_ms: int) -> bool:
        """Return whether the driver may register, that is, no other driver is alive.

        A driver that was started again under its name takes over at once.
        """
        live = self.live_driver(now_ms)
        return live is None or live.latest.driver == report.driver

    def known_report(self, report: RegisterDriver) -> RegisterDriver | None:
        """Return an incremental report completed with its base; None if that is not known."""
        member = self.driver
        base = report.base or report.number
        if member is None or not same_process(member.latest, report) or member.latest.number != base:
            return None
        known = member.latest
        savepoints = report.savepoints if report.differ else known.savepoints
        topologies = _merged(known.topologies, report)
        return msgspec.structs.replace(
            report, topologies=topologies, savepoints=savepoints, whole=True, base=0, gone=(), differ=False
        )

    def with_known(self, message: Message) -> Message | None:
        """Return the message of a driver or worker, completed with its earlier reports; None when that is not known."""
        if isinstance(message, RegisterDriver) and not message.whole:
            return self.known_report(message)
        return self.known_worker_report(message) if isinstance(message, RegisterWorker) else message

    def known_worker_report(self, report: RegisterWorker) -> RegisterWorker | None:
        """Return a report on changed plans, completed with the known state of the others; None if that is unknown."""
        if not report.base:
            return report
        member = self.workers.get(report.worker)
        if member is None or not same_process(member.latest, report) or member.latest.number != report.base:
            return None
        changed = {one.key: one for one in report.plans}
        plans = tuple(changed.get(one.key, one) for one in member.latest.plans) if changed else member.latest.plans
        return msgspec.structs.replace(report, plans=plans, base=0)

    def was_replaced(self, report: RegisterDriver, now_ms: int) -> bool:
        """Return whether a later process of the same driver name is alive.

        If each were to take over from the other, both would end and start all topologies forever.
        """
        live = self.live_driver(now_ms)
        if live is None or live.latest.driver != report.driver or same_process(live.latest, report):
            return False
        return report.started_ms < live.latest.started_ms

    def driver_heard(self, report: RegisterDriver, peer: bytes, now_ms: int) -> bool:
        """Record the driver's report; return whether it was silent before or is another process."""
        before = self.live_driver(now_ms)
        self._note_gap(self.driver, report, now_ms)
        self.driver = heard(self.driver, report, peer, now_ms)
        return before is None or not same_process(before.latest, report)

    def worker_heard(self, report: RegisterWorker, peer: bytes, now_ms: int) -> bool:
        """Record the worker's report; return whether it is new or another process than before."""
        before = self.workers.get(report.worker)
        self._note_gap(before or self.lost_workers.get(report.worker), report, now_ms)
        self.lost_workers.pop(report.worker, None)
        away = self.away_workers.get(report.worker)
        if away is not None and brings_back(report, away.latest):
            del self.away_workers[report.worker]
        self.workers[report.worker] = heard(before, report, peer, now_ms)
        return before is None or not same_process(before.latest, report)

    def task_heard(self, report: RegisterTask, peer: bytes, now_ms: int) -> bool:
        """Record the task's report; return whether it is new or another process than before."""
        tasks = self.tasks.setdefault(report.key, {})
        before = tasks.get((report.epoch, report.task))
        self._note_gap(before, report, now_ms)
        tasks[report.epoch, report.task] = heard(before, report, peer, now_ms)
        return before is None or not same_process(before.latest, report)

    def renew_task(self, key: PlanKey, epoch: int, task: int, attempt: int, now_ms: int) -> bool:
        """Renew the lease of a task whose last report still holds; return whether it is known."""
        tasks = self.tasks.get(key, {})
        member = tasks.get((epoch, task))
        if member is None or member.latest.attempt != attempt:
            return False
        earlier = member.earlier
        if not earlier or now_ms - earlier[0].at_ms > RATE_WINDOW_MS:
            earlier = tuple(timed for timed in earlier if now_ms - timed.at_ms <= RATE_WINDOW_MS)
        latest = msgspec.structs.replace(member.latest, up_ms=member.latest.up_ms + now_ms - member.heard_ms)
        tasks[epoch, task] = ClusterMember(
            since_ms=member.since_ms,
            heard_ms=now_ms,
            latest=latest,
            earlier=earlier or (Timed(member.heard_ms, member.latest),),
            peer=member.peer,
        )
        return True

    def _note_gap(self, before: ClusterMember[Report] | None, report: Report, now_ms: int) -> None:
        if before is not None and same_process(before.latest, report):
            self._delays.heard(now_ms - before.heard_ms, now_ms)

    def tasks_of(self, key: PlanKey, epoch: int) -> tuple[ClusterMember[RegisterTask], ...]:
        """Return the plan's tasks of `epoch`, in order of their numbers."""
        tasks = self.tasks.get(key, {})
        names = sorted(tasks) if len(tasks) > 1 else tasks
        return tuple(tasks[task] for task in names if task[0] == epoch)

    def expire_workers(self, now_ms: int) -> list[ClusterMember[RegisterWorker]]:
        """Return workers that are silent for a lease are lost, or have left as they had said.

        Only newly lost or departed workers are returned.
        """
        for name, worker in list(self.lost_workers.items()):
            if now_ms - worker.heard_ms >= LOST_SHOWN_MS:
                del self.lost_workers[name]
        silent = [name for name, worker in self.workers.items() if not worker.live(now_ms, self.lease_ms)]
        gone = {name: self.workers.pop(name) for name in sorted(silent)}
        self.lost_workers |= {name: worker for name, worker in gone.items() if not worker.latest.leaving}
        for name, worker in gone.items():
            before = self.away_workers.get(name)
            if _may_have_events(worker.latest) and (before is None or _has_more(worker.latest, before.latest)):
                self.away_workers[name] = worker
        return list(gone.values())

    def forget_tasks(self, key: PlanKey, epochs: Collection[int]) -> None:
        """Remove the plan's tasks of `epochs`."""
        tasks = self.tasks.get(key, {})
        for task in [one for one in tasks if one[0] in epochs]:
            del tasks[task]
        if not tasks:
            self.tasks.pop(key, None)

    def keep_tasks(self, key: PlanKey, epochs: Collection[int]) -> None:
        """Remove the plan's tasks of all epochs except `epochs`."""
        self.forget_tasks(key, {epoch for epoch, _ in self.tasks.get(key, {})} - set(epochs))


def _merged(known: tuple[TopologyReport, ...], report: RegisterDriver) -> tuple[TopologyReport, ...]:
    """Return `known` with the changes of an incremental report; those that are new come last."""
    if not report.topologies and not report.gone:
        return known
    changed = {(one.key, one.epoch): one for one in report.topologies}
    gone = {(one.key, one.epoch) for one in report.gone}
    names = [(one.key, one.epoch) for one in known]
    kept = [changed.pop(name, one) for name, one in zip(names, known, strict=True) if name not in gone]
    return (*kept, *changed.values())


def _may_have_events(report: RegisterWorker) -> bool:
    return any(map(has_left, report.plans))


def _has_more(report: RegisterWorker, other: RegisterWorker) -> bool:
    """Return whether more events wait in the one folder than in the other of the same name."""
    return sum(map(waiting_events, report.plans)) >= sum(map(waiting_events, other.plans))
