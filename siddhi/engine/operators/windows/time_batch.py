"""`timeBatch(T)`: events in batches of T by the app's clock, counted from the first event or from a given start.

T = 10       clock  0    4    10           12   20
             in     a    b                 c
             out              +a +b             -a -b reset +c
streaming    out    +a   +b   -a -b reset  +c   -c reset
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from siddhi.engine.columnar.batch import EventBatch
from siddhi.engine.columnar.kinds import CURRENT, EXPIRED, RESET
from siddhi.engine.columnar.state_tree import State
from siddhi.engine.jit.arrays import Int64Array
from siddhi.engine.jit.kernels import kernel_array, state_kernel
from siddhi.engine.operators.base.operator import NEVER, Step
from siddhi.engine.operators.windows.base.cutting import (
    CLOCK,
    FIRST,
    LOOKED,
    NO_CUTS,
    OPENED,
    ORDER,
    ROWS,
    STAMP,
    Cutter,
    TimedCuttingWindow,
    batch_end,
)
from siddhi.engine.operators.windows.base.emission import emit, emitted, new_emission, timer_clock, timer_order
from siddhi.engine.operators.windows.base.window import WINDOWS, WindowContext, WindowOperator
from siddhi.engine.operators.windows.keyed.layout import TIME_BATCH_KIND, TIME_STREAM_KIND
from siddhi.engine.operators.windows.keyed.window import KeyedWindow, Plan


@state_kernel
def _boundary_at(boundary, order, clock, duration, origin, aligned):  # type: ignore[no-untyped-def]
    """Return the end of the batch that contains an event of (`order`, `clock`).

    The last batch ended at `boundary`.
    """
    if boundary == NEVER:
        return batch_end(clock, origin, duration) if aligned else clock + duration
    if boundary <= clock:
        behind = clock - boundary
        boundary += (behind + duration - 1) // duration * duration
        if boundary == clock and order % 2 == 1:
            boundary += duration
    return boundary


@state_kernel
def _cut(  # type: ignore[no-untyped-def]
    duration, origin, aligned, expired, last, opened, boundary, step_clocks, floor, orders, clocks, chunks, cuts
):
    """Merge the rows with the timers at the ends of batches; return (number of cuts, end of the batch in progress)."""
    count = 0
    row = 0
    last_order = 2 * len(step_clocks) - 1
    while True:
        due_order, due_clock = last_order + 1, boundary
        if boundary != NEVER and last + opened > 0:
            due_order = timer_order(step_clocks, boundary, -1)
            due_clock = timer_clock(step_clocks, boundary, due_order, floor)
        timer = due_order <= last_order
        if row < len(orders):
            order, clock = orders[row], clocks[row]
            timer = due_order < order or (due_order == order and due_clock < clock)
        elif not timer:
            return count, boundary
        if timer:
            order, clock = due_order, due_clock
        else:
            if due_order != order or due_clock != clock:  # otherwise its timer is about to fire
                boundary = _boundary_at(boundary, order, clock, duration, origin, aligned)
            row += 1
            opened += 1
            if clock < boundary or (row < len(orders) and chunks[row] == chunks[row - 1]):
                continue
        cuts[ROWS, count] = row
        cuts[ORDER, count] = order
        cuts[CLOCK, count] = cuts[STAMP, count] = clock
        count += 1
        last = opened if expired else 0
        opened = 0
        boundary += duration


@state_kernel
def _run_streaming(  # type: ignore[no-untyped-def]
    cuts, expired, state, start, stamps, offset, orders, clocks, chunks, out
):
    """Emit every row on arrival, and the ends of batches at the cuts; return the number of rows written."""
    count = 0
    chunk = 0
    row = 0
    for cut in range(cuts.shape[1] + 1):
        stop = cuts[ROWS, cut] if cut < cuts.shape[1] else len(orders)
        for place in range(row, stop):
            if place == 0 or chunks[place] != chunks[place - 1] or place == row:
                chunk += 1
            count = emit(
                out, count, start + place, CURRENT, stamps[start + place - offset], orders[place], clocks[place], chunk
            )
        if cut == cuts.shape[1]:
            return count
        order, clock, end = cuts[ORDER, cut], cuts[CLOCK, cut], start + stop
        if stop == row or order != orders[stop - 1] or clock != clocks[stop - 1]:
            chunk += 1
        row = stop
        if expired:
            for old in range(state[FIRST], end):
                stamp = stamps[old - offset] if old < state[LOOKED] else clock
                count = emit(out, count, old, EXPIRED, stamp, order, clock, chunk)
        if end > state[OPENED]:
            count = emit(out, count, state[OPENED], RESET, clock, order, clock, chunk)
        state[FIRST] = state[OPENED] = end
    return count


class TimeCutter(Cutter):
    """A tumbling window over the app's clock. A `streaming` window stores only the batch in progress."""

    def __init__(self, constants: Sequence[object], *, expired: bool) -> None:
        duration, *options = constants
        self.duration = max(int(str(duration)), 1)
        self.streaming = any(option is True for option in options)
        starts = [int(str(option)) for option in options if not isinstance(option, bool)]
        self.aligned = bool(starts)
        self.origin = starts[0] if starts else 0
        self.expired = expired
        self.boundary = NEVER

    def cut(self, batch: EventBatch, step: Step, last: int, opened: int) -> Int64Array:
        cuts = np.empty((4, 2 * batch.size + 3), dtype=np.int64)
        count, self.boundary = _cut(
            self.duration,
            self.origin,
            self.aligned,
            self.expired and not self.streaming,
            last,
            opened,
            self.boundary,
            kernel_array(step.clocks),
            step.floor,
            kernel_array(batch.orders),
            kernel_array(batch.clocks),
            kernel_array(batch.chunk_ids()),
            cuts,
        )
        return cuts[:, :count].copy() if count else NO_CUTS

    def next_deadline_ms(self) -> int | None:
        return self.boundary

    def snapshot(self) -> State:
        return self.boundary

    def restore(self, state: State) -> None:
        self.boundary = state


class StreamingTimeBatchWindow(TimedCuttingWindow):
    """Emits every event on arrival; the whole batch expires at its end."""

    def process(self, batch: EventBatch, step: Step) -> EventBatch:
        held = len(self.store)
        begin = self.store.append(batch)
        cuts = self.cutter.cut(batch, step, 0, held)
        stamps, offset = self.store.timestamps()
        out = new_emission(2 * (held + batch.size) + cuts.shape[1])
        orders, clocks, chunks = (kernel_array(a) for a in (batch.orders, batch.clocks, batch.chunk_ids()))
        count = _run_streaming(
            cuts, self.cutter.expired, self.lines, begin, stamps, offset, orders, clocks, chunks, out
        )  # fmt: skip
        if self.keeps_moves:
            self.moves = out[:, :count].copy()
        result = emitted(out, count, self.store)
        self.store.forget(int(self.lines[FIRST]))
        return result

    def visible(self) -> Int64Array:
        return np.arange(int(self.lines[FIRST]), self.store.end)


@WINDOWS.register("timeBatch")
def time_batch(context: WindowContext) -> WindowOperator:
    """Return the window in the form that its arguments require."""
    cutter = TimeCutter(context.constants(), expired=context.expired)
    if context.operator.partitioned:
        origin = cutter.origin if cutter.aligned else None
        kind = TIME_STREAM_KIND if cutter.streaming else TIME_BATCH_KIND
        return KeyedWindow(context, Plan(kind, span=cutter.duration, origin=origin))
    return (StreamingTimeBatchWindow if cutter.streaming else TimedCuttingWindow)(context, cutter)
