"""The side of a log that reads: bundles come without rows, and go on to instances with what the topic holds of them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol

from cep_common.errors import DecodeError
from topology.errors import TopologyError
from topology.events.bundle import Bundle
from topology.sync_log.records import LoggedBundle, LogSchemas, SyncLogRecord, decode, decode_record

LOST, DAMAGED, FOREIGN = "sync-log-lost", "sync-log-damaged", "sync-log-foreign-record"
"""Codes of errors: records are missing, do not match, or belong to another system."""


class SyncLogInput(Protocol):
    """The topic as a reader uses it; calls come from the task's thread."""

    def start(self, offset: int) -> None:
        """Read from `offset` on; called once."""

    def came(self) -> Iterable[tuple[int, bytes]]:
        """Return offsets and messages that were read since the last call, in order.

        Raises:
            TopologyError: When the expected records no longer exist.
        """

    def problem(self) -> str:
        """Return why nothing is read now; empty: nothing hinders it."""

    def close(self) -> None:
        """Close the connection."""


class SyncLogReader:
    """Reads the records of run `run` for `instances` of this task.

    The order of the offsets is the order in which they apply them. Records of other runs are skipped: an older run
    that has not noticed that it is fenced may still write. So are those of other systems, whose runs may have the same
    numbers: the record at the first bundle's offset identifies the writer. `note` is called with a code and a text
    about messages that are none of the log's.
    """

    def __init__(
        self,
        topic: SyncLogInput,
        run: tuple[int, int],
        instances: Sequence[str],
        schemas: LogSchemas,
        note: Callable[[str, str], None],
    ) -> None:
        self.topic = topic
        self._run = run
        self._schemas = schemas
        self._note = note
        self._waiting: dict[str, deque[Bundle]] = {name: deque() for name in instances}
        self._expected = 0
        """The ticket of the next record, once the first bundle came."""
        self._begins, self._writer = -1, -1
        """The offset of the first record, -1 before its bundle came, and who has written it, -1 before it was read."""
        self._parts: list[SyncLogRecord] = []
        self._read: dict[int, LoggedBundle] = {}
        self._takers: dict[int, int] = {}
        """How many instances still need the records of a ticket that were read."""

    def push(self, target: str, bundle: Bundle) -> None:
        """Accept a bundle for instance `target`: its rows are in the topic."""
        if bundle.position >= 0 and self._begins < 0:
            self._expected, self._begins = bundle.ticket, bundle.position
            self.topic.start(bundle.position)
        self._waiting[target].append(bundle)

    def ready(self) -> Iterator[tuple[str, Bundle]]:
        """Yield bundles that have their rows, in the order of the log for each instance.

        Raises:
            TopologyError: When records are missing or do not fit. The topology goes back to its checkpoint then.
        """
        if self._begins >= 0:
            for offset, body in self.topic.came():
                self._take(offset, body)
        for target, waiting in self._waiting.items():
            while waiting and (waiting[0].position < 0 or waiting[0].ticket in self._read):
                bundle = waiting.popleft()
                yield target, bundle if bundle.position < 0 else self._with_rows(bundle)

    def is_drained(self) -> bool:
        """Return whether no instance waits for records."""
        return not any(self._waiting.values())

    def _take(self, offset: int, body: bytes) -> None:
        try:
            record = decode_record(body)
        except DecodeError as error:
            self._note(FOREIGN, f"the message at offset {offset} was skipped: {error}")
            return
        if self._writer < 0 and record.run == self._run and offset == self._begins:
            self._writer = record.writer
        if self._writer < 0:
            raise TopologyError(
                LOST, f"offset {offset} of the log does not have ticket {self._expected}, which was written at"
                f" {self._begins}: brokers have lost records",
            )  # fmt: skip
        if (record.run, record.writer) != (self._run, self._writer) or record.ticket < self._expected:
            return
        if record.ticket != self._expected or record.part != len(self._parts):
            raise TopologyError(
                LOST,
                f"the log has ticket {record.ticket}, part {record.part} at offset {offset} where ticket"
                f" {self._expected}, part {len(self._parts)} was expected: brokers have lost records between",
            )
        self._parts.append(record)
        if len(self._parts) == record.parts:
            parts, self._parts = self._parts, []
            try:
                self._read[record.ticket] = decode(parts, self._schemas)
            except DecodeError as error:
                raise TopologyError(DAMAGED, f"ticket {record.ticket} of the log cannot be read: {error}") from error
            self._takers[record.ticket] = len(self._waiting)
            self._expected += 1

    def _with_rows(self, bundle: Bundle) -> Bundle:
        read = self._read[bundle.ticket]
        self._takers[bundle.ticket] -= 1
        if not self._takers[bundle.ticket]:
            del self._read[bundle.ticket], self._takers[bundle.ticket]
        return read.fill(bundle)
