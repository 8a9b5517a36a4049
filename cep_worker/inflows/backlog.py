"""Frames that a link has yet to send: in memory here, in a log as well in `cep_worker.inflows.logged_backlog`."""

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
    """Batches of one stream, in order, from their acceptance until their link's server has taken them over.

    False when nothing is to be sent.
    """

    wake: Callable[[], None]
    """Called when more may be sent than before; set by the link."""

    @property
    def log(self) -> str:
        """The identity of the log from which it can be sent again; empty when there is none."""

    @property
    def problem(self) -> str:
        """Why nothing can be accepted, or nothing."""

    @property
    def rows(self) -> int:
        """Return how many rows have not been sent yet, or must be sent again."""

    def __bool__(self) -> bool: ...

    def has_room(self, linked: bool) -> bool:
        """Return whether a batch may be accepted; `linked` while there is a link."""

    def prepare(self, batch: pa.RecordBatch, body: Any, origin: BatchOrigin | None = None) -> Any:
        """Reserve room for `batch` and its `origin`, and return its Arrow IPC form if that is needed.

        Raises:
            WalFullError: there is no room now.
            BatchTooLargeError: it never fits.
        """

    def append(self, waiting: QueuedBatch) -> None:
        """Accept a batch for which room was reserved."""

    def fills(self, rows: int) -> bool:
        """Return whether the next frame need not wait for more, up to `rows`."""

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

        A server that `secures` reports itself what need not be kept; otherwise everything that it acknowledges is
        dropped. One that `goes_back` needs the following events even if they were secured. `attempt` is the topology's
        attempt; events cannot have ended the attempts in `cleared`, and the ends of `doubtful` ones prove little.
        """

    @property
    def is_isolated(self) -> bool:
        """The next frame is sent when nothing else is under way."""

    def sent(self, sequence: int, frame: ReadyFrame) -> None:
        """Note the sequence number under which the last taken frame was sent."""

    def acknowledged(self, sequence: int) -> None:
        """Remove the frames before `sequence`, which the receiver has accepted."""

    def secure(self, position: int, unneeded: int) -> None:
        """Note that the newest checkpoint holds the log up to `position`; up to `unneeded` it can be deleted."""

    @property
    def silent_ms(self) -> int:
        """Return for how long frames have been under way without an acknowledgement."""

    def give_back(self, frames: Iterable[PendingFrame], ran: bool = True) -> None:
        """Take back frames that a broken link has not acknowledged.

        `ran` is whether the server's process did anything in the time in which it acknowledged nothing.
        """

    def take_out(self) -> list[pa.RecordBatch]:
        """Give all that was not taken over to the caller, in order, and keep nothing of it.

        Called when there is no link.
        """

    def tick(self, now_ms: int) -> None:
        """Pass the time."""

    def close(self) -> None:
        """Close the backlog: nothing is accepted or sent from now on."""


class MemoryBacklog:
    """Frames that were not taken over are sent again over the next link; a process that ends takes all along."""

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
        """Send unacknowledged frames again, wherever the server is."""

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
    """Return what must be sent again; `pending` is a data frame."""
    message = pending.message
    assert isinstance(message, Data)  # noqa: S101 - only data frames carry bodies
    return ReadyFrame(
        pending.bodies[0], pending.rows, message.watermark_ms, message.position, again=True, accepted=message.accepted
    )
