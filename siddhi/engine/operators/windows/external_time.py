"""`externalTime(attribute, T)`: the events whose attribute is less than T behind the newest event's.

    T = 10   attribute   0    4    11       20
             in          a    b    c        d
             out         +a   +b   -a +c    -b +d

There are no timers, and an event without a time fails; the timestamp of an expired event is the newest time that there
was when another event drove it out.
"""

from __future__ import annotations

from siddhi.column_names import internal_name
from siddhi.engine.columnar.batch import EventBatch
from siddhi.engine.columnar.kinds import CURRENT, EXPIRED
from siddhi.engine.columnar.row_store import RowStore
from siddhi.engine.jit.arrays import Int64Array
from siddhi.engine.jit.kernels import kernel_array, state_kernel
from siddhi.engine.operators.base.operator import Step
from siddhi.engine.operators.expressions.leaves import ColumnNode
from siddhi.engine.operators.filters import with_value
from siddhi.engine.operators.windows.base.by_time import NEWEST, ByTimeWindow, come, leave, next_to_leave
from siddhi.engine.operators.windows.base.emission import emit
from siddhi.engine.operators.windows.base.window import WINDOWS, WindowContext, WindowOperator, with_time
from siddhi.engine.operators.windows.keyed.layout import EXTERNAL_TIME_KIND
from siddhi.engine.operators.windows.keyed.window import KeyedWindow, Plan
from siddhi.language.ast import AttributeType

_TIME = internal_name("external")
"""The store's column for the time attribute."""
_MISSING = "the time of 'externalTime'"


@state_kernel
def _run(duration, lines, heap, start, timestamps, times, offset, orders, clocks, chunks, out):  # type: ignore[no-untyped-def]
    """Run the window; return the number of rows written."""
    count = 0
    for row in range(len(timestamps)):
        new = start + row
        now = lines[NEWEST] = max(lines[NEWEST], times[new - offset])
        first = next_to_leave(lines, heap, new)
        while first >= 0 and times[first - offset] + duration <= now:
            count = emit(out, count, first, EXPIRED, now, orders[row], clocks[row], chunks[row])
            leave(lines, heap)
            first = next_to_leave(lines, heap, new)
        count = emit(out, count, new, CURRENT, timestamps[row], orders[row], clocks[row], chunks[row])
        come(lines, heap, new, times[new - offset])
    return count


class ExternalTimeWindow(ByTimeWindow):
    """A sliding window over an attribute of type long."""

    def __init__(self, context: WindowContext) -> None:
        self.time, _ = context.arguments()
        columns = {**context.columns, _TIME: AttributeType.LONG}
        super().__init__(int(str(context.constants()[1])), RowStore(columns, context.operator.pool))

    def let_out(self, batch: EventBatch, step: Step) -> tuple[Int64Array, int]:
        batch = with_value(batch, self.time, step, _MISSING)
        timed = with_time(batch, self.time, _TIME, self.store.pool)
        return self.take_in(timed, kernel_array(timed.columns[_TIME].values), step)

    def keeps_order(self, batch: EventBatch) -> bool:
        name = self.time.column if isinstance(self.time, ColumnNode) else ""
        if not batch.size or name not in batch.columns:
            return self.in_order and not batch.size
        column = batch.columns[name]
        return column.valid is None and self.stays_in_order(kernel_array(column.values))

    def times(self) -> Int64Array:
        times: Int64Array = self.store.values(_TIME)
        return times

    def run(self, rows: EventBatch, start: int, step: Step, out: Int64Array) -> int:
        count: int = _run(
            self.duration,
            self.lines,
            self.heap,
            start,
            kernel_array(rows.timestamps),
            self.times(),
            self.store.offset,
            kernel_array(rows.orders),
            kernel_array(rows.clocks),
            kernel_array(rows.chunk_ids()),
            out,
        )
        return count


@WINDOWS.register("externalTime")
def external_time(context: WindowContext) -> WindowOperator:
    """Return the window, for all instances if there is a partition."""
    if not context.operator.partitioned:
        return ExternalTimeWindow(context)
    time, pool = context.arguments()[0], context.operator.pool

    def accepted(batch: EventBatch, step: Step) -> EventBatch:
        return with_value(batch, time, step, _MISSING)

    def lines(batch: EventBatch, _slots: Int64Array, _window: KeyedWindow) -> list[Int64Array]:
        return [with_time(batch, time, _TIME, pool).columns[_TIME].values]

    span = int(str(context.constants()[1]))
    return KeyedWindow(context, Plan(EXTERNAL_TIME_KIND, span=span, lines=lines, accepted=accepted))
