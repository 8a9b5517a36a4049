"""Views of checkpoints and savepoints for the web, computed from the driver's last report. Pure."""

from __future__ import annotations

import msgspec

from cep_common.ids import PlanKey
from cep_common.protocol.checkpoints import NO_SAVEPOINT
from cep_common.protocol.drivers import (
    FORMER_SAVEPOINT,
    CheckpointSettings,
    CheckpointState,
    CheckpointTrigger,
    SavepointReport,
)
from cep_manager.control.snapshot import ClusterSnapshot
from cep_manager.errors import StateUnreadableError, UnknownSavepointError
from cep_manager.plans.record import PlanRecord
from query_plan.xml import read_checkpoint_interval, read_checkpoints_kept


class CheckpointView(msgspec.Struct, frozen=True):
    """A checkpoint of the plan's topology of `epoch`; see `CheckpointReport`."""

    checkpoint: int
    epoch: int
    state: CheckpointState
    trigger: CheckpointTrigger
    began_ms: int
    duration_ms: int
    alignment_ms: int
    size_bytes: int
    stored_bytes: int
    tasks: int
    acknowledged: int
    name: str
    error: str


class Spread(msgspec.Struct, frozen=True):
    """The distribution of numbers; p50 and p99 are the smallest values that 50% and 99% of them do not exceed."""

    minimum: int
    average: int
    p50: int
    p99: int
    maximum: int


class CheckpointSummary(msgspec.Struct, frozen=True):
    """Outcomes of the known checkpoints, and the spread of the complete ones; None if there are no complete ones."""

    complete: int
    failed: int
    abandoned: int
    duration_ms: Spread | None
    alignment_ms: Spread | None
    size_bytes: Spread | None
    stored_bytes: Spread | None


class CheckpointList(msgspec.Struct, frozen=True):
    """The known checkpoints of a plan, oldest first, including those of earlier epochs.

    `begun_from` is the one from which the current attempt of its topology of `epoch` started, 0 without state.
    `last_complete` is the newest complete one, 0 if there is none. `settings` are the checkpoint settings of the plan;
    None if no driver is known. `kept_savepoint` is the one with the newest state that other plans of the name have left
    in the store; it may be empty.
    """

    plan: str
    tenant: int
    epoch: int
    attempt: int
    begun_from: int
    last_complete: int
    checkpoints: tuple[CheckpointView, ...]
    summary: CheckpointSummary
    settings: CheckpointSettings | None
    kept_savepoint: str


class PlanCheckpointSummary(msgspec.Struct, frozen=True):
    """Summary of a plan's checkpoints.

    Names the newest complete one (None: there is none), the newest failed one, and the savepoints. `taking` is the
    number of the checkpoint in progress, 0: none.
    """

    plan: str
    tenant: int
    newest: CheckpointView | None
    newest_problem: CheckpointView | None
    taking: int
    summary: CheckpointSummary
    savepoints: int


class CheckpointOverview(msgspec.Struct, frozen=True):
    """The checkpoints of all plans of a tenant, in order of name.

    `settings` are those of the driver, which plans may override; None if no driver is known.
    """

    tenant: int
    plans: tuple[PlanCheckpointSummary, ...]
    settings: CheckpointSettings | None


class SavepointView(msgspec.Struct, frozen=True):
    """A savepoint of a plan, which need not be deployed; `state` is `taking`, `stored` or `failed`.

    `unreadable` says why no plan can begin from it: another version of the software wrote it; empty: one can.
    """

    plan: str
    tenant: int
    name: str
    state: str
    checkpoint: int
    taken_ms: int
    size_bytes: int
    error: str
    unreadable: str


class SavepointList(msgspec.Struct, frozen=True):
    """The savepoints of a plan, oldest first."""

    plan: str
    tenant: int
    savepoints: tuple[SavepointView, ...]


def checkpoint_list(snapshot: ClusterSnapshot, key: PlanKey, epoch: int) -> CheckpointList:
    """Return the checkpoints of the plan; `epoch` is that of its topology."""
    found = next((one for one in snapshot.topologies_of(key) if one.epoch == epoch), None)
    views = _views(snapshot, key)
    return CheckpointList(
        plan=key.plan,
        tenant=key.tenant,
        epoch=epoch,
        attempt=found.restarts if found is not None else 0,
        begun_from=found.begun_from if found is not None else 0,
        last_complete=next((one.checkpoint for one in reversed(views) if one.state == "complete"), 0),
        checkpoints=views,
        summary=_summary(views),
        settings=_settings_of(snapshot, key),
        kept_savepoint=former_savepoint(snapshot, key),
    )


def checkpoint_overview(snapshot: ClusterSnapshot, tenant: int) -> CheckpointOverview:
    """Return the checkpoints of all plans of the tenant."""
    keys = sorted(key for key in snapshot.plans if key.tenant == tenant)
    return CheckpointOverview(tenant, tuple(_plan_checkpoints(snapshot, key) for key in keys), _settings(snapshot))


def savepoint_list(snapshot: ClusterSnapshot, key: PlanKey) -> SavepointList:
    """Return the savepoints of the plan."""
    found = (msgspec.structs.replace(one, key=key) for one in _savepoints(snapshot, key))
    return SavepointList(key.plan, key.tenant, tuple(savepoint_view(one) for one in found))


def former_savepoint(snapshot: ClusterSnapshot, key: PlanKey) -> str:
    """Return the savepoint with the newest state that another plan of the name has left in the store.

    Empty: there is none.
    """
    former = (one.name for one in _savepoints(snapshot, key) if one.state == "stored")
    return next((name for name in reversed([*former]) if name.startswith(FORMER_SAVEPOINT)), "")


