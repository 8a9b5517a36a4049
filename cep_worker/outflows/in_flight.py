"""The frames in flight on a publisher's link: frames that wait for room, and those that consumers have."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from cep_common.protocol.links import Data
from cep_worker.outflows.transactional_log.unlogged_frames import LoggedFrames, UnloggedFrame
from topology.acks import AckLedger
from topology.links.server import FrameArrived

SPILL_MS = 1_000
"""Results go to the disk when consumers have delivered none of a publisher's for so long."""
SLOW_MS = 5_000
"""So do results that have waited for so long, though others are delivered: a checkpoint waits behind them."""


@dataclass(slots=True, eq=False)
class OfferedFrame:
    """A frame that consumers have; those that `waiting` names have not delivered it.

    `kept` is where it is kept on the disk, and `lost_rows` is what consumers could not deliver, the most of any.
    """

    frame: FrameArrived
    message: Data
    batch: pa.RecordBatch
    since_ms: int
    waiting: set[str]
    lost_rows: int = 0
    kept: LoggedFrames | None = None

    def settle(self, name: str, lost_rows: int) -> bool:
        """Return whether the consumer has delivered it, except for so many rows; True when all have."""
        self.waiting.discard(name)
        self.lost_rows = max(self.lost_rows, lost_rows)
        if self.kept is not None:
            self.kept.settle(self.message.stream, name)
        return not self.waiting

    def to_keep(self) -> UnloggedFrame:
        """Return the frame as the disk gets it."""
        return UnloggedFrame(self.message, self.batch, self.body, frozenset(self.waiting))

    @property
    def body(self) -> Any:
        """The frame's Arrow IPC form."""
        return self.frame.bodies[0]


@dataclass(slots=True, eq=False)
class InFlightFrames:
    """Frames that wait for room, those that consumers have, by number, and those that are not acknowledged.

    `moved_ms` is when consumers last delivered or took some, as far as was looked.
    """

    parked: deque[FrameArrived] = field(default_factory=deque)
    offered: dict[int, OfferedFrame] = field(default_factory=dict)
    taken: AckLedger = field(default_factory=AckLedger)
    moves: int = 0
    seen_moves: int = 0
    moved_ms: int = 0
    parked_ms: int = 0

    def in_memory(self) -> list[OfferedFrame]:
        """Return the frames that consumers have and that are not on disk."""
        return [one for one in self.offered.values() if one.kept is None]

    def waits(self, now_ms: int) -> bool:
        """Return whether its results have waited for consumers for too long."""
        if self.moves != self.seen_moves:
            self.seen_moves, self.moved_ms = self.moves, now_ms
        first = next((one for one in self.offered.values() if one.kept is None), None)
        waits = [one for one in (first.since_ms if first else None, self.parked_ms if self.parked else None) if one]
        if not waits:
            return False
        waited_ms = now_ms - min(waits)
        return waited_ms >= SLOW_MS or (waited_ms >= SPILL_MS and now_ms - self.moved_ms >= SPILL_MS)
