"""The way of one group of results from its file to the consumers."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence

from cep_worker.consumers import Consumer, Consumers, FrameId, GroupId
from cep_worker.held.group_file import Group, GroupReader, StoredFrame
from cep_worker.receipts import Receipt
from topology.frames import arrow_schema, decode_batch

logger = logging.getLogger(__name__)

Attributes = tuple[tuple[str, str], ...]


class Release:
    """Offers the frames of a group to the consumers of their streams as these have room, then has them commit it.
    `delivered` is called when all have settled everything. A consumer that is there when the first frame of its stream
    is offered gets the group to its end. Belongs to the reactor's thread.
    """

    def __init__(
        self,
        group_id: GroupId,
        group: Group,
        exported: Mapping[str, Attributes],
        consumers: Consumers,
        delivered: Callable[[], None],
        lost: Callable[[int], None],
    ) -> None:
        """`exported` are the streams of the plan as consumers know them; `lost` is told how many events turn out to be
        unreadable. Raises OSError when the file cannot be read."""
        self._id = group_id
        self._group = group
        self._schemas = {one.stream: arrow_schema(one) for one in group.header.streams}
        self._known = {one.stream for one in group.header.streams if exported.get(one.stream) == one.attributes}
        self._find = consumers
        self._delivered = delivered
        self._lost = lost
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
            receipt = self._receipt(len(consumers))
            for consumer in consumers:
                consumer.offer(batch, frame.body, receipt, FrameId(self._id, frame.number))
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
        for consumers in self._consumers.values():
            for consumer in consumers:
                consumer.commit(self._id, self._receipt(1))
        self._settled()

    def _receipt(self, consumers: int) -> Receipt:
        self._unsettled += 1
        return Receipt(consumers, self._settled)

    def _settled(self) -> None:
        self._unsettled -= 1
        if not self._unsettled:
            self._delivered()
