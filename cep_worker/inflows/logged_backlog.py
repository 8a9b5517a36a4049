"""A backlog in a log: accepted events are kept until the topology no longer needs them.

log   ─ secured ─│─ accepted, not secured ───│─ sent ─│─ waits in memory ─│─ waits on disk only ─▶ appended
                 on disk                     with the link                 while the link is down,
                                                                           or catching up afterwards
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from functools import lru_cache, partial
from itertools import groupby
from typing import Any

import pyarrow as pa

from cep_common.errors import DecodeError
from cep_common.protocol.links import StreamSchema
from cep_worker.inflows.backlog import frame_again
from cep_worker.inflows.batching import BatchingQueue, QueuedBatch, ReadyFrame
from cep_worker.inflows.poison_pills import PoisonPillDetector
from cep_worker.inflows.wal.errors import BatchTooLargeError, WalFullError
from cep_worker.inflows.wal.log import StreamLog
from cep_worker.inflows.wal.reader import LogReader
from cep_worker.storage.records import BatchOrigin, StoredRecord
from topology.events.conversion import Attributes, attributes_of, conversion_problem, converted
from topology.events.frames import arrow_schema, concatenate, decode_batch, encode_batch
from topology.links.protocol import PendingFrame

logger = logging.getLogger(__name__)

KeepFailed = Callable[[pa.RecordBatch, str], int]
"""Stores failed events with a reason; returns how many could not be stored."""

ACCEPTED_SHARE = 2
"""While the backlog on disk is being sent, one event is accepted for this many sent ones.

