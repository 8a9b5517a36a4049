"""Tables that several queries use in one step.

All writes run first, in the order of their events, then the readers, each event seeing the table as it was at its own
moment (`siddhi.engine.operators.tables.history`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Protocol

import numpy as np

from siddhi.engine.columnar.batch import EventBatch
from siddhi.engine.columnar.column import Column
from siddhi.engine.operators.tables.table import Table
from siddhi.engine.operators.tables.write_loop import RowSource, Write, WritePlan, carry_out


class SharedWriter(RowSource, Protocol):
    """A query that writes a table together with others; while `session` is set, it only collects its writes."""

    table: Table
    session: WriteSession | None

    @property
    def plan(self) -> WritePlan | None:
        """Return how compiled code executes the query, None if it cannot."""


class WriteSession:
    """One table in a step.

    `writers` are the queries that write it, and `ranks` the positions of all queries that use it, by number in the
    graph.
    """

    def __init__(self, table: Table, writers: Mapping[int, SharedWriter], ranks: Mapping[int, int]) -> None:
        self._table = table
        self._numbers = {id(writer): number for number, writer in writers.items()}
        self._writers = writers
        self._ranks = ranks
        self._recorded = len(ranks) > len(writers)
        self._writes: list[Write] = []
        self._tried: list[Write] | None = None
        """In rounds, the writes that are now in the table; `_first` of them do not depend on its contents."""
        self._first = 0
        self._refused: list[tuple[int, int]] = []

    @classmethod
    def of(cls, writers: Mapping[int, SharedWriter], ranks: Mapping[int, int]) -> WriteSession | None:
        """Return the session of queries that write one table, None if they find rows by several indexes."""
        plans = [writer.plan for writer in writers.values()]
        indexes = {id(plan.keyed_by) for plan in plans if plan is not None and plan.keyed_by is not None}
        if len(indexes) > 1 or None in plans:
            return None
        return cls(next(iter(writers.values())).table, writers, ranks)

    def open(self) -> None:
        """Open a step: writes are collected from now on."""
        for writer in self._writers.values():
            writer.session = self

    def add(self, writer: SharedWriter, batch: EventBatch) -> None:
        """Add a write of `batch` by `writer`."""
        assert writer.plan is not None  # noqa: S101 - others share no table in a step
        self._writes.append(Write(writer, writer.plan, batch, self._ranks[self._numbers[id(writer)]]))

    # ---- rounds: writes that depend on what the table holds

    def has_writer_of(self, numbers: Set[int]) -> bool:
        """Return whether one of the queries with these numbers writes the table."""
        return not numbers.isdisjoint(self._writers)

    def begin_rounds(self) -> None:
        """Execute the collected writes; further writes depend on the contents of the table."""
        writes, self._writes = self._writes, []
        self._first = len(writes)
        self._try(writes)

    def settle(self) -> bool:
        """Return whether a round gave the writes that are in the table; otherwise replace them by its writes."""
        assert self._tried is not None  # noqa: S101 - rounds have begun
        writes, self._writes = [*self._tried[: self._first], *self._writes], []
        if len(writes) == len(self._tried) and all(map(_alike, writes, self._tried)):
            return True
        self._table.undo()
        self._try(writes)
        return False

    def _try(self, writes: list[Write]) -> None:
        self._tried, self._refused = writes, []
        self._note(sorted(writes, key=lambda write: write.rank), recorded=True)

    # ---- one after the other

    def enter(self, number: int) -> None:
        """Enter the query with that number; before it reads the table all pending writes are executed.

        In rounds it reads the writes of the previous round.
        """
        if number in self._ranks and (number not in self._writers or self._tried is not None):
            if self._tried is None:
                self._carry_out()
            if self._table.history is not None:
                self._table.history.rank = self._ranks[number]

    def close(self) -> list[tuple[int, int]]:
        """Close the step, and return the number of refused rows of each query, by number."""
        if self._tried is None:
            self._carry_out()
        for writer in self._writers.values():
            writer.session = None
        self._tried = None
        self._table.close_history()
        refused, self._refused = self._refused, []
        return refused

    def _carry_out(self) -> None:
        writes, self._writes = self._writes, []
        writes.sort(key=lambda write: write.rank)
        self._note(writes, recorded=self._recorded)

    def _note(self, writes: Sequence[Write], *, recorded: bool) -> None:
        """Execute `writes`, and add up the refused rows."""
        if not writes:
            return
        for write, refused in zip(writes, carry_out(self._table, writes, recorded=recorded), strict=True):
            if refused:
                self._refused.append((self._numbers[id(write.writer)], refused))


def _alike(one: Write, other: Write) -> bool:
    """Return whether two writes of one query are the same."""
    before, now = one.batch, other.batch
    if one.writer is not other.writer or before.size != now.size or not np.array_equal(before.orders, now.orders):
        return False
    return all(_equal(column, now.columns[name]) for name, column in before.columns.items())


def _equal(one: Column, other: Column) -> bool:
    """Return whether two columns of one length have the same values and nulls; NaN equals NaN."""
    if (one.valid is None) != (other.valid is None):
        return False
    if one.valid is not None and not np.array_equal(one.valid, other.valid):  # type: ignore[arg-type] # both have one
        return False
    left, right = (one.values, other.values) if one.valid is None else (one.values[one.valid], other.values[one.valid])
    return left.tobytes() == right.tobytes()
