"""`time(T)`: the events of the last T, measured by the app's clock.

    T = 10   clock    0    4              10    12      14
             in       a    b                    c
             out      +a   +b             -a    +c      -b

An event leaves by a timer at its timestamp + T, in a chunk of its own. Events are a queue: one that came late stays
behind those that came before it, and sets no timer of its own.
"""

from __future__ import annotations

import numpy as np

from siddhi.engine.arrays import Int64Array
from siddhi.engine.batch import EventBatch
from siddhi.engine.kernels import kernel_array, state_kernel
from siddhi.engine.kinds import CURRENT, EXPIRED
from siddhi.engine.operator import NEVER, Step
from siddhi.engine.state import State
from siddhi.engine.store import RowStore
from siddhi.engine.windows.emission import emit, new_emission, timer_clock, timer_order
from siddhi.engine.windows.sliding import SlidingWindow
from siddhi.engine.windows.window import WINDOWS, WindowContext

_FIRST, _TIMER, _NEWEST = 0, 1, 2
"""Lines of the window's own state: the oldest row held, the row whose timer is next, the newest timestamp a timer was
set for."""


@state_kernel
def _next_timer(state, stamps, offset, end):  # type: ignore[no-untyped-def]
    """Moves the timer line from the row whose timer has fired to the next row that sets one."""
    stamp = stamps[state[_TIMER] - offset]
    state[_TIMER] += 1
    while state[_TIMER] < end and stamps[state[_TIMER] - offset] <= stamp:
        state[_TIMER] += 1


@state_kernel
def _run(duration, state, start, end, stamps, offset, step_clocks, floor, orders, clocks, chunks, out):  # type: ignore[no-untyped-def]
    """Merges rows [start, end) with the timers of all rows held; returns the number of rows written."""
    count = 0
    chunk = 0
    last_order = 2 * len(step_clocks) - 1
    row = start
    while True:
        due_order = last_order + 1
        due = np.int64(0)
        if state[_TIMER] < row:
            due = stamps[state[_TIMER] - offset] + duration
            setter = state[_TIMER] - start
            due_order = timer_order(step_clocks, due, orders[setter] if setter >= 0 else -1)
            due = timer_clock(step_clocks, due, due_order, floor)
            if setter >= 0:
                due = max(due, clocks[setter])
        if row < end:
            order, clock = orders[row - start], clocks[row - start]
            if due_order < order or (due_order == order and due < clock):
                chunk += 1
                count = _expire(state, duration, row, stamps, offset, due, due_order, chunk, out, count)
                _next_timer(state, stamps, offset, row)
                continue
            if row == start or chunks[row - start] != chunks[row - start - 1]:
                chunk += 1
            count = _expire(state, duration, row, stamps, offset, clock, order, chunk, out, count)
            count = emit(out, count, row, CURRENT, stamps[row - offset], order, clock, chunk)
            if stamps[row - offset] > state[_NEWEST]:
                state[_NEWEST] = stamps[row - offset]
                state[_TIMER] = min(row, state[_TIMER])
            elif state[_TIMER] >= row:
                state[_TIMER] = row + 1
            row += 1
        elif due_order <= last_order:
            chunk += 1
            count = _expire(state, duration, row, stamps, offset, due, due_order, chunk, out, count)
            _next_timer(state, stamps, offset, row)
        else:
            return count


@state_kernel
def _expire(state, duration, end, stamps, offset, clock, order, chunk, out, count):  # type: ignore[no-untyped-def]
    """Lets the rows out whose time is over, up to the first that still has some."""
    while state[_FIRST] < end and stamps[state[_FIRST] - offset] + duration <= clock:
        count = emit(out, count, state[_FIRST], EXPIRED, clock, order, clock, chunk)
        state[_FIRST] += 1
    return count


@WINDOWS.register("time")
class TimeWindow(SlidingWindow):
    """Sliding over the app's clock."""

    def __init__(self, context: WindowContext) -> None:
        (duration,) = context.constants()
        self.duration = int(str(duration))
        self.store = RowStore(context.columns, context.operator.pool)
        self.lines = np.array([0, 0, np.iinfo(np.int64).min], dtype=np.int64)

    def let_out(self, batch: EventBatch, step: Step) -> tuple[Int64Array, int]:
        start = self.store.append(batch)
        stamps, offset = self.store.timestamps()
        out = new_emission(len(self.store) + batch.size)
        orders, clocks, chunks = batch.orders, batch.clocks, batch.chunk_ids()
        count = _run(
            self.duration,
            self.lines,
            start,
            self.store.end,
            stamps,
            offset,
            kernel_array(step.clocks),
            step.floor,
            kernel_array(orders),
            kernel_array(clocks),
            kernel_array(chunks),
            out,
        )
        self.store.forget(int(min(self.lines[_FIRST], self.lines[_TIMER])))
        return out, count

    def visible(self) -> Int64Array:
        return np.arange(int(self.lines[_FIRST]), self.store.end)

    def next_deadline_ms(self) -> int | None:
        timer = int(self.lines[_TIMER])
        if timer >= self.store.end:
            return None
        stamps, offset = self.store.timestamps()
        return min(int(stamps[timer - offset]) + self.duration, NEVER)

    def own_state(self) -> State:
        return self.lines.copy()

    def restore_own(self, state: State) -> None:
        self.lines = state
