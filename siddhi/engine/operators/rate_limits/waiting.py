"""`output all|last every N events` and `output all|last every T`: rows wait in blocks that are emitted as a whole.

    N = 3     in     a   b   a   │   c          T = 10    clock   0     3    7    10       20    24   30
              all    ·   ·   aba │   ·                    in            a    b                   c
              last   ·   ·   a   │   ·                    all                     a b                 c
                                                          last                    b                   c

A block belongs to one instance. It is emitted with the row that fills it, or at its tick: start + T, start + 2T, … of
the instance. `last` keeps the newest row of each group, at the position of the group's first.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from siddhi.engine.columnar.batch import EventBatch
from siddhi.engine.columnar.batch_state import restore_batch, snapshot_batch
from siddhi.engine.columnar.slot_store import SlotStore
from siddhi.engine.columnar.state_size import StateSize, held_bytes
from siddhi.engine.columnar.state_tree import State
from siddhi.engine.jit.arrays import INT64, NO_POSITIONS, BoolArray, Int64Array, filled
from siddhi.engine.jit.kernels import grown, kernel_array, seldom_part, state_kernel
from siddhi.engine.operators.base.operator import NEVER, Step
from siddhi.engine.operators.base.per_instance import came_together
from siddhi.engine.operators.rate_limits.limiter import (
    CHUNK,
    CLOCK,
    DUE,
    ORDER,
    OUT_LINES,
    SLOT,
    TURN,
    UNSET,
    WHOSE,
    LimitedRows,
    Limiter,
    chunks_of,
    in_lists,
    without_groups,
)
from siddhi.engine.operators.windows.base.emission import timer_order

_UNSET = np.int64(UNSET)
NEXT, BACK, BLOCK_OF, GROUP_OF, KIND_OF, FREED = range(6)
"""The lines of rows by position: the neighbours in their block, the block (-1 after it was emitted), the group and the
kind. The last line is a stack of slots that a step returned."""
_ROW_LINES = 6
INSTANCE, TICK, HEAD, TAIL, COUNT, NUMBER, OLDER = range(7)
"""The columns of blocks: `COUNT` is the number of rows that arrived, `NUMBER` increases from one block to the next and
is -1 after the rows were emitted, `OLDER` is the previous block of the instance."""
_BLOCK_WIDTH = 7
ORIGIN, BLOCK = range(2)
"""The columns of instances: the time from which ticks count, and the newest block, -1 for none."""
IN_BLOCK, NEWEST = range(2)
"""The columns of groups: the number of the block with a row of the group, and this row."""
USED, FREE_BLOCKS, NUMBERS, HEAPED, WRITTEN, FREED_COUNT, IN_RUNS, TURN_NOW = range(8)
_RUN_LINES = 8
_BY_TIME, _LAST, _SPAN = range(3)


@seldom_part
def _goes_first(blocks, one, other):  # type: ignore[no-untyped-def]
    if blocks[one, TICK] != blocks[other, TICK]:
        return blocks[one, TICK] < blocks[other, TICK]
    return blocks[one, NUMBER] < blocks[other, NUMBER]


@seldom_part
def _push(run, blocks, heap, block):  # type: ignore[no-untyped-def]
    place = run[HEAPED]
    run[HEAPED] += 1
    while place > 0 and _goes_first(blocks, block, heap[(place - 1) // 2]):
        heap[place] = heap[(place - 1) // 2]
        place = (place - 1) // 2
    heap[place] = block


@seldom_part
def _pop(run, blocks, heap):  # type: ignore[no-untyped-def]
    top = heap[0]
    run[HEAPED] -= 1
    last, count, place = heap[run[HEAPED]], run[HEAPED], 0
    while 2 * place + 1 < count:
        child = 2 * place + 1
        if child + 1 < count and _goes_first(blocks, heap[child + 1], heap[child]):
            child += 1
        if not _goes_first(blocks, heap[child], last):
            break
        heap[place] = heap[child]
        place = child
    heap[place] = last
    return top


@seldom_part
def _begun(run, blocks, cells, free, instance, tick):  # type: ignore[no-untyped-def]
    """Start a new block of an instance."""
    if run[FREE_BLOCKS] > 0:
        run[FREE_BLOCKS] -= 1
        block = free[run[FREE_BLOCKS]]
    else:
        block = run[USED]
        run[USED] += 1
    blocks[block, INSTANCE], blocks[block, TICK], blocks[block, COUNT] = instance, tick, 0
    blocks[block, HEAD] = blocks[block, TAIL] = -1
    blocks[block, NUMBER], blocks[block, OLDER] = run[NUMBERS], cells[instance, BLOCK]
    cells[instance, BLOCK] = block
    run[NUMBERS] += 1
    return block


@seldom_part
def _give_back(run, free, block):  # type: ignore[no-untyped-def]
    free[run[FREE_BLOCKS]] = block
    run[FREE_BLOCKS] += 1


@seldom_part
def _let_out(run, rows, blocks, cells, block, order, clock, chunk, out):  # type: ignore[no-untyped-def]
    """Emit the rows of a block."""
    place, instance = blocks[block, HEAD], blocks[block, INSTANCE]
    while place >= 0:
        count = run[WRITTEN]
        out[SLOT, count], out[ORDER, count], out[CLOCK, count] = place, order, clock
        out[CHUNK, count], out[WHOSE, count], out[DUE, count] = chunk, instance, blocks[block, TICK]
        out[TURN, count] = run[TURN_NOW]
        run[WRITTEN] = count + 1
        rows[BLOCK_OF, place] = -1
        rows[FREED, run[FREED_COUNT]] = place
        run[FREED_COUNT] += 1
        place = rows[NEXT, place]
    blocks[block, NUMBER] = -1
    newer = cells[instance, BLOCK]
    if newer == block:
        cells[instance, BLOCK] = blocks[block, OLDER]
        return
    while blocks[newer, OLDER] != block:
        newer = blocks[newer, OLDER]
    blocks[newer, OLDER] = blocks[block, OLDER]


@seldom_part
def _fire(run, rows, blocks, cells, heap, free, order, clock, step_clocks, floor, out):  # type: ignore[no-untyped-def]
    """Emit the blocks whose tick precedes a row of (`order`, `clock`)."""
    while run[HEAPED] > 0:
        block = heap[0]
        tick = blocks[block, TICK]
        at, now = timer_order(step_clocks, tick, np.int64(-1)), max(tick, floor)
        if blocks[block, NUMBER] >= 0:
            if at > order or (at == order and now >= clock):
                return
            _let_out(run, rows, blocks, cells, block, at, now, blocks[block, NUMBER], out)
        _give_back(run, free, _pop(run, blocks, heap))


@seldom_part
def _end_run(run, rows, blocks, cells, instance, order, clock, floor, out):  # type: ignore[no-untyped-def]
    """Emit the blocks of an instance whose tick is due by the end of a run of its rows."""
    while True:
        first, block = np.int64(-1), cells[instance, BLOCK]
        while block >= 0:
            if blocks[block, TICK] <= clock and (first < 0 or blocks[block, TICK] <= blocks[first, TICK]):
                first = block
            block = blocks[block, OLDER]
        if first < 0:
            return
        now = max(blocks[first, TICK], floor)
        _let_out(run, rows, blocks, cells, first, order, now, blocks[first, NUMBER], out)


@state_kernel
def _wait(  # type: ignore[no-untyped-def] # noqa: C901, PLR0912 - one loop, compiled as a whole
    param, run, rows, blocks, cells, group_cells, heap, free, slots, orders, clocks, chunks, instances, groups, kinds,
    step_clocks, floor, out,
):  # fmt: skip
    """Add rows to their blocks, row r at position `slots[r]`; emit blocks that are full or whose tick is due."""
    by_time, last, span = param[_BY_TIME], param[_LAST], param[_SPAN]
    in_runs, count = run[IN_RUNS] and by_time, len(orders)
    run[TURN_NOW] = 1
    for row in range(count):
        instance, place, tick = instances[row], slots[row], np.int64(NEVER)
        if in_runs and (row == 0 or chunks[row] != chunks[row - 1]):
            run[TURN_NOW] += 1
            _fire(run, rows, blocks, cells, heap, free, orders[row], clocks[row], step_clocks, floor, out)
            run[TURN_NOW] += 1
        if by_time:
            origin = cells[instance, ORIGIN]
            if origin == _UNSET:
                origin = cells[instance, ORIGIN] = clocks[row]
            passed = max(clocks[row] - origin - (1 - (orders[row] & 1)), 0)
            tick = (passed // span + 1) * span + origin
        block = cells[instance, BLOCK]
        if by_time and block >= 0:  # a timer between two runs of one chunk fires after all rows of the first
            tick = max(tick, blocks[block, TICK])
        if block < 0 or blocks[block, TICK] != tick:
            block = _begun(run, blocks, cells, free, instance, tick)
            if by_time:
                _push(run, blocks, heap, block)
        group, before, behind = groups[row], blocks[block, TAIL], np.int64(-1)
        if last and group_cells[group, IN_BLOCK] == blocks[block, NUMBER]:
            old = group_cells[group, NEWEST]
            before, behind = rows[BACK, old], rows[NEXT, old]
            rows[BLOCK_OF, old] = -1
            rows[FREED, run[FREED_COUNT]] = old
            run[FREED_COUNT] += 1
        rows[BACK, place], rows[NEXT, place], rows[BLOCK_OF, place] = before, behind, block
        rows[GROUP_OF, place], rows[KIND_OF, place] = group, kinds[row]
        if before < 0:
            blocks[block, HEAD] = place
        else:
            rows[NEXT, before] = place
        if behind < 0:
            blocks[block, TAIL] = place
        else:
            rows[BACK, behind] = place
        group_cells[group, IN_BLOCK], group_cells[group, NEWEST] = blocks[block, NUMBER], place
        blocks[block, COUNT] += 1
        if blocks[block, COUNT] == span and not by_time:
            _let_out(run, rows, blocks, cells, block, orders[row], clocks[row], chunks[row], out)
            _give_back(run, free, block)
        if in_runs and (row + 1 == count or chunks[row] != chunks[row + 1]):
            came = clocks[row - 1] if row > 0 else floor
            _end_run(run, rows, blocks, cells, instance, orders[row], clocks[row], came, out)
    run[TURN_NOW] += 1
    final = np.int64(2 * len(step_clocks) - 1)
    _fire(run, rows, blocks, cells, heap, free, final, step_clocks[-1] + 1, step_clocks, floor, out)


class BlockLimiter(Limiter):
    """Buffers rows and emits them in blocks: of `span` events each, or at every tick of `span` milliseconds.

    With `last` only the newest row of each group is stored. An event at the time of a tick comes after it, output of
    other timers before it; the first tick is a whole span after the start, even for a row that came at the start.
    """

    def __init__(self, span: int, rows: LimitedRows, *, by_time: bool, last: bool) -> None:
        super().__init__(rows)
        self.by_time = by_time
        self._param: Int64Array = np.array([by_time, last, span], INT64)
        self._reset()

    def _reset(self) -> None:
        self.slots = SlotStore(self.limited.attributes, self.limited.pool)
        self._run: Int64Array = np.zeros(_RUN_LINES, INT64)
        self._rows: Int64Array = np.full((_ROW_LINES, 8), -1, INT64)
        self._blocks: Int64Array = np.full((8, _BLOCK_WIDTH), -1, INT64)
        self._heap: Int64Array = np.zeros(8, INT64)
        self._free: Int64Array = np.zeros(8, INT64)
        self._cells = _unset(1)
        self._groups: Int64Array = np.full((8, 2), -2, INT64)

    def start(self, clock_ms: int) -> None:
        if not self.limited.partitioned:
            self._cells[0, ORIGIN] = clock_ms

    def open(self, instances: Int64Array, clocks: Int64Array) -> None:
        if self.by_time:
            self._known(int(instances.max()) + 1)
            new = self._cells[instances, ORIGIN] == UNSET
            self._cells[instances[new], ORIGIN] = clocks[new]

    def _known(self, count: int) -> None:
        """Make room for so many instances."""
        if count > len(self._cells):
            self._cells = np.concatenate([self._cells, _unset(max(count, 2 * len(self._cells)) - len(self._cells))])

    @property
    def timed(self) -> bool:
        return self.by_time

    def next_deadline_ms(self) -> int | None:
        # The first block of the heap has rows: those whose rows were emitted with a run are removed at the next tick.
        return int(self._blocks[self._heap[0], TICK]) if self._run[HEAPED] else None

    def process(self, batch: EventBatch, step: Step) -> EventBatch:
        size, run, limited = batch.size, self._run, self.limited
        instances = self.instances_of(batch)
        groups = self.groups_of(batch, instances) if size else NO_POSITIONS
        slots = self.slots.add(batch)
        if size and limited.partitioned:
            self._known(int(instances.max()) + 1)
        if size and (limited.partitioned or limited.grouped):
            self._groups = grown(self._groups, int(groups.max()) + 1, -2)
        self._rows = _wide(self._rows, self.slots.used)
        blocks = int(run[USED]) + size
        if blocks > len(self._blocks):
            self._blocks = grown(self._blocks, blocks, -1)
            self._heap, self._free = grown(self._heap, blocks), grown(self._free, blocks)
        run[WRITTEN] = run[FREED_COUNT] = 0
        run[IN_RUNS] = limited.partitioned and came_together(batch)
        out: Int64Array = np.empty((OUT_LINES, len(self.slots)), INT64)
        chunks = batch.chunk_ids()
        _wait(
            self._param, run, self._rows, self._blocks, self._cells, self._groups, self._heap, self._free, slots,
            kernel_array(batch.orders), kernel_array(self._ticking(batch, instances, step)),
            chunks_of((chunks, instances), size) if limited.partitioned else kernel_array(chunks),
            instances, groups, kernel_array(batch.kinds), kernel_array(step.clocks), step.floor, out,
        )  # fmt: skip
        result = self._released(batch, out[:, : int(run[WRITTEN])])
        if freed := int(run[FREED_COUNT]):
            self.slots.free(self._rows[FREED, :freed])
        return result

    def _ticking(self, batch: EventBatch, instances: Int64Array, step: Step) -> Int64Array:
        """Return the clocks by which rows find their ticks.

        Output of a timer comes before the tick of its time. If that tick has passed, as with a timer set for a past
        time, it waits for the next one. If a chunk of several times moves the clock in one jump, all timers fire at the
        end of the jump, and their output comes before all ticks that the jump passes.
        """
        if not self.by_time or not batch.size:
            return batch.clocks
        of_timers = batch.orders & 1 == 0
        if not of_timers.any():
            return batch.clocks
        roots = batch.orders // 2
        first = roots == 0
        passed = np.where(first, min(step.floor, step.shown), step.clocks[np.maximum(roots - 1, 0)])
        reached = np.where(first, step.floor, passed)
        early = of_timers & (batch.clocks <= reached) & (self._cells[instances, ORIGIN] != UNSET)
        return np.where(early, passed + 1, batch.clocks)

    def _released(self, batch: EventBatch, out: Int64Array) -> EventBatch:
        if not out.shape[1]:
            return without_groups(batch).slice(0, 0)
        partitioned = self.limited.partitioned
        if self.by_time:
            out = self.in_turn(out, batch)
        slots = out[SLOT]
        return EventBatch(
            self.slots.timestamps[slots],
            self._rows[KIND_OF, slots].astype(np.int8),
            out[ORDER],
            out[CLOCK],
            self.slots.take(slots),
            chunks_of((out[CHUNK], out[WHOSE]), len(slots)) if partitioned else out[CHUNK],
            out[WHOSE] if partitioned else None,
        )

    # ---- groups and instances

    def groups_in_use(self) -> Int64Array:
        return self._rows[GROUP_OF, np.flatnonzero(self.slots.live())] if self._param[_LAST] else NO_POSITIONS

    def renumber_groups(self, numbers: Int64Array) -> None:
        if not self.limited.grouped:
            return
        waiting, _, _, groups, *_ = self._in_order()
        known = groups < len(numbers)
        renumbered = np.where(known, numbers[np.where(known, groups, 0)] if len(numbers) else 0, groups)
        self._rows[GROUP_OF, waiting] = np.maximum(renumbered, 0)
        self._regroup(waiting)

    def _regroup(self, waiting: Int64Array) -> None:
        """Set the newest row of each group again."""
        groups = self._rows[GROUP_OF, waiting]
        self._groups = np.full((max(int(groups.max(initial=0)) + 1, 8), 2), -2, INT64)
        current = self._blocks[self._rows[BLOCK_OF, waiting], NUMBER]
        last = np.argsort(current, kind="stable")  # if a group has rows in two blocks, the later one counts
        self._groups[groups[last], IN_BLOCK] = current[last]
        self._groups[groups[last], NEWEST] = waiting[last]

    def close_partitions(self, partitions: Int64Array) -> None:
        state = self.snapshot()
        gone = np.isin(np.arange(len(self._cells)), partitions)
        self.restore(self._without(state, gone))

    def _without(self, state: State, gone: BoolArray) -> State:
        """Return the state without the instances `gone`."""
        blocks, of_rows = state["blocks"], state["of_rows"]
        kept = ~gone[blocks[:, INSTANCE]] if len(blocks) else np.zeros(0, dtype=np.bool_)
        numbers = np.cumsum(kept) - 1
        rows = np.flatnonzero(kept[of_rows]) if len(of_rows) else NO_POSITIONS
        batch = restore_batch(state["rows"], self.limited.pool)
        cells = state["origins"].copy()
        cells[gone[: len(cells)]] = UNSET
        return {
            "rows": None if batch is None else snapshot_batch(batch.take(rows)),
            "of_rows": numbers[of_rows[rows]] if len(rows) else NO_POSITIONS,
            "groups": state["groups"][rows],
            "blocks": blocks[kept],
            "origins": cells,
        }

    # ---- state

    def state_size(self) -> StateSize:
        return StateSize(rows=len(self.slots), bytes=held_bytes(self))

    def _in_order(self) -> tuple[Int64Array, Int64Array, Int64Array, Int64Array]:
        """Return the slots of the waiting rows, block after block, the blocks, and the block and group of each."""
        alive = np.flatnonzero(self._blocks[: int(self._run[USED]), NUMBER] >= 0)
        alive = alive[np.argsort(self._blocks[alive, NUMBER])]
        slots = in_lists(self._blocks[alive, HEAD], self._rows[NEXT])
        places: Int64Array = np.zeros(int(self._run[USED]) + 1, INT64)
        places[alive] = np.arange(len(alive))
        return slots, alive, places[self._rows[BLOCK_OF, slots]], self._rows[GROUP_OF, slots]

    def snapshot(self) -> State:
        slots, alive, of_rows, groups = self._in_order()
        kinds = self._rows[KIND_OF, slots].astype(np.int8)
        rows = EventBatch(self.slots.timestamps[slots], kinds, slots * 0, slots * 0, self.slots.take(slots))
        blocks = self._blocks[alive].copy()
        blocks[:, HEAD] = blocks[:, TAIL] = blocks[:, OLDER] = blocks[:, NUMBER] = -1
        return {
            "rows": snapshot_batch(rows) if len(slots) else None,
            "of_rows": of_rows,
            "groups": groups,
            "blocks": blocks,
            "origins": self._cells[:, ORIGIN].copy(),
        }

    def restore(self, state: State) -> None:
        self._reset()
        blocks, of_rows, groups = state["blocks"].copy(), state["of_rows"], state["groups"]
        count = len(blocks)
        self._cells = _unset(max(len(state["origins"]), 1))
        self._cells[: len(state["origins"]), ORIGIN] = state["origins"]
        blocks[:, NUMBER] = np.arange(count)
        for block, instance in enumerate(blocks[:, INSTANCE].tolist()):
            blocks[block, OLDER], self._cells[instance, BLOCK] = self._cells[instance, BLOCK], block
        self._blocks = grown(blocks, max(count, 8), -1)
        self._heap, self._free = grown(self._heap, count), grown(self._free, count)
        self._run[USED] = self._run[NUMBERS] = count
        if self.by_time:
            self._heap[:count] = np.lexsort((blocks[:, NUMBER], blocks[:, TICK]))
            self._run[HEAPED] = count
        batch = restore_batch(state["rows"], self.limited.pool)
        if batch is None or not batch.size:
            return
        slots = self.slots.add(batch)
        self._rows = _wide(self._rows, self.slots.used)
        same = of_rows[1:] == of_rows[:-1]
        self._rows[NEXT, slots] = np.append(np.where(same, slots[1:], -1), -1)
        self._rows[BACK, slots] = np.append(-1, np.where(same, slots[:-1], -1))
        self._rows[BLOCK_OF, slots], self._rows[GROUP_OF, slots] = of_rows, groups
        self._rows[KIND_OF, slots] = batch.kinds
        self._blocks[of_rows[::-1], HEAD], self._blocks[of_rows, TAIL] = slots[::-1], slots
        self._regroup(slots)

    def joined(self, states: Sequence[State], ids: Sequence[Int64Array]) -> State:
        if not self.limited.partitioned:
            return super().joined(states, ids)
        size = int(max((numbers.max(initial=-1) for numbers in ids), default=-1)) + 1
        origins = filled(max(size, 1), UNSET)
        batches, of_rows, groups, blocks, first = [], [], [], [], 0
        for state, numbers in zip(states, ids, strict=True):
            there = np.flatnonzero(numbers[: len(state["origins"])] >= 0)
            origins[numbers[there]] = state["origins"][there]
            own = state["blocks"].copy()
            own[:, INSTANCE] = numbers[own[:, INSTANCE]] if len(own) else own[:, INSTANCE]
            batch = restore_batch(state["rows"], self.limited.pool)
            if batch is not None:
                batches.append(batch)
            of_rows.append(state["of_rows"] + first)
            groups.append(state["groups"])
            blocks.append(own)
            first += len(own)
        return {
            "rows": snapshot_batch(EventBatch.concat(batches)) if batches else None,
            "of_rows": np.concatenate(of_rows),
            "groups": np.concatenate(groups),
            "blocks": np.concatenate(blocks),
            "origins": origins,
        }


def _unset(count: int) -> Int64Array:
    """Return the cells of so many instances without rows."""
    cells: Int64Array = np.full((count, 2), -1, INT64)
    cells[:, ORIGIN] = UNSET
    return cells


def _wide(lines: Int64Array, count: int) -> Int64Array:
    """Return `lines` with room for so many places each."""
    if count <= lines.shape[1]:
        return lines
    larger: Int64Array = np.full((len(lines), max(count, 2 * lines.shape[1])), -1, INT64)
    larger[:, : lines.shape[1]] = lines
    return larger
