"""Alerts: what needs a person's attention, the worst first, from the manager's state at one moment. Pure.

Each check examines one thing and yields alerts. Problems that recover within seconds are not alerts: a plan that is
being deployed, a connection that has only just been lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from enum import StrEnum
from typing import Literal

import msgspec

from cep_common.ids import SUPER_TENANT
from cep_manager.control.snapshot import ClusterSnapshot
from cep_manager.monitoring.cluster_model import ElectionView, ManagerInfo
from cep_manager.plans.folder import FileProblem


class AlertSeverity(StrEnum):
    """The severity of an alert; alerts are listed in this order."""

    CRITICAL = "critical"
    """Events are not processed, or not kept."""
    WARNING = "warning"
    """It works, but not for long."""
    NOTICE = "notice"
    """Worth knowing."""


Subject = Literal["plan", "worker", "driver", "manager", "file"]


class Alert(msgspec.Struct, frozen=True):
    """`what` is wrong with `name`, a `subject` (of `tenant`, when it is a plan), and what to do about it.

    `code` is stable. `since_ms` is the time of day at which it began, None if unknown.
    """

    severity: AlertSeverity
    code: str
    subject: Subject
    name: str
    what: str
    advice: str
    since_ms: int | None = None
    tenant: int = SUPER_TENANT


class AlertContext(msgspec.Struct, frozen=True):
    """The input of all checks. `now_ms` is the time of day; the times of `snapshot` are monotonic."""

    now_ms: int
    snapshot: ClusterSnapshot
    manager: ManagerInfo
    election: ElectionView
    file_problems: tuple[FileProblem, ...] = ()
    metric_tables_problem: str = ""

    def time_of_day(self, monotonic_ms: int) -> int:
        """Return the time of day at a moment of the snapshot's clock."""
        return self.now_ms - (self.snapshot.now_ms - monotonic_ms)


Check = Callable[[AlertContext], Iterator[Alert]]

RECENT_MS = 30 * 60_000
"""How long a resolved problem stays listed."""


def in_order(alerts: Iterable[Alert]) -> tuple[Alert, ...]:
    """Return the worst first, of equals what began last; those without a start time come last."""
    order = list(AlertSeverity)
    return tuple(sorted(alerts, key=lambda one: (order.index(one.severity), -(one.since_ms or 0), one.name)))


def system_alerts(picture: AlertContext) -> Iterator[Alert]:
    """Yield what is wrong with the system, regardless of whose plans run on it."""
    for check in SYSTEM_CHECKS:
        yield from check(picture)


def _database(picture: AlertContext) -> Iterator[Alert]:
    if picture.election.problem:
        yield Alert(
            AlertSeverity.CRITICAL,
            "database",
            "manager",
            picture.manager.database,
            f"The plan store cannot be used: {picture.election.problem}",
            "Check the database. Until it responds, plans keep running but cannot be changed.",
        )


def _database_replaced(picture: AlertContext) -> Iterator[Alert]:
    if picture.manager.database_problem:
        yield Alert(
            AlertSeverity.CRITICAL,
            "database-replaced",
            "manager",
            picture.manager.database,
            f"The plan store has changed unexpectedly: {picture.manager.database_problem}",
            "Put the former database, or a newer copy of it, in its place and start the manager again. Nothing that "
            "workers have accepted is lost meanwhile: what they have of missing plans is set aside (cep wal list).",
        )


def _metric_tables(picture: AlertContext) -> Iterator[Alert]:
    if picture.metric_tables_problem:
        yield Alert(
            AlertSeverity.WARNING,
            "metric-tables",
            "manager",
            picture.manager.host,
            picture.metric_tables_problem,
            "Until they can be read, charts show only the last three hours, from memory. See metrics.tables in the "
            "manager's configuration.",
        )


def _driver(picture: AlertContext) -> Iterator[Alert]:
    snapshot = picture.snapshot
    if not snapshot.driver_missing:
        return
    last = snapshot.driver
    yield Alert(
        AlertSeverity.CRITICAL if snapshot.plans else AlertSeverity.WARNING,
        "no-driver",
        "driver",
        last.latest.driver if last is not None else "driver",
        f"{snapshot.driver_missing[:1].upper()}{snapshot.driver_missing[1:]}: no plan can be started or changed",
        "Start one with `cep driver`; its log says why it ended.",
        picture.time_of_day(last.heard_ms) if last is not None else None,
    )


