"""A window for n keys: one state for all instances of a partition and all their keys."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from siddhi.column_names import internal_name
from siddhi.engine.columnar.batch import EventBatch
from siddhi.engine.columnar.column import Column
from siddhi.engine.columnar.java_order import hash_map_order
from siddhi.engine.columnar.kinds import CURRENT
from siddhi.engine.columnar.slot_store import SlotStore
from siddhi.engine.columnar.state_size import StateSize, held_bytes
from siddhi.engine.columnar.state_tree import Codes, State
from siddhi.engine.columnar.strings import NULL_CODE
from siddhi.engine.jit.arrays import INT64, NO_POSITIONS, BoolArray, Int64Array
from siddhi.engine.jit.kernels import grown, kernel_array
from siddhi.engine.operators.base.choices import Execution
from siddhi.engine.operators.base.operator import NEVER, Step
from siddhi.engine.operators.base.per_instance import came_together
from siddhi.engine.operators.windows.base.emission import CHUNK, CLOCK, KIND, ORDER, SEQUENCE, TIMESTAMP
from siddhi.engine.operators.windows.base.window import WindowContext, WindowOperator
from siddhi.engine.operators.windows.keyed.layout import (
    ALIGNED,
    ALIVE,
    ARRIVALS,
    BATCH_KIND,
    BOUNDARY,
    CRON_KIND,
    DELAY_KIND,
    DUE,
    EMISSION_LINES,
    EVER_KIND,
    EXPIRES,
    EXPRESSION_BATCH_KIND,
    EXPRESSION_KIND,
    EXTERNAL_BATCH_KIND,
    EXTERNAL_TIME_KIND,
    FIRST_KIND,
    FLAG,
    FORGETS,
    FREED,
    FREED_COUNT,
    FREQUENT_KIND,
    HASH,
    HEAD,
    IN_RUNS,
    INSTANCE,
    INSTANCE_OF,
    LAST_COUNT,
    LAST_HEAD,
    LATENCY,
    LEAVING,
    LENGTH,
    LENGTH_BATCH_KIND,
    LENGTH_KIND,
    LENGTH_STREAM_KIND,
    LOSSY_KIND,
    NEWEST,
    NEXT,
    ORIGIN,
    OWNER,
    PARAMETERS,
    RANK,
    ROW_LINES,
    RUN_LINES,
    SESSION_KIND,
    SLOT_COLUMNS,
    SLOT_LINES,
    SORT_KIND,
    SPAN,
    STAMP,
    STEP_TURN,
    TELLS,
    TIED,
    TIME_BATCH_KIND,
    TIME_KIND,
    TIME_LENGTH_KIND,
    TIME_STREAM_KIND,
    TIMER,
    TIMER_LINES,
    TIMERS,
    TURN,
    TURNS,
    UNIQUE_LENGTH_BATCH_KIND,
    UNIQUE_LENGTH_KIND,
    UNIQUE_TIME_BATCH_KIND,
    UNIQUE_TIME_KIND,
    UNIQUE_TIME_LENGTH_BATCH_KIND,
    VALID,
    WHO,
    WHOSE,
    WIDTH,
    WRITTEN,
)
from siddhi.engine.operators.windows.keyed.layout import KIND as KIND_OF_WINDOW
from siddhi.engine.operators.windows.keyed.layout import SEQUENCE as ARRIVAL
from siddhi.engine.operators.windows.keyed.owners import Owners
from siddhi.engine.operators.windows.keyed.walk import walk
from siddhi.engine.tuning import MIN_FORGOTTEN_OWNERS
from siddhi.language.ast import AttributeType

WINDOW_SLOT = internal_name("slot")
"""The column with the slots of rows in their window, if it reports them."""
_LONG_AGO = np.iinfo(np.int64).min
_NO_HOLDINGS = frozenset({LENGTH_KIND, SORT_KIND, EVER_KIND, FIRST_KIND, UNIQUE_LENGTH_KIND})
"""Windows that emit at most three rows for each arrival."""
_EXPIRING_IF_WANTED = frozenset({BATCH_KIND, EXTERNAL_BATCH_KIND, LENGTH_BATCH_KIND, TIME_BATCH_KIND})
"""Kinds whose windows for one instance have `expires_if_wanted`."""
_NOTING = frozenset({BATCH_KIND, LENGTH_BATCH_KIND, LENGTH_STREAM_KIND, TIME_BATCH_KIND, TIME_STREAM_KIND})
"""Windows in which rows that were read expire with their own time."""
_BY_ARRIVAL = frozenset({TIME_KIND, EXTERNAL_TIME_KIND, DELAY_KIND})
_BY_LIST = frozenset(
    {LENGTH_KIND, TIME_LENGTH_KIND, LENGTH_STREAM_KIND, TIME_STREAM_KIND, EVER_KIND, FIRST_KIND, UNIQUE_LENGTH_KIND,
     UNIQUE_TIME_KIND, EXPRESSION_KIND, EXPRESSION_BATCH_KIND}
)  # fmt: skip
_MOVING = frozenset(
    {SESSION_KIND, TIME_LENGTH_KIND, SORT_KIND, CRON_KIND, BATCH_KIND, EVER_KIND, FIRST_KIND, UNIQUE_LENGTH_KIND,
     UNIQUE_TIME_KIND, UNIQUE_LENGTH_BATCH_KIND, UNIQUE_TIME_BATCH_KIND, UNIQUE_TIME_LENGTH_BATCH_KIND,
     EXPRESSION_KIND}
)  # fmt: skip
"""Windows that show the rows that they have emitted as current and not as expired."""
_FORGETTING = frozenset(
    {UNIQUE_LENGTH_KIND, UNIQUE_TIME_KIND, UNIQUE_LENGTH_BATCH_KIND, UNIQUE_TIME_BATCH_KIND,
     UNIQUE_TIME_LENGTH_BATCH_KIND, FREQUENT_KIND, LOSSY_KIND, SESSION_KIND}
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Plan:
    """The kind of a window and its settings.

    `span` and `length` are its time and its number of rows, `origin` (None: not aligned) is the start from which
    batches are counted; with `forgets` a window drops rows that others would keep. `owners` numbers its keys, `lines`
    returns the numbers by which rows are sorted, (n, rows); by default that is their timestamp. `accepted` returns the
    rows that may arrive. `ticks` are the times of timers that the clocks of a step need; `restored` is called when
    codes of strings may have changed.
    """

    kind: int
    span: int = 0
    length: int = 0
    origin: int | None = None
    latency: int = 0
    forgets: bool = False
    share: float = 0.0
    owners: Owners | None = None
    sort_lines: int = 1
    lines: Callable[[EventBatch, Int64Array, KeyedWindow], Sequence[Int64Array]] | None = None
    accepted: Callable[[EventBatch, Step], EventBatch] | None = None
    ticks: Callable[[Int64Array], Int64Array] | None = None
    restored: Callable[[], None] | None = None


def _fresh(count: int) -> Int64Array:
    """Return the cells of so many owners without rows."""
    cells: Int64Array = np.zeros((count, WIDTH), INT64)
    cells[:, :SLOT_COLUMNS] = cells[:, VALID] = -1
    cells[:, TIMER] = cells[:, BOUNDARY] = NEVER
    cells[:, NEWEST] = _LONG_AGO
    return cells


def _roomy(cells: Int64Array, count: int) -> Int64Array:
    """Return `cells`, or a larger array with room for so many owners."""
    if count <= len(cells):
        return cells
    return np.concatenate([cells, _fresh(max(count, 2 * len(cells), 8) - len(cells))])


def _wider(lines: Int64Array, count: int) -> Int64Array:
    """Return `lines` with room for so many places each."""
    if count <= lines.shape[1]:
        return lines
    larger: Int64Array = np.zeros((len(lines), max(count, 2 * lines.shape[1], 64)), INT64)
    larger[:, : lines.shape[1]] = lines
    return larger


def _shows_rows(plan: Plan, context: WindowContext) -> bool:
    """Return whether joins read rows that the window has emitted."""
    if plan.kind == TIME_LENGTH_KIND:
        return plan.length > 0  # with a length of 0 rows pass, and never expire
    return plan.kind != SESSION_KIND and (context.shows_expired or plan.kind != BATCH_KIND)


class KeyedWindow(WindowOperator):
    """Processes rows of all instances in one loop (`siddhi.engine.operators.windows.keyed.walk`)."""

    execution = Execution.COMPILED

    def __init__(self, context: WindowContext, plan: Plan) -> None:
        self.plan = plan
        self.expires_if_wanted = plan.kind in _EXPIRING_IF_WANTED
        self.slots = SlotStore(context.columns, context.operator.pool)
        self.shows_rows = _shows_rows(plan, context)
        self._partitioned = context.operator.partitioned
        self._ranks = context.operator.instance_ranks
        self._param: Int64Array = np.zeros(PARAMETERS, INT64)
        values = {
            KIND_OF_WINDOW: plan.kind, SPAN: plan.span, LENGTH: plan.length, ORIGIN: plan.origin or 0,
            ALIGNED: plan.origin is not None, EXPIRES: context.expired, LATENCY: plan.latency, FORGETS: plan.forgets,
        }  # fmt: skip
        for place, value in values.items():
            self._param[place] = value
        self.rows: Int64Array = np.zeros((ROW_LINES, 0), INT64)
        self.keys: Int64Array = np.zeros((plan.sort_lines, 0), INT64)
        self._codes: dict[int, Int64Array] = {}
        self._cells = _fresh(1)
        self._held = _fresh(1)
        self._timers: Int64Array = np.zeros((TIMER_LINES, 0), INT64)
        self._run: Int64Array = np.zeros(RUN_LINES, INT64)
        self._run[LEAVING] = -1
        self._look_at = MIN_FORGOTTEN_OWNERS
        self._was_full = False

    @property
    def reports_moves(self) -> bool:  # type: ignore[override] # the class has it as a constant
        return self.plan.kind in _MOVING

    def report_moves(self) -> None:
        """Emit rows that arrive and leave silently, too, with the slot of each row."""
        self._param[TELLS] = 1

    def sorted_instances(self) -> BoolArray:
        """Return which instances show their rows in order: those that were full at some time."""
        full: BoolArray = self._cells[:, NEWEST] != _LONG_AGO
        return full

    @property
    def notes_looks(self) -> bool:
        return self.plan.kind in _NOTING

    @property
    def timed(self) -> bool:
        return self.plan.kind not in (LENGTH_KIND, EXTERNAL_TIME_KIND, SORT_KIND, BATCH_KIND, EXTERNAL_BATCH_KIND)

    def process(self, batch: EventBatch, step: Step) -> EventBatch:
        plan, run = self.plan, self._run
        run[IN_RUNS] = batch.size > 1 and came_together(batch)
        if plan.accepted is not None and batch.size:
            batch = plan.accepted(batch, step)
        size = batch.size
        slots = self._take_in(batch) if size else NO_POSITIONS
        room = 3 * size + (0 if plan.kind in _NO_HOLDINGS else 3 * len(self.slots)) + 1
        out: Int64Array = np.empty((EMISSION_LINES, room), INT64)
        self._timers = _wider(self._timers, int(run[TIMERS]) + 2 * size + 1)
        run[STEP_TURN] = run[TURNS]
        run[WRITTEN] = run[FREED_COUNT] = run[TIED] = 0
        self._was_full = bool(self._cells[0, NEWEST] != _LONG_AGO)
        ranks = NO_POSITIONS if self._ranks is None or not run[IN_RUNS] else self._ranks()
        self.run_loop(batch, step, slots, ranks, out)
        result = self._batch(out[:, : int(run[WRITTEN])])
        if freed := int(run[FREED_COUNT]):
            self.slots.free(self.rows[FREED, :freed])
        return result

    def run_loop(self, batch: EventBatch, step: Step, slots: Int64Array, ranks: Int64Array, out: Int64Array) -> None:
        """Run the loop over the rows of `batch`, which are in `slots`, and write its output."""
        plan = self.plan
        ticks = NO_POSITIONS if plan.ticks is None or not batch.size else plan.ticks(batch.clocks)
        walk(
            self._param, plan.share, self._run, self.rows, self._cells, self._held, self.keys, self._timers,
            slots, kernel_array(batch.orders), kernel_array(batch.clocks),
            NO_POSITIONS if batch.chunks is None else kernel_array(batch.chunks),
            kernel_array(step.clocks), step.floor, ticks, ranks, out,
        )  # fmt: skip

    def _take_in(self, batch: EventBatch) -> Int64Array:
        """Return the slots of arriving rows."""
        plan, run = self.plan, self._run
        size = batch.size
        if plan.kind in _FORGETTING and plan.owners is not None and plan.owners.count >= self._look_at:
            self._forget_owners()
        slots = self.slots.add(batch)
        self.rows, self.keys = _wider(self.rows, self.slots.used), _wider(self.keys, self.slots.used)
        rows = self.rows
        instances = np.zeros(size, INT64) if batch.partitions is None else batch.partitions
        if batch.partitions is not None:
            self._cells = _roomy(self._cells, int(instances.max()) + 1)
        rows[INSTANCE, slots], rows[STAMP, slots] = instances, batch.timestamps
        rows[ARRIVAL, slots] = np.arange(run[ARRIVALS], run[ARRIVALS] + size)
        run[ARRIVALS] += size
        if plan.owners is not None:
            rows[OWNER, slots] = self._owners_of(plan.owners, batch, instances)
        if plan.lines is None:
            self.keys[0, slots] = batch.timestamps
        else:
            for place, line in enumerate(plan.lines(batch, slots, self)):
                self.keys[place, slots] = line
        return slots

    def codes_of(self, place: int, slots: Int64Array, codes: Int64Array) -> Int64Array:
        """Return the codes of the strings by which rows are sorted at `place`, by slot.

        The rows in `slots` have the codes `codes`.
        """
        kept = grown(self._codes.get(place, NO_POSITIONS), self.slots.used, NULL_CODE)
        kept[slots] = codes
        self._codes[place] = kept
        return kept

    def _owners_of(self, owners: Owners, batch: EventBatch, instances: Int64Array) -> Int64Array:
        known = owners.count
        numbers = owners.of(batch, instances)
        if owners.count > known:
            self._held = _roomy(self._held, owners.count)
            self._held[known : owners.count] = _fresh(owners.count - known)
            self._held[known : owners.count, INSTANCE_OF] = owners.instances[known:]
            self._held[known : owners.count, HASH] = owners.hashes(known)
        return numbers

    def _batch(self, lines: Int64Array) -> EventBatch:
        chunks = lines[CHUNK]
        if self._partitioned or self._run[TIED]:
            lines, chunks = self._in_turn(lines)
        if self.keeps_moves:
            self.moves = lines.copy()
        kinds = lines[KIND].astype(np.int8)
        columns = self.slots.take(lines[SEQUENCE])
        if self._param[TELLS]:
            columns[WINDOW_SLOT] = Column(AttributeType.LONG, self.slots.pool, values=lines[SEQUENCE])
        return EventBatch(
            lines[TIMESTAMP], kinds, lines[ORDER], lines[CLOCK], columns, chunks,
            lines[WHOSE] if self._partitioned else None, only_current=not kinds.any() and CURRENT == 0,
        )  # fmt: skip

    def _in_turn(self, lines: Int64Array) -> tuple[Int64Array, Int64Array]:
        """Return the rows in the order in which the instances released them, and their chunks, each of one instance.

        Rows of one chunk keep their order.
        """
        orders, clocks, whose = lines[ORDER], lines[CLOCK], lines[WHOSE]
        tied = (orders[1:] == orders[:-1]) & (clocks[1:] == clocks[:-1])
        if self._run[TIED] or (tied & (whose[1:] != whose[:-1])).any():
            ranks = self._ranks()[whose] if self._ranks is not None else whose
            if self._run[IN_RUNS]:
                ranks = NO_POSITIONS
            ties = (lines[RANK], lines[CHUNK], *([ranks] if len(ranks) else []))
            lines = lines[:, np.lexsort((*ties, clocks, orders))]
            whose = lines[WHOSE]
        chunks: Int64Array = np.zeros(lines.shape[1], INT64)
        if len(chunks):
            np.cumsum((lines[CHUNK, 1:] != lines[CHUNK, :-1]) | (whose[1:] != whose[:-1]), out=chunks[1:])
        return lines, chunks

    # ---- timers

    def next_deadline_ms(self) -> int | None:
        return int(self._timers[DUE, 0]) if self._run[TIMERS] else None

    # ---- reads

    def visible(self) -> Int64Array:
        """Return the slots of the rows that a read of the window, which has one instance, shows."""
        kind = self.plan.kind
        if not self.shows_rows:
            return NO_POSITIONS
        if kind == SORT_KIND:
            live = np.flatnonzero(self.slots.live())
            by_arrival = live[np.argsort(self.rows[ARRIVAL, live])]
            if self._cells[0, NEWEST] == _LONG_AGO:
                return by_arrival
            return by_arrival[np.lexsort(self.keys[::-1, by_arrival])]
        if kind in _BY_ARRIVAL:
            live = np.flatnonzero(self.slots.live())
            return live[np.argsort(self.rows[ARRIVAL, live])]
        if kind in (FREQUENT_KIND, LOSSY_KIND):
            return self._by_key()
        return self._list(int(self._cells[0, HEAD if kind in _BY_LIST else LAST_HEAD]))

    def _by_key(self) -> Int64Array:
        """Return the rows of the open list in the order of a Java hash map of their keys."""
        slots = self._list(int(self._cells[0, HEAD]))
        assert self.plan.owners is not None  # noqa: S101 - these windows have keys
        texts = self.plan.owners.texts(self.rows[OWNER, slots])
        by_text = dict(zip(texts, slots.tolist(), strict=True))
        return np.array([by_text[text] for text in hash_map_order(texts)], dtype=INT64)

    def _list(self, slot: int) -> Int64Array:
        found = []
        while slot >= 0:
            found.append(slot)
            slot = int(self.rows[NEXT, slot])
        return np.array(found, dtype=INT64)

    def shown_lately(self, left: Int64Array, came: Int64Array) -> Int64Array:
        kind, shown = self.plan.kind, self.visible()
        if kind == SESSION_KIND:
            return NO_POSITIONS
        if kind == SORT_KIND or kind in _BY_LIST:
            slots = np.union1d(shown, left)
            return slots[np.argsort(self.rows[ARRIVAL, slots])]
        old = np.concatenate([left[~np.isin(left, came)], shown[~np.isin(shown, came)]])
        return np.concatenate([old, came])  # a batch is kept or dropped as a whole

    def ranks_lately(self, rows: Int64Array) -> tuple[Int64Array, bool] | None:
        if self.plan.kind != SORT_KIND:
            return None
        ranks: Int64Array = np.empty(len(rows), INT64)
        ranks[np.lexsort((self.rows[ARRIVAL, rows], *self.keys[::-1, rows]))] = np.arange(len(rows))
        return ranks, self._was_full

    def rows_at(self, sequences: Int64Array) -> tuple[Int64Array, dict[str, Column]]:
        return self.slots.timestamps[sequences], self.slots.take(sequences)

    def look(self) -> tuple[Int64Array, dict[str, Column]]:
        if self.plan.kind == BATCH_KIND:
            self._cells[0, FLAG] = self._cells[0, LAST_COUNT] > 0
        return self.contents()

    # ---- removal

    def _forget_owners(self) -> None:
        """Drop keys without rows."""
        owners = self.plan.owners
        assert owners is not None  # noqa: S101 - the caller has looked
        held = self._held[: owners.count]
        used = held[:, FLAG] == 1 if self.plan.kind == SESSION_KIND else held[:, HEAD] >= 0
        if 2 * np.count_nonzero(used) <= owners.count:
            if self.plan.kind == SESSION_KIND:
                self._drop_timers(~used)
            self._keep_owners(owners, np.flatnonzero(used))
        self._look_at = max(MIN_FORGOTTEN_OWNERS, 2 * owners.count)

    def _keep_owners(self, owners: Owners, kept: Int64Array) -> None:
        numbers: Int64Array = np.full(max(owners.count, 1), -1, INT64)
        numbers[kept] = np.arange(len(kept))
        used = self.slots.used
        self.rows[OWNER, :used] = numbers[np.minimum(self.rows[OWNER, :used], len(numbers) - 1)]
        self._held = _roomy(self._held[kept], 1)
        owners.keep(kept)
        if self.plan.kind == SESSION_KIND:
            timers = self._timers[:, : int(self._run[TIMERS])]
            timers[WHO] = numbers[timers[WHO]]

    def close_partitions(self, partitions: Int64Array) -> None:
        used, owners = self.slots.used, self.plan.owners
        gone = self.slots.live() & np.isin(self.rows[INSTANCE, :used], partitions)
        self.slots.free(np.flatnonzero(gone))
        there = partitions[partitions < len(self._cells)]
        by_owner = self.plan.kind == SESSION_KIND
        if owners is not None:
            lost = np.isin(owners.instances, partitions)
            self._drop_timers(lost if by_owner else np.isin(np.arange(len(self._cells)), there))
            self._keep_owners(owners, np.flatnonzero(~lost))
        else:
            self._drop_timers(np.isin(np.arange(len(self._cells)), there))
        self._cells[there] = _fresh(len(there))

    def _drop_timers(self, lost: BoolArray) -> None:
        """Drop the timers of these owners, and those that are no longer valid."""
        timers = self._timers[:, : int(self._run[TIMERS])]
        cells = self._held if self.plan.kind == SESSION_KIND else self._cells
        left = timers[:, ~lost[timers[WHO]] & (cells[timers[WHO], VALID] == timers[TURN])]
        left = left[:, np.lexsort((left[TURN], left[DUE]))]
        self._timers[:, : left.shape[1]] = left
        self._run[TIMERS] = left.shape[1]

    # ---- state

    def state_size(self) -> StateSize:
        return StateSize(rows=len(self.slots), bytes=held_bytes(self))

    def snapshot(self) -> State:
        used, owners, run = self.slots.used, self.plan.owners, self._run
        count = 0 if owners is None else owners.count
        return {
            "slots": self.slots.snapshot(),
            "rows": self.rows[:FREED, :used].copy(),
            "keys": self.keys[:, :used].copy(),
            "cells": self._cells.copy(),
            "held": self._held[:count].copy(),
            "owners": None if owners is None else owners.snapshot(),
            "timers": self._timers[: WHO + 1, : int(run[TIMERS])].copy(),
            "run": [int(run[TURNS]), int(run[ARRIVALS])],
            "codes": [[place, Codes(codes[:used].copy())] for place, codes in self._codes.items()],
        }

    def restore(self, state: State) -> None:
        self.slots.restore(state["slots"])
        used = self.slots.used
        self.rows = np.zeros((ROW_LINES, used), INT64)
        self.rows[:FREED] = state["rows"]
        self.keys = state["keys"]
        self._cells, self._held = _roomy(state["cells"], 1), _roomy(state["held"], 1)
        self._cells[:, ALIVE] = -1
        if self.plan.owners is not None:
            self.plan.owners.restore(state["owners"])
        timers = state["timers"]
        self._timers = np.zeros((TIMER_LINES, timers.shape[1]), INT64)
        self._timers[: WHO + 1] = timers
        self._run[:] = 0
        self._run[TIMERS], self._run[LEAVING] = timers.shape[1], -1
        self._run[TURNS], self._run[ARRIVALS] = state["run"]
        self._codes = {place: codes.array for place, codes in state["codes"]}
        self._look_at = MIN_FORGOTTEN_OWNERS
        if self.plan.restored is not None:
            self.plan.restored()

    def joined(self, states: Sequence[State], ids: Sequence[Int64Array]) -> State:
        if not self._partitioned:
            return super().joined(states, ids)
        size = int(max(numbers.max(initial=-1) for numbers in ids)) + 1
        cells = _fresh(max(size, 1))
        rows, keys, held, timers = [], [], [], []
        first_slot = first_owner = first_turn = 0
        by_owner = self.plan.kind == SESSION_KIND
        for state, numbers in zip(states, ids, strict=True):
            own_rows, own_cells, own_held = state["rows"].copy(), state["cells"].copy(), state["held"].copy()
            for line in SLOT_LINES:
                own_rows[line] = _moved(own_rows[line], first_slot)
            own_rows[INSTANCE] = numbers[np.minimum(own_rows[INSTANCE], len(numbers) - 1)] if len(numbers) else 0
            own_rows[OWNER] += first_owner
            for part in (own_cells, own_held):
                part[:, :SLOT_COLUMNS] = _moved(part[:, :SLOT_COLUMNS], first_slot)
                part[:, VALID] = _moved(part[:, VALID], first_turn)
            known = min(len(numbers), len(own_cells))
            there = np.flatnonzero(numbers[:known] >= 0)
            cells[numbers[there]] = own_cells[there]
            own_timers = state["timers"].copy()
            own_timers[TURN] += first_turn
            if by_owner:
                own_held[:, INSTANCE_OF] = numbers[own_held[:, INSTANCE_OF]]
                own_timers[WHO] += first_owner
            elif own_timers.shape[1]:
                own_timers[WHO] = numbers[own_timers[WHO]]
            rows.append(own_rows)
            keys.append(state["keys"])
            held.append(own_held)
            timers.append(own_timers)
            first_slot += own_rows.shape[1]
            first_owner += len(own_held)
            first_turn += state["run"][0]
        together = np.concatenate(timers, axis=1)
        owners = self.plan.owners
        return {
            "slots": self.slots.joined_states([state["slots"] for state in states]),
            "rows": np.concatenate(rows, axis=1),
            "keys": np.concatenate(keys, axis=1),
            "cells": cells,
            "held": np.concatenate(held),
            "owners": None if owners is None else owners.joined([state["owners"] for state in states], ids),
            "timers": together[:, np.lexsort((together[TURN], together[DUE]))],
            "run": [first_turn, max(state["run"][1] for state in states)],
            "codes": _joined_codes(states),
        }


def _joined_codes(states: Sequence[State]) -> State:
    found: dict[int, list[Int64Array]] = {place: [] for state in states for place, _ in state["codes"]}
    for state in states:
        own = dict(state["codes"])
        for place, parts in found.items():
            parts.append(own[place].array if place in own else np.full(state["slots"]["used"], NULL_CODE))
    return [[place, Codes(np.concatenate(parts))] for place, parts in found.items()]


def _moved(slots: Int64Array, by: int) -> Int64Array:
    return np.where(slots < 0, slots, slots + by)
