"""Windows that divide events into batches, which are emitted as a whole.

    rows   a    b    c    d    e    f
    cuts          │              │             a cut precedes the first row of the next batch
    out           -… reset +a +b -a -b reset +c +d +e

A `Cutter` determines the cuts, both for `CuttingWindow`, which emits batches, and for selections fused with their
window.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

import numpy as np

from siddhi.engine.columnar.batch import EventBatch
from siddhi.engine.columnar.kinds import CURRENT, EXPIRED, RESET
from siddhi.engine.columnar.row_store import RowStore
from siddhi.engine.columnar.state_tree import State
from siddhi.engine.jit.arrays import AnyArray, Int64Array
from siddhi.engine.jit.kernels import kernel_part, state_kernel
from siddhi.engine.operators.base.operator import Step
from siddhi.engine.operators.windows.base.emission import emit, emitted, new_emission
from siddhi.engine.operators.windows.base.window import WindowContext, WindowOperator

ROWS, ORDER, CLOCK, STAMP = 0, 1, 2, 3
"""The lines of cuts, an int64 array (4, n): the number of current rows before the cut, order and clock of the cause,
and the timestamp of rows that expire then."""
NO_CUTS: Int64Array = np.zeros((4, 0), dtype=np.int64)

FIRST, OPENED, LOOKED = 0, 1, 2
"""The state of a window: [FIRST, OPENED) is the last batch, the rest the one in progress. Rows before LOOKED were read:
they expire with their own time."""


class Cutter(ABC):
    """Determines the ends of batches.

    `expired` means that batches are stored to expire with the next, `notes_looks` that rows that were read expire with
    their own time.
    """

    expired: bool
    notes_looks = True

    def accepted(self, batch: EventBatch, _step: Step) -> EventBatch:
        """Return the rows of `batch` that can be cut; the others are recorded as failed."""
        return batch

    @abstractmethod
    def cut(self, batch: EventBatch, step: Step, last: int, opened: int) -> Int64Array:
        """Return the cuts for `batch` and the timers of `step`.

        `last` rows are in the last batch and `opened` in the one in progress.
        """

    def ends_none(self, values: Mapping[str, AnyArray], rows: int, opened: int) -> bool:
        """Return whether a quick test shows that none of `rows` rows with these `values` ends a batch.

        `opened` rows are in the batch in progress. The rows then need not be stored in the cutter.
        """
        return False

    def next_deadline_ms(self) -> int | None:
        """Return the time of the next cut by a timer when a batch is held, or None."""
        return None

    def snapshot(self) -> State:
        """Return the state besides rows."""
        return None

    def restore(self, state: State) -> None:  # noqa: B027 - most remember nothing
        """Restore the state from `snapshot`."""


@kernel_part
def batch_end(time, start, duration):  # type: ignore[no-untyped-def]
    """Return the end of the batch that contains `time`, counted from `start`.

    Before `start`, return the end after the next one. So the first batch reaches to a future start if that is less than
    `duration` away.
    """
    past = time - start
    within = past - past // duration * duration
    if past < 0 and within > 0:
        within -= duration
    return time + duration - within


@state_kernel
def _emit_batches(cuts, expired, state, begin, stamps, offset, out):  # type: ignore[no-untyped-def]
    """Emit a batch at every cut; return the number of rows written."""
    count = 0
    for cut in range(cuts.shape[1]):
        new = begin + cuts[ROWS, cut]
        order, clock, stamp = cuts[ORDER, cut], cuts[CLOCK, cut], cuts[STAMP, cut]
        if expired:
            for old in range(state[FIRST], state[OPENED]):
                seen = stamps[old - offset] if old < state[LOOKED] else stamp
                count = emit(out, count, old, EXPIRED, seen, order, clock, cut)
        if new > state[OPENED]:
            count = emit(out, count, state[OPENED], RESET, stamp, order, clock, cut)
        for current in range(state[OPENED], new):
            count = emit(out, count, current, CURRENT, stamps[current - offset], order, clock, cut)
        state[FIRST] = state[OPENED] if expired else new
        state[OPENED] = new
    return count


class CuttingWindow(WindowOperator):
    """Emits each batch as a whole at its end; the previous batch expires with it."""

    expires_if_wanted = True
    reports_moves = True

    def __init__(self, context: WindowContext, cutter: Cutter) -> None:
        self.cutter = cutter
        self.store = RowStore(context.columns, context.operator.pool)
        self.lines = np.zeros(3, dtype=np.int64)

    def process(self, batch: EventBatch, step: Step) -> EventBatch:
        batch = self.cutter.accepted(batch, step)
        held = len(self.store)
        begin = self.store.append(batch)
        last, opened = int(self.lines[OPENED] - self.lines[FIRST]), begin - int(self.lines[OPENED])
        cuts = self.cutter.cut(batch, step, last, opened)
        stamps, offset = self.store.timestamps()
        out = new_emission(2 * (held + batch.size) + cuts.shape[1])
        count = _emit_batches(cuts, self.cutter.expired, self.lines, begin, stamps, offset, out)
        if self.keeps_moves:
            self.moves = out[:, :count].copy()
        result = emitted(out, count, self.store)
        self.store.forget(int(self.lines[FIRST]))
        return result

    @property
    def notes_looks(self) -> bool:
        return self.cutter.notes_looks

    def visible(self) -> Int64Array:
        return np.arange(int(self.lines[FIRST]), int(self.lines[OPENED]))

    def note_look(self, sequences: Int64Array) -> None:
        if self.cutter.notes_looks:
            self.lines[LOOKED] = sequences[-1] + 1

    def own_state(self) -> State:
        return [self.lines.copy(), self.cutter.snapshot()]

    def restore_own(self, state: State) -> None:
        self.lines, own = state
        self.cutter.restore(own)


class TimedCuttingWindow(CuttingWindow):
    """A cutting window whose cutter has timers."""

    def next_deadline_ms(self) -> int | None:
        return self.cutter.next_deadline_ms() if len(self.store) else None
