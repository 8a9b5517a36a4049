"""`output snapshot every T`: at every tick, emit the current result of the query."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from siddhi.engine.columnar.batch import EventBatch
from siddhi.engine.columnar.batch_state import restore_batch, snapshot_batch
from siddhi.engine.columnar.column import Column
from siddhi.engine.columnar.hashing import key_bits, mix
from siddhi.engine.columnar.slot_store import SlotStore
from siddhi.engine.columnar.state_size import StateSize, held_bytes
from siddhi.engine.columnar.state_tree import State
from siddhi.engine.jit.arrays import INT64, NO_POSITIONS, BoolArray, Int64Array, filled
from siddhi.engine.jit.kernels import grown, kernel_array, state_kernel
from siddhi.engine.operators.base.operator import Step
from siddhi.engine.operators.base.per_instance import came_together
from siddhi.engine.operators.rate_limits.limiter import (
    CHUNK,
    CLOCK,
    ORDER,
    SLOT,
    UNSET,
    WHOSE,
    LimitedRows,
    Limiter,
    chunks_of,
    in_lists,
    taken,
    times_of,
    without_groups,
)
from siddhi.engine.operators.rate_limits.snapshot_loop import (
    ASLEEP,
    BACK_GROUP,
    COUNT,
    FIRST_GROUP,
    FREED,
    FREED_COUNT,
    GROUP,
    GROUP_WIDTH,
    GROUPS,
    HASH,
    HEAD,
    HEAPED,
    IN_RUNS,
    INSTANCE,
    KIND,
    LAST_GROUP,
    LISTED,
    NEW,
    NEWEST,
    NEWEST_OF,
    NEXT,
    NEXT_GROUP,
    OUT_LINES,
    PERIOD,
    PLACE,
    ROW,
    ROW_LINES,
    ROWS,
    RUN_LINES,
    SHOWN,
    TICK,
    WIDTH,
    WRITTEN,
    chain_again,
    hold_all,
    take_snapshots,
)
from siddhi.language.ast import AttributeType


@state_kernel
def _hashes(keys, instances, out):  # type: ignore[no-untyped-def]
    for row in range(len(instances)):
        hashed = np.int64(instances[row])
        for line in range(len(keys)):
            hashed = mix(hashed, keys[line, row])
        out[row] = hashed


class SnapshotLimiter(Limiter):
    """A limiter that stores the rows of the query's window and emits them at every tick, counted from the start.

    A row that is no older than the tick triggers it, as in Siddhi: rows that expire at the time of a tick are still
    shown. `windowed` False: only the last event (of each group) is stored, forever. `aggregated` marks the output
    attributes that are pure aggregates: these show the newest value in every row. If all are, one row (of each group)
    represents the window; a group that is empty at a tick is dropped, and comes last when it returns. Otherwise groups
    are dropped when none of their rows is stored. Grouped queries pass on no resets: their rows leave as they expire.
    """

    def __init__(self, period: int, rows: LimitedRows, aggregated: Sequence[bool], *, windowed: bool) -> None:
        super().__init__(rows)
        whole = all(aggregated)
        self._holds = windowed and not whole
        self._refreshed = self._holds and any(aggregated)
        self._aggregates = [name for name, one in zip(rows.attributes, aggregated, strict=True) if one]
        self._told_by = [list(rows.attributes)[place] for place in identifying_attributes(aggregated)]
        self._param: Int64Array = np.array([windowed, rows.grouped, whole, self._refreshed, period], INT64)
        self._reset()

    def _reset(self) -> None:
        self.slots = SlotStore(self.limited.attributes, self.limited.pool)
        self._run: Int64Array = np.zeros(RUN_LINES, INT64)
        self._rows: Int64Array = np.zeros((ROW_LINES, 0), INT64)
        self._keys: Int64Array = np.zeros((len(self._told_by), 0), INT64)
        self._buckets: Int64Array = np.full((2, 16), -1, INT64)
        self._cells = _unset(1)
        self._groups = _no_groups(8)
        self._heap: Int64Array = np.zeros(1, INT64)

    # ---- instances and their ticks

    def start(self, clock_ms: int) -> None:
        if not self.limited.partitioned:
            self._cells[0, TICK] = clock_ms + self._param[PERIOD]

    def open(self, instances: Int64Array, clocks: Int64Array) -> None:
        self._know(int(instances.max()) + 1)
        new = self._cells[instances, TICK] == UNSET
        self._cells[instances[new], TICK] = clocks[new] + self._param[PERIOD]

    def _know(self, count: int) -> None:
        """Make room for so many instances."""
        if count > len(self._cells):
            self._cells = np.concatenate([self._cells, _unset(max(count, 2 * len(self._cells)) - len(self._cells))])
            self._heap = grown(self._heap, len(self._cells))

    @property
    def timed(self) -> bool:
        return True

    def next_deadline_ms(self) -> int | None:
        return int(self._cells[self._heap[0], TICK]) if self._run[HEAPED] else None

    # ---- rows

    def process(self, batch: EventBatch, step: Step) -> EventBatch:
        run, size, base = self._run, batch.size, self.slots.used
        places = self._take_in(batch, base) if size else NO_POSITIONS
        orders, clocks, clock_line = kernel_array(batch.orders), kernel_array(batch.clocks), kernel_array(step.clocks)
        times = kernel_array(batch.timestamps)
        run[WRITTEN] = run[FREED_COUNT] = run[ROW] = 0
        run[IN_RUNS] = self.limited.partitioned and came_together(batch)
        chunks = NO_POSITIONS
        if run[IN_RUNS] and batch.partitions is not None:
            chunks = chunks_of((batch.chunk_ids(), batch.partitions), size)
        elif size:
            chunks = np.arange(size)
        out: Int64Array = np.empty((OUT_LINES, 64), INT64)
        while not take_snapshots(
            self._param, run, self._rows, self._keys, self._buckets, self._cells, self._groups, self._heap,
            places, orders, clocks, chunks, times, clock_line, step.floor, step.shown, out,
        ):  # fmt: skip
            larger: Int64Array = np.empty((OUT_LINES, 2 * out.shape[1] + len(self.slots) + size), INT64)
            larger[:, : int(run[WRITTEN])] = out[:, : int(run[WRITTEN])]
            out = larger
        result = self._shown(batch, base, out[:, : int(run[WRITTEN])])
        freed = self._rows[FREED, : int(run[FREED_COUNT])]
        self.slots.free(freed[freed < base] if not self._holds else freed)
        if size and not self._holds:
            self._keep(batch, base)
        return result

    def _take_in(self, batch: EventBatch, base: int) -> Int64Array:
        """Return the positions of arriving rows: slots if all are stored, else positions after these."""
        size, holds = batch.size, self._holds
        instances = self.instances_of(batch)
        groups = self.groups_of(batch, instances)
        self._know(int(instances.max()) + 1)
        if int(groups.max()) >= len(self._groups):
            count = max(int(groups.max()) + 1, 2 * len(self._groups))
            self._groups = np.concatenate([self._groups, _no_groups(count - len(self._groups))])
        unopened = self._cells[instances, TICK] == UNSET
        if unopened.any():
            self.open(instances[unopened][::-1], batch.clocks[unopened][::-1])
        places = self.slots.add(batch) if holds else np.arange(base, base + size)
        self._rows = _wide(self._rows, self.slots.used if holds else base + size)
        rows = self._rows
        rows[KIND, places], rows[GROUP, places], rows[INSTANCE, places] = batch.kinds, groups, instances
        if holds:
            self._note_keys(places, instances, batch.columns)
        return places

    def _note_keys(self, places: Int64Array, instances: Int64Array, columns: object) -> None:
        """Store the values that identify the rows at `places`."""
        self._keys = _wide(self._keys, self.slots.used)
        lines: Int64Array = np.empty((len(self._told_by), len(places)), INT64)
        for number, name in enumerate(self._told_by):
            lines[number] = _bits(columns[name])  # type: ignore[index] # a mapping
        self._keys[:, places] = lines
        hashes: Int64Array = np.empty(len(places), INT64)
        _hashes(lines, instances, hashes)
        self._rows[HASH, places] = hashes
        if 2 * len(self.slots) > self._buckets.shape[1]:
            self._rehash()

    def _rehash(self) -> None:
        """Double the hash table, for chains of about one row."""
        self._buckets = np.full((2, 1 << (4 * len(self.slots)).bit_length()), -1, INT64)
        chain_again(self._rows, self._buckets, self._cells)

    def _shown(self, batch: EventBatch, base: int, out: Int64Array) -> EventBatch:
        if not out.shape[1]:
            return without_groups(batch).slice(0, 0)
        out = self.in_turn(out, batch)
        old, base = out[SLOT], self.slots.used if self._holds else base
        columns: dict[str, Column] = {}
        for name in self.slots.types:
            places = out[NEW] if self._refreshed and name in self._aggregates else old
            columns[name] = taken(self.slots, batch, base, places, name)
        return EventBatch(
            times_of(self.slots, batch, base, old),
            self._rows[KIND, old].astype(np.int8),
            out[ORDER],
            out[CLOCK],
            columns,
            chunks_of((out[CHUNK],), len(old)),
            out[WHOSE] if self.limited.partitioned else None,
        )

    def _keep(self, batch: EventBatch, base: int) -> None:
        """Assign slots to the rows of `batch` that are the newest of their group.

        They were at the positions from `base` on.
        """
        rows = self._rows
        stay = np.flatnonzero(rows[NEWEST_OF, base : base + batch.size] > 0)
        if not len(stay):
            return
        lines = rows[:, base + stay]
        slots = self.slots.add(batch.take(stay, self.slots.types))
        self._rows = rows = _wide(rows, self.slots.used)
        rows[:FREED, slots] = lines[:FREED]
        self._groups[lines[GROUP], NEWEST] = slots

    # ---- removed groups and instances

    def groups_in_use(self) -> Int64Array:
        return np.flatnonzero((self._groups[:, LISTED] == 1) | (self._groups[:, NEWEST] >= 0))

    def renumber_groups(self, numbers: Int64Array) -> None:
        if not self.limited.grouped:
            return
        count = min(len(numbers), len(self._groups))
        there = np.flatnonzero(numbers[:count] >= 0)
        moved = _no_groups(max(int(numbers.max(initial=-1)) + 1, 8))
        moved[numbers[there]] = self._groups[there]

        def renamed(groups: Int64Array) -> Int64Array:
            known = (groups >= 0) & (groups < count)
            return np.where(known, numbers[np.where(known, groups, 0)] if count else -1, -1)

        for link in (NEXT_GROUP, BACK_GROUP):
            moved[:, link] = renamed(moved[:, link])
        for end in (FIRST_GROUP, LAST_GROUP):
            self._cells[:, end] = renamed(self._cells[:, end])
        used = self.slots.used
        self._rows[GROUP, :used] = renamed(self._rows[GROUP, :used])
        self._groups = moved

    def close_partitions(self, partitions: Int64Array) -> None:
        gone: BoolArray = np.isin(np.arange(len(self._cells)), partitions)
        state = self.snapshot()
        kept = ~gone[state["instances"]] if len(state["instances"]) else np.zeros(0, dtype=np.bool_)
        ticks = state["ticks"]
        ticks[gone[: len(ticks)]] = UNSET
        places = np.cumsum(kept) - 1
        batch = restore_batch(state["rows"], self.limited.pool)
        groups = state["groups"]
        live = kept[groups[:, 1]] if len(groups) else np.zeros(0, dtype=np.bool_)
        groups = groups[live]
        groups[:, 1] = places[groups[:, 1]]
        self.restore({
            "ticks": ticks,
            "rows": None if batch is None else snapshot_batch(batch.take(np.flatnonzero(kept))),
            **{name: state[name][kept] for name in ("instances", "of_groups", "held")},
            "groups": groups,
        })  # fmt: skip

    # ---- state

    def state_size(self) -> StateSize:
        return StateSize(rows=len(self.slots), bytes=held_bytes(self))

    def snapshot(self) -> State:
        """Return the rows, with stored rows of each instance in order, and the groups in the order of their lists."""
        held = in_lists(self._cells[:, HEAD], self._rows[NEXT])
        if self._holds:
            numbers = np.flatnonzero(self._groups[:, NEWEST] >= 0)
        else:
            numbers = in_lists(self._cells[:, FIRST_GROUP], self._groups[:, NEXT_GROUP])
        others = np.setdiff1d(self._groups[numbers, NEWEST], held)
        slots = np.concatenate([held, others])
        places: Int64Array = np.zeros(self.slots.used, INT64)
        places[slots] = np.arange(len(slots))
        kinds = self._rows[KIND, slots].astype(np.int8)
        rows = EventBatch(self.slots.timestamps[slots], kinds, slots * 0, slots * 0, self.slots.take(slots))
        return {
            "ticks": self._cells[:, TICK].copy(),
            "rows": snapshot_batch(rows) if len(slots) else None,
            "instances": self._rows[INSTANCE, slots] if len(slots) else NO_POSITIONS,
            "of_groups": self._rows[GROUP, slots] if len(slots) else NO_POSITIONS,
            "held": np.arange(len(slots)) < len(held),
            "groups": np.column_stack([
                numbers, places[self._groups[numbers, NEWEST]], self._groups[numbers, ROWS]
            ]),
        }  # fmt: skip

    def restore(self, state: State) -> None:
        self._reset()
        ticks = state["ticks"]
        self._know(len(ticks))
        self._cells[: len(ticks), TICK] = ticks
        batch = restore_batch(state["rows"], self.limited.pool)
        if batch is None or not batch.size:
            return
        slots, instances, held = self.slots.add(batch), state["instances"], state["held"]
        self._rows = _wide(self._rows, self.slots.used)
        rows = self._rows
        rows[KIND, slots], rows[GROUP, slots], rows[INSTANCE, slots] = batch.kinds, state["of_groups"], instances
        numbers, newest, counts = state["groups"].T
        self._groups = _no_groups(max(int(max(numbers.max(initial=0), rows[GROUP].max(initial=0))) + 1, 8))
        self._groups[numbers, NEWEST], self._groups[numbers, ROWS] = slots[newest], counts
        np.add.at(rows[NEWEST_OF], slots[newest], 1)
        if self._holds:
            self._note_keys(slots, instances, batch.columns)
            hold_all(rows, self._buckets, self._cells, slots[held])
        else:
            self._list_groups(numbers, instances[newest])
        awake = np.flatnonzero(self._cells[:, COUNT] + self._cells[:, GROUPS] > 0)
        self._heap[: len(awake)] = awake[np.argsort(self._cells[awake, TICK], kind="stable")]
        self._run[HEAPED] = len(awake)
        self._cells[self._heap[: len(awake)], PLACE] = np.arange(len(awake))
        self._cells[awake, ASLEEP] = 0

    def _list_groups(self, numbers: Int64Array, instances: Int64Array) -> None:
        """Link the groups `numbers`, those of one instance one after the other."""
        same = instances[1:] == instances[:-1]
        self._groups[numbers, LISTED] = 1
        self._groups[numbers, NEXT_GROUP] = np.append(np.where(same, numbers[1:], -1), -1)
        self._groups[numbers, BACK_GROUP] = np.append(-1, np.where(same, numbers[:-1], -1))
        self._cells[instances, LAST_GROUP] = numbers
        self._cells[instances[::-1], FIRST_GROUP] = numbers[::-1]
        np.add.at(self._cells[:, GROUPS], instances, 1)

    def joined(self, states: Sequence[State], ids: Sequence[Int64Array]) -> State:
        if not self.limited.partitioned:
            return super().joined(states, ids)
        size = int(max((numbers.max(initial=-1) for numbers in ids), default=-1)) + 1
        ticks = filled(max(size, 1), UNSET)
        parts: dict[str, list[Int64Array]] = {name: [] for name in ("instances", "of_groups", "held", "groups")}
        batches: list[EventBatch] = []
        first = 0
        for state, numbers in zip(states, ids, strict=True):
            there = np.flatnonzero(numbers[: len(state["ticks"])] >= 0)
            ticks[numbers[there]] = state["ticks"][there]
            own = state["instances"]
            renumbered = numbers[own] if len(own) else own
            groups = state["groups"].copy()
            groups[:, 1] += first
            if not self.limited.grouped and len(groups):
                groups[:, 0] = numbers[groups[:, 0]]
            parts["instances"].append(renumbered)
            parts["of_groups"].append(state["of_groups"] if self.limited.grouped else renumbered)
            parts["held"].append(state["held"])
            parts["groups"].append(groups)
            batch = restore_batch(state["rows"], self.limited.pool)
            if batch is not None:
                batches.append(batch)
            first += len(own)
        rows = snapshot_batch(EventBatch.concat(batches)) if batches else None
        return {"ticks": ticks, "rows": rows, **{name: np.concatenate(lines) for name, lines in parts.items()}}


def identifying_attributes(aggregated: Sequence[bool]) -> list[int]:
    """Return the output attributes whose values identify the stored row of an expired one: those without aggregates.

    Siddhi steps from one aggregate to the next by the position of the attribute, not of the aggregate. So it treats
    those after the first as plain ones if plain attributes follow, unless exactly one plain attribute precedes.
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
            return plain  # Siddhi fails here
        ignored = aggregates[place] if seen < len(aggregates) else -1
    return told_by


