"""What can be told of checkpoints and savepoints. Pure: from the driver's last report."""

from __future__ import annotations

import msgspec

from cep_common.ids import PlanKey
from cep_common.messages import CheckpointReport, SavepointReport
from cep_manager.errors import UnknownSavepointError
from cep_manager.snapshot import Snapshot


class CheckpointList(msgspec.Struct, frozen=True):
    """The newest checkpoints of a plan's topology of `epoch`, oldest first; `begun_from` is the one that its present
    attempt began from, 0: without state. `last_complete` is the newest that is whole, 0: there is none since."""

    plan: str
    tenant: int
    epoch: int
    attempt: int
    begun_from: int
    last_complete: int
    checkpoints: tuple[CheckpointReport, ...]


class SavepointView(msgspec.Struct, frozen=True):
    """A savepoint of a plan, which need not be deployed; `state` is `taking`, `stored` or `failed`."""

    plan: str
    tenant: int
    name: str
    state: str
    checkpoint: int
    taken_ms: int
    size_bytes: int
    error: str


class SavepointList(msgspec.Struct, frozen=True):
    """The savepoints of a plan, oldest first."""

    plan: str
    tenant: int
    savepoints: tuple[SavepointView, ...]


def checkpoint_list(snapshot: Snapshot, key: PlanKey, epoch: int) -> CheckpointList:
    """The checkpoints of the plan's topology of `epoch`; none of one that the driver does not list."""
    reports = snapshot.driver.latest.topologies if snapshot.driver is not None else ()
    found = next((one for one in reports if (one.key, one.epoch) == (key, epoch)), None)
    if found is None:
        return CheckpointList(key.plan, key.tenant, epoch, 0, 0, 0, ())
    complete = (one.checkpoint for one in found.checkpoints if one.state == "complete")
    return CheckpointList(
        key.plan, key.tenant, epoch, found.restarts, found.begun_from, max(complete, default=0), found.checkpoints
    )


def savepoint_list(snapshot: Snapshot, key: PlanKey) -> SavepointList:
    """The savepoints of the plan."""
    return SavepointList(key.plan, key.tenant, tuple(savepoint_view(one) for one in _savepoints(snapshot, key)))


def savepoint_view(report: SavepointReport) -> SavepointView:
    """A savepoint as the web shows it."""
    return SavepointView(
        report.key.plan,
        report.key.tenant,
        report.name,
        report.state,
        report.checkpoint,
        report.taken_ms,
        report.size_bytes,
        report.error,
    )


def require_savepoint(snapshot: Snapshot, key: PlanKey, name: str) -> None:
    """Raises UnknownSavepointError when the plan has no such savepoint; where no driver lives nobody can tell."""
    if snapshot.driver is None:
        return
    known = [one.name for one in _savepoints(snapshot, key) if one.state == "stored"]
    if name not in known:
        there = f"there are: {', '.join(known)}" if known else "it has none"
        raise UnknownSavepointError(f"{key.plan} has no savepoint named {name}; {there}")


def _savepoints(snapshot: Snapshot, key: PlanKey) -> list[SavepointReport]:
    if snapshot.driver is None:
        return []
    return [one for one in snapshot.driver.latest.savepoints if one.key == key]
