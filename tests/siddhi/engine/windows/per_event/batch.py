"""`batch()`: each chunk of events is a batch; `batch(n)` cuts a chunk into batches of n."""

from __future__ import annotations

from siddhi.engine.columnar.column import Column
from siddhi.engine.columnar.state_tree import State
from siddhi.engine.jit.arrays import Int64Array
from siddhi.engine.operators.windows.base.row_window import Arrival, Emission, RowWindow
from siddhi.engine.operators.windows.base.window import WindowContext


class BatchWindow(RowWindow):
    """With the first batch of a chunk the events of the previous chunk expire, then its own events are emitted.

    A reset precedes the events of every batch but the very first, with the values of the first event of the previous
    batch. If expired events are not requested, no events are stored for readers; in a partition the window then drops
    every chunk, so that no reset ends it. Both as in Siddhi.
    """

    expires_if_wanted = True

    def __init__(self, context: WindowContext) -> None:
        super().__init__(context)
        self.shown = context.shows_expired
        self.forgetful = context.operator.partitioned and not context.expired
        (self.length,) = [int(str(length)) for length in context.constants()] or [0]
        self.last: list[int] = []
        self.looked = False
        self.opened: list[tuple[int, int]] = []
        self.passed: list[int] = []

    def arrive(self, event: Arrival, out: Emission) -> None:
        self.opened.append((event.slot, event.timestamp))
        if self.length and len(self.opened) == self.length:
            self._flush(out)
            out.new_chunk()

    def end_chunk(self, out: Emission) -> None:
        if self.opened:
            self._flush(out)
        self.last, self.passed = self.passed, []
        if self.forgetful:
            for slot in self.last:
                self.release(slot)
            self.last = []

    def _flush(self, out: Emission) -> None:
        before = self.passed or self.last
        for slot in self.last:
            if self.expired:
                out.expired(slot, int(self.slots.timestamps[slot]) if self.looked else None)
            self.release(slot)
        self.last = []
        self.looked = False
        if before:
            out.reset(before[(len(before) - 1) // self.length * self.length if self.length else 0])
        for slot, timestamp in self.opened:
            out.current(slot, timestamp)
        self.passed.extend(slot for slot, _ in self.opened)
        self.opened = []

    def held(self) -> list[int]:
        return self.last if self.shown else []

    def look(self) -> tuple[Int64Array, dict[str, Column]]:
        self.looked = bool(self.last)
        return super().look()

    def own_state(self) -> State:
        return [self.last, self.looked]

    def restore_own(self, state: State) -> None:
        self.last, self.looked = state
