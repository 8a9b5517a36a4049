"""Long operations whose progress can be watched.

Pure: progress is derived from a snapshot, so that every new leader can report it, and nothing is stored for an
operation.

An operation is named `KIND:BEGUN_MS:SAVEPOINT:PLAN`. A change is identified by the time at which it was written to the
plan store (`updated_ms`), which survives restarts, new epochs and changes of leader.
"""

from __future__ import annotations

from typing import Any, Literal, get_args

import msgspec

from cep_common.ids import PlanKey
from cep_common.protocol.drivers import SavepointReport
from cep_manager.checkpoints.view import savepoint_view
from cep_manager.control.snapshot import ClusterSnapshot
from cep_manager.errors import UnknownOperationError
from cep_manager.plans.record import PlanRecord, Submission
from cep_manager.plans.state import PlanState

OperationKind = Literal[
    "deploy", "update", "rebalance", "rename", "restart", "undeploy", "savepoint", "savepoint-removal"
]
OperationState = Literal["pending", "running", "succeeded", "failed", "superseded"]

NOT_TOLD_AFTER_MS = 10_000
"""Time without a report of the driver after which a requested savepoint counts as failed."""


CLOCKS_APART_MS = 5_000
"""The allowed difference between the clocks of driver and manager."""


class OperationError(msgspec.Struct, frozen=True):
    """Why an operation failed."""

    code: str
    message: str
    details: dict[str, Any] = {}


class Operation(msgspec.Struct, frozen=True):
    """An action on a plan and its progress.

    `pending`: something must come first, `running`: in progress, `succeeded`: done, `failed`: see `error`,
    `superseded`: a later action has replaced it. `progress` says the same in words. `begun_ms` is a time of day.
    `result` is the outcome.
    """

    operation: str
    kind: OperationKind
    plan: str
    tenant: int
    state: OperationState
    progress: str
    begun_ms: int
    result: dict[str, Any] | None = None
    error: OperationError | None = None


class OperationId(msgspec.Struct, frozen=True):
    """The identifier of an operation."""

    kind: OperationKind
    begun_ms: int
    key: PlanKey
    savepoint: str = ""

    def text(self) -> str:
        """Return the id as text."""
        return f"{self.kind}:{self.begun_ms}:{self.savepoint}:{self.key.plan}"


def parse_operation(tenant: int, text: str) -> OperationId:
    """Return the operation of the tenant that `text` names. Raises UnknownOperationError."""
    kind, _, rest = text.partition(":")
    begun_ms, _, rest = rest.partition(":")
    savepoint, colon, plan = rest.partition(":")
    if kind not in get_args(OperationKind) or not (begun_ms.isascii() and begun_ms.isdigit() and colon and plan):
        raise UnknownOperationError(f"there is no operation {text[:80]!r}", {"kinds": list(get_args(OperationKind))})
    return OperationId(kind, int(begun_ms[:18]), PlanKey(tenant, plan), savepoint)  # type: ignore[arg-type]


def operation_now(snapshot: ClusterSnapshot, now_ms: int, asked: OperationId) -> Operation:
    """Return the operation's progress; `now_ms` is the time of day."""
    match asked.kind:
        case "undeploy":
            return _undeployment(snapshot, asked)
        case "savepoint":
            return _savepoint(snapshot, now_ms, asked)
        case "savepoint-removal":
            return _removal(snapshot, asked)
        case _:
            return _change(snapshot, asked)


def operations_now(snapshot: ClusterSnapshot, now_ms: int, tenant: int, most: int) -> tuple[Operation, ...]:
    """Return the newest operations of the snapshot, newest first.

    These are each plan's last change, or deployment, and its savepoints.
    """
    asked = [one for record in snapshot.plans.values() if record.key.tenant == tenant for one in _changes(record)]
    asked += [
        OperationId("savepoint", one.taken_ms, one.key, one.name)
        for one in _savepoints(snapshot)
        if one.key.tenant == tenant
    ]
    asked.sort(key=lambda one: one.begun_ms, reverse=True)
    return tuple(operation_now(snapshot, now_ms, one) for one in asked[:most])


def change_of(snapshot: ClusterSnapshot, kind: OperationKind, key: PlanKey, epoch: int) -> OperationId | None:
    """Return the change of the plan that counted `epoch`; None if another change has been made since."""
    record = snapshot.plans.get(key)
    if record is None:
        return None
    versions = {record.epoch: record.stored.updated_ms}
    if record.trial is not None:
        versions[record.trial.version.epoch] = record.trial.version.updated_ms
    return OperationId(kind, versions[epoch], key) if epoch in versions else None


def _changes(record: PlanRecord) -> list[OperationId]:
    """Return the operation that led to the plan's present form, and the change in progress."""
    deployed = record.stored.updated_ms == record.stored.created_ms
    found = [OperationId("deploy" if deployed else record.change() or "update", record.stored.updated_ms, record.key)]
    if record.trial is not None:
        found.append(OperationId(record.trial.kind, record.trial.version.updated_ms, record.key))
    return found