The backlog shrinks, and sources are slowed rather than stopped.
"""

_LONGEST_TICK_MS = 500


class LoggedBacklog:
    """A `Backlog` that outlives the process.

    At most `most_rows` rows wait in memory; without a link further rows wait on disk, up to the log's limit. Belongs to
    the log's thread.
    """

    def __init__(self, log: StreamLog, most_rows: int, failed: KeepFailed) -> None:
        """Create a backlog; `failed` stores events that cannot be converted to the stream's present attributes."""
        self._log = log
        self._most_rows = most_rows
        self._keep_failed = failed
        self._failed_to = log.notes.failed_to()
        self._again: deque[ReadyFrame] = deque()
        self._waiting = BatchingQueue()
        self._mirrored = log.last_position
        """The passive node has the log up to here; later events are not sent. Only used if the log is mirrored."""
        self.wake: Callable[[], None] = lambda: None
        """Called when more may be sent."""
        self._before = log.secured
        """The records in memory (`_again`, then `_waiting`) follow this position …"""
        self._at_hand = log.secured
        """… and ends here; the rest waits on disk only."""
        self._disk_rows = log.rows_waiting()
        self._reader: LogReader | None = None
        self._credit = 0
        """Rows that may be accepted while the backlog on disk is being sent."""
        self._sent: deque[tuple[int, int]] = deque()
        """Sequence number and position of frames in flight."""
        self._taken_over = log.secured
        self._furthest = log.secured
        self._secures = False
        self._watch = PoisonPillDetector()
        self._is_open = False
        """Whether the topology has reported its position since the last link ended."""
        self._now_ms = 0
        """The time of the last tick."""
        self.silent_ms = 0
        self._given_up = log.notes.given_up()

    @property
    def log(self) -> str:
        return self._log.identity.log

    @property
    def problem(self) -> str:
        return self._log.problem

    @property
    def rows(self) -> int:
        return self._disk_rows + self._waiting.rows + sum(frame.rows for frame in self._again)

    def __bool__(self) -> bool:
        return bool(self._again or self._waiting or self._behind())

    def has_room(self, linked: bool) -> bool:
        if self._log.problem:
            return False
        if not linked:
            return True
        # While the backlog on disk is being sent, sources may add less than is sent; otherwise it would never end.
        return self._credit > 0 if self._behind() else self._waiting.rows < self._most_rows

    def prepare(self, batch: pa.RecordBatch, body: Any, origin: BatchOrigin | None = None) -> Any:
        body = encode_batch(batch) if body is None else body
        # everything that can fail happens here, before any inflow of the route has accepted the batch
        self._log.reserve(memoryview(body).nbytes, origin)
        return body

    def append(self, waiting: QueuedBatch) -> None:
        # after events on disk everything goes to disk, to keep the order
        stays_on_disk = self._behind() or self._waiting.rows >= self._most_rows
        rows = waiting.batch.num_rows
        length = memoryview(waiting.body).nbytes
        position = self._log.append(waiting.body, length, rows, waiting.watermark_ms, waiting.origin)
        if self._log.mirrors:
            self._log.when_safe(partial(self._note_mirrored, position))
        if stays_on_disk:
            self._disk_rows += rows
            self._credit -= rows
        else:
            self._waiting.append(QueuedBatch(waiting.batch, waiting.body, waiting.watermark_ms, position))
            self._at_hand = position

    def fills(self, rows: int) -> bool:
        return bool(self._again) or self._waiting.rows >= rows or self._behind()

    def take(self, most_rows: int) -> ReadyFrame | None:
        if self._again:
            frame = self._again.popleft()
        else:
            self._read(most_rows)
            if not self._waiting:
                return None
            last = self._watch.last_joined(self._before)
            # A takeover would lose events that were processed but are not on the passive node, although their results
            # exist.
            if self._log.mirrors:
                if self._waiting.first_position > self._mirrored:
                    return None
                last = min(last or self._mirrored, self._mirrored)
            alone = self._watch.is_isolated(self._before) and not self._watch.is_grouped(self._before)
            frame = self._waiting.take(1 if alone else most_rows, last)
        self._before = frame.position
        if self._behind():
            self._credit = min(self._credit + frame.rows // ACCEPTED_SHARE, self._most_rows)
        # Marked as sent again, so that it is not counted twice.
        if frame.position <= self._furthest:
            return replace(frame, again=True)
        self._furthest = frame.position
        return frame

    def _note_mirrored(self, position: int) -> None:
        self._mirrored = max(self._mirrored, position)
        self.wake()

    @property
    def is_isolated(self) -> bool:
        # events after a record that is sent alone wait for it, even after the last record of a zone
        watch, sent = self._watch, self._sent
        return watch.is_isolated(self._before) or bool(sent and watch.is_isolated(sent[-1][1] - 1))

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
        self._secures, self._is_open = secures, True
        # Sequence numbers belong to one link; the new link counts from 1.
        self._sent.clear()
        position = self._go_back(position) if goes_back else max(position, self._log.secured)
        self._taken_over = position
        self._credit = 0
        if poison := self._watch.link_established(position, attempt, cleared, doubtful):
            self._give_up(poison)
        # read again from the log, since frames in memory join several records, and a suspect must be sent alone
        if self._watch.zones:
            self._go_to(position)  # records that were joined into one frame are sent one by one now
            return
        while self._again and self._again[0].position <= position:
            self._before = self._again.popleft().position
        if not self._again:
            self._waiting.drop(position)
            self._before = max(self._before, min(position, self._at_hand))
        if self._before != position:
            self._go_to(position)

    def _go_back(self, position: int) -> int:
        """Return where a server continues that was restored from a checkpoint, possibly not the newest."""
        log = self._log
        if position < log.secured:
            text = "events are sent again, the newest checkpoint could not be used: stream=%s from=%d to=%d"
            logger.warning(text, log.identity.stream, max(position, log.unneeded), log.secured)
        if position < log.unneeded:
            # the number of events at those positions is unknown, but the loss must be reported
            self._unreadable(1, "only unreadable checkpoints contained them", "before the log's first")
        return max(position, log.unneeded)

    def sent(self, sequence: int, frame: ReadyFrame) -> None:
        if frame.position:
            if not self._sent:
                self.silent_ms = 0
            self._sent.append((sequence, frame.position))

    def acknowledged(self, sequence: int) -> None:
        before = self._taken_over
        while self._sent and self._sent[0][0] < sequence:
            self._taken_over = self._sent.popleft()[1]
            self.silent_ms = 0
        # without checkpoints acknowledgements free the log, with them only checkpoints do
        if self._taken_over > before and not self._secures:
            self._log.secure(self._taken_over)

    def secure(self, position: int, unneeded: int) -> None:
        self._log.secure(position, unneeded)

    def give_back(self, frames: Iterable[PendingFrame], ran: bool = True) -> None:
        again = [frame_again(frame) for frame in frames if frame.bodies]
        under_way = [frame.position for frame in again if frame.position]
        # A dead topology is assigned again until the manager detects its end: links that never opened say nothing about
        # the frames in flight at its end.
        if self._is_open:
            self._watch.link_lost(under_way, self._taken_over, ran)
        self._is_open = False
        # before everything else and in the old order, since events of a stream are never reordered
        self._again.extendleft(reversed([frame for frame in again if frame.position]))
        self._sent.clear()
        self._before = self._taken_over

    def take_out(self) -> list[pa.RecordBatch]:
        self._go_to(max(self._taken_over, self._log.secured))
        batches: list[pa.RecordBatch] = []
        for record in self._reader.records() if self._reader is not None else ():
            schema = _schema(self._log.identity.attributes_at(record.position))
            try:
                batches.append(decode_batch(record.body, schema, record.rows))
            except DecodeError as error:
                self._unreadable(record.rows, error.message, "records without sense", record.position)
        self._stop_reading()
        self._before = self._at_hand = self._log.last_position
        self._disk_rows = 0
        self._log.secure(self._log.last_position)
        return batches

    def tick(self, now_ms: int) -> None:
        # in a longer time without a tick this process did not run, which says nothing about the topology
        self.silent_ms = self.silent_ms + min(now_ms - self._now_ms, _LONGEST_TICK_MS) if self._sent else 0
        self._now_ms = now_ms
        self._log.tick(now_ms)

    def close(self) -> None:
        self._stop_reading()
        self._log.close()

    def _behind(self) -> bool:
        """Return whether events wait on disk only."""
        return self._at_hand < self._log.last_position

    def _go_to(self, position: int) -> None:
        """Move the read position after `position`."""
        self._again.clear()
        self._waiting.clear()
        self._stop_reading()
        self._before = self._at_hand = position
        self._disk_rows = 0
        if self._behind():
            self._reader = self._log.reader(position, self._missing)
            self._disk_rows = self._reader.rows_left(self._log.rows_ever)

    def _read(self, rows: int) -> None:
        """Read from the disk until `rows` rows are in memory or the end is reached."""
        while self._waiting.rows < rows and self._behind():
            if self._reader is None:
                self._reader = self._log.reader(self._at_hand, self._missing)
            records = self._reader.read()
            failed: list[pa.RecordBatch] = []
            for record in records:
                self._disk_rows -= record.rows
                try:
                    waiting = self._converted(record, failed)
                except DecodeError as error:
                    self._unreadable(record.rows, error.message, "records without sense", record.position)
                    continue
                self._waiting.append(waiting)
            # records are missing: they are lost and counted below
            self._at_hand = records[-1].position if records else self._log.last_position
            if failed:
                self._fail(failed, self._at_hand)
                break  # the store of failed events failed, the next turn continues
        if not self._behind():
            self._stop_reading()
            if self._disk_rows:
                self._unreadable(
                    self._disk_rows, "they are not in the files of the log", f"up to {self._log.last_position}"
                )
                self._disk_rows = 0

    def _converted(self, record: StoredRecord, failed: list[pa.RecordBatch]) -> QueuedBatch:
        """Return the record's events with the stream's present attributes.

        Events that cannot be converted are added to `failed`, and replaced by a batch without rows so that their
        position is secured.

        Raises:
            DecodeError: the record cannot be read.
        """
        had, has = self._log.identity.attributes_at(record.position), self._log.identity.attributes
        if record.position in self._given_up:
            return QueuedBatch(_nothing(has), None, record.watermark_ms, record.position)
        batch = decode_batch(record.body, _schema(had), record.rows)
        if had == has:
            return QueuedBatch(batch, record.body, record.watermark_ms, record.position)
        problem = conversion_problem(had, has)
        if not problem:
            return QueuedBatch(converted(batch, has), None, record.watermark_ms, record.position)
        # an earlier process has stored earlier ones as failed events
        if record.position > self._failed_to:
            failed.append(batch)
        return QueuedBatch(_nothing(has), None, record.watermark_ms, record.position)

    def _give_up(self, position: int) -> None:
        """Stop sending the record at `position`, which ends its topology each time.

        A single event is stored as failed; several events are appended again as one record each.
        """
        log = self._log
        end = log.last_position
        reader = log.reader(position - 1)
        found = [record for record in reader.read() if record.position == position]
        reader.close()
        had = log.identity.attributes_at(position)
        try:
            events = [decode_batch(record.body, _schema(had), record.rows) for record in found]
        except DecodeError:
            events = []  # the log's reader reports it
        for batch in events:
            alone = 0
            if batch.num_rows > 1 and not conversion_problem(had, log.identity.attributes):
                alone = self._append_again(converted(batch, log.identity.attributes), found[0].watermark_ms)
            if alone < batch.num_rows:
                text = "poison: the topology ended each time it processed this event"
                lost = self._keep_failed(batch.slice(alone), text)
                if lost:
                    log.note_lost(lost, f"dropped at {position}")
            logger.error("events end their topology: stream=%s position=%d given_up=%d one_by_one=%d",
                         log.identity.stream, position, batch.num_rows - alone, alone)  # fmt: skip
        self._given_up |= {position}
        log.notes.note_given_up(self._given_up, log.unneeded)
        self._watch.given_up((end, log.last_position) if log.last_position > end else None)

    def _append_again(self, batch: pa.RecordBatch, watermark_ms: int) -> int:
        """Append each event of `batch` as a record of its own, and return how many were appended."""
        for row in range(batch.num_rows):
            body = encode_batch(batch.slice(row, 1))
            length = memoryview(body).nbytes
            try:
                self._log.reserve(length)
            except (WalFullError, BatchTooLargeError):
                return int(row)
            self._log.append(body, length, 1, watermark_ms)
        return int(batch.num_rows)

    def _fail(self, events: list[pa.RecordBatch], position: int) -> None:
        """Store events that cannot be converted as failed, those with the same attributes together."""
        now = self._log.identity.attributes
        for schema, alike in groupby(events, key=lambda batch: batch.schema):
            batch = concatenate(list(alike))
            lost = self._keep_failed(batch, f"its stream was edited: {conversion_problem(attributes_of(schema), now)}")
            if lost:
                self._log.note_lost(lost, f"failed before {position}")
        self._failed_to = position
        self._log.notes.note_failed(position)

    def _unreadable(self, rows: int, reason: str, place: str, position: int = 0) -> None:
        self._log.note_lost(rows, place, position)
        stream = self._log.identity.stream
        logger.error("accepted events lost, they cannot be read: stream=%s events=%d reason=%s", stream, rows, reason)

    def _stop_reading(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def _missing(self, rows: int) -> None:
        self._disk_rows = max(0, self._disk_rows - rows)


def _nothing(attributes: Attributes) -> pa.RecordBatch:
    """Return a batch without rows, with which the receiver stores the position of rows that are not sent."""
    return pa.RecordBatch.from_pylist([], schema=_schema(attributes))


@lru_cache(maxsize=64)
def _schema(attributes: Attributes) -> pa.Schema:
    return arrow_schema(StreamSchema("", attributes))