def _checkpoint_store(picture: AlertContext) -> Iterator[Alert]:
    driver = picture.snapshot.driver
    settings = driver.latest.checkpointing if driver is not None else None
    if driver is not None and settings is not None and settings.problem:
        yield Alert(
            AlertSeverity.CRITICAL,
            "checkpoint-store",
            "driver",
            driver.latest.driver,
            f"Checkpoints cannot be stored: {settings.problem}",
            "Until this is fixed, no plan starts, and a failure repeats all events since the last checkpoint. "
            "Repair the store, or "
            "change checkpoint.location in the driver's configuration.",
        )


def _workers(picture: AlertContext) -> Iterator[Alert]:
    snapshot = picture.snapshot
    for worker in snapshot.lost_workers:
        yield Alert(
            AlertSeverity.WARNING,
            "worker-silent",
            "worker",
            worker.latest.worker,
            f"The worker on {worker.latest.host} (process {worker.latest.process_id}) has stopped sending heartbeats",
            "Start it again with its data folder, which holds events that it has accepted and not delivered.",
            picture.time_of_day(worker.heard_ms),
        )
    yield from _strangers(picture)
    yield from _orphaned(picture)
    if not snapshot.workers and any(record.compiled and record.compiled.imported for record in snapshot.plans.values()):
        yield Alert(
            AlertSeverity.CRITICAL,
            "no-worker",
            "worker",
            "workers",
            "No worker is alive: no events reach any plan",
            "Start one with `cep worker`.",
        )


def _strangers(picture: AlertContext) -> Iterator[Alert]:
    """Yield workers that are refused, or that came back without their former data."""
    for one in picture.snapshot.strangers:
        report = one.report
        process = f"process {report.process_id} on {report.host}"
        other = f"process {one.process_id} on {one.host}"
        match one.kind:
            case "other-system":
                what = (
                    f"It serves another system ({report.system}) and takes no plans from this one; what it has "
                    "accepted stays on its disk"
                )
                advice = (
                    "Start the manager on the database that it had before. If that is lost, let the worker serve this "
                    f"system: cep wal adopt {report.worker}; what it has is set aside then, see cep wal list."
                )
            case "name-taken":
                what = f"A second worker has this name and is refused: {process}; the first one is {other}"
                advice = "Give each worker a unique name (name in its configuration)."
            case "copied":
                what = f"Two processes run with copies of one folder; {process} is refused, {other} continues"
                advice = "Stop one of them. Another worker needs a name and a wal.path of its own."
            case "other-folder":
                what = (
                    f"It came back with another folder ({process}): {one.events:,} events that it had accepted are not "
                    "there"
                )
                advice = "Start it with its former folder (wal.path), or give its name to that folder's worker."
        yield Alert(
            AlertSeverity.CRITICAL, f"worker-{one.kind}", "worker", report.worker, what, advice,
            picture.time_of_day(one.heard_ms),
        )  # fmt: skip


def _orphaned(picture: AlertContext) -> Iterator[Alert]:
    """Yield data at workers of plans that are missing here although they were not undeployed."""
    for worker in picture.snapshot.workers:
        for one in worker.latest.orphans:
            if not one.events:
                continue
            kind = f"accepted events of {one.stream}" if one.kind == "log" else "undelivered results"
            until = datetime.fromtimestamp(one.until_ms / 1_000, UTC).strftime("%Y-%m-%d %H:%M UTC")
            yield Alert(
                AlertSeverity.CRITICAL,
                "orphaned-events",
                "worker",
                worker.latest.worker,
                f"{one.events:,} {kind} of the plan {one.plan} (tenant {one.tenant}) are set aside: the plan is "
                "missing here although it was "
                "not undeployed",
                f"They are processed when the plan is back. Otherwise, deploy a plan for them: cep wal restore "
                f"{one.id}; or drop them: cep wal discard {one.id}. They are deleted at {until}.",
                one.since_ms,
            )


