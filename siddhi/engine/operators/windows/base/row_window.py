"""Windows that process one event after another."""

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
"""A clock before this step, which sets no timer."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """An arriving event: its slot, its row in the batch, its timestamp and the app's clock, both in ms."""

    slot: int
    row: int
    timestamp: int
    clock: int


@dataclass(slots=True)
class Emission:
    """The rows that a window emits, with the order, clock and chunk of their cause."""

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
        """Emit the row in `slot` as current.

        Args:
            slot: Where the row is kept.
            timestamp: Timestamp of the emitted row, in ms.
        """
        self._emit(slot, CURRENT, timestamp)

    def expired(self, slot: int, timestamp: int | None = None) -> None:
        """Emit the row in `slot` as expired, with `timestamp`, by default the present clock.

        Args:
            slot: Where the row is kept.
            timestamp: Timestamp of the emitted row, in ms.
        """
        self._emit(slot, EXPIRED, self.clock if timestamp is None else timestamp)

    def reset(self, slot: int) -> None:
        """Emit a reset with the values of the row in `slot`; aggregates start over.

        Args:
            slot: Where the row is kept.
        """
        self._emit(slot, RESET, self.clock)

    def new_chunk(self) -> None:
        """Begin a new chunk with the next emitted row."""
        self.chunk += 1

    def _emit(self, slot: int, kind: int, timestamp: int) -> None:
        self.slots.append(slot)
        self.kinds.append(kind)
        self.timestamps.append(timestamp)
        self.orders.append(self.order)
        self.clocks.append(self.clock)
        self.chunks.append(self.chunk)


class RowWindow(WindowOperator):
    """Base class of windows that process one event after the other.

    Subclasses implement `arrive`, `held`, `own_state` and `restore_own`, and `fire` if they set timers. They are
    registered with `@WINDOWS.register(name, namespace)`. All methods run on the engine's thread, one at a time; time is
    `event.clock` or `out.clock`, never the system's.

    The window's rows are in `slots`; every slot that leaves the window must be returned with `release`. `schedule`
    sets timers, which are part of snapshots.
    """

    execution = Execution.EVENTS

    def __init__(self, context: WindowContext) -> None:
        self.slots = SlotStore(context.columns, context.operator.pool)
        self.expired = context.expired
        self._timers: list[tuple[int, int, int, int, int]] = []
        """A heap: the due time of each, its number, and the row and step that set it."""
        self._set_timers = 0
        self._step = 0
        self._order = -1
        self._clock = _BEFORE
        self._released: list[int] = []

    @abstractmethod
    def arrive(self, event: Arrival, out: Emission) -> None:
        """Process an arriving event: keep its slot or `release` it, and emit rows to `out`.

        Args:
            event: The event; its slot is already filled.
            out: Where to emit rows.
        """

    def fire(self, due: int, out: Emission) -> None:
        """Process a timer that was set for `due` (ms); `out.clock` may be later.

        Args:
            due: The time in ms.
            out: Where to emit rows.
        """

    def end_chunk(self, out: Emission) -> None:
        """Process the end of a chunk, after the `arrive` of its last event.

        Args:
            out: Where to emit rows.
        """

    def accepted(self, batch: EventBatch, _step: Step) -> EventBatch:
        """Return the rows of `batch` that can arrive; record all others as failed in the step.

        Args:
            batch: The rows that arrive.
            _step: The step in progress.
        """
        return batch

    def prepare(self, batch: EventBatch) -> None:
        """Prepare for the rows of `batch`, which have not arrived yet.

        Args:
            batch: The rows that arrive.
        """

    @abstractmethod
    def held(self) -> list[int]:
        """Return the slots of the rows in the window, oldest first, for joins and queries."""

    def contents(self) -> tuple[Int64Array, dict[str, Column]]:
        slots: Int64Array = np.array(self.held(), dtype=np.int64)
        return self.slots.timestamps[slots], self.slots.take(slots)

    def look(self) -> tuple[Int64Array, dict[str, Column]]:
        return self.contents()

    def schedule(self, due: int) -> None:
        """Set a timer for `due` (ms); one that is already due fires directly after the row that sets it.

        Args:
            due: The time in ms.
        """
        heappush(self._timers, (due, self._set_timers, self._step, self._order, self._clock))
        self._set_timers += 1

    def release(self, slot: int) -> None:
        """Free the slot once this step's output has been taken, so the row can still be emitted in this step.

        Args:
            slot: Where the row is kept.
        """
        self._released.append(slot)

    def _set_earlier(self, dues: Iterable[int]) -> None:
        """Replace all timers by those of `dues`, as if set before the coming step."""
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
