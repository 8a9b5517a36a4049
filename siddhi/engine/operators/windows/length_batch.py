"""`lengthBatch(n)`: events in batches of n.

n = 2        in    a    b          c    d
             out   ·    +a +b      ·    -a -b reset +c +d
streaming    out   +a   +b         -a -b reset +c    +d
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from siddhi.engine.columnar.batch import EventBatch
from siddhi.engine.columnar.kinds import CURRENT, EXPIRED, RESET
from siddhi.engine.columnar.row_store import RowStore
from siddhi.engine.columnar.state_tree import State
from siddhi.engine.jit.arrays import AnyArray, Int64Array
from siddhi.engine.jit.kernels import kernel_array, state_kernel
from siddhi.engine.operators.base.operator import Step
from siddhi.engine.operators.windows.base.cutting import NO_CUTS, Cutter, CuttingWindow
from siddhi.engine.operators.windows.base.emission import emit, emitted, new_emission
from siddhi.engine.operators.windows.base.window import WINDOWS, WindowContext, WindowOperator
from siddhi.engine.operators.windows.keyed.layout import LENGTH_BATCH_KIND, LENGTH_STREAM_KIND
from siddhi.engine.operators.windows.keyed.window import KeyedWindow, Plan


@state_kernel
def _run_single(expired, start, stamps, offset, orders, clocks, out):  # type: ignore[no-untyped-def]
    """Emit and expire each event at once; return the number of rows written."""
    count = 0
    for row in range(len(orders)):
        new, order, clock = start + row, orders[row], clocks[row]
        count = emit(out, count, new, CURRENT, stamps[new - offset], order, clock, row)
        if expired:
            count = emit(out, count, new, EXPIRED, clock, order, clock, row)
        count = emit(out, count, new, RESET, clock, order, clock, row)
    return count


@state_kernel
def _run_streaming(length, expired, first, looked, start, stamps, offset, orders, clocks, out):  # type: ignore[no-untyped-def]
    """Emit each event as a chunk; rows before `looked` expire with their own time.

    The reset that ends a batch has the values of its second event, in the very first batch of its first. Returns (rows
    written, number of the first row of the batch in progress).
    """
    count = 0
    for row in range(len(orders)):
        new = start + row
        order, clock = orders[row], clocks[row]
        if new - first >= length:
            if expired:
                for old in range(first, new):
                    stamp = stamps[old - offset] if old < looked else clock
                    count = emit(out, count, old, EXPIRED, stamp, order, clock, row)
            standing = min(first + 1, new) if first else first
            count = emit(out, count, standing, RESET, clock, order, clock, row)
            first = new
        count = emit(out, count, new, CURRENT, stamps[new - offset], order, clock, row)
    return count, first


class LengthCutter(Cutter):
    """Ends a batch with its last event; `length` is at least 1."""

    def __init__(self, length: int, *, expired: bool) -> None:
        self.length = length
        self.expired = expired

    def cut(self, batch: EventBatch, step: Step, last: int, opened: int) -> Int64Array:
        if opened + batch.size < self.length:
            return NO_CUTS
        ends = np.arange(self.length - opened, batch.size + 1, self.length)
        clocks = batch.clocks[ends - 1]
        return np.stack((ends, batch.orders[ends - 1], clocks, clocks))

    def ends_none(self, values: Mapping[str, AnyArray], rows: int, opened: int) -> bool:
        return opened + rows < self.length


class UncutLengthBatchWindow(WindowOperator):
    """The forms that emit every event on arrival: streaming ones, and those of length 0.

    One of a negative length emits nothing.
    """

    def __init__(self, context: WindowContext, length: int) -> None:
        self.length = length
        self.expired = context.expired
        self.store = RowStore(context.columns, context.operator.pool)
        self.looked = 0

    def process(self, batch: EventBatch, step: Step) -> EventBatch:
        first, held = self.store.first, len(self.store)
        start = self.store.append(batch)
        out = new_emission(2 * held + 3 * batch.size + 1)
        orders, clocks = kernel_array(batch.orders), kernel_array(batch.clocks)
        stamps, offset = self.store.timestamps()
        count, keep = 0, self.store.end
        if self.length > 0:
            count, keep = _run_streaming(
                self.length, self.expired, first, self.looked, start, stamps, offset, orders, clocks, out
            )
        elif self.length == 0:
            count = _run_single(self.expired, start, stamps, offset, orders, clocks, out)
        result = emitted(out, count, self.store)
        self.store.forget(keep)
        return result

    @property
    def notes_looks(self) -> bool:
        return True

    def note_look(self, sequences: Int64Array) -> None:
        self.looked = int(sequences[-1]) + 1

    def own_state(self) -> State:
        return self.looked

    def restore_own(self, state: State) -> None:
        self.looked = state


def length_and_streaming(constants: Sequence[object]) -> tuple[int, bool]:
    """Return the arguments of a `lengthBatch`: length, and whether it is streaming."""
    length, *streaming = constants
    return int(str(length)), bool(streaming and streaming[0])


@WINDOWS.register("lengthBatch")
def length_batch(context: WindowContext) -> WindowOperator:
    """Return the window in the form that its arguments require."""
    length, streaming = length_and_streaming(context.constants())
    if context.operator.partitioned:
        streams = streaming or length <= 0
        return KeyedWindow(context, Plan(LENGTH_STREAM_KIND if streams else LENGTH_BATCH_KIND, length=length))
    if streaming or length <= 0:
        return UncutLengthBatchWindow(context, length)
    return CuttingWindow(context, LengthCutter(length, expired=context.expired))
