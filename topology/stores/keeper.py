"""Synchronizes a table of a running stage with its table in a database, in a separate thread.

    stage     submit ──► change, change, ║7, change, ║8         ║7: the changes before belong to group 7
    keeper    writes what may be written, in transactions; reads the rows again in between
    stage     fresh ◄── rows as they were read, and the changes that are not in them

Changes may be written at once; with a `lineage` they are in groups, each of which is written when a complete checkpoint
holds it, and then once, whatever happens: its number is stored in the database with it.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice, takewhile
from time import monotonic
from typing import NamedTuple

import pyarrow as pa
from sqlalchemy.exc import SQLAlchemyError

from cep_common.monitoring.paced_log import PacedLog
from siddhi.engine.operators.tables.stored_table import RowChange
from topology.stores.database_table import ChangeGroup, DatabaseTable, UnreadableRowsError
from topology.stores.databases import RETRY_WAITS_S, may_pass, said_by
from topology.stores.pending import writes_of

logger = logging.getLogger(__name__)
paced_logger = PacedLog(logger)

CHANGES_AT_ONCE = 1_000
"""The maximum number of changes in a transaction, except for those of a group."""
RETRY_READING_S = 5.0
READING_SHARE = 20
"""At most this fraction (1/n) of the time is spent reading."""


class LoadedRows(NamedTuple):
    """The rows of the database, and the changes that it did not have yet."""

    rows: pa.RecordBatch
    changes: Sequence[RowChange]


@dataclass(frozen=True, slots=True)
class Unwritten:
    """A change that is not known to be in the database, and the group that it belongs to; 0: one to come."""

    change: RowChange
    group: int = 0


class TableKeeper:
    """`submit`, `end_group`, `release`, `fresh` and the reports belong to the stage's thread."""

    def __init__(self, table: DatabaseTable, refresh_ms: int, *, lineage: str = "") -> None:
        """With a `lineage` changes wait for the groups in which they are written."""
        self.name = table.name
        self.refused_rows = 0
        """Rows that the database did not take."""
        self._table = table
        self._refresh_s = refresh_ms / 1_000
        self._lineage = lineage
        self._waiting: deque[Unwritten] = deque()
        self._waiting_rows = 0
        self._write_problem = self._read_problem = ""
        self._released = 0
        """The number of the newest group that may be written."""
        self._fresh: pa.RecordBatch | None = None
        self._since: list[RowChange] | None = None
        """The changes that the rows which are read, or were read last, do not have; None if they are not needed."""
        self._last_read: pa.RecordBatch | None = None
        self._closing = self._given_up = False
        self._lock = threading.Condition()
        self._thread = threading.Thread(target=self._run, name=f"store {table.name}", daemon=True)

    # ---- the stage's thread

    @property
    def problem(self) -> str:
        """Why the database cannot be used now, for people; empty when it can."""
        return self._write_problem or self._read_problem

    def start(self) -> None:
        """Start the thread, which works until `close`."""
        self._thread.start()

    def resume(self, unwritten: Sequence[Unwritten]) -> None:
        """Submit the `unwritten` changes of a state again, as the same groups; call it before `start`.

        An abandoned stage may still be writing them.
        """
        self._waiting.extend(unwritten)
        self._waiting_rows += sum(_rows_of(one.change) for one in unwritten)

    def submit(self, changes: Sequence[RowChange]) -> None:
        """Submit `changes` to be written."""
        with self._lock:
            self._waiting.extend(map(Unwritten, changes))
            self._waiting_rows += sum(map(_rows_of, changes))
            if self._since is not None:
                self._since.extend(changes)
            self._lock.notify()

    def end_group(self, number: int) -> None:
        """Assign the changes since the last group to group `number`."""
        with self._lock:
            self._waiting = deque(Unwritten(one.change, one.group or number) for one in self._waiting)

    def release(self, number: int) -> None:
        """Allow the groups up to `number` to be written."""
        with self._lock:
            self._released = max(self._released, number)
            self._lock.notify()

    def unwritten(self) -> list[Unwritten]:
        """Return the changes that are not known to be in the database, in order."""
        with self._lock:
            return list(self._waiting)

    def is_drained(self) -> bool:
        """Return whether all that may be written is written."""
        with self._lock:
            return not self._next_changes()[0]

    def waiting_rows(self) -> int:
        """Return how many rows of changes are not known to be in the database."""
        return self._waiting_rows

    def fresh(self) -> LoadedRows | None:
        """Return the rows that were read since the last call, if there are new ones."""
        if self._fresh is None:  # most often, and without waiting for the other thread
            return None
        with self._lock:
            if self._fresh is None:
                return None
            fresh = LoadedRows(self._fresh, self._since or ())
            self._fresh = self._since = None
            return fresh

    def end(self) -> None:
        """End the thread when all that may be written is written."""
        with self._lock:
            self._closing = True
            self._lock.notify()

    def close(self, timeout_s: float) -> None:
        """End the thread, at the latest with its present transaction when `timeout_s` have passed."""
        self.end()
        if self._thread.is_alive():
            self._thread.join(timeout_s)
        self._given_up = True
        if not self.is_drained():
            logger.warning("changes are not in the database: table=%s reason=%s", self.name, self.problem or "too slow")

    # ---- the keeper's thread

    def _run(self) -> None:
        tries, next_read = 0, monotonic() + self._refresh_s
        while not self._given_up:
            with self._lock:
                changes, group = self._next_changes()
                if not changes and self._closing:
                    return
                reads = bool(self._refresh_s) and not self._closing and monotonic() >= next_read
                if not (changes or reads):
                    self._lock.wait(next_read - monotonic() if self._refresh_s else None)
                    continue
            if reads:  # also between changes, or others would not be heard while many come
                next_read = self._read()
            elif self._write(changes, group):
                tries = 0
            else:
                wait_s, tries = RETRY_WAITS_S[min(tries, len(RETRY_WAITS_S) - 1)], tries + 1
                with self._lock:
                    if self._lock.wait_for(lambda: self._closing, wait_s):
                        return

    def _next_changes(self) -> tuple[list[RowChange], int]:
        """Return the changes of the next transaction, and their group, 0 without groups."""
        if not self._lineage:
            return [one.change for one in islice(self._waiting, CHANGES_AT_ONCE)], 0
        group = self._waiting[0].group if self._waiting else 0
        if not 0 < group <= self._released:
            return [], 0
        return [one.change for one in takewhile(lambda one: one.group == group, self._waiting)], group

    def _write(self, changes: Sequence[RowChange], group: int) -> bool:
        """Write `changes`, and return whether the database could take them; refused rows are counted."""
        writes = writes_of(changes, self._table.primary_key)
        number = ChangeGroup(self._lineage, group) if group else None
        refused = 0
        try:
            if writes or number is not None:
                refused = self._table.write(writes, number)
        except SQLAlchemyError as error:
            if may_pass(error):
                self._write_problem = said_by(error)
                paced_logger.problem(
                    f"changes of {self.name}", "changes wait: table=%s reason=%s", self.name, self._write_problem
                )
                return False
            refused = len(writes)
            text = "changes refused by the database: table=%s reason=%s"
            paced_logger.problem(f"refusals of {self.name}", text, self.name, said_by(error))
        except Exception as defect:  # the border of this thread: a driver has errors of its own, and may work again
            self._write_problem = _named(defect)
            paced_logger.exception("changes wait: table=%s", self.name)
            return False
        self._write_problem = ""
        paced_logger.over(f"changes of {self.name}", "changes are written again: table=%s", self.name)
        with self._lock:
            for _ in changes:
                self._waiting_rows -= _rows_of(self._waiting.popleft().change)
            self.refused_rows += refused
            self._last_read = None  # the rows of the database are others now
        return True

    def _read(self) -> float:
        """Read the rows again; return the time of the next reading."""
        began = monotonic()
        with self._lock:
            untaken, self._fresh = self._fresh is not None, None
            self._since = [one.change for one in self._waiting]
        try:
            rows = self._table.read()
        except (SQLAlchemyError, UnreadableRowsError) as error:
            return self._unread(said_by(error) if isinstance(error, SQLAlchemyError) else str(error))
        except Exception as defect:  # the border of this thread
            paced_logger.exception("rows cannot be read: table=%s", self.name)
            return self._unread(_named(defect))
        self._read_problem = ""
        paced_logger.over(f"rows of {self.name}", "rows can be read again: table=%s", self.name)
        with self._lock:
            if not untaken and self._last_read is not None and rows.equals(self._last_read):
                self._since = None
            else:
                self._fresh = self._last_read = rows
        return monotonic() + max(self._refresh_s, READING_SHARE * (monotonic() - began))

    def _unread(self, problem: str) -> float:
        """Record that the rows could not be read; return the time of the next try."""
        self._read_problem = problem
        paced_logger.problem(f"rows of {self.name}", "rows cannot be read: table=%s reason=%s", self.name, problem)
        with self._lock:
            self._since = self._last_read = None
        return monotonic() + max(self._refresh_s, RETRY_READING_S)


def _named(defect: Exception) -> str:
    return f"{type(defect).__name__}: {defect}"


def _rows_of(change: RowChange) -> int:
    return sum(0 if rows is None else rows.num_rows for rows in change)
