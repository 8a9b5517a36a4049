"""A sliding window inside a partition and the following selection, in one loop over all instances.

    S, by k ─►─┬─ k, price, … of the events that came ─────────────────────────────────────────────┬─►─ Out
               │                                                                                   │
               └─►─ held rows: price, time, group ─►─ moves: +d −a +e … ─►─ aggregates by instance ┘
                    a queue for each instance

    length 2    in        a1         a2         b1         a3
                moves     +a1 write  +a2 write  +b1 write  −a1 +a3 write

The difference to `siddhi.engine.operators.fused_windows.sliding` is that only rows of the same instance make a row
leave. Without `group by` the groups are the instances; with it the instance is the first part of each key.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from siddhi.engine.columnar.batch import EventBatch
from siddhi.engine.columnar.state_size import StateSize, held_bytes
from siddhi.engine.columnar.state_tree import State, shortened
from siddhi.engine.jit.arrays import BoolArray, Int64Array, filled
from siddhi.engine.jit.kernels import kernel_array, state_kernel
from siddhi.engine.operators.aggregates.moves import ADD, CLEAR, GROUP_SHIFT, REMOVE, ROW_SHIFT, WRITE
from siddhi.engine.operators.base.operator import NEVER, OperatorContext, RemovalOrder, Step
from siddhi.engine.operators.fused_windows.fused import NO_NUMBERS, room_for_moves
from siddhi.engine.operators.fused_windows.group_table import HOW, NO_ROOM, ONE_GROUP, UNUSED, give_back, group_of
from siddhi.engine.operators.fused_windows.queues import (
    HOLDS,
    MIXED,
    NEWEST,
    OLDEST,
    InstanceQueues,
    bring_to_front,
    join_by_time,
    join_queue,
    leave_queue,
)
from siddhi.engine.operators.fused_windows.row_rings import Line, joined_rows
from siddhi.engine.operators.fused_windows.shape import Shape
from siddhi.engine.operators.fused_windows.sliding import ExpiryRule, SlidingSelection
from siddhi.engine.operators.fused_windows.sliding_kernel import (
    BY_ATTRIBUTE,
    BY_CLOCK,
    DURATION,
    GIVES_BACK,
    GROUP_LINE,
    HELD,
    KEEPS_GROUPS,
    LENGTH,
    MADE_ROOM,
    NO_MOVE_LEFT,
    PLANNED,
    ROW,
    TIME_LINE,
    TIMING,
    UNTIMED,
    WINDOW_STATE_SIZE,
)
from siddhi.engine.tuning import INITIAL_RING_ROWS

LOOKING, UNORDERED, KEYED_STATE_SIZE = range(WINDOW_STATE_SIZE, WINDOW_STATE_SIZE + 3)
"""Further lines of the window's state: whether rows are not arrivals but checks of what must leave by now; whether
`min` and `max` expect rows to leave in another order than they arrived."""
NO_QUEUE, OUT_OF_ORDER = -4, -5
"""An instance has no queue yet; a row will leave before an earlier one of its instance."""


_LEAST_COME = 1_024
"""The minimum number of arrivals before the order of leaving is checked again."""


@state_kernel
def slide_each(  # type: ignore[no-untyped-def] # noqa: C901, PLR0912, PLR0915 - one loop, compiled as a whole
    count, state, clocks, instances, places, keys, wide, narrow, ends, following, spare, spare_count,
    cells, group_state, index, group_keys, unused, moves,
):  # fmt: skip
    """Plan moves as `slide` does, for several instances.

    Row r belongs to `instances[r]` and is stored in `places[r]`; only older rows of its own instance leave for it.
    """
    grouped = group_state[HOW] != ONE_GROUP
    timing, length, duration = state[TIMING], state[LENGTH], state[DURATION]
    limited = timing != UNTIMED and length < NEVER
    row, made_room = state[ROW], state[MADE_ROOM]
    planned = 0
    lack = np.int64(0)
    while row < count:
        instance = instances[row]
        if instance >= len(ends):
            lack = np.int64(NO_QUEUE)
            break
        now = np.int64(0)
        if timing == BY_CLOCK:
            now = clocks[row]
        elif timing == BY_ATTRIBUTE:
            now = wide[TIME_LINE, places[row]]
            if ends[instance, HOLDS] > 0:
                now = max(now, wide[TIME_LINE, ends[instance, NEWEST]])
        while ends[instance, HOLDS] > 0 and planned < len(moves) and not made_room:
            old = ends[instance, OLDEST]
            over = timing != UNTIMED and wide[TIME_LINE, old] + duration <= now
            if not over and limited and ends[instance, MIXED]:
                over = bring_to_front(instance, ends, following, wide[TIME_LINE], now - duration)
                old = ends[instance, OLDEST]
            if not over:
                if ends[instance, HOLDS] - state[LOOKING] < length:
                    break
                made_room = 1
            group = np.int64(narrow[GROUP_LINE, old]) if grouped else instance
            cells[group, HELD] -= 1
            if cells[group, HELD] == 0 and state[GIVES_BACK]:
                give_back(group, group_state, index, group_keys, unused)
            moves[planned] = group << GROUP_SHIFT | old << ROW_SHIFT | REMOVE
            planned += 1
            leave_queue(instance, ends, following, spare, spare_count)
        if planned == len(moves):
            lack = np.int64(NO_MOVE_LEFT)
            break
        if state[LOOKING]:
            row += 1
            continue
        group = group_of(keys, row, count, group_state, index, group_keys, unused) if grouped else instance
        if group < 0:
            lack = group
            break
        place = places[row]
        follows = timing == UNTIMED or state[UNORDERED] or ends[instance, HOLDS] == 0
        if not follows and wide[TIME_LINE, place] < wide[TIME_LINE, ends[instance, NEWEST]]:
            lack = np.int64(OUT_OF_ORDER)
            break
        if grouped:
            narrow[GROUP_LINE, place] = group
        doing = ADD | WRITE
        if cells[group, HELD] == 0 and not state[KEEPS_GROUPS]:
            doing |= CLEAR
        cells[group, HELD] += 1
        moves[planned] = group << GROUP_SHIFT | place << ROW_SHIFT | doing
        planned += 1
        if timing == UNTIMED:
            join_queue(instance, place, ends, following)
        elif limited:
            held = ends[instance, HOLDS]
            if held == 0 or wide[TIME_LINE, place] < wide[TIME_LINE, ends[instance, NEWEST]]:
                ends[instance, MIXED] = held > 0
            join_queue(instance, place, ends, following)
        else:
            join_by_time(instance, place, ends, following, wide[TIME_LINE])
        row += 1
        made_room = 0
    state[MADE_ROOM] = made_room
    if lack < 0:
        state[ROW], state[PLANNED] = row, planned
        return lack
    state[ROW] = 0
    return np.int64(planned)


class KeyedSlidingSelection(SlidingSelection):
    """Emits every event with the aggregates of its instance after its arrival.

    Of a chunk, the last event of each group.
    """

    def __init__(self, shape: Shape, leaving: ExpiryRule, context: OperatorContext) -> None:
        super().__init__(shape, leaving, context)
        self.state = np.append(self.state, np.zeros(KEYED_STATE_SIZE - WINDOW_STATE_SIZE, dtype=np.int64))
        self.queues = InstanceQueues(self.rows.capacity)
        self._ranks = context.instance_ranks
        self._come_since_look = 0
        """The number of arrivals since it was last checked whether rows leave in the order in which they arrived."""

    def process(self, batch: EventBatch, step: Step) -> EventBatch:
        size, partitions, accumulators = batch.size, batch.partitions, self.accumulators
        assert partitions is not None  # noqa: S101 - the streams of a partition tell the instance of each row
        self._make_room_for(partitions, step)
        if batch.chunks is not None and self.shape.keys and self.groups.state[UNUSED] < size:
            self.make_room(NO_ROOM, forget=not self.kept)
        clocks = kernel_array(batch.clocks) if self.clocked else NO_NUMBERS
        keys = kernel_array(self.keys(batch)) if self.shape.keys else NO_NUMBERS
        out, out_valid = accumulators.room_for(size)
        chunked = batch.chunks is not None
        instances, lines = kernel_array(partitions), self.nodes.of(batch)
        places = self.take_in_each(lines, instances, keys, clocks, out, out_valid, chunked=chunked)
        aggregates = accumulators.values(out, out_valid, size)
        result, passed = self.shape.outputs.of(batch, aggregates, self.pool)
        if batch.chunks is not None:
            return self._of_chunks(result, passed, places)
        turns = self._turns(batch, partitions)
        if turns is not None:
            passed = turns if passed is None else turns[np.isin(turns, passed)]
        return result if passed is None else result.take(passed)

    def has_room_for(self, size: int) -> bool:
        """Return whether `size` rows have places."""
        return self.queues.unused_count.item(0) >= size

    def take_in_each(
        self,
        lines: Sequence[Line],
        instances: Int64Array,
        keys: Int64Array,
        clocks: Int64Array,
        out: Int64Array,
        out_valid: BoolArray,
        *,
        chunked: bool,
    ) -> Int64Array:
        """As `take_in`, for rows of these `instances`, for which there is room; return their positions."""
        self.state[GIVES_BACK] = not (chunked or self.kept)
        if self.state[UNORDERED]:
            self._come_since_look += len(instances)
            if self._come_since_look > max(self.queues.rows, _LEAST_COME):
                self._order_anew()
        places = self.queues.give_out(len(instances))
        self.rows.put_at(lines, places)
        self._slide_each(instances, clocks, places, keys, out, out_valid)
        return places

    def _turns(self, batch: EventBatch, partitions: Int64Array) -> Int64Array | None:
        """Return the order in which rows leave if several instances have rows of one cause.

        These are positions; None when rows leave in their current order.
        """
        if len(partitions) == 1 or (partitions[0] == partitions[-1] and (partitions == partitions[0]).all()):
            return None
        orders, clocks = batch.orders, batch.clocks
        if ((orders[1:] != orders[:-1]) | (clocks[1:] != clocks[:-1]) | (partitions[1:] == partitions[:-1])).all():
            return None
        turns = partitions if self._ranks is None else self._ranks()[partitions]
        by_timer = orders & 1 == 0  # an event's rows leave in the order in which its instances received it
        return np.lexsort((np.where(by_timer, turns, 0), clocks, orders))

    def _make_room_for(self, partitions: Int64Array, step: Step) -> None:
        """Make room for a row of each of `partitions`."""
        queues, wanted = self.queues, len(partitions)
        if queues.unused_count[0] < wanted and self.clocked:
            self._look(step.floor)
            self._close_up()
            wanted = max(wanted, self.rows.capacity // 8)  # otherwise there would soon be a check for each batch
        if queues.unused_count[0] < wanted:
            self.rows.make_room(0, self.rows.capacity, len(partitions))
            queues.grow(self.rows.capacity)

    def let_time_pass(self, clock: int) -> None:
        if self.clocked:
            self._look(clock)

    def _look(self, clock: int) -> None:
        """Drop the rows of all instances that have expired by `clock`."""
        filled_ones = self.queues.filled()
        clocks = filled(len(filled_ones), clock)
        self.state[GIVES_BACK], self.state[LOOKING] = not self.kept, 1
        out, out_valid = self.accumulators.room_for(0)
        self._slide_each(filled_ones, clocks, NO_NUMBERS, NO_NUMBERS, out, out_valid)
        self.state[LOOKING] = 0

    def _close_up(self) -> None:
        """Shrink the store of rows to at most eight times the room that they need."""
        if 8 * self.queues.rows < self.rows.capacity > INITIAL_RING_ROWS:
            self.restore(self.snapshot())

    def _slide_each(
        self,
        instances: Int64Array,
        clocks: Int64Array,
        places: Int64Array,
        keys: Int64Array,
        out: Int64Array,
        out_valid: BoolArray,
    ) -> None:
        """Write the aggregates with which rows of `instances` in `places` are emitted into `out` and `out_valid`.

        The rows before them leave, or have left.
        """
        accumulators, rows, groups, queues = self.accumulators, self.rows, self.groups, self.queues
        size = len(instances)
        moves = self._moves = room_for_moves(self._moves, 2 * size)
        done = 0
        while True:
            told = slide_each(
                size, self.state, clocks, instances, places, keys, rows.wide, rows.narrow,
                queues.ends, queues.following, queues.unused, queues.unused_count,
                accumulators.cells, groups.state, groups.index, groups.keys, groups.unused, moves,
            )  # fmt: skip
            planned = told if told >= 0 else int(self.state[PLANNED])
            row = size if told >= 0 else int(self.state[ROW])
            adds = 0 if self.state[LOOKING] else row - done
            accumulators.follow(moves, planned, adds, rows.lines, out, out_valid, done)
            if told >= 0:
                return
            done = row
            if told == NO_QUEUE:
                queues.know(instances)
                if not self.shape.keys:
                    accumulators.grow_groups(len(queues.ends))
            elif told == OUT_OF_ORDER:
                self._replay_held(RemovalOrder.IN_ANY_ORDER)
            elif told != NO_MOVE_LEFT:
                self.make_room(told, forget=bool(self.state[GIVES_BACK]))

    def close_partitions(self, partitions: Int64Array) -> None:
        groups, accumulators = self.groups, self.accumulators
        gone = partitions[partitions < len(accumulators.cells)]
        if self.shape.keys:
            used = groups.used()
            gone = used[np.isin(groups.keys[used, 0], partitions)]
        accumulators.clear(gone)
        accumulators.cells[gone, HELD] = 0
        if self.shape.keys and len(gone):
            held = np.ones(groups.capacity, dtype=np.bool_)
            held[gone] = False
            groups.make_room(held, 0)
            accumulators.grow_groups(groups.capacity)
        self.queues.drop(partitions)
        self._close_up()

    def snapshot(self) -> State:
        """Return the state, with rows ordered by instance, so that their positions do not matter."""
        instances = self.queues.filled()
        return {
            "instances": instances,
            "counts": shortened(self.queues.ends[instances, HOLDS]),
            "rows": self.rows.taken(self.queues.places(instances), self.coded),
            "groups": self.groups.snapshot(),
            "aggregates": self.accumulators.snapshot(),
        }

    def restore(self, state: State) -> None:
        instances, counts = state["instances"], state["counts"].astype(np.int64)
        self.state[ROW] = 0
        self.rows.restore(0, int(counts.sum()), state["rows"])
        self.queues.fill(instances, counts, self.rows.capacity)
        self.groups.restore(state["groups"])
        self.accumulators.restore(state["aggregates"])
        self.accumulators.grow_groups(self.groups.capacity if self.shape.keys else len(self.queues.ends))
        self._order_anew()

    def _order_anew(self) -> None:
        """Let `min` and `max` expect rows to leave in the current order of the stored rows.

        In order of arrival, if that is the same.
        """
        places = self.queues.places(self.queues.filled())
        in_order = True
        if self._limited and self._time_line is not None and len(places):
            times, instances = self.rows.wide[TIME_LINE, places], self._instances()
            in_order = bool(((times[1:] >= times[:-1]) | (instances[1:] != instances[:-1])).all())
        self._replay_held(RemovalOrder.IN_ORDER if in_order else RemovalOrder.IN_ANY_ORDER)

    def _replay_held(self, removal_order: RemovalOrder) -> None:
        """Compute `min` and `max` from the stored rows, which leave in this order from now on."""
        self.state[UNORDERED] = removal_order is RemovalOrder.IN_ANY_ORDER
        self._replay(self.queues.places(self.queues.filled()), removal_order)
        self._come_since_look = 0

    def _instances(self) -> Int64Array:
        """Return the instance of each stored row, in the order of `queues.places`."""
        filled_ones = self.queues.filled()
        return np.repeat(filled_ones, self.queues.ends[filled_ones, HOLDS])

    def _groups(self, columns: Int64Array) -> Int64Array:
        return super()._groups(columns) if self.shape.keys else self._instances() << GROUP_SHIFT

    def joined(self, states: Sequence[State], ids: Sequence[Int64Array]) -> State:
        nothing = self.snapshot()
        parts: list[State] = []
        counts: list[int] = []
        for state, numbers in zip(states, ids, strict=True):
            self.restore(state)
            counts.append(self._number_anew(numbers, sum(counts)))
            parts.append(self.snapshot())
        self.restore(nothing)
        groups = self.groups.joined([part["groups"] for part in parts]) if self.shape.keys else nothing["groups"]
        return {
            "instances": np.concatenate([n[part["instances"]] for part, n in zip(parts, ids, strict=True)]),
            "counts": np.concatenate([part["counts"] for part in parts]),
            "rows": joined_rows([part["rows"] for part in parts]),
            "groups": groups,
            "aggregates": self.accumulators.joined([part["aggregates"] for part in parts], counts),
        }

    def _number_anew(self, numbers: Int64Array, first: int) -> int:
        """Renumber groups from 0 without gaps, or from `first` on where rows have numbers of their own.

        Keys have the number of each instance in `numbers`. Return the number of groups. The result is only for a
        snapshot.
        """
        groups = self.groups
        if not self.shape.keys:
            kept = np.flatnonzero(numbers >= 0)
            self.accumulators.keep_groups(kept)
            return len(kept)
        kept = groups.used()
        groups.keys[kept, 0] = numbers[groups.keys[kept, 0]]
        new = np.zeros(groups.capacity, dtype=np.int64)
        new[kept] = np.arange(first, first + len(kept))
        places = self.queues.places(self.queues.filled())
        self.rows.put_at([(GROUP_LINE, new[self.rows.narrow[GROUP_LINE, places]], None)], places)
        self.keep_groups(kept)
        return len(kept)

    def state_size(self) -> StateSize:
        return StateSize(
            rows=self.queues.rows,
            groups=self.groups.count if self.shape.keys else int(np.count_nonzero(self.queues.ends[:, HOLDS])),
            distinct_values=self.accumulators.distinct_values(),
            bytes=sum(map(held_bytes, (self.rows, self.queues, self.groups, self.accumulators))),
        )
