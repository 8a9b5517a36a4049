"""The identity of a log, and the deployment that received its events last, in files beside its segments."""

from __future__ import annotations

import uuid
from collections.abc import Collection
from pathlib import Path

import msgspec

from cep_common.ids import PlanKey
from cep_common.protocol.registry import StreamBinding
from cep_worker.storage.checked_json import read_checked, write_checked

IDENTITY_FILE = "log.json"
FORMER_FILE = "receiver.json"
BEGUN_FILE = "begun.json"
FAILED_FILE = "failed.json"
GIVEN_UP_FILE = "given_up.json"
COUNTED_FORMAT = 2
"""The first format whose logs have row counts from the beginning."""


class EarlierSchema(msgspec.Struct, frozen=True):
    """The `attributes` of events up to position `last`, after those of the previous entry."""

    last: int
    attributes: tuple[tuple[str, str], ...]


class LogIdentity(msgspec.Struct, frozen=True):
    """The identity of a log and the schema of its events.

    `format` is 2 where the counts of rows (`RowCounts`) were noted before this was written. `log` is random.
    `attributes` are those of the newest events, as (name, type); `earlier` are former ones, oldest first. `plan` is the
    plan's name at that time, `plan_id` its id (see `PlanKey`), and `deployed_ms` when it was first
    deployed (0: unknown).
    """

    log: str
    tenant: int
    plan: str
    stream: str
    attributes: tuple[tuple[str, str], ...]
    format: int = 1
    earlier: tuple[EarlierSchema, ...] = ()
    plan_id: str = ""
    deployed_ms: int = 0

    def key(self) -> PlanKey:
        """Return the plan under the name that it had when the log was made."""
        return PlanKey(self.tenant, self.plan, self.plan_id)

    def attributes_at(self, position: int) -> tuple[tuple[str, str], ...]:
        """Return the attributes of the events at that position."""
        return next((one.attributes for one in self.earlier if position <= one.last), self.attributes)


class LastReceiver(msgspec.Struct, frozen=True):
    """The receiver instance of the last link, in `epoch`, which has all sent events."""

    epoch: int
    receiver: str


class LogStart(msgspec.Struct, frozen=True):
    """Positions from `position` on may have been assigned."""

    position: int


class FailedMark(msgspec.Struct, frozen=True):
    """Events up to `position` that cannot be converted were stored as failed events."""

    position: int


class SkippedRecords(msgspec.Struct, frozen=True):
    """Records at these `positions` are no longer sent: they were stored as failed events, or appended again."""

    positions: tuple[int, ...]


def new_identity(key: PlanKey, binding: StreamBinding, deployed_ms: int = 0, log: str = "") -> LogIdentity:
    """Return the identity of a new log, or of one whose segments only show that they belong to `log`."""
    return LogIdentity(
        log or uuid.uuid4().hex, key.tenant, key.plan, binding.stream, binding.attributes, plan_id=key.id,
        deployed_ms=deployed_ms,
    )  # fmt: skip


def read_identity(folder: Path) -> LogIdentity | None:
    """Return the identity of the log in `folder`; None if there is no readable one."""
    return read_checked(folder / IDENTITY_FILE, LogIdentity)


def write_identity(folder: Path, identity: LogIdentity) -> None:
    """Create the folder and write `identity` to it durably.

    Raises:
        OSError: the disk fails.
    """
    write_checked(folder / IDENTITY_FILE, identity)


def read_former(folder: Path, epoch: int) -> str:
    """Return the receiver instance of the last link in `epoch`; empty when there was none."""
    former = read_checked(folder / FORMER_FILE, LastReceiver)
    return former.receiver if former is not None and former.epoch == epoch else ""


def write_former(folder: Path, former: LastReceiver) -> None:
    """Write the last receiver durably, as `write_identity` does."""
    write_checked(folder / FORMER_FILE, former)


def read_begun(folder: Path) -> int:
    """Return the first position of the log when it was opened last; 0 if it never was."""
    begun = read_checked(folder / BEGUN_FILE, LogStart)
    return begun.position if begun is not None else 0


def write_begun(folder: Path, position: int) -> None:
    """Write the position at which the log begins now durably, as `write_identity` does."""
    write_checked(folder / BEGUN_FILE, LogStart(position))


def read_failed(folder: Path) -> int:
    """Return the position up to which events that cannot be converted were stored as failed; 0: none."""
    failed = read_checked(folder / FAILED_FILE, FailedMark)
    return failed.position if failed is not None else 0


def write_failed(folder: Path, position: int) -> None:
    """Write durably the position up to which events that cannot be converted were stored as failed."""
    write_checked(folder / FAILED_FILE, FailedMark(position))


def read_given_up(folder: Path) -> frozenset[int]:
    """Return the positions of records that are no longer sent, because they ended their topology."""
    found = read_checked(folder / GIVEN_UP_FILE, SkippedRecords)
    return frozenset(found.positions) if found is not None else frozenset()


def write_given_up(folder: Path, positions: Collection[int]) -> None:
    """Write the positions of records that are no longer sent durably, as `write_identity` does."""
    write_checked(folder / GIVEN_UP_FILE, SkippedRecords(tuple(sorted(positions))))
