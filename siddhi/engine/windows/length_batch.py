"""`lengthBatch(n)`: events in batches of n.

n = 2        in    a    b          c    d
             out   ·    +a +b      ·    -a -b reset +c +d
streaming    out   +a   +b         -a -b reset +c    +d
"""

from __future__ import annotations

import numpy as np

from siddhi.engine.arrays import Int64Array
from siddhi.engine.batch import EventBatch
from siddhi.engine.kernels import kernel, kernel_array
from siddhi.engine.kinds import CURRENT, EXPIRED, RESET
from siddhi.engine.operator import Step
from siddhi.engine.state import State
from siddhi.engine.store import RowStore
from siddhi.engine.windows.emission import emit, emitted, new_emission
from siddhi.engine.windows.window import WINDOWS, Window, WindowContext


@kernel
def _run_batches(  # type: ignore[no-untyped-def]
    length, expired, first, opened, looked, start, stamps, offset, orders, clocks, out
):
    """Rows [first, opened) are the last batch, [opened, …) the one in progress; rows before `looked` expire with their
    own time. Returns (rows written, first, opened)."""
    count = 0
    chunk = 0
    for row in range(len(orders)):
        new = start + row
        order, clock = orders[row], clocks[row]
        if new + 1 - opened < max(length, 1):
            continue
        chunk += 1
        if length == 0:
            count = emit(out, count, new, CURRENT, stamps[new - offset], order, clock, chunk)
            if expired:
                count = emit(out, count, new, EXPIRED, clock, order, clock, chunk)
            count = emit(out, count, new, RESET, clock, order, clock, chunk)
            first = opened = new + 1
            continue
        if expired:
            for old in range(first, opened):
                stamp = stamps[old - offset] if old < looked else clock
                count = emit(out, count, old, EXPIRED, stamp, order, clock, chunk)
        count = emit(out, count, new, RESET, clock, order, clock, chunk)
        for current in range(opened, new + 1):
            count = emit(out, count, current, CURRENT, stamps[current - offset], order, clock, chunk)
        first = opened if expired else new + 1
        opened = new + 1
    return count, first, opened


@kernel
def _run_streaming(length, expired, first, looked, start, stamps, offset, orders, clocks, out):  # type: ignore[no-untyped-def]
    """Each event is a chunk of its own. Returns (rows written, number of the first row of the batch in progress)."""
    count = 0
    for row in range(len(orders)):
        new = start + row
        order, clock = orders[row], clocks[row]
        if new - first >= length:
            if expired:
                for old in range(first, new):
                    stamp = stamps[old - offset] if old < looked else clock
                    count = emit(out, count, old, EXPIRED, stamp, order, clock, row)
            count = emit(out, count, new, RESET, clock, order, clock, row)
            first = new
        count = emit(out, count, new, CURRENT, stamps[new - offset], order, clock, row)
    return count, first


@WINDOWS.register("lengthBatch")
class LengthBatchWindow(Window):
    """A length of 0 lets each event come and go at once, a negative one lets nothing out."""

    def __init__(self, context: WindowContext) -> None:
        length, *streaming = context.constants()
        self.length = int(str(length))
        self.streaming = bool(streaming and streaming[0])
        self.expired = context.expired
        self.store = RowStore(context.columns, context.operator.pool)
        self.opened = 0
        self.looked = 0

    def process(self, batch: EventBatch, step: Step) -> EventBatch:
        held = len(self.store)
        start = self.store.append(batch)
        out = new_emission(2 * held + 3 * batch.size + 1)
        orders, clocks, first = kernel_array(batch.orders), kernel_array(batch.clocks), self.store.first
        stamps, offset = self.store.timestamps()
        if self.streaming and self.length > 0:
            count, keep = _run_streaming(
                self.length, self.expired, first, self.looked, start, stamps, offset, orders, clocks, out
            )
        elif self.length < 0:
            count, keep = 0, self.store.end
        else:
            count, keep, self.opened = _run_batches(
                self.length, self.expired, first, self.opened, self.looked, start, stamps, offset, orders, clocks, out
            )
        result = emitted(out, count, self.store)
        self.store.forget(keep)
        return result

    def visible(self) -> Int64Array:
        return super().visible() if self.streaming else np.arange(self.store.first, self.opened)

    def note_look(self, sequences: Int64Array) -> None:
        self.looked = int(sequences[-1]) + 1

    def own_state(self) -> State:
        return [self.opened, self.looked]

    def restore_own(self, state: State) -> None:
        self.opened, self.looked = state
