"""Joins: each event of one side meets what the other side holds at that moment."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from siddhi.analysis.aggregations import TIMESTAMP as AGGREGATION_TIMESTAMP
from siddhi.engine.aggregation.reader import AggregationReader
from siddhi.engine.arrays import Int64Array
from siddhi.engine.batch import Column, EventBatch, empty_batch
from siddhi.engine.expressions.evaluation import Evaluation, Node
from siddhi.engine.kinds import CURRENT, EXPIRED, RESET
from siddhi.engine.operator import Failures, MergedRows, MergingOperator, Operator, Step
from siddhi.engine.state import State
from siddhi.engine.state_size import StateSize, total
from siddhi.engine.strings import StringPool
from siddhi.engine.windows.window import Window
from siddhi.errors import SiddhiRuntimeError
from siddhi.language.ast import AttributeType

Contents = Callable[[], tuple[Int64Array, dict[str, Column]]]
"""Shows what a side holds: timestamps and columns of its rows."""

_ONE: Int64Array = np.zeros(1, dtype=np.int64)
"""The places of one row beside nulls."""


@dataclass(slots=True)
class Side:
    """One side of a join. `chain` runs ahead of the window; a stream without window holds nothing.

    `bare` marks a stream without window: an event of it comes, goes and resets at once. `types` are the attributes
    that the query reads of the side. `keeps_unmatched` says that an event of this side that meets nothing gives a row
    with nulls. `reader` asks an aggregation anew for each event that meets it, in place of `contents`.
    """

    slot: int
    source: str | None
    chain: list[Operator]
    window: Window | None
    contents: Contents
    types: Mapping[str, AttributeType]
    triggers: bool
    keeps_unmatched: bool
    bare: bool = False
    reader: AggregationReader | None = None


class JoinOperator(MergingOperator):
    """Takes the chunks of its sides one after the other: timers first, then the chunk through its side's window, and
    what comes out of that probes the other side.

    The pairs of one probing event are selected as a chunk; those of all events of one chunk leave the query together.
    """

    def __init__(self, sides: tuple[Side, Side], on: Node | None, pool: StringPool) -> None:
        self.sides = sides
        self.pool = pool
        self.on = on
        self.sources = tuple(dict.fromkeys(side.source for side in sides if side.source is not None))
        self._types = {f"{side.slot}.{name}": type_ for side in sides for name, type_ in side.types.items()}
        self._nothing = empty_batch(tuple(self._types.items()), self.pool)
        self._floor = 0
        self._failures = Failures()

    # ---- a step

    def process(self, inputs: MergedRows, step: Step) -> EventBatch:
        out: list[EventBatch] = []
        deliveries: list[int] = []
        self._floor = step.floor
        self._failures = step.failures
        for source, batch, order, clock in _chunks(inputs):
            self._fire_timers(step, order, clock, out, deliveries)
            readers = [side for side in self.sides if side.source == self.sources[source]]
            parts = [batch] if len(readers) == 1 else [batch.slice(row, row + 1) for row in range(batch.size)]
            for part in parts:
                for side in readers:
                    self._feed(side, part, order, clock, out)
                    self._close_delivery(out, deliveries)
            self._floor = clock
        self._fire_timers(step, step.final_order, step.final_clock + 1, out, deliveries)
        if not out:
            return self._nothing
        joined = EventBatch.concat(out)
        sizes = [batch.size for batch in out]
        chunks = np.repeat(np.arange(len(out)), sizes)
        return joined.with_chunks(chunks, np.repeat(np.array(deliveries, dtype=np.int64), sizes))

    def _close_delivery(self, out: list[EventBatch], deliveries: list[int]) -> None:
        """What has come out since the last call leaves together."""
        number = deliveries[-1] + 1 if deliveries else 0
        deliveries.extend([number] * (len(out) - len(deliveries)))

    def _fire_timers(self, step: Step, order: int, clock: int, out: list[EventBatch], deliveries: list[int]) -> None:
        """Fires the timers of both windows that go before a row of (`order`, `clock`)."""
        last: int | None = None
        while (due := self.next_deadline_ms()) is not None and due != last:
            at = step.timer_order(due)
            if at > step.final_order or (at, due) >= (order, clock):
                return
            last = due
            now = max(due, self._floor)
            for side in self.sides:
                if side.window is not None and _is_due(side.window, due):
                    sub = Step(np.full(1, now, dtype=np.int64), self._floor)
                    emitted = side.window.process(self._empty(side), sub)
                    self._probe(side, emitted, at, now, out)
                    self._close_delivery(out, deliveries)

    def _empty(self, side: Side) -> EventBatch:
        return empty_batch(tuple(side.types.items()), self.pool)

    def _feed(self, side: Side, batch: EventBatch, order: int, clock: int, out: list[EventBatch]) -> None:
        step = Step(np.full(1, clock, dtype=np.int64), self._floor)
        rows = batch.at_order(1)
        for operator in side.chain:
            if rows.size:
                rows = operator.process(rows, step)
        if not rows.size:
            return
        if side.window is not None:
            rows = side.window.process(rows, step)
        elif side.bare:
            rows = _passing_by(rows)
        self._probe(side, rows, order, clock, out)

    # ---- meeting the other side

    def _probe(self, side: Side, rows: EventBatch, order: int, clock: int, out: list[EventBatch]) -> None:
        """Joins each of `rows`, which `side`'s window let out, with what the other side holds.

        A side that does not trigger tells nothing, not even the end of its batches.
        """
        if not side.triggers or not rows.size:
            return
        other = self.sides[1 - side.slot]
        stamps, held = other.contents()
        size = len(stamps)
        for row in range(rows.size):
            if rows.kinds[row] == RESET:
                out.append(self._joined(side, rows, row, None, _ONE, order, clock))
                continue
            if other.reader is not None:
                try:
                    held = other.reader.read(self._joined(side, rows, row, None, _ONE, order, clock))
                except SiddhiRuntimeError as error:
                    self._failures.add(np.full(1, order), error.problems[0].message)
                    continue
                size = len(held[AGGREGATION_TIMESTAMP])
            matches = self._matches(side, rows, row, held, size)
            if len(matches):
                out.append(self._joined(side, rows, row, held, matches, order, clock))
            elif side.keeps_unmatched:
                out.append(self._joined(side, rows, row, None, _ONE, order, clock))

    def _matches(self, side: Side, rows: EventBatch, row: int, held: Mapping[str, Column], size: int) -> Int64Array:
        places = np.arange(size)
        if self.on is None or not size:
            return places
        batch = self._joined(side, rows, row, held, places, 1, 0)
        return np.flatnonzero(self.on.truth(Evaluation(batch)))

    def _joined(
        self,
        side: Side,
        rows: EventBatch,
        row: int,
        held: Mapping[str, Column] | None,
        matches: Int64Array,
        order: int,
        clock: int,
    ) -> EventBatch:
        """Row `row` of `rows` beside the rows `matches` of the other side, or beside nulls when `held` is None."""
        size = len(matches)
        picked = np.full(size, row)
        other = self.sides[1 - side.slot]
        columns = {f"{side.slot}.{name}": rows.columns[name].take(picked) for name in side.types}
        for name, type_ in other.types.items():
            column = Column.nulls(type_, self.pool, size) if held is None else held[name].take(matches)
            columns[f"{other.slot}.{name}"] = column
        return EventBatch(
            rows.timestamps[picked],
            rows.kinds[picked],
            np.full(size, order, dtype=np.int64),
            np.full(size, clock, dtype=np.int64),
            {name: columns[name] for name in self._types},
        )

    # ---- life

    def next_deadline_ms(self) -> int | None:
        windows = [side.window for side in self.sides if side.window is not None]
        return min((due for window in windows if (due := window.next_deadline_ms()) is not None), default=None)

    def _parts(self) -> list[Operator]:
        return [
            part for side in self.sides for part in (*side.chain, *([side.window] if side.window is not None else []))
        ]

    def start(self, clock_ms: int) -> None:
        for part in self._parts():
            part.start(clock_ms)

    def state_size(self) -> StateSize:
        return total(part.state_size() for part in self._parts())

    def snapshot(self) -> State:
        return [part.snapshot() for part in self._parts()]

    def restore(self, state: State) -> None:
        for part, saved in zip(self._parts(), state, strict=True):
            part.restore(saved)


def _is_due(window: Window, due: int) -> bool:
    deadline = window.next_deadline_ms()
    return deadline is not None and deadline <= due


def _chunks(inputs: MergedRows) -> list[tuple[int, EventBatch, int, int]]:
    """The chunks of `inputs` in order: input, rows, order, clock."""
    chunks: list[tuple[int, EventBatch, int, int]] = []
    ids = [batch.chunk_ids() for batch in inputs.batches]
    place = 0
    while place < inputs.size:
        source = int(inputs.sources[place])
        start = int(inputs.rows[place])
        stop = start + 1
        line = ids[source]
        while stop < len(line) and line[stop] == line[start]:
            stop += 1
        batch = inputs.batches[source].slice(start, stop)
        chunks.append((source, batch, int(inputs.orders[place]), int(inputs.clocks[place])))
        place += stop - start
    return chunks


def _passing_by(rows: EventBatch) -> EventBatch:
    """Events of a side without window: each comes, goes and resets at once."""
    picked = np.repeat(np.arange(rows.size), 3)
    kinds = np.tile(np.array([CURRENT, EXPIRED, RESET], dtype=np.int8), rows.size)
    passing = rows.take(picked).with_kinds(kinds)
    passing.timestamps[1::3] = passing.clocks[1::3]
    return passing
