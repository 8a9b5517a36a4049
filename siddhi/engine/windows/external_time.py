"""`externalTime(attribute, T)`: the events whose attribute lies less than T behind the newest event's.

    T = 10   attribute   0    4    11       20
             in          a    b    c        d
             out         +a   +b   -a +c    -b +d

There are no timers, and an event without a time fails; the timestamp of an expired event is the attribute's value that
drove it out.
"""

from __future__ import annotations

from siddhi.engine.arrays import Int64Array
from siddhi.engine.batch import EventBatch
from siddhi.engine.filters import with_value
from siddhi.engine.kernels import kernel_array, state_kernel
from siddhi.engine.kinds import CURRENT, EXPIRED
from siddhi.engine.operator import Step
from siddhi.engine.store import RowStore
from siddhi.engine.windows.emission import emit, new_emission
from siddhi.engine.windows.sliding import SlidingWindow
from siddhi.engine.windows.window import WINDOWS, WindowContext, with_time
from siddhi.language.ast import AttributeType

_TIME = "@external"
"""The store's column for the attribute that tells the time."""


@state_kernel
def _run(duration, first, start, timestamps, times, offset, orders, clocks, chunks, out):  # type: ignore[no-untyped-def]
    """Returns (rows written, sequence number of the oldest row still held)."""
    count = 0
    for row in range(len(timestamps)):
        new = start + row
        now = times[new - offset]
        while first < new and times[first - offset] + duration <= now:
            count = emit(out, count, first, EXPIRED, now, orders[row], clocks[row], chunks[row])
            first += 1
        count = emit(out, count, new, CURRENT, timestamps[row], orders[row], clocks[row], chunks[row])
    return count, first


@WINDOWS.register("externalTime")
class ExternalTimeWindow(SlidingWindow):
    """Sliding over an attribute of type long."""

    def __init__(self, context: WindowContext) -> None:
        self.time, _ = context.arguments()
        self.duration = int(str(context.constants()[1]))
        self.store = RowStore({**context.columns, _TIME: AttributeType.LONG}, context.operator.pool)

    def let_out(self, batch: EventBatch, step: Step) -> tuple[Int64Array, int]:
        batch = with_value(batch, self.time, step, "the time of 'externalTime'")
        held = len(self.store)
        start = self.store.append(with_time(batch, self.time, _TIME, self.store.pool))
        out = new_emission(held + 2 * batch.size)
        _, offset = self.store.timestamps()
        times, timestamps = self.store.values(_TIME), kernel_array(batch.timestamps)
        orders, clocks, chunks = kernel_array(batch.orders), kernel_array(batch.clocks), kernel_array(batch.chunk_ids())
        first = self.store.first
        count, keep = _run(self.duration, first, start, timestamps, times, offset, orders, clocks, chunks, out)
        self.store.forget(keep)
        return out, count
