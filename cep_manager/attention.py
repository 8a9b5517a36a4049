"""What needs a person's attention, the worst first: told from what the manager knows at one moment. Pure.

Each check looks at one thing and yields findings. What heals by itself within seconds is none: a plan that is being
deployed, a connection that has only just been lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum
from typing import Literal

import msgspec

from cep_common.ids import SUPER_TENANT
from cep_manager.manager_view import ElectionView, ManagerInfo
from cep_manager.plan_folder import FileProblem
from cep_manager.snapshot import Snapshot


class Severity(StrEnum):
    """How much a finding matters; the order is that in which they are told."""

    CRITICAL = "critical"
    """Events are not processed, or not kept."""
    WARNING = "warning"
    """It works, and will not for ever."""
    NOTICE = "notice"
    """Worth knowing."""


Subject = Literal["plan", "worker", "driver", "manager", "file"]


class Finding(msgspec.Struct, frozen=True):
    """`what` is wrong with `name`, a `subject` (of `tenant`, when it is a plan), and what to do about it. `code` is
    stable. `since_ms` is the time of day at which it began, None where nobody knows."""

    severity: Severity
    code: str
    subject: Subject
    name: str
    what: str
    advice: str
    since_ms: int | None = None
    tenant: int = SUPER_TENANT


class Picture(msgspec.Struct, frozen=True):
    """All that checks look at. `now_ms` is the time of day; the times of `snapshot` are monotonic."""

    now_ms: int
    snapshot: Snapshot
    manager: ManagerInfo
    election: ElectionView
    file_problems: tuple[FileProblem, ...] = ()
    metric_tables_problem: str = ""

    def time_of_day(self, monotonic_ms: int) -> int:
        """The time of day at a moment of the snapshot's clock."""
        return self.now_ms - (self.snapshot.now_ms - monotonic_ms)


Check = Callable[[Picture], Iterator[Finding]]


def in_order(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """The worst first, of equals what began last; what has no beginning comes behind what has."""
    order = list(Severity)
    return tuple(sorted(findings, key=lambda one: (order.index(one.severity), -(one.since_ms or 0), one.name)))


def system_findings(picture: Picture) -> Iterator[Finding]:
    """What is wrong with the system, whoever's plans run on it."""
    for check in SYSTEM_CHECKS:
        yield from check(picture)


def _database(picture: Picture) -> Iterator[Finding]:
    if picture.election.problem:
        yield Finding(
            Severity.CRITICAL,
            "database",
            "manager",
            picture.manager.database,
            f"The plan store cannot be used: {picture.election.problem}",
            "Look after the database; until it answers, plans run on and nothing can be changed.",
        )


def _metric_tables(picture: Picture) -> Iterator[Finding]:
    if picture.metric_tables_problem:
        yield Finding(
            Severity.WARNING,
            "metric-tables",
            "manager",
            picture.manager.host,
            picture.metric_tables_problem,
            "While they cannot be read charts show what memory has, the last three hours. See metrics.tables in the "
            "manager's configuration.",
        )


def _driver(picture: Picture) -> Iterator[Finding]:
    snapshot = picture.snapshot
    if not snapshot.driver_missing:
        return
    last = snapshot.driver
    yield Finding(
        Severity.CRITICAL if snapshot.plans else Severity.WARNING,
        "no-driver",
        "driver",
        last.latest.driver if last is not None else "driver",
        f"{snapshot.driver_missing[:1].upper()}{snapshot.driver_missing[1:]}: no plan can be started or changed",
        "Start one with `cep driver`; its log says why it ended.",
        picture.time_of_day(last.heard_ms) if last is not None else None,
    )


def _checkpoint_store(picture: Picture) -> Iterator[Finding]:
    driver = picture.snapshot.driver
    settings = driver.latest.checkpointing if driver is not None else None
    if driver is not None and settings is not None and settings.problem:
        yield Finding(
            Severity.CRITICAL,
            "checkpoint-store",
            "driver",
            driver.latest.driver,
            f"Checkpoints cannot be stored: {settings.problem}",
            "Until they can be no plan starts, and a failure would repeat all since the last one; mend the store or "
            "checkpoint.location in the driver's configuration.",
        )


def _workers(picture: Picture) -> Iterator[Finding]:
    snapshot = picture.snapshot
    for worker in snapshot.lost_workers:
        yield Finding(
            Severity.WARNING,
            "worker-silent",
            "worker",
            worker.latest.worker,
            f"The worker on {worker.latest.host} (process {worker.latest.process_id}) is not heard any more",
            "Start it again with its data folder, which holds events that it has accepted and not delivered.",
            picture.time_of_day(worker.heard_ms),
        )
    if not snapshot.workers and any(record.compiled and record.compiled.imported for record in snapshot.plans.values()):
        yield Finding(
            Severity.CRITICAL,
            "no-worker",
            "worker",
            "workers",
            "No worker is alive: no events reach any plan",
            "Start one with `cep worker`.",
        )


def _managers(picture: Picture) -> Iterator[Finding]:
    for member in picture.election.managers:
        if member.role == "silent":
            yield Finding(
                Severity.WARNING,
                "manager-silent",
                "manager",
                f"{member.control.host}:{member.control.port}",
                "This manager does not tell of itself any more: there is one fewer to take over",
                "Start it again, or forget it: it goes from the list by itself.",
                picture.now_ms - member.silent_ms,
            )


def _insecure(picture: Picture) -> Iterator[Finding]:
    if picture.manager.insecure:
        yield Finding(
            Severity.WARNING,
            "insecure",
            "manager",
            f"{picture.manager.host}:{picture.manager.control_port}",
            "The system takes whoever comes from anywhere, without keys or tokens (security.insecure)",
            "Make keys and tokens as docs/operations.md says, and take `security.insecure` out of the configuration.",
        )


def _files(picture: Picture) -> Iterator[Finding]:
    for file in picture.file_problems:
        yield Finding(
            Severity.WARNING,
            "file",
            "file",
            file.name,
            f"The file's text is not what runs: {file.problem}",
            "Mend the file; it is read again as soon as it changes.",
        )


SYSTEM_CHECKS: tuple[Check, ...] = (
    _database,
    _driver,
    _checkpoint_store,
    _workers,
    _managers,
    _insecure,
    _files,
    _metric_tables,
)
