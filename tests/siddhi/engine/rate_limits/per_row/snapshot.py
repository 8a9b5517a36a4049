"""`output snapshot every T`: at every tick, emit the current result of the query."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from per_row.limiter import Limiter, groups_of
from siddhi.engine.columnar.batch import EventBatch
from siddhi.engine.columnar.column import Column
from siddhi.engine.columnar.kinds import CURRENT, EXPIRED, RESET
from siddhi.engine.columnar.state_size import StateSize, held_bytes
from siddhi.engine.columnar.state_tree import State
from siddhi.engine.columnar.strings import StringPool
from siddhi.engine.jit.arrays import Int64Array
from siddhi.engine.operators.base.choices import Execution
from siddhi.engine.operators.base.operator import Step
from siddhi.language.ast import AttributeType

SPARE_GROUPS = 64
"""So many groups of which no row is held are not worth a look."""


@dataclass(slots=True)
class Row:
    """One row of a query's output, its kind and the group it belongs to."""

    group: int
    kind: int
    timestamp: int
    values: list[object]


@dataclass(slots=True)
class Group:
    """The state of a group: its newest row, and how many rows arrived and did not leave."""

    newest: Row
    count: int = 0


class Snapshot(Limiter):
    """A limiter that keeps what the window of the query holds and repeats it at every tick from the start on.

    A row that is no older than the tick triggers it, as in Siddhi: what expires at the time of a tick is still shown.

    `windowed` False: only the last event (of each group) is kept, forever. `aggregated` marks the output attributes
    that are aggregates and nothing else: these show the newest value in every row. When all are, one row (of each
    group) represents the window; a group that a tick finds empty is dropped, and comes last when it returns.
    Otherwise groups are dropped when none of their rows is held. Grouped queries pass on no resets: their rows leave
    as they expire.
    """

    execution = Execution.EVENTS

    def __init__(
        self,
        period: int,
        attributes: Sequence[tuple[str, AttributeType]],
        aggregated: Sequence[bool],
        pool: StringPool,
        *,
        windowed: bool,
        grouped: bool,
    ) -> None:
        self.pool = pool
        self.period = period
        self.attributes = tuple(attributes)
        self.aggregated = tuple(aggregated)
        self.windowed = windowed
        self.grouped = grouped
        self._holds_rows = windowed and not all(aggregated)
        self._ticking = (CURRENT,) if grouped and not windowed else (CURRENT, EXPIRED)
        self._told_by = _telling(aggregated)
        self.tick = 0
        self.groups: dict[int, Group] = {}
        self.held: dict[int, Row] = {}
        """The rows held, by the number of their arrival."""
        self._same: dict[tuple[object, ...], deque[int]] = {}
        """The numbers of those that are told to be the same, first to last."""
        self._arrivals = 0

    def start(self, clock_ms: int) -> None:
        self.tick = clock_ms + self.period

    def next_deadline_ms(self) -> int | None:
        return self.tick

    def process(self, batch: EventBatch, step: Step) -> EventBatch:
        shown: list[tuple[int, int, list[Row]]] = []
        if batch.size:
            columns = [batch.columns[name].to_list() for name, _ in self.attributes]
            values = zip(*columns, strict=True)
            lines = zip(
                batch.orders.tolist(),
                batch.clocks.tolist(),
                batch.timestamps.tolist(),
                batch.kinds.tolist(),
                groups_of(batch).tolist(),
                values,
                strict=True,
            )
            for order, clock, timestamp, kind, group, row in lines:
                self._run_ticks(step, order, clock, shown)
                if timestamp >= self.tick and kind in self._ticking:
                    self._show(order, clock, shown)
                self._apply(Row(group if self.grouped else 0, kind, timestamp, list(row)))
        self._run_ticks(step, step.final_order, step.final_clock + 1, shown)
        if self._holds_rows and len(self.groups) > 2 * len(self.held) + SPARE_GROUPS:
            self._forget_empty()
        return self._batch(shown)

    def _run_ticks(self, step: Step, order: int, clock: int, shown: list[tuple[int, int, list[Row]]]) -> None:
        """Emit the rows at every tick that comes before a row of (`order`, `clock`)."""
        while (at := step.timer_order(self.tick)) <= order:
            now = step.timer_clock(self.tick, at)
            if (at, now) >= (order, clock):
                return
            self._show(at, now, shown)

    def _show(self, order: int, clock: int, shown: list[tuple[int, int, list[Row]]]) -> None:
        """Emit the rows for the next tick."""
        shown.append((order, clock, self._rows()))
        self.tick += self.period

    def _forget_empty(self) -> None:
        """Drop groups without stored rows: their next row is their newest anyway.

        Counting arriving and leaving rows is not enough for this, as a row may leave by the expiry of another group's.
        """
        groups = {row.group for row in self.held.values()}
        self.groups = {number: known for number, known in self.groups.items() if number in groups}

    def _apply(self, row: Row) -> None:
        kind = row.kind
        if kind == RESET:
            if self.windowed:
                self.groups.clear()
                self._hold([])
            return
        if kind == EXPIRED and not self.windowed:
            return
        known = self.groups.setdefault(row.group, Group(row))
        known.count += 1 if kind == CURRENT else -1
        if self._holds_rows:
            if kind == CURRENT:
                self._add(row)
            elif not self._remove(row):
                return
        known.newest = row

    def _hold(self, rows: Iterable[Row]) -> None:
        """Replace the stored rows by these."""
        self.held, self._same = {}, {}
        for row in rows:
            self._add(row)

    def _add(self, row: Row) -> None:
        self.held[self._arrivals] = row
        self._same.setdefault(self._told(row), deque()).append(self._arrivals)
        self._arrivals += 1

    def _told(self, row: Row) -> tuple[object, ...]:
        """Return a key that is equal for rows that count as the same."""
        return tuple(_by_equals(row.values[place]) for place in self._told_by)

    def _remove(self, row: Row) -> bool:
        """Remove the first stored row that counts as the same as `row`.

        Return False when there is none, because `having` filtered it out.
        """
        told = self._told(row)
        same = self._same.get(told)
        if same is None:
            return False
        del self.held[same.popleft()]
        if not same:
            del self._same[told]
        return True

    def _rows(self) -> list[Row]:
        if not self.windowed:
            return [group.newest for group in self.groups.values()]
        if all(self.aggregated):
            if not self.grouped:
                return [group.newest for group in self.groups.values() if group.newest.kind == CURRENT]
            self.groups = {number: group for number, group in self.groups.items() if group.count > 0}
            return [group.newest for group in self.groups.values()]
        if not any(self.aggregated):
            return list(self.held.values())
        rows = list(self.held.values())
        if self.grouped:
            firsts: dict[int, Row] = {}
            for row in rows:
                firsts.setdefault(row.group, row)
            rows = list(firsts.values())
        return [self._refreshed(row) for row in rows]

    def _refreshed(self, row: Row) -> Row:
        newest = self.groups[row.group].newest
        values = [
            new if aggregated else old
            for old, new, aggregated in zip(row.values, newest.values, self.aggregated, strict=True)
        ]
        return Row(row.group, row.kind, row.timestamp, values)

    def _batch(self, shown: list[tuple[int, int, list[Row]]]) -> EventBatch:
        rows = [row for _, _, listed in shown for row in listed]
        counts = [len(listed) for _, _, listed in shown]
        columns = {
            name: Column.of(type_, self.pool, [row.values[place] for row in rows])
            for place, (name, type_) in enumerate(self.attributes)
        }
        return EventBatch(
            np.array([row.timestamp for row in rows], dtype=np.int64),
            np.array([row.kind for row in rows], dtype=np.int8),
            np.repeat(np.array([order for order, _, _ in shown], dtype=np.int64), counts),
            np.repeat(np.array([clock for _, clock, _ in shown], dtype=np.int64), counts),
            columns,
            np.repeat(np.arange(len(shown)), counts),
        )

    def groups_in_use(self) -> Int64Array:
        if self._holds_rows:
            self._forget_empty()
        return np.fromiter(self.groups, dtype=np.int64, count=len(self.groups))

    def renumber_groups(self, numbers: Int64Array) -> None:
        if self.grouped:
            kept = {int(numbers[group]): known for group, known in self.groups.items()}
            self.groups = {group: known for group, known in kept.items() if group >= 0}
            rows = {id(row): row for row in (*self.held.values(), *(known.newest for known in self.groups.values()))}
            for row in rows.values():
                row.group = int(numbers[row.group])

    def state_size(self) -> StateSize:
        return StateSize(rows=len(self.held), bytes=held_bytes(self))

    def snapshot(self) -> State:
        groups = [[_saved(known.newest), known.count] for known in self.groups.values()]
        return {"tick": self.tick, "groups": groups, "held": [_saved(row) for row in self.held.values()]}

    def restore(self, state: State) -> None:
        self.tick = state["tick"]
        self.groups = {newest[0]: Group(Row(*newest), count) for newest, count in state["groups"]}
        self._hold(Row(*row) for row in state["held"])