def savepoint_view(report: SavepointReport) -> SavepointView:
    """Return a savepoint as the web shows it."""
    return SavepointView(
        report.key.plan,
        report.key.tenant,
        report.name,
        report.state,
        report.checkpoint,
        report.taken_ms,
        report.size_bytes,
        report.error,
        report.unreadable,
    )


def require_savepoint(snapshot: ClusterSnapshot, key: PlanKey, name: str) -> None:
    """Raise unless the plan can start from that savepoint.

    Raises UnknownSavepointError when the plan has no such savepoint, StateUnreadableError when it cannot start from it.
    Passes if no driver is alive, since then it cannot be known.
    """
    if snapshot.driver is None:
        return
    found = next((one for one in _savepoints(snapshot, key) if one.name == name and one.unreadable), None)
    if found is not None:
        what = f"savepoint {name} of {key.plan} cannot be used: {found.unreadable}; nothing was changed"
        raise StateUnreadableError(what, {"savepoint": name, "allowed": usable_savepoints(snapshot, key)})
    known = usable_savepoints(snapshot, key)
    if name not in known:
        there = f"there are: {', '.join(known)}" if known else "it has none"
        raise UnknownSavepointError(f"{key.plan} has no savepoint named {name}; {there}", {"allowed": known})


def usable_savepoints(snapshot: ClusterSnapshot, key: PlanKey) -> list[str]:
    """Return the names of the plan's savepoints that it can begin from, oldest first."""
    return [one.name for one in _savepoints(snapshot, key) if one.state == "stored" and not one.unreadable]


def unreadable_state(snapshot: ClusterSnapshot, record: PlanRecord) -> str:
    """Return why the plan cannot begin from its newest checkpoint, and what to do.

    Empty: it can, as far as that is known.
    """
    own = (one for one in snapshot.topologies_of(record.key) if one.epoch == record.epoch and record.owns(one))
    return next((one.unreadable for one in own), "")


def require_readable_state(snapshot: ClusterSnapshot, record: PlanRecord) -> None:
    """Raise StateUnreadableError when the plan cannot begin from its newest checkpoint.

    The caller must then say what the plan starts from.
    """
    problem = unreadable_state(snapshot, record)
    if problem:
        details = {"allowed": [*usable_savepoints(snapshot, record.key), NO_SAVEPOINT]}
        raise StateUnreadableError(f"{record.key.plan} was not changed: {problem}", details)


def _savepoints(snapshot: ClusterSnapshot, key: PlanKey) -> list[SavepointReport]:
    if snapshot.driver is None:
        return []
    return [one for one in snapshot.driver.latest.savepoints if one.key == key]


def _views(snapshot: ClusterSnapshot, key: PlanKey) -> tuple[CheckpointView, ...]:
    return tuple(
        CheckpointView(
            checkpoint=one.report.checkpoint,
            epoch=one.epoch,
            state=one.report.state,
            trigger=one.report.trigger,
            began_ms=one.report.began_ms,
            duration_ms=one.report.duration_ms,
            alignment_ms=one.report.alignment_ms,
            size_bytes=one.report.size_bytes,
            stored_bytes=one.report.stored_bytes,
            tasks=one.report.tasks,
            acknowledged=one.report.acknowledged,
            name=one.report.name,
            error=one.report.error,
        )
        for one in snapshot.checkpoints.get(key, ())
    )


def _plan_checkpoints(snapshot: ClusterSnapshot, key: PlanKey) -> PlanCheckpointSummary:
    views = _views(snapshot, key)
    newest_first = views[::-1]
    return PlanCheckpointSummary(
        plan=key.plan,
        tenant=key.tenant,
        newest=next((one for one in newest_first if one.state == "complete"), None),
        newest_problem=next((one for one in newest_first if one.state in ("failed", "abandoned")), None),
        taking=next((one.checkpoint for one in newest_first if one.state == "taking"), 0),
        summary=_summary(views),
        savepoints=sum(one.state == "stored" for one in _savepoints(snapshot, key)),
    )


def _summary(views: tuple[CheckpointView, ...]) -> CheckpointSummary:
    complete = [one for one in views if one.state == "complete"]
    return CheckpointSummary(
        complete=len(complete),
        failed=sum(one.state == "failed" for one in views),
        abandoned=sum(one.state == "abandoned" for one in views),
        duration_ms=_spread([one.duration_ms for one in complete]),
        alignment_ms=_spread([one.alignment_ms for one in complete]),
        size_bytes=_spread([one.size_bytes for one in complete]),
        stored_bytes=_spread([one.stored_bytes for one in complete]),
    )


def _spread(numbers: list[int]) -> Spread | None:
    if not numbers:
        return None
    ordered = sorted(numbers)
    half, most = (ordered[max(0, -(-len(ordered) * share // 100) - 1)] for share in (50, 99))
    return Spread(ordered[0], round(sum(ordered) / len(ordered)), half, most, ordered[-1])


def _settings(snapshot: ClusterSnapshot) -> CheckpointSettings | None:
    return snapshot.driver.latest.checkpointing if snapshot.driver is not None else None


def _settings_of(snapshot: ClusterSnapshot, key: PlanKey) -> CheckpointSettings | None:
    """Return how checkpoints of the plan are taken: it may have its own interval and number of kept ones."""
    settings, record = _settings(snapshot), snapshot.plans.get(key)
    if settings is None or record is None or record.compiled is None:
        return settings
    plan = record.compiled.query_plan
    own = {"interval_ms": read_checkpoint_interval(plan), "retained": read_checkpoints_kept(plan)}
    return msgspec.structs.replace(settings, **{name: value for name, value in own.items() if value is not None})
