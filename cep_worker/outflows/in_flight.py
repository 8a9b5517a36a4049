"""Frames in flight on a publisher's link: those that wait for room, and those that consumers have."""

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
"""How long consumers may deliver none of a publisher's results before these are spilled to disk."""
SLOW_MS = 5_000
"""How long results may wait before they are spilled although others are delivered, since checkpoints wait for them."""


@dataclass(slots=True, eq=False)
class OfferedFrame:
    """A frame that consumers have; the consumers in `waiting` have not delivered it yet.

    `kept` is its place on disk, and `lost_rows` the maximum number of rows that one consumer could not deliver.
    """

    frame: FrameArrived
    message: Data
    batch: pa.RecordBatch
    since_ms: int
    waiting: set[str]
    lost_rows: int = 0
    kept: LoggedFrames | None = None

    def settle(self, name: str, lost_rows: int) -> bool:
        """Record that the consumer has delivered it except for `lost_rows` rows. Return whether all consumers have."""
        self.waiting.discard(name)
        self.lost_rows = max(self.lost_rows, lost_rows)
        if self.kept is not None:
            self.kept.settle(self.message.stream, name)
        return not self.waiting

    def to_keep(self) -> UnloggedFrame:
        """Return the frame in its form on disk."""
        return UnloggedFrame(self.message, self.batch, self.body, frozenset(self.waiting))

    @property
    def body(self) -> Any:
        """The frame's Arrow IPC form."""
        return self.frame.bodies[0]


@dataclass(slots=True, eq=False)
class InFlightFrames:
    """Frames that wait for room, frames that consumers have, by number, and frames that are not acknowledged.

    `moved_ms` is when consumers were last seen to deliver or accept some.
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
        """Return whether results have waited for consumers for too long."""
        if self.moves != self.seen_moves:
            self.seen_moves, self.moved_ms = self.moves, now_ms
        first = next((one for one in self.offered.values() if one.kept is None), None)
        waits = [one for one in (first.since_ms if first else None, self.parked_ms if self.parked else None) if one]
        if not waits:
            return False
        waited_ms = now_ms - min(waits)
        return waited_ms >= SLOW_MS or (waited_ms >= SPILL_MS and now_ms - self.moved_ms >= SPILL_MS)
