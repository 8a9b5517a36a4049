"""`length(n)`: the last n events.

n = 2    in    a     b     c          d
         out   +a    +b    -a +c      -b +d
"""

from __future__ import annotations

from siddhi.engine.columnar.batch import EventBatch
from siddhi.engine.columnar.kinds import CURRENT, EXPIRED, RESET
from siddhi.engine.columnar.row_store import RowStore
from siddhi.engine.jit.arrays import NO_POSITIONS, Int64Array
from siddhi.engine.jit.kernels import kernel_array, state_kernel
from siddhi.engine.operators.base.operator import Step
from siddhi.engine.operators.windows.base.emission import emit, new_emission
from siddhi.engine.operators.windows.base.sliding import SlidingWindow
from siddhi.engine.operators.windows.base.window import WINDOWS, WindowContext, WindowOperator
from siddhi.engine.operators.windows.keyed.layout import LENGTH_KIND
from siddhi.engine.operators.windows.keyed.window import KeyedWindow, Plan


@state_kernel
def _run(length, first, start, timestamps, orders, clocks, chunks, out):  # type: ignore[no-untyped-def]
    """Return (rows written, sequence number of the oldest stored row). Without `chunks` every row is a chunk."""
    count = 0
    for row in range(len(timestamps)):
        new = start + row
        chunk = chunks[row] if len(chunks) > 0 else row
        if length <= 0:
            count = emit(out, count, new, CURRENT, timestamps[row], orders[row], clocks[row], chunk)
            count = emit(out, count, new, EXPIRED, timestamps[row], orders[row], clocks[row], chunk)
            count = emit(out, count, new, RESET, clocks[row], orders[row], clocks[row], chunk)
            first = new + 1
            continue
        if new - first >= length:
            count = emit(out, count, first, EXPIRED, clocks[row], orders[row], clocks[row], chunk)
            first += 1
        count = emit(out, count, new, CURRENT, timestamps[row], orders[row], clocks[row], chunk)
    return count, first


class LengthWindow(SlidingWindow):
    """The last n events.

    With a length below 1 nothing is stored: each event is emitted and expires in one chunk, with its own timestamp.
    """

    def __init__(self, context: WindowContext) -> None:
        (length,) = context.constants()
        self.length = int(str(length))  # a constant of any numeric type
        self.store = RowStore(context.columns, context.operator.pool)

    def let_out(self, batch: EventBatch, step: Step) -> tuple[Int64Array, int]:
        start = self.store.append(batch)
        out: Int64Array = new_emission(3 * batch.size)
        timestamps = kernel_array(batch.timestamps)
        chunks = NO_POSITIONS if batch.chunks is None else kernel_array(batch.chunks)
        orders = kernel_array(batch.orders)
        clocks = timestamps if batch.clocks is batch.timestamps else kernel_array(batch.clocks)
        return out, self.let_out_rows(start, timestamps, orders, clocks, chunks, out)

    def let_out_rows(
        self,
        start: int,
        timestamps: Int64Array,
        orders: Int64Array,
        clocks: Int64Array,
        chunks: Int64Array,
        out: Int64Array,
    ) -> int:
        """As `let_out`, for rows that are in the store already, from the sequence number `start` on.

        `out` has room for three rows for each, `chunks` is empty when each row is a chunk. Returns the number of rows
        emitted.
        """
        count: int
        count, first = _run(self.length, self.store.first, start, timestamps, orders, clocks, chunks, out)
        self.store.forget(first)
        return count


@WINDOWS.register("length")
def length(context: WindowContext) -> WindowOperator:
    """Return the window, for all instances if there is a partition."""
    if context.operator.partitioned:
        return KeyedWindow(context, Plan(LENGTH_KIND, length=int(str(context.constants()[0]))))
    return LengthWindow(context)