def _bits(column: Column) -> Int64Array:
    """Return numbers that are equal exactly where Java's `equals` is true: NaN equals NaN, and 0.0 is not -0.0."""
    if column.type is AttributeType.STRING:
        return column.values
    if column.type is AttributeType.OBJECT:
        return np.array([_object_bits(value) for value in column.values], dtype=INT64)
    return key_bits(column.values, column.valid)


def _object_bits(value: object) -> int:
    if isinstance(value, set):
        return hash(frozenset(value))
    try:
        return hash((type(value).__name__, value))
    except TypeError:
        return hash((type(value).__name__, repr(value)))


def _unset(count: int) -> Int64Array:
    """Return the cells of so many instances without rows."""
    cells: Int64Array = np.full((count, WIDTH), -1, INT64)
    cells[:, COUNT] = cells[:, GROUPS] = 0
    cells[:, ASLEEP], cells[:, TICK] = 1, UNSET
    return cells


def _no_groups(count: int) -> Int64Array:
    """Return so many groups without rows."""
    groups: Int64Array = np.full((count, GROUP_WIDTH), -1, INT64)
    groups[:, ROWS] = groups[:, LISTED] = groups[:, SHOWN] = 0
    return groups


def _wide(lines: Int64Array, count: int) -> Int64Array:
    """Return `lines` with room for so many places each."""
    if count <= lines.shape[1]:
        return lines
    larger: Int64Array = np.zeros((len(lines), max(count, 2 * lines.shape[1], 64)), INT64)
    larger[:, : lines.shape[1]] = lines
    return larger
