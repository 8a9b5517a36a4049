"""Windows that look at one event after the other."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field
from heapq import heappop, heappush

import numpy as np

from siddhi.engine.columnar.batch import EventBatch
from siddhi.engine.columnar.column import Column
from siddhi.engine.columnar.kinds import CURRENT, EXPIRED, RESET
from siddhi.engine.columnar.slot_store import SlotStore
from siddhi.engine.columnar.state_size import StateSize, held_bytes
from siddhi.engine.columnar.state_tree import State
from siddhi.engine.jit.arrays import Int64Array
from siddhi.engine.operators.base.choices import Execution
from siddhi.engine.operators.base.operator import Step
from siddhi.engine.operators.windows.base.window import WindowContext, WindowOperator

_BEFORE = np.iinfo(np.int64).min
"""The clock of a row before this step, which no timer goes by."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """An event that arrives: the slot in which it lies, its place in the batch, its timestamp, and the clock."""

    slot: int
    row: int
    timestamp: int
    clock: int


@dataclass(slots=True)
class Emission:
    """The rows that a window lets out, with the order, clock and chunk of what makes it do so now."""

    slots: list[int] = field(default_factory=list)
    kinds: list[int] = field(default_factory=list)
    timestamps: list[int] = field(default_factory=list)
    orders: list[int] = field(default_factory=list)
    clocks: list[int] = field(default_factory=list)
    chunks: list[int] = field(default_factory=list)
    order: int = 0
    clock: int = 0
    chunk: int = 0

    def current(self, slot: int, timestamp: int) -> None:
        """Let the row out as current."""
        self._emit(slot, CURRENT, timestamp)

    def expired(self, slot: int, timestamp: int | None = None) -> None:
        """Let the row out as expired, now or with `timestamp`."""
        self._emit(slot, EXPIRED, self.clock if timestamp is None else timestamp)

    def reset(self, slot: int) -> None:
        """Send a reset, which needs some row to stand in for it."""
        self._emit(slot, RESET, self.clock)

    def new_chunk(self) -> None:
        """What follows is a chunk of its own."""
        self.chunk += 1

    def _emit(self, slot: int, kind: int, timestamp: int) -> None:
        self.slots.append(slot)
        self.kinds.append(kind)
        self.timestamps.append(timestamp)
        self.orders.append(self.order)
        self.clocks.append(self.clock)
        self.chunks.append(self.chunk)


class RowWindow(WindowOperator):
    """Calls `arrive` for each event and `fire` for each timer, in order.

    Rows lie in `slots`; `release` gives a slot back when what was let out of it has left the window. Timers are set
    with `schedule`.
    """

    execution = Execution.EVENTS

    def __init__(self, context: WindowContext) -> None:
        self.slots = SlotStore(context.columns, context.operator.pool)
        self.expired = context.expired
        self._timers: list[tuple[int, int, int, int, int]] = []
        """A heap: when each is due, its number, and by which row of which step it was set."""
        self._set_timers = 0
        self._step = 0
        self._order = -1
        self._clock = _BEFORE
        self._released: list[int] = []

    @abstractmethod
    def arrive(self, event: Arrival, out: Emission) -> None:
        """What the window does with `event`."""

    def fire(self, due: int, out: Emission) -> None:
        """What the window does at a timer that was set for `due`; `out.clock` may be later."""

    def end_chunk(self, out: Emission) -> None:
        """What the window does when the last event of a chunk has arrived."""

    def accepted(self, batch: EventBatch, _step: Step) -> EventBatch:
        """Return the rows of `batch` that can arrive; others are booked as failed."""
        return batch

    def prepare(self, batch: EventBatch) -> None:
        """Called before the rows of `batch` arrive."""

    @abstractmethod
    def held(self) -> list[int]:
        """Return the slots of the rows that a look into the window shows, in order."""

    def contents(self) -> tuple[Int64Array, dict[str, Column]]:
        slots: Int64Array = np.array(self.held(), dtype=np.int64)
        return self.slots.timestamps[slots], self.slots.take(slots)

    def look(self) -> tuple[Int64Array, dict[str, Column]]:
        return self.contents()

    def schedule(self, due: int) -> None:
        """Set a timer; one that is due already fires right behind the row that sets it."""
        heappush(self._timers, (due, self._set_timers, self._step, self._order, self._clock))
        self._set_timers += 1

    def release(self, slot: int) -> None:
        """The row in `slot` is gone once this step's output has been taken."""
        self._released.append(slot)

    def _set_earlier(self, dues: Iterable[int]) -> None:
        """The timers are those of `dues`, set before the step that comes."""
        self._timers = []
        self._order, self._clock = -1, _BEFORE
        for due in dues:
            self.schedule(due)

    def process(self, batch: EventBatch, step: Step) -> EventBatch:
        out = Emission()
        self._step += 1
        batch = self.accepted(batch, step)
        slots = self.slots.add(batch).tolist()
        if batch.size:
            self.prepare(batch)
        chunks = batch.chunk_ids().tolist()
        lines = zip(slots, batch.timestamps.tolist(), batch.orders.tolist(), batch.clocks.tolist(), chunks, strict=True)
        last = len(chunks) - 1
        for row, (slot, timestamp, order, clock, chunk) in enumerate(lines):
            self._fire_timers(step, order, clock, out)
            out.order, out.clock, self._order, self._clock = order, clock, order, clock
            if row == 0 or chunk != chunks[row - 1]:
                out.new_chunk()
            self.arrive(Arrival(slot, row, timestamp, clock), out)
            if row == last or chunks[row + 1] != chunk:
                self.end_chunk(out)
        self._fire_timers(step, step.final_order, step.final_clock + 1, out)
        return self._batch(out)

    def _fire_timers(self, step: Step, order: int, clock: int, out: Emission) -> None:
        """Fire the timers that go before a row of (`order`, `clock`)."""
        last_at, last_now = 0, 0
        while self._timers:
            due, _, set_in, set_at, set_clock = self._timers[0]
            if set_in != self._step:
                set_at, set_clock = -1, _BEFORE
            at = max(step.timer_order(due, set_at), last_at)
            now = max(step.timer_clock(due, at), set_clock, last_now)
            if at > step.final_order or (at, now) >= (order, clock):
                return
            last_at, last_now = at, now
            heappop(self._timers)
            out.order, out.clock, self._order, self._clock = at, now, at, now
            out.new_chunk()
            self.fire(due, out)

    def _batch(self, out: Emission) -> EventBatch:
        slots: Int64Array = np.array(out.slots, dtype=np.int64)
        batch = EventBatch(
            np.array(out.timestamps, dtype=np.int64),
            np.array(out.kinds, dtype=np.int8),
            np.array(out.orders, dtype=np.int64),
            np.array(out.clocks, dtype=np.int64),
            self.slots.take(slots),
            np.array(out.chunks, dtype=np.int64),
        )
        self.slots.free(self._released)
        self._released = []
        return batch

    def next_deadline_ms(self) -> int | None:
        return self._timers[0][0] if self._timers else None

    def state_size(self) -> StateSize:
        return StateSize(rows=len(self.slots), bytes=held_bytes(self))

    def snapshot(self) -> State:
        return {
            "slots": self.slots.snapshot(),
            "timers": [due for due, *_ in sorted(self._timers)],
            "own": self.own_state(),
        }

    def restore(self, state: State) -> None:
        self.slots.restore(state["slots"])
        self._set_earlier(state["timers"])
        self.restore_own(state["own"])
