"""`time(T)`: the events of the last T, measured by the app's clock.

    T = 10   clock    0    4              10    12      14
             in       a    b                    c
             out      +a   +b             -a    +c      -b

An event leaves by a timer at its timestamp + T, in a chunk of its own; one that arrives later than that leaves
immediately.
"""

from __future__ import annotations

from siddhi.engine.columnar.batch import EventBatch
from siddhi.engine.columnar.kinds import CURRENT, EXPIRED
from siddhi.engine.columnar.row_store import RowStore
from siddhi.engine.jit.arrays import Int64Array
from siddhi.engine.jit.kernels import kernel_array, state_kernel
from siddhi.engine.operators.base.operator import NEVER, Step
from siddhi.engine.operators.windows.base.by_time import ByTimeWindow, come, leave, next_to_leave
from siddhi.engine.operators.windows.base.emission import emit, timer_clock, timer_order
from siddhi.engine.operators.windows.base.window import WINDOWS, WindowContext, WindowOperator
from siddhi.engine.operators.windows.keyed.layout import TIME_KIND
from siddhi.engine.operators.windows.keyed.window import KeyedWindow, Plan


@state_kernel
def _run(duration, lines, heap, start, end, stamps, offset, step_clocks, floor, orders, clocks, chunks, out):  # type: ignore[no-untyped-def]
    """Merge rows [start, end) with the timers of all stored rows; return the number of rows written."""
    count = 0
    chunk = 0
    last_order = 2 * len(step_clocks) - 1
    row = start
    while True:
        due_order = last_order + 1
        due = stamps[0]
        first = next_to_leave(lines, heap, row)
        if first >= 0:
            due = stamps[first - offset] + duration
            setter = first - start
            due_order = timer_order(step_clocks, due, orders[setter] if setter >= 0 else -1)
            due = timer_clock(step_clocks, due, due_order, floor)
            if setter >= 0:
                due = max(due, clocks[setter])
        if row < end:
            order, clock = orders[row - start], clocks[row - start]
            if due_order < order or (due_order == order and due < clock):
                chunk += 1
                count = _expire(lines, heap, duration, row, stamps, offset, due, due_order, chunk, out, count)
                continue
            if row == start or chunks[row - start] != chunks[row - start - 1]:
                chunk += 1
            count = _expire(lines, heap, duration, row, stamps, offset, clock, order, chunk, out, count)
            count = emit(out, count, row, CURRENT, stamps[row - offset], order, clock, chunk)
            come(lines, heap, row, stamps[row - offset])
            row += 1
        elif due_order <= last_order:
            chunk += 1
            count = _expire(lines, heap, duration, row, stamps, offset, due, due_order, chunk, out, count)
        else:
            return count


@state_kernel
def _expire(lines, heap, duration, end, stamps, offset, clock, order, chunk, out, count):  # type: ignore[no-untyped-def]
    """Emit the rows that have expired."""
    first = next_to_leave(lines, heap, end)
    while first >= 0 and stamps[first - offset] + duration <= clock:
        count = emit(out, count, first, EXPIRED, clock, order, clock, chunk)
        leave(lines, heap)
        first = next_to_leave(lines, heap, end)
    return count


class TimeWindow(ByTimeWindow):
    """A sliding window over the app's clock."""

    def __init__(self, context: WindowContext) -> None:
        (duration,) = context.constants()
        super().__init__(int(str(duration)), RowStore(context.columns, context.operator.pool))

    def let_out(self, batch: EventBatch, step: Step) -> tuple[Int64Array, int]:
        return self.take_in(batch, kernel_array(batch.timestamps), step)

    def keeps_order(self, batch: EventBatch) -> bool:
        return self.stays_in_order(kernel_array(batch.timestamps))

    def times(self) -> Int64Array:
        return self.store.timestamps()[0]

    def run(self, rows: EventBatch, start: int, step: Step, out: Int64Array) -> int:
        stamps, offset = self.store.timestamps()
        count: int = _run(
            self.duration,
            self.lines,
            self.heap,
            start,
            self.store.end,
            stamps,
            offset,
            kernel_array(step.clocks),
            step.floor,
            kernel_array(rows.orders),
            kernel_array(rows.clocks),
            kernel_array(rows.chunk_ids()),
            out,
        )
        return count

    def next_deadline_ms(self) -> int | None:
        time = self.next_time()
        return None if time is None else min(time + self.duration, NEVER)


@WINDOWS.register("time")
def time(context: WindowContext) -> WindowOperator:
    """Return the window, for all instances if there is a partition."""
    if context.operator.partitioned:
        return KeyedWindow(context, Plan(TIME_KIND, span=int(str(context.constants()[0]))))
    return TimeWindow(context)
