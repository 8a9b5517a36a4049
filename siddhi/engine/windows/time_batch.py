"""`timeBatch(T)`: events in batches of T by the app's clock, counted from the first event or from a given start.

T = 10       clock  0    4    10           12   20
             in     a    b                 c
             out              +a +b             -a -b reset +c
streaming    out    +a   +b   -a -b reset  +c   -c reset
"""

from __future__ import annotations

import numpy as np

from siddhi.engine.arrays import Int64Array
from siddhi.engine.batch import EventBatch
from siddhi.engine.kernels import kernel, kernel_array
from siddhi.engine.kinds import CURRENT, EXPIRED, RESET
from siddhi.engine.operator import NEVER, Step
from siddhi.engine.state import State
from siddhi.engine.store import RowStore
from siddhi.engine.windows.emission import emit, emitted, new_emission, timer_clock, timer_order
from siddhi.engine.windows.window import WINDOWS, Window, WindowContext

_FIRST, _OPENED, _BOUNDARY, _LOOKED = 0, 1, 2, 3
"""Lines of the window's own state: rows [FIRST, OPENED) are the last batch, the rest is the batch that ends at
BOUNDARY. Somebody has looked at the rows before LOOKED: they expire with their own time."""


@kernel
def _run(  # type: ignore[no-untyped-def]
    duration,
    origin,
    aligned,
    streaming,
    expired,
    state,
    start,
    end,
    stamps,
    offset,
    step_clocks,
    floor,
    orders,
    clocks,
    chunks,
    out,
):
    """Merges rows [start, end) with the timers at the batch ends; returns the number of rows written."""
    count = 0
    chunk = 0
    last_order = 2 * len(step_clocks) - 1
    row = start
    while True:
        due_order = last_order + 1
        idle = state[_FIRST] == row
        if state[_BOUNDARY] != NEVER and not idle:
            due_order = timer_order(step_clocks, state[_BOUNDARY], -1)
        if row < end:
            order, clock = orders[row - start], clocks[row - start]
            if due_order < order or (due_order == order and state[_BOUNDARY] < clock):
                chunk += 1
                now = timer_clock(step_clocks, state[_BOUNDARY], due_order, floor)
                count = _flush(state, streaming, expired, row, stamps, offset, now, due_order, chunk, out, count)
                state[_BOUNDARY] += duration
                continue
            if state[_BOUNDARY] == NEVER:
                state[_BOUNDARY] = clock + (duration - (clock - origin) % duration if aligned else duration)
            elif state[_BOUNDARY] <= clock:
                behind = clock - state[_BOUNDARY]
                state[_BOUNDARY] += (behind + duration - 1) // duration * duration
                if state[_BOUNDARY] == clock and order % 2 == 1:
                    state[_BOUNDARY] += duration
            if row == start or chunks[row - start] != chunks[row - start - 1]:
                chunk += 1
            if streaming:
                count = emit(out, count, row, CURRENT, stamps[row - offset], order, clock, chunk)
            row += 1
            if clock >= state[_BOUNDARY] and (row == end or chunks[row - start] != chunks[row - start - 1]):
                count = _flush(state, streaming, expired, row, stamps, offset, clock, order, chunk, out, count)
                state[_BOUNDARY] += duration
        elif due_order <= last_order:
            chunk += 1
            now = timer_clock(step_clocks, state[_BOUNDARY], due_order, floor)
            count = _flush(state, streaming, expired, row, stamps, offset, now, due_order, chunk, out, count)
            state[_BOUNDARY] += duration
        else:
            return count


@kernel
def _flush(state, streaming, expired, end, stamps, offset, clock, order, chunk, out, count):  # type: ignore[no-untyped-def]
    """Lets the batch [OPENED, end) out, or (streaming) its end; rows of the batch before it expire."""
    stop = end if streaming else state[_OPENED]
    if expired:
        for old in range(state[_FIRST], stop):
            stamp = stamps[old - offset] if old < state[_LOOKED] else clock
            count = emit(out, count, old, EXPIRED, stamp, order, clock, chunk)
    if end > state[_OPENED]:
        count = emit(out, count, state[_OPENED], RESET, clock, order, clock, chunk)
        if not streaming:
            for current in range(state[_OPENED], end):
                count = emit(out, count, current, CURRENT, stamps[current - offset], order, clock, chunk)
    state[_FIRST] = end if streaming or not expired else state[_OPENED]
    state[_OPENED] = end
    return count


@WINDOWS.register("timeBatch")
class TimeBatchWindow(Window):
    """Tumbling over the app's clock."""

    def __init__(self, context: WindowContext) -> None:
        duration, *options = context.constants()
        self.duration = max(int(str(duration)), 1)
        self.streaming = any(option is True for option in options)
        starts = [int(str(option)) for option in options if not isinstance(option, bool)]
        self.aligned = bool(starts)
        self.origin = starts[0] if starts else 0
        self.expired = context.expired
        self.store = RowStore(context.columns, context.operator.pool)
        self.lines = np.array([0, 0, NEVER, 0], dtype=np.int64)

    def process(self, batch: EventBatch, step: Step) -> EventBatch:
        held = len(self.store)
        start = self.store.append(batch)
        stamps, offset = self.store.timestamps()
        out = new_emission(3 * (held + batch.size) + 1)
        count = _run(
            self.duration,
            self.origin,
            self.aligned,
            self.streaming,
            self.expired,
            self.lines,
            start,
            self.store.end,
            stamps,
            offset,
            kernel_array(step.clocks),
            step.floor,
            kernel_array(batch.orders),
            kernel_array(batch.clocks),
            kernel_array(batch.chunk_ids()),
            out,
        )
        result = emitted(out, count, self.store)
        self.store.forget(int(self.lines[_FIRST]))
        return result

    def next_deadline_ms(self) -> int | None:
        return int(self.lines[_BOUNDARY]) if len(self.store) else None

    def visible(self) -> Int64Array:
        end = self.store.end if self.streaming else int(self.lines[_OPENED])
        return np.arange(int(self.lines[_FIRST]), end)

    def note_look(self, sequences: Int64Array) -> None:
        self.lines[_LOOKED] = sequences[-1] + 1

    def own_state(self) -> State:
        return self.lines.copy()

    def restore_own(self, state: State) -> None:
        self.lines = state
