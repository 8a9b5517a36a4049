"""Tables that several queries use in one step.

All writes run first, in the order of their events, then the readers, each event seeing the table as it was at its own
moment (`siddhi.engine.operators.tables.history`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from siddhi.engine.columnar.batch import EventBatch
from siddhi.engine.operators.tables.table import Table
from siddhi.engine.operators.tables.write_loop import Write, carry_out

if TYPE_CHECKING:
    from siddhi.engine.operators.tables.writer import TableWriter


class WriteSession:
    """One table in a step.

    `writers` are the queries that write it, and `ranks` the places of all queries that use it, by number in the
    graph.
    """

    def __init__(self, table: Table, writers: Mapping[int, TableWriter], ranks: Mapping[int, int]) -> None:
        self._table = table
        self._numbers = {id(writer): number for number, writer in writers.items()}
        self._writers = writers
        self._ranks = ranks
        self._recorded = len(ranks) > len(writers)
        self._writes: list[Write] = []
        self._refused: list[tuple[int, int]] = []

    @classmethod
    def of(cls, writers: Mapping[int, TableWriter], ranks: Mapping[int, int]) -> WriteSession | None:
        """Return the session of queries that write one table, None where they find rows by several indexes."""
        plans = [writer.plan for writer in writers.values()]
        indexes = {id(plan.keyed_by) for plan in plans if plan is not None and plan.keyed_by is not None}
        if len(indexes) > 1 or None in plans:
            return None
        return cls(next(iter(writers.values())).table, writers, ranks)

    def open(self) -> None:
        """Open a step: writes are collected from now on."""
        for writer in self._writers.values():
            writer.session = self

    def add(self, writer: TableWriter, batch: EventBatch) -> None:
        """Add a write of `batch` by `writer`."""
        assert writer.plan is not None  # noqa: S101 - others share no table in a step
        self._writes.append(Write(writer, writer.plan, batch, self._ranks[self._numbers[id(writer)]]))

    def enter(self, number: int) -> None:
        """Begin the query of that number; before it reads the table all pending writes are done."""
        if number in self._ranks and number not in self._writers:
            self._carry_out()
            if self._table.history is not None:
                self._table.history.rank = self._ranks[number]

    def close(self) -> list[tuple[int, int]]:
        """Close the step; return how many rows of which queries, by number, were refused."""
        self._carry_out()
        for writer in self._writers.values():
            writer.session = None
        self._table.close_history()
        refused, self._refused = self._refused, []
        return refused

    def _carry_out(self) -> None:
        writes, self._writes = self._writes, []
        if not writes:
            return
        writes.sort(key=lambda write: write.rank)
        for write, refused in zip(writes, carry_out(self._table, writes, recorded=self._recorded), strict=True):
            if refused:
                self._refused.append((self._numbers[id(write.writer)], refused))
