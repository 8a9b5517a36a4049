"""The interface of consumers of results, and the ids by which they recognise repeated results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from cep_common.ids import PlanKey
from cep_worker.outflows.receipts import DeliveryReceipt

Rows = np.ndarray[Any, np.dtype[np.int64]]
"""Numbers of rows, in order."""


@dataclass(frozen=True, slots=True)
class GroupId:
    """The results that a publisher instance sent to this worker between two checkpoints, committed together.

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
    """A frame of a group; `number` counts all frames of the log from 1."""

    group: GroupId
    number: int
    rows: Rows | None = field(default=None, compare=False)
    """The rows of the frame that a consumer gets, if not all. Events have the same id at every consumer."""

    def part(self, rows: Rows) -> FrameId:
        """Return the frame restricted to these rows."""
        return replace(self, rows=rows)

    def row(self, index: int) -> int:
        """Return the index in the whole frame of the consumer's row `index`."""
        return index if self.rows is None else int(self.rows[index])

    def follows(self, former: FrameId) -> bool:
        """Return whether it continues the group of `former`; otherwise a group begins or is sent again."""
        return self.group == former.group and self.number > former.number


class ResultConsumer(Protocol):
    """A consumer of the events of an exported stream.

    All methods are called on the data thread, and receipts are settled on it.
    """

    def has_room(self) -> bool:
        """Return whether `offer` may be called now."""

    def offer(self, batch: pa.RecordBatch, body: Any, receipt: DeliveryReceipt, frame: FrameId | None = None) -> None:
        """Accept a batch, and settle `receipt` now or later, when the batch is delivered or dropped.

        Args:
            batch: The events, with `_timestamp` (int64 ms).
            body: The batch in Arrow's IPC format, for consumers that pass it on unchanged.
            receipt: To be settled exactly once, on the data thread.
            frame: The batch's place in a group, which takes effect with `commit`; None: outside groups. A frame may
                come again after a failure.
        """

    def commit(self, group: GroupId, receipt: DeliveryReceipt) -> None:
        """Commit all frames of `group` atomically and once; settle `receipt` when done.

        The same group may be committed again after a restart: a consumer that delivers exactly once recognises it by
        its id.
        """


class Tap(ResultConsumer, Protocol):
    """A consumer of a plan's stream.

    `name` identifies it among the consumers of the stream during the life of the process, even when it is edited. If it
    is `lasting`, its progress survives restarts of the process, for the consumer with the same `form`, or else with the
    same name.
    """

    @property
    def name(self) -> str: ...

    @property
    def form(self) -> str: ...

    @property
    def lasting(self) -> bool: ...


Consumers = Callable[[str], Sequence[Tap]]
"""Returns the current consumers of a plan's stream."""
