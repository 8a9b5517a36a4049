"""Links: how events travel from one process to the next, in order, acknowledged, and never more than agreed.

A link goes one way. Its sender opens it by saying which streams it will send; the server grants a window of rows.
Frames are numbered from 1; the server acknowledges what it has handed on, and only then may the sender send as much
again:

    sender                         server
      open-link {streams} ──────────▶
      ◀────────── link-opened {window_rows}
      data {sequence 1} + batch ────▶
      data {sequence 2} + batch ────▶
      ◀──────────── acknowledge {sequence 2}
      mark-idle {sequence 3} ───────▶    nothing more for now: do not wait for this link's watermark
      close-link ───────────────────▶

`Outbox` and `Inbox` are pure; `topology.links.sender` and `topology.links.server` use them over ZeroMQ.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any

from cep_common.errors import InputError
from cep_common.protocol.registry import Message

URGENT_SHARE = 8
"""An acknowledgement may be delayed and combined with others, until the unacknowledged rows are this fraction of the
window."""


@dataclass(frozen=True, slots=True)
class PendingFrame:
    """A frame that was sent and not yet acknowledged."""

    sequence: int
    rows: int
    message: Message
    bodies: tuple[Any, ...]


@dataclass(slots=True)
class Outbox:
    """The frames that a sender may send and must remember until they are acknowledged.

    `window_rows` None means that the link is not open yet. One frame may always be in flight, whatever its size.
    """

    window_rows: int | None = None
    next_sequence: int = 1
    in_flight_rows: int = 0
    pending: deque[PendingFrame] = field(default_factory=deque)

    def has_room(self) -> bool:
        """Return whether another frame may be sent now."""
        if self.window_rows is None:
            return False
        # A frame larger than the whole window must still get through, alone.
        return self.in_flight_rows < self.window_rows or not self.pending

    @property
    def first_unacknowledged(self) -> int:
        """The sequence of the oldest frame that is not acknowledged; without any, of the next one."""
        return self.pending[0].sequence if self.pending else self.next_sequence

    def sent(self, frame: PendingFrame) -> None:
        """Record that `frame` was sent; its sequence must be `next_sequence`."""
        if frame.sequence != self.next_sequence:
            raise ValueError(f"frame {frame.sequence} sent where {self.next_sequence} is next")
        self.next_sequence += 1
        self.in_flight_rows += frame.rows
        self.pending.append(frame)

    def acknowledged(self, sequence: int) -> int:
        """Remove all frames up to `sequence`, and return the number of rows that this frees.

        An old or repeated acknowledgement frees nothing.
        """
        freed = 0
        while self.pending and self.pending[0].sequence <= sequence:
            freed += self.pending.popleft().rows
        self.in_flight_rows -= freed
        return freed


@dataclass(slots=True)
class Inbox:
    """A server's state of one link: which frame is next, and what it has taken over so far."""

    window_rows: int
    received: int = 0
    handed_on: int = 0
    acknowledged: int = 0
    held_rows: int = 0
    owed_rows: int = 0
    """Rows that were handed on and whose acknowledgement has not been sent."""
    _rows: deque[tuple[int, int]] = field(default_factory=deque)
    _refused: set[int] = field(default_factory=set)

    def arrived(self, sequence: int, rows: int) -> None:
        """Record the arrival of a frame.

        Raises:
            InputError: When the frame is out of sequence or exceeds the window: the peer violates the protocol.
        """
        # Connections deliver in order, so a gap means a lost frame: only a new link can repair that.
        if sequence != self.received + 1:
            raise InputError("out-of-sequence", f"frame {sequence} came where {self.received + 1} was next")
        # The mirror of `Outbox.has_room`: the first frame may be of any size.
        if self.is_full():
            raise InputError("window-exceeded", f"{self.held_rows} rows are held already, {self.window_rows} agreed")
        self.received = sequence
        self.held_rows += rows
        self._rows.append((sequence, rows))

    def is_full(self) -> bool:
        """Return whether the sender may send nothing more until frames are acknowledged."""
        return self.held_rows >= self.window_rows and bool(self._rows)

    def done(self, sequence: int) -> None:
        """Allow all frames up to `sequence`, which have been passed on, to be acknowledged."""
        # acknowledgements are cumulative, so a refused frame must wait for those before it
        while self._rows and (self._rows[0][0] <= sequence or self._rows[0][0] in self._refused):
            last, rows = self._rows.popleft()
            self._refused.discard(last)
            self.held_rows -= rows
            self.owed_rows += rows
            self.handed_on = last

    def refused(self, sequence: int) -> None:
        """Count a frame that is not passed on as done as soon as all frames before it are."""
        self._refused.add(sequence)
        self.done(self.handed_on)

    def due_acknowledgement(self) -> int | None:
        """Return the sequence to acknowledge now, or None when the peer knows already."""
        # Acknowledgements are cumulative, so a repeated one says nothing new.
        if self.handed_on == self.acknowledged:
            return None
        self.acknowledged = self.handed_on
        self.owed_rows = 0
        return self.acknowledged

    def is_urgent(self) -> bool:
        """Return whether so much of the window is unacknowledged that an acknowledgement is due at once."""
        return self.owed_rows * URGENT_SHARE >= self.window_rows