def _telling(aggregated: Sequence[bool]) -> list[int]:
    """Return the output attributes whose values identify the held row of an expired one: those without aggregates.

    Siddhi steps from one aggregate to the next by the place of the attribute, not of the aggregate. So it takes those
    behind the first for plain ones where plain attributes follow, unless there is one plain attribute in front.
    """
    aggregates = [place for place, is_aggregate in enumerate(aggregated) if is_aggregate]
    plain = [place for place, is_aggregate in enumerate(aggregated) if not is_aggregate]
    told_by: list[int] = []
    seen, ignored = 0, aggregates[0] if aggregates else -1
    for place in range(len(aggregated)):
        if place != ignored:
            told_by.append(place)
            continue
        seen += 1
        if seen < len(aggregates) <= place:
            return plain  # where Siddhi fails
        ignored = aggregates[place] if seen < len(aggregates) else -1
    return told_by


def _by_equals(value: object) -> object:
    """Return a value that is equal where Java's `equals` holds.

    NaN is equal to NaN, and 0.0 is not equal to -0.0. A value that is not hashable is compared by its text.
    """
    if isinstance(value, float):
        return (float, "nan" if math.isnan(value) else (value, math.copysign(1.0, value)))
    if isinstance(value, set):
        return frozenset(value)
    try:
        hash(value)
    except TypeError:
        return (type(value), repr(value))
    return value


def _saved(row: Row) -> State:
    return [row.group, row.kind, row.timestamp, row.values]
