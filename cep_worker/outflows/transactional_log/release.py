"""The delivery of one group of results from its file to one consumer."""

from __future__ import annotations

import errno
from collections.abc import Callable

import pyarrow as pa

from cep_worker.outflows.consumers import FrameId, GroupId, Tap
from cep_worker.outflows.receipts import DeliveryReceipt
from cep_worker.outflows.transactional_log.group_file import DamagedError, GroupReader, ResultGroup, StoredFrame
from topology.acks import AckLedger
from topology.events.frames import decode_batch

UNREADABLE_MS = 10_000
"""How long a part of a file may be unreadable until it counts as lost."""


class GroupDelivery:
    """Offers the frames of `stream` in a group to a consumer while it has room, then lets it commit the group.

    Frames of a group that is delivered `at_once` are offered without a commit, even while the group is being written.
    Belongs to the data thread.

    `moved` is called when more of it is settled, `finished` when all is settled, `again` instead if the consumer ended
    before.
    """

    def __init__(
        self,
        group_id: GroupId,
        group: ResultGroup,
        stream: str,
        schema: pa.Schema,
        tap: Tap,
        passed_frames: int,
        moved: Callable[[], None],
        finished: Callable[[], None],
        again: Callable[[], None],
    ) -> None:
        """Start a delivery to a consumer that already has the first `passed_frames` frames.

        Raises:
            OSError: the file cannot be opened.
        """
        self.group = group
        self.settled_rows = 0
        """Rows of frames that the consumer has settled or already had."""
        self.lost_rows = 0
        """The number of these rows that it could not deliver."""
        self.settled_frames = passed_frames
        """The number of frames at the beginning that are all settled."""
        self.unreadable_rows = 0
        self.problem = ""
        """Why a part of it could not be read."""
        self._id = group_id
        self._stream = stream
        self._schema = schema
        self.tap = tap
        """The consumer of the frames that were not offered yet."""
        self._passed = passed_frames
        self._moved, self._finished, self._again = moved, finished, again
        self._known_by_frame = not group.header.at_once
        self.offered = False
        """Whether the consumer was offered some of it."""
        self._came_back = False
        self._read_rows = 0
        self._frames = 0
        self._under_way = AckLedger()
        self._failing_since_ms: int | None = None
        self._at_end = self._ended = False
        self._reader: GroupReader | None = self._open()
        self._frame: StoredFrame | None = None
        self._unsettled = 1  # one for the delivery itself, until all frames are offered

    def pump(self, now_ms: int, *, written: bool) -> None:
        """Offer frames while there is room. A group that is being `written` may get further frames.

        Raises:
            OSError: the file cannot be read now; the call must be repeated.
        """
        while not self._ended:
            if self._frame is None:
                self._frame = self._next(now_ms)
            self._at_end = self._frame is None
            if self._frame is None:
                if not written:
                    self._finish()
                return
            if not self._offer(self._frame):
                return
            self._frame = None

    def is_caught_up(self) -> bool:
        """Return whether all that the group has by now is settled."""
        return self._unsettled == 1 and self._at_end

    def close(self) -> None:
        """Stop offering results."""
        self._ended = True
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def _open(self) -> GroupReader | None:
        try:
            return GroupReader(self.group)
        except FileNotFoundError:
            self.problem = "the file is missing"
            return None

    def _next(self, now_ms: int) -> StoredFrame | None:
        """Return the next frame of the stream to offer, if there is one now."""
        while self._reader is not None:
            try:
                frame = self._reader.next()
            except DamagedError as error:
                self.problem = str(error)
                return None
            except OSError as error:
                if self._failing_since_ms is None:
                    self._failing_since_ms = now_ms
                if error.errno != errno.EIO or now_ms - self._failing_since_ms < UNREADABLE_MS:
                    raise
                self.problem = error.strerror or str(error)
                return None
            self._failing_since_ms = None
            if frame is None:
                return None
            if frame.stream != self._stream:
                continue
            self._read_rows += frame.rows
            self._frames += 1
            if self._frames > self._passed:
                return frame
            self.settled_rows += frame.rows
        return None

    def _offer(self, frame: StoredFrame) -> bool:
        """Return whether the frame has been handled; False when the consumer has no room for it."""
        if not self.tap.has_room():
            return False
        self.offered = True
        number = self._frames
        self._under_way.took(number)
        self._unsettled += 1

        def delivered() -> None:
            self.settled_rows += frame.rows
            self.lost_rows += receipt.lost_rows
            self.settled_frames = self._under_way.settle(number) or self.settled_frames
            self._moved()
            self._settled()

        receipt = DeliveryReceipt(1, delivered, self._returned)
        known_as = FrameId(self._id, frame.number) if self._known_by_frame else None
        batch = decode_batch(frame.body, self._schema, frame.rows)
        self.tap.offer(batch, frame.body, receipt, known_as)
        return True

    def _finish(self) -> None:
        self.close()
        self.unreadable_rows = max(0, self.group.stream_rows[self._stream] - self._read_rows)
        if self._known_by_frame:
            self._unsettled += 1
            self.tap.commit(self._id, DeliveryReceipt(1, self._settled, self._returned))
        self._settled()

    def _returned(self) -> None:
        self._came_back = True
        self._settled()

    def _settled(self) -> None:
        self._unsettled -= 1
        if not self._unsettled:
            (self._again if self._came_back else self._finished)()


class UnloggedDelivery:
    """Tracks frames of a group that a consumer already has; `finished` is called when it has settled all of them.

    It has the methods of a `GroupDelivery`.
    """

    settled_rows = settled_frames = lost_rows = unreadable_rows = 0
    problem = ""

    def __init__(self, group: ResultGroup, frames: int, finished: Callable[[], None]) -> None:
        self.group = group
        self._unsettled = frames
        self._finished = finished

    def settle(self) -> None:
        """Count one more frame as delivered."""
        self._unsettled -= 1
        if not self._unsettled:
            self._finished()

    def pump(self, now_ms: int, *, written: bool) -> None:
        """Do nothing: there is nothing to offer."""

    def is_caught_up(self) -> bool:
        """Return whether all that the group has by now is settled."""
        return not self._unsettled

    def close(self) -> None:
        """Do nothing: there is nothing to close."""