def _managers(picture: AlertContext) -> Iterator[Alert]:
    for member in picture.election.managers:
        if member.role == "silent":
            yield Alert(
                AlertSeverity.WARNING,
                "manager-silent",
                "manager",
                f"{member.control.host}:{member.control.port}",
                "This manager has stopped reporting: one fewer can take over",
                "Start it again if it is needed; otherwise it disappears from this list after a while.",
                picture.now_ms - member.silent_ms,
            )


def _leader_changes(picture: AlertContext) -> Iterator[Alert]:
    recent = [one for one in picture.election.changes if picture.now_ms - one.at_ms < RECENT_MS]
    if not recent:
        return
    newest = recent[-1]
    often = "once" if len(recent) == 1 else f"{len(recent)} times"
    former, leader = (f"{one.host}:{one.port}" for one in (newest.former, newest.leader))
    yield Alert(
        AlertSeverity.NOTICE if len(recent) == 1 else AlertSeverity.WARNING,
        "leader-changed",
        "manager",
        leader,
        f"The leader changed {often} in the last half hour, last from {former} to {leader}",
        "A manager ended, or its host or database was too slow to renew the lease: see the managers' logs.",
        newest.at_ms,
    )


def _nodes(picture: AlertContext) -> Iterator[Alert]:
    """Yield an alert when only one of two nodes is active: what it accepts is on one disk only."""
    nodes = picture.election.nodes
    active = next((node for node in nodes if node.role == "active"), None)
    if active is None:
        return
    other = next((node for node in nodes if node is not active), None)
    if other is None or other.in_sync:
        return
    yield Alert(
        AlertSeverity.CRITICAL,
        "node-not-protected",
        "manager",
        active.name,
        f"Accepted events are on node {active.name} only: {active.reason or f'node {other.name} is {other.role}'}",
        f"Start node {other.name}, or see its logs; it catches up by itself. If {active.name} fails before "
        "that, no node takes over (docs/high-availability.md).",
        other.changed_ms,
    )


def _processes(picture: AlertContext) -> Iterator[Alert]:
    """Yield processes that failed lately and are back; other checks find those that are still down."""
    snapshot = picture.snapshot
    away = {(one.latest.host, one.latest.process_id) for one in snapshot.lost_workers}
    if snapshot.driver is not None and snapshot.driver_missing:
        away.add((snapshot.driver.latest.host, snapshot.driver.latest.process_id))
    for group in snapshot.errors.get(None, ()):
        places = [place for place in group.places if (place.host, place.process_id) not in away]
        if not places or picture.now_ms - places[0].last_ms >= RECENT_MS:
            continue
        times = "" if group.count == 1 else f", {group.count} times"
        yield Alert(
            AlertSeverity.NOTICE,
            "process-failed",
            "driver" if group.code.startswith("driver") else "worker",
            group.text,
            f"{group.text[:1].upper()}{group.text[1:]} (process {places[0].process_id} on {places[0].host}){times}",
            "This alert is shown for half an hour. The log of the process says why it ended.",
            places[0].last_ms,
        )


def _insecure(picture: AlertContext) -> Iterator[Alert]:
    if picture.manager.insecure:
        yield Alert(
            AlertSeverity.WARNING,
            "insecure",
            "manager",
            f"{picture.manager.host}:{picture.manager.control_port}",
            "The system accepts connections from anywhere without keys or tokens (security.insecure)",
            "Create keys and tokens (docs/operations/secure.md) and remove `security.insecure` from the configuration.",
        )


def _files(picture: AlertContext) -> Iterator[Alert]:
    for file in picture.file_problems:
        yield Alert(
            AlertSeverity.WARNING,
            "file",
            "file",
            file.name,
            f"The file's content is not what runs: {file.problem}",
            "Fix the file; it is read again when it changes.",
        )


SYSTEM_CHECKS: tuple[Check, ...] = (
    _database,
    _database_replaced,
    _driver,
    _checkpoint_store,
    _workers,
    _managers,
    _leader_changes,
    _nodes,
    _processes,
    _insecure,
    _files,
    _metric_tables,
)