def _change(snapshot: ClusterSnapshot, asked: OperationId) -> Operation:
    record = snapshot.plans.get(asked.key)
    if record is None:
        return _status(asked, "superseded", f"{asked.key.plan} is no longer deployed under that name")
    trial = record.trial
    if trial is not None and trial.version.updated_ms == asked.begun_ms and asked.kind != "restart":
        return _status(asked, "pending" if trial.submission is Submission.NEW else "running", trial.reason)
    newest_ms = max(record.stored.updated_ms, trial.version.updated_ms if trial is not None else 0)
    if newest_ms > asked.begun_ms:
        return _status(asked, "superseded", f"{asked.key.plan} was changed again in the meantime")
    if record.stored.updated_ms < asked.begun_ms and asked.kind != "restart":
        why = record.change_error or "the manager that tried it no longer leads; its log says why"
        return _failed(asked, "change-failed", why, f"the change failed and the previous version keeps running: {why}")
    return _version(record, asked)


def _version(record: PlanRecord, asked: OperationId) -> Operation:
    """Return the state of an operation that gives the plan another form."""
    match record.state:
        case PlanState.ACTIVE | PlanState.INACTIVE:
            result = {"epoch": record.epoch, "topology": record.key.topology(), "state": record.state.value}
            return _status(asked, "succeeded", record.reason or "every task runs and sends heartbeats", result)
        case PlanState.FAILED:
            return _failed(asked, "plan-failed", record.reason, record.reason)
        case PlanState.WAITING:
            return _status(asked, "pending", record.reason)
        case _:
            return _status(asked, "running", record.reason)


def _undeployment(snapshot: ClusterSnapshot, asked: OperationId) -> Operation:
    record = snapshot.plans.get(asked.key)
    if record is not None:
        if record.stored.created_ms >= asked.begun_ms:
            return _status(asked, "succeeded", "it was ended; a plan of that name was deployed since")
        if record.draining is not None:
            return _status(asked, "running", record.drain_reason)
        return _status(asked, "superseded", f"{asked.key.plan} is deployed")
    if snapshot.driver is None or snapshot.driver_missing:
        return _status(asked, "pending", snapshot.driver_missing or "no driver has reported it")
    ending = next((one for one in snapshot.driver.latest.topologies if one.key == asked.key), None)
    if ending is not None:
        return _status(asked, "running", ending.reason or f"its topology is {ending.state}")
    return _status(asked, "succeeded", "its topology has ended")


def _savepoint(snapshot: ClusterSnapshot, now_ms: int, asked: OperationId) -> Operation:
    report = _report(snapshot, asked)
    if report is not None and report.state == "stored" and report.taken_ms < asked.begun_ms - CLOCKS_APART_MS:
        report = None  # an earlier one of that name, in whose place this one comes
    if report is None and (snapshot.driver is None or now_ms - asked.begun_ms < NOT_TOLD_AFTER_MS):
        return _status(asked, "pending", "the request was sent to the driver")
    if report is None:
        why = f"the driver has no savepoint {asked.savepoint}: it was removed, or never started"
        return _failed(asked, "unknown-savepoint", why, why)
    if report.state == "failed":
        return _failed(asked, "savepoint-failed", report.error, report.error)
    if report.state == "taking":
        return _status(asked, "running", "the checkpoint is being taken")
    return _status(asked, "succeeded", "it is stored", msgspec.to_builtins(savepoint_view(report)))


def _removal(snapshot: ClusterSnapshot, asked: OperationId) -> Operation:
    report = _report(snapshot, asked)
    if snapshot.driver is None:
        return _status(asked, "pending", "no driver has reported it")
    if report is None:
        return _status(asked, "succeeded", "it is removed")
    if report.taken_ms > asked.begun_ms:
        return _status(asked, "succeeded", "it was removed; another of that name was taken since")
    if report.error:
        return _failed(asked, "savepoint-failed", report.error, report.error)
    return _status(asked, "running", "the request was sent to the driver")


def _report(snapshot: ClusterSnapshot, asked: OperationId) -> SavepointReport | None:
    wanted = (asked.key, asked.savepoint)
    return next((one for one in _savepoints(snapshot) if (one.key, one.name) == wanted), None)


def _savepoints(snapshot: ClusterSnapshot) -> tuple[SavepointReport, ...]:
    return snapshot.driver.latest.savepoints if snapshot.driver is not None else ()


def _status(
    asked: OperationId, state: OperationState, progress: str, result: dict[str, Any] | None = None
) -> Operation:
    return Operation(
        asked.text(), asked.kind, asked.key.plan, asked.key.tenant, state, progress, asked.begun_ms, result
    )


def _failed(asked: OperationId, code: str, message: str, progress: str) -> Operation:
    status = _status(asked, "failed", progress)
    return msgspec.structs.replace(status, error=OperationError(code, message or "no reason was given"))
