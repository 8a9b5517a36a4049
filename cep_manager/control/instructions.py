"""Instructions of the decision logic to the manager's I/O layer. Decisions themselves do no I/O."""

from __future__ import annotations

from collections import deque

import msgspec

from cep_common.ids import PlanKey
from cep_common.protocol.checkpoints import ClearCheckpoints, DeleteSavepoint, TakeSavepoint
from cep_common.protocol.drivers import KillTopology, RenamePlan, SubmitTopology
from cep_manager.log_line import LogLine
from cep_manager.plans.record import PlanVersion

DriverOrder = SubmitTopology | KillTopology | RenamePlan | TakeSavepoint | DeleteSavepoint | ClearCheckpoints
"""Orders to a driver; each carries the token under which the manager leads."""


class PushToDriver(msgspec.Struct, frozen=True):
    """Send `message` to the driver at `peer` (its routing id)."""

    peer: bytes
    message: DriverOrder


class RaiseEpoch(msgspec.Struct, frozen=True):
    """Raise the plan's epoch in the plan store to one above `above`, then report it with `epoch_raised`."""

    key: PlanKey
    above: int = 0


class SettleChange(msgspec.Struct, frozen=True):
    """Store `in_force` as the plan's text and size, and drop its form before the change.

    `epoch` is the last one of that change.
    """

    key: PlanKey
    epoch: int
    in_force: PlanVersion


class NoteBegun(msgspec.Struct, frozen=True):
    """Store that the plan has run under `epoch`, so that it does not start from its ordered state again."""

    key: PlanKey
    epoch: int


class RemoveDrained(msgspec.Struct, frozen=True):
    """Remove a fully drained plan from the plan store, then report with `remove_plan` or `not_removed`."""

    key: PlanKey


StoreInstruction = RaiseEpoch | SettleChange | NoteBegun | RemoveDrained
"""Instructions to write to the plan store."""

Instruction = LogLine | PushToDriver | StoreInstruction


def leading(waiting: deque[StoreInstruction], most: int) -> list[StoreInstruction]:
    """Take the first instructions of one kind out of `waiting`, `most` at most; none if nothing waits.

    Those of other kinds keep their place, because a plan's instructions are executed in the order in which they were
    given.
    """
    taken: list[StoreInstruction] = []
    while waiting and len(taken) < most and (not taken or type(waiting[0]) is type(taken[0])):
        taken.append(waiting.popleft())
    return taken
