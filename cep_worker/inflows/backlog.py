"""The backlog of a link: batches that it has not sent yet. `logged_backlog` has one that is also in a log."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable
from typing import Any, Protocol

import pyarrow as pa

from cep_common.protocol.links import Data
from cep_worker.inflows.batching import BatchingQueue, QueuedBatch, ReadyFrame
from cep_worker.storage.records import BatchOrigin
from topology.events.frames import decode_batch
from topology.links.protocol import PendingFrame


class Backlog(Protocol):
    """The batches of one stream that its link must send, and that its server has not acknowledged, in order.

    False when nothing is to be sent.
    """

    wake: Callable[[], None]
    """Called when more may be sent; set by the link."""

    @property
    def log(self) -> str:
        """Return the identity of its log; empty without one."""

    @property
    def problem(self) -> str:
        """Return why nothing can be accepted; empty if something can."""

    @property
    def rows(self) -> int:
        """Return the number of rows that must be sent or resent."""

    def __bool__(self) -> bool: ...

    def has_room(self, linked: bool) -> bool:
        """Return whether a batch may be accepted; `linked` while there is a link."""

    def prepare(self, batch: pa.RecordBatch, body: Any, origin: BatchOrigin | None = None) -> Any:
        """Reserve room for `batch` and its `origin`, and return its Arrow IPC form if the backlog needs it.

        Raises:
            WalFullError: there is no room now.
            BatchTooLargeError: it never fits.
        """

    def append(self, waiting: QueuedBatch) -> None:
        """Accept a batch for which room was reserved."""

    def fills(self, rows: int) -> bool:
        """Return whether the next frame is full with `rows` rows."""

    def take(self, most_rows: int) -> ReadyFrame | None:
        """Return the next frame, or None at the end.

        It has at most `most_rows` rows, unless it is one batch or was sent before.
        """

    def resume(
        self,
        position: int,
        secures: bool,
        goes_back: bool = False,
        attempt: int = 0,
        *,
        cleared: Collection[int] = (),
        doubtful: Collection[int] = (),
    ) -> None:
        """Continue on a new link whose server has taken the log up to `position`.

        A server that `secures` reports which events need not be kept; otherwise acknowledged events are dropped. One
        that `goes_back` needs the following events even if they were secured. `attempt` is the topology's attempt; no
        event ended the attempts in `cleared`, and the ends of `doubtful` ones are weak evidence.
        """

    @property
    def is_isolated(self) -> bool:
        """Return whether the next frame must be the only one in flight."""

    def sent(self, sequence: int, frame: ReadyFrame) -> None:
        """Record the sequence number of the last taken frame."""

    def acknowledged(self, sequence: int) -> None:
        """Remove the frames before `sequence`, which the receiver has accepted."""

    def secure(self, position: int, unneeded: int) -> None:
        """Record that the newest checkpoint contains the log up to `position`; up to `unneeded` it can be deleted."""

    @property
    def silent_ms(self) -> int:
        """Return for how long frames have been in flight without an acknowledgement."""

    def give_back(self, frames: Iterable[PendingFrame], ran: bool = True) -> None:
        """Take back frames that a broken link has not acknowledged.

        `ran` says whether the server's process was running while it acknowledged nothing.
        """

    def take_out(self) -> list[pa.RecordBatch]:
        """Remove and return all batches that the server has not accepted, in order.

        Called when there is no link.
        """

    def tick(self, now_ms: int) -> None:
        """Perform due tasks."""

    def close(self) -> None:
        """Close the backlog and refuse further batches."""


class MemoryBacklog:
    """A backlog in memory. Unacknowledged frames are sent again over the next link; they do not survive the process."""

    log = ""
    problem = ""
    silent_ms = 0
    wake: Callable[[], None] = staticmethod(lambda: None)

    def __init__(self, most_rows: int, schema: pa.Schema) -> None:
        self._most_rows = most_rows
        self._schema = schema
        self._waiting = BatchingQueue()
        self._again: deque[ReadyFrame] = deque()

    @property
    def rows(self) -> int:
        return self._waiting.rows + sum(frame.rows for frame in self._again)

    def __bool__(self) -> bool:
        return bool(self._waiting or self._again)

    def has_room(self, linked: bool) -> bool:
        return self._waiting.rows < self._most_rows

    def prepare(self, batch: pa.RecordBatch, body: Any, origin: BatchOrigin | None = None) -> Any:
        return body

    def append(self, waiting: QueuedBatch) -> None:
        self._waiting.append(waiting)

    def fills(self, rows: int) -> bool:
        return bool(self._again) or self._waiting.rows >= rows

    def take(self, most_rows: int) -> ReadyFrame | None:
        if self._again:
            return self._again.popleft()
        return self._waiting.take(most_rows) if self._waiting else None

    def resume(
        self,
        position: int,
        secures: bool,
        goes_back: bool = False,
        attempt: int = 0,
        *,
        cleared: Collection[int] = (),
        doubtful: Collection[int] = (),
    ) -> None:
        """Resend unacknowledged frames, whatever the server's position."""

    @property
    def is_isolated(self) -> bool:
        return False

    def sent(self, sequence: int, frame: ReadyFrame) -> None:
        """Do nothing: the link remembers the frame."""

    def acknowledged(self, sequence: int) -> None:
        """Do nothing: the link has forgotten the frames."""

    def secure(self, position: int, unneeded: int) -> None:
        """Do nothing: without a log there is nothing to delete."""

    def give_back(self, frames: Iterable[PendingFrame], ran: bool = True) -> None:
        self._again.extendleft(reversed([frame_again(frame) for frame in frames if frame.bodies]))

    def take_out(self) -> list[pa.RecordBatch]:
        again = [decode_batch(frame.body, self._schema, frame.rows) for frame in self._again]
        self._again.clear()
        return [*again, *self._waiting.take_all()]

    def tick(self, now_ms: int) -> None:
        """Do nothing: nothing changes with time."""

    def close(self) -> None:
        """Do nothing: there is nothing to close."""


def frame_again(pending: PendingFrame) -> ReadyFrame:
    """Return the frame that resends `pending`, a data frame."""
    message = pending.message
    assert isinstance(message, Data)  # noqa: S101 - only data frames carry bodies
    return ReadyFrame(
        pending.bodies[0], pending.rows, message.watermark_ms, message.position, again=True, accepted=message.accepted
    )
