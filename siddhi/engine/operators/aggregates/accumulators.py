"""State of aggregates that add and remove rows, and the loops that update it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from siddhi.analysis import model
from siddhi.engine.columnar.state_tree import Codes, State, shortened
from siddhi.engine.jit.arrays import BOOL, FLOAT64, INT64, AnyArray, BoolArray, Int64Array
from siddhi.engine.jit.kernels import grown, regrouped
from siddhi.engine.operators.aggregates import moves as loops
from siddhi.engine.operators.aggregates.distinct import follow_distincts, place_entries
from siddhi.engine.operators.aggregates.extremes import follow_extremes, follow_records
from siddhi.engine.operators.aggregates.sorted_extremes import follow_sorted_extremes
from siddhi.engine.operators.aggregates.totals import follow_counts, follow_deviations, follow_totals
from siddhi.engine.operators.base.operator import RemovalOrder
from siddhi.engine.operators.expressions.evaluation import as_type
from siddhi.engine.tuning import MAX_UNUSED_NODES
from siddhi.language.ast import AttributeType

SOURCES = {
    AttributeType.STRING: loops.NARROW,
    AttributeType.INT: loops.NARROW,
    AttributeType.BOOL: loops.NARROW,
    AttributeType.LONG: loops.WIDE,
    AttributeType.FLOAT: loops.REAL,
    AttributeType.DOUBLE: loops.REAL,
}
"""The storage of arguments by type: narrow int32, wide int64 or wide float64."""
_FORMS: dict[object, int] = {
    np.dtype(np.int32): loops.NARROW,
    np.dtype(np.int64): loops.WIDE,
    np.dtype(np.float64): loops.REAL,
}
"""Array types that need no conversion."""
_AS_HELD = (AttributeType.DOUBLE, AttributeType.LONG)
"""Types whose results are returned as they are stored."""
_KINDS = {
    "sum": loops.SUM,
    "avg": loops.AVERAGE,
    "count": loops.COUNT,
    "stdDev": loops.DEVIATION,
    "min": loops.EXTREME,
    "max": loops.EXTREME,
    "minForever": loops.RECORD,
    "maxForever": loops.RECORD,
    "distinctCount": loops.DISTINCT,
}
_EXTREMES = {
    RemovalOrder.NEVER: loops.RECORD,
    RemovalOrder.IN_ORDER: loops.EXTREME,
    RemovalOrder.IN_ANY_ORDER: loops.SORTED_EXTREME,
}
"""The kinds of `min` and `max` by the order in which rows leave."""
_LISTED = (loops.EXTREME, loops.SORTED_EXTREME)
"""Kinds that store values in nodes."""
_LOOPS: dict[int, Callable[..., Any]] = {
    loops.SUM: follow_totals,
    loops.AVERAGE: follow_totals,
    loops.COUNT: follow_counts,
    loops.DEVIATION: follow_deviations,
    loops.EXTREME: follow_extremes,
    loops.RECORD: follow_records,
    loops.DISTINCT: follow_distincts,
    loops.SORTED_EXTREME: follow_sorted_extremes,
}
AnyValues = tuple[AnyArray, BoolArray | None]
"""Values, and a mask of those that are not null (None: all)."""
_MANY = 1 << 62
"""An empty array."""
_NO_LINES: Int64Array = np.zeros((1, loops.LINE_WIDTH), dtype=np.int64)


def in_form(values: AnyArray) -> tuple[AnyArray, int]:
    """Return `values` as a contiguous array in a form that arguments are stored in, and that form."""
    form = _FORMS.get(values.dtype)
    if form is None:
        form = loops.REAL if values.dtype.kind == "f" else loops.WIDE
        values = values.astype(np.float64 if form == loops.REAL else np.int64)
    return np.ascontiguousarray(values), form


@dataclass(frozen=True, slots=True)
class Accumulation:
    """How one aggregate accumulates.

    It has its kind, the type of its argument (None without one), whether it is a maximum, and the type of its result.
    """

    kind: int
    argument: AttributeType | None
    largest: bool
    type: AttributeType

    @property
    def cells(self) -> int:
        """The number of cells that it has per group."""
        return loops.REAL_CELLS if self.real else loops.CELLS[self.kind]

    @property
    def real(self) -> bool:
        """Whether its cells contain a floating-point sum."""
        return self.kind == loops.AVERAGE or (
            self.kind == loops.SUM and self.argument is not None and SOURCES[self.argument] == loops.REAL
        )


def accumulation_of(call: model.Aggregate, removal_order: RemovalOrder) -> Accumulation | None:
    """Return how `call` accumulates over rows that leave in this order, None when it is no aggregate of this kind."""
    kind = None if call.namespace else _KINDS.get(call.name)
    if kind == loops.EXTREME:
        kind = _EXTREMES[removal_order]
    if kind is None:
        return None
    argument = call.arguments[0].type if call.arguments and kind != loops.COUNT else None
    if argument is AttributeType.OBJECT:
        return None
    return Accumulation(kind, argument, call.name.startswith("max"), call.type)


class Accumulators:
    """The accumulators of several aggregates over common groups.

    `lines` gives the line of each aggregate's argument; the first `first_cell` cells of a group belong to the window.
    With `replayed` snapshots do not contain the values stored for `min` and `max`: after a restore the caller passes
    the stored rows to `replay`.
    """

    def __init__(
        self, members: Sequence[Accumulation], lines: Sequence[int], first_cell: int = 0, *, replayed: bool = False
    ) -> None:
        self.members = tuple(members)
        self._results = [
            (m.type in (AttributeType.DOUBLE, AttributeType.FLOAT), None if m.type in _AS_HELD else m.type)
            for m in members
        ]
        self.plan: Int64Array = np.zeros((len(members), loops.PLAN_WIDTH), dtype=np.int64)
        cell = first_cell
        for aim, member, line in zip(self.plan, members, lines, strict=True):
            aim[:] = (member.kind, cell, line, member.largest, member.real)
            cell += member.cells
        self.cells: Int64Array = np.zeros((8, max(cell, 1)), dtype=np.int64)
        self.lists = sum(member.kind in _LISTED for member in members)
        self._replayed = replayed and self.lists > 0
        self._list_cells = [
            int(aim[loops.CELL]) + place for aim in self.plan if aim[loops.KIND] in _LISTED for place in (0, 1)
        ]
        self.counters = sum(member.kind == loops.DISTINCT for member in members)
        self.nodes: Int64Array = np.zeros((1, 4), dtype=np.int64)
        self.table: Int64Array = np.full((16, 4), loops.NO_OWNER, dtype=np.int64)
        self.pool: Int64Array = np.zeros(loops.POOL_SIZE, dtype=np.int64)
        self._loops = [(number, member.kind, _LOOPS[member.kind]) for number, member in enumerate(members)]
        self._room = 0
        """The number of rows that fit in any case; beyond it, their nodes and entries are counted."""
        self._no_nulls = self.nulls = [False] * len(members)
        """The aggregates for which a null was written since `room_for`; each change replaces the list."""

    def grow_groups(self, count: int) -> None:
        """Provide cells for `count` groups."""
        self.cells = grown(self.cells, count)

    def make_room(self, rows: int) -> None:
        """Make room for `rows` more rows in every aggregate."""
        if self.lists and self.pool[loops.NODES_LEFT] < rows * self.lists:
            self._add_nodes(rows * self.lists)
        if self.counters and 2 * (self.pool[loops.ENTRIES] + rows * self.counters) > len(self.table):
            live = self._live()
            self._fill(live, 2 * (len(live) + rows * self.counters))
        nodes = int(self.pool[loops.NODES_LEFT]) // self.lists if self.lists else _MANY
        entries = (len(self.table) // 2 - int(self.pool[loops.ENTRIES])) // self.counters if self.counters else _MANY
        self._room = min(nodes, entries)

    def take_room(self, adds: int) -> None:
        """Reserve room for `adds` rows, which a loop will add."""
        if adds > self._room:
            self.make_room(adds)
        self._room -= adds

    def _add_nodes(self, count: int) -> None:
        old = len(self.nodes)
        self.nodes = grown(self.nodes, old + count)
        added = len(self.nodes) - old
        self.nodes[old:, loops.NEXT] = np.arange(old + 1, old + added + 1)
        self.nodes[-1, loops.NEXT] = self.pool[loops.FREE_NODE]
        self.pool[loops.FREE_NODE] = old
        self.pool[loops.NODES_LEFT] += added

    def _live(self) -> Int64Array:
        """Return the entries that are still in use."""
        used = self.table[self.table[:, loops.HOLDS] > 0]
        groups, numbers = np.divmod(used[:, loops.OWNER], len(self.members))
        epochs = self.cells[groups, self.plan[numbers, loops.CELL] + 1]
        live: Int64Array = used[used[:, loops.EPOCH] == epochs]
        return live

    def _fill(self, live: Int64Array, least: int) -> None:
        """Rebuild the table with only the entries `live` and room for twice `least`."""
        self._room = 0
        self.table = np.full((1 << max(2 * least, 16).bit_length(), 4), loops.NO_OWNER, dtype=np.int64)
        place_entries(live, self.table)
        self.pool[loops.ENTRIES] = len(live)

    def room_for(self, writes: int) -> tuple[Int64Array, BoolArray]:
        """Return the arrays for this many results, with a line for each aggregate; no null has been written."""
        self.begin()
        shape = (len(self._results), writes)
        return np.empty(shape, INT64), np.empty(shape, BOOL)

    def begin(self) -> None:
        """Clear the record of nulls, as `room_for` does, for arrays that exist already."""
        self.nulls = self._no_nulls

    @property
    def written_as_held(self) -> bool:
        """True when the results of every aggregate need no conversion."""
        return all(type_ is None for _, type_ in self._results)

    def follow(
        self,
        moves: Int64Array,
        count: int,
        adds: int,
        lines: Int64Array,
        out: Int64Array,
        valid: BoolArray,
        at: int,
    ) -> None:
        """Apply the first `count` moves to every aggregate; write results to `out` and `valid` from position `at` on.

        At most `adds` of the moves add a row.
        """
        self.take_room(adds)
        plan, cells = self.plan, self.cells
        for number, kind, loop in self._loops:
            if kind in _LISTED:
                null = loop(moves, count, plan, number, lines, cells, self.nodes, self.pool, out, valid, at)
            elif kind == loops.DISTINCT:
                null = loop(moves, count, plan, number, lines, cells, self.table, self.pool, out, valid, at)
            else:
                null = loop(moves, count, plan, number, lines, cells, out, valid, at)
            if null:
                self.nulls = [told or other == number for other, told in enumerate(self.nulls)]

    def replay(self, moves: Int64Array, lines: Int64Array, removal_order: RemovalOrder) -> None:
        """Recompute `min` and `max` from all stored rows, which `moves` add in the order in which they leave.

        From then on rows leave as `removal_order` specifies. Other aggregates do not change.
        """
        if not self.lists:
            return
        self.cells[:, self._list_cells] = 0
        self.nodes = np.zeros((1, 4), dtype=np.int64)
        self.pool[loops.FREE_NODE] = self.pool[loops.NODES_LEFT] = self._room = 0
        self._add_nodes(len(moves) * self.lists)
        kind = _EXTREMES[removal_order]
        out: Int64Array = np.empty((len(self.members), 0), dtype=np.int64)
        out_valid: BoolArray = np.empty((len(self.members), 0), dtype=np.bool_)
        for place, (number, old, _) in enumerate(self._loops):
            if old in _LISTED:
                self._loops[place] = (number, kind, _LOOPS[kind])
                _LOOPS[kind](
                    moves, len(moves), self.plan, number, lines, self.cells, self.nodes, self.pool, out, out_valid, 0
                )

    def values(self, out: Int64Array, out_valid: BoolArray, count: int) -> list[AnyValues]:
        """Return the values of each aggregate in its type, and a mask of those that are not null (None: all).

        They are the first `count` results since `room_for`.
        """
        values: list[AnyValues] = []
        reals = out.view(FLOAT64)
        whole = count == out.shape[1]
        for number, (real, type_) in enumerate(self._results):
            line: AnyArray = reals[number] if real else out[number]
            if not whole:
                line = line[:count]
            if type_ is not None:
                line = as_type(line, type_)
            values.append((line, out_valid[number, :count] if self.nulls[number] else None))
        return values

    def distinct_values(self) -> int:
        """Return the number of distinct values stored, over all groups and aggregates."""
        kinds, cells = self.plan[:, loops.KIND], self.plan[:, loops.CELL]
        return int(self.cells[:, cells[kinds == loops.DISTINCT]].sum())

    def keep_groups(self, kept: Int64Array) -> None:
        """Keep only the groups `kept` (ascending), and number them from 0 in this order."""
        self.grow_groups(int(kept.max(initial=-1)) + 1)
        gone = np.ones(len(self.cells), dtype=np.bool_)
        gone[kept] = False
        self.clear(np.flatnonzero(gone))
        live = self._live()
        numbers = np.full(len(self.cells), -1, dtype=np.int64)
        numbers[kept] = np.arange(len(kept))
        groups, places = np.divmod(live[:, loops.OWNER], len(self.members))
        live[:, loops.OWNER] = numbers[groups] * len(self.members) + places
        self.cells = regrouped(self.cells, kept)
        self._fill(live, 2 * len(live))

    def clear(self, groups: Int64Array) -> None:
        """Reset these groups."""
        out, out_valid = self.room_for(0)
        self.follow(groups << loops.GROUP_SHIFT | loops.CLEAR, len(groups), 0, _NO_LINES, out, out_valid, 0)

    def snapshot(self) -> State:
        """Return the groups that differ from new ones, the nodes in use and the counted values, in compact form.

        Nodes keep their numbers unless most are unused, so that unchanged groups are encoded as before.
        """
        cells, nodes = self._used_nodes()
        if self._replayed:
            cells, nodes = cells.copy(), nodes[:1]
            cells[:, self._list_cells] = 0
        cells = cells[: int(np.flatnonzero(cells.any(axis=1)).max(initial=-1)) + 1].copy()
        live = self._live()
        owners, several = live[:, loops.OWNER], max(len(self.members), 1)
        counted = []
        for number, member in enumerate(self.members):
            if member.kind == loops.DISTINCT:
                entries = live[owners % several == number]
                values = entries[:, loops.VALUE].copy()
                coded = member.argument is AttributeType.STRING
                groups, holds = entries[:, loops.OWNER] // several, entries[:, loops.HOLDS]
                counted.append([number, shortened(groups), shortened(holds), Codes(values) if coded else values])
        nodes = np.where(nodes[:, loops.TIMES : loops.TIMES + 1] == 0, 0, nodes)
        return [cells, nodes[:, loops.ITEM].copy(), shortened(nodes[:, loops.NEXT :]), counted]

    def joined(self, states: Sequence[State], counts: Sequence[int]) -> State:
        """Return one state of all `states`.

        The `counts[k]` groups of each state, and its nodes, are numbered after those of the states before it.
        """
        cells: Int64Array = np.zeros((sum(counts), self.cells.shape[1]), dtype=np.int64)
        nodes: Int64Array = np.zeros((1, 4), dtype=np.int64)
        counted: list[State] = []
        first = 0
        for (own_cells, items, links, own_counted), count in zip(states, counts, strict=True):
            own_nodes = np.column_stack([items, links])
            own, shift = own_cells[:count].copy(), len(nodes) - 1
            for kind, cell in self.plan[:, [loops.KIND, loops.CELL]].tolist():
                if kind in _LISTED:
                    own[:, cell : cell + 2] += shift * (own[:, cell : cell + 2] > 0)
            cells[first : first + len(own)] = own
            for link in (loops.NEXT, loops.BEFORE):
                own_nodes[:, link] += shift * (own_nodes[:, link] > 0)
            nodes = np.concatenate([nodes, own_nodes[1:]])
            counted += [[number, groups + np.int64(first), *more] for number, groups, *more in own_counted]
            first += count
        return [cells, nodes[:, loops.ITEM].copy(), nodes[:, loops.NEXT :].copy(), counted]

    def restore(self, state: State) -> None:
        cells, items, links, counted = state
        self.cells = grown(cells, 8)
        self.nodes = np.column_stack([items, links])
        self.pool[:] = 0
        free = np.flatnonzero(self.nodes[1:, loops.TIMES] == 0) + 1
        if len(free):
            self.nodes[free, loops.NEXT] = np.append(free[1:], 0)
            self.pool[loops.FREE_NODE], self.pool[loops.NODES_LEFT] = free[0], len(free)
        tables = [np.zeros((0, 4), dtype=np.int64)]
        for number, groups, holds, values in counted:
            entries: Int64Array = np.empty((len(groups), 4), dtype=np.int64)
            entries[:, loops.OWNER] = groups.astype(np.int64) * len(self.members) + number
            entries[:, loops.EPOCH] = self.cells[groups, self.plan[number, loops.CELL] + 1]
            entries[:, loops.VALUE] = values.array if isinstance(values, Codes) else values
            entries[:, loops.HOLDS] = holds
            tables.append(entries)
        live = np.concatenate(tables)
        self._fill(live, 2 * len(live))

    def _used_nodes(self) -> tuple[Int64Array, Int64Array]:
        """Return the cells and the nodes up to the last in use.

        When most of these are unused, return them renumbered.
        """
        used = np.flatnonzero(self.nodes[:, loops.TIMES] > 0)
        end = int(used.max(initial=0)) + 1
        if 2 * len(used) < end - MAX_UNUSED_NODES:
            return self._closed_up(used)
        return self.cells, self.nodes[:end]

    def _closed_up(self, used: Int64Array) -> tuple[Int64Array, Int64Array]:
        """Return the cells and nodes renumbered, with only the nodes in use."""
        numbers = np.zeros(len(self.nodes), dtype=np.int64)
        numbers[used] = np.arange(1, len(used) + 1)
        nodes: Int64Array = np.zeros((len(used) + 1, 4), dtype=np.int64)
        nodes[1:] = self.nodes[used]
        nodes[:, loops.NEXT], nodes[:, loops.BEFORE] = numbers[nodes[:, loops.NEXT]], numbers[nodes[:, loops.BEFORE]]
        cells = self.cells.copy()
        for kind, cell in self.plan[:, [loops.KIND, loops.CELL]].tolist():
            if kind in _LISTED:
                cells[:, cell : cell + 2] = numbers[cells[:, cell : cell + 2]]
        return cells, nodes
