"""What decisions ask the manager's shell to do. Decisions themselves do no I/O."""

from __future__ import annotations

from typing import Literal

import msgspec

from cep_common.ids import PlanKey
from cep_common.messages import KillTopology, SubmitTopology


class LogLine(msgspec.Struct, frozen=True):
    """Write one line to the log."""

    level: Literal["info", "warning", "error"]
    text: str


class PushToDriver(msgspec.Struct, frozen=True):
    """Send `message` to the driver at `peer` (its routing id)."""

    peer: bytes
    message: SubmitTopology | KillTopology


class RaiseEpoch(msgspec.Struct, frozen=True):
    """Count the plan's epoch up in the plan store, then report it with `epoch_raised`."""

    key: PlanKey


class SettleChange(msgspec.Struct, frozen=True):
    """Forget in the plan store what the plan was before the change that counted `epoch`; not `kept`: bring it back."""

    key: PlanKey
    epoch: int
    kept: bool


Instruction = LogLine | PushToDriver | RaiseEpoch | SettleChange
