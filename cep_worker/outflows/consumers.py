"""Who takes results, and by what results are known however often they come."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from cep_common.ids import PlanKey
from cep_worker.outflows.receipts import DeliveryReceipt


@dataclass(frozen=True, slots=True)
class GroupId:
    """The results that a publisher instance gave to this worker between two checkpoints, in one piece.

    `log` is the identity of the worker's store for this publisher: groups of one log come in order of (epoch, attempt,
    checkpoint).
    """

    key: PlanKey
    publisher: str
    epoch: int
    attempt: int
    checkpoint: int
    log: str


@dataclass(frozen=True, slots=True)
class FrameId:
    """A frame of a group; `number` counts the frames of its group's log, from 1, over all its groups."""

    group: GroupId
    number: int

    def follows(self, former: FrameId) -> bool:
        """Return whether it follows `former` in its group; otherwise a group begins or comes again."""
        return self.group == former.group and self.number > former.number


class ResultConsumer(Protocol):
    """A consumer of the events of an exported stream.

    All methods are called on the data thread; a receipt is settled on it too.
    """

    def has_room(self) -> bool:
        """Return whether `offer` may be called."""

    def offer(self, batch: pa.RecordBatch, body: Any, receipt: DeliveryReceipt, frame: FrameId | None = None) -> None:
        """Take over `batch` (`body` is its Arrow IPC form) and settle `receipt` when it is delivered.

        A `frame` belongs to a group, which `commit` ends; it may have come before.
        """

    def commit(self, group: GroupId, receipt: DeliveryReceipt) -> None:
        """All frames of `group` have been offered: they take effect together, once."""


class Tap(ResultConsumer, Protocol):
    """A consumer of a plan's stream.

    `name` tells it from others of the stream as long as the process lives, also when it is edited. Of one that is
    `lasting` it is known how much it has had when the process starts again: it is the one that has the same `form`
    then, or else the same name.
    """

    @property
    def name(self) -> str: ...

    @property
    def form(self) -> str: ...

    @property
    def lasting(self) -> bool: ...


Consumers = Callable[[str], Sequence[Tap]]
"""Who takes the events of the plan's stream of that name, now."""
