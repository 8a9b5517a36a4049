"""The way of one group of results from its file to the consumers."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence

from cep_worker.consumers import Consumer, Consumers, FrameId, GroupId
from cep_worker.held.group_file import Group, GroupReader, StoredFrame
from cep_worker.receipts import Receipt
from cep_worker.stream_counts import StreamCounts
from topology.frames import arrow_schema, decode_batch

logger = logging.getLogger(__name__)

Attributes = tuple[tuple[str, str], ...]


class Release:
    """Offers the frames of a group to the consumers of their streams as these have room, then has them commit it.
    `delivered` is called when all have settled everything, `again` instead when a consumer has ended before that. A
    consumer that is there when the first frame of its stream is offered gets the group to its end. Frames of a group
    that is delivered `at_once` are offered one by one, without a commit. Belongs to the reactor's thread.
    """

    def __init__(
        self,
        group_id: GroupId,
        group: Group,
        exported: Mapping[str, Attributes],
        consumers: Consumers,
        delivered: Callable[[], None],
        again: Callable[[], None],
        lost: Callable[[int], None],
        counts: StreamCounts,
    ) -> None:
        """`exported` are the streams of the plan as consumers know them; `lost` is told how many events turn out to be
        unreadable. Raises OSError when the file cannot be read."""
        self._id = group_id
        self._group = group
        self._schemas = {one.stream: arrow_schema(one) for one in group.header.streams}
        self._known = {one.stream for one in group.header.streams if one.stream in exported}
        self._find = consumers
        self._delivered = delivered
        self._again = again
        self._lost = lost
        self._counts = counts
        self._at_once = group.header.at_once
        self._came_back = False
        self._consumers: dict[str, Sequence[Consumer]] = {}
        self._reader: GroupReader | None = GroupReader(group)
        self._frame: StoredFrame | None = None
        self._rows = 0
        self._unsettled = 1  # the release itself, until all is offered

    def pump(self) -> None:
        """Offers as much as there is room for."""
        while self._reader is not None:
            if self._frame is None:
                self._frame = self._next(self._reader)
            if self._frame is None:
                self._finish()
            elif not self._offer(self._frame):
                return
            else:
                self._frame = None

    def close(self) -> None:
        """Nothing more is offered."""
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def _next(self, reader: GroupReader) -> StoredFrame | None:
        try:
            return reader.next()
        except OSError as error:
            logger.error("held results cannot be read: reason=%s", error)  # noqa: TRY400 - the text says it all
            return None

    def _offer(self, frame: StoredFrame) -> bool:
        """True when the frame has been dealt with; False when a consumer has no room for it."""
        consumers = self._consumers.get(frame.stream)
        if consumers is None:
            consumers = self._consumers_of(frame.stream)
        if not all(consumer.has_room() for consumer in consumers):
            return False
        self._rows += frame.rows
        if consumers:
            batch = decode_batch(frame.body, self._schemas[frame.stream], frame.rows)
            receipt = self._receipt(len(consumers), frame.stream, frame.rows)
            known_as = None if self._at_once else FrameId(self._id, frame.number)
            for consumer in consumers:
                consumer.offer(batch, frame.body, receipt, known_as)
        else:
            self._counts.delivered(frame.stream, frame.rows)
        return True

    def _consumers_of(self, stream: str) -> Sequence[Consumer]:
        found: Sequence[Consumer] = ()
        if stream in self._known:
            found = tuple(self._find(stream))
        else:
            logger.error("held results have nowhere to go, the plan has changed: plan=%s stream=%s",
                         self._id.key.topology(), stream)  # fmt: skip
        self._consumers[stream] = found
        return found

    def _finish(self) -> None:
        self.close()
        lost = self._group.rows - self._rows
        if lost:
            logger.error("held results lost: file=%s events=%d", self._group.path, lost)
            self._lost(lost)
        for consumers in self._consumers.values() if not self._at_once else ():
            for consumer in consumers:
                self._unsettled += 1
                consumer.commit(self._id, Receipt(1, self._settled, self._returned))
        self._settled()

    def _receipt(self, consumers: int, stream: str, rows: int) -> Receipt:
        self._unsettled += 1

        def delivered() -> None:
            self._counts.delivered(stream, rows - receipt.lost_rows)
            self._settled()

        receipt = Receipt(consumers, delivered, self._returned)
        return receipt

    def _returned(self) -> None:
        self._came_back = True
        self._settled()

    def _settled(self) -> None:
        self._unsettled -= 1
        if not self._unsettled:
            (self._again if self._came_back else self._delivered)()


class Offered:
    """Frames of a group that consumers have already; `delivered` is called when they have delivered all of them.
    Has the methods of a `Release`."""

    def __init__(self, frames: int, delivered: Callable[[], None]) -> None:
        self._undelivered = frames
        self._delivered = delivered

    def settle(self) -> None:
        """Count one more frame as delivered."""
        self._undelivered -= 1
        if not self._undelivered:
            self._delivered()

    def pump(self) -> None:
        """There is nothing to offer."""

    def close(self) -> None:
        """There is nothing to close."""
