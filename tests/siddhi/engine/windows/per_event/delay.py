"""`delay(T)`: every event, T later, with the clock then as its timestamp."""

from __future__ import annotations

from heapq import heapify, heappop, heappush

from siddhi.engine.columnar.state_tree import State
from siddhi.engine.operators.windows.base.row_window import Arrival, Emission, RowWindow
from siddhi.engine.operators.windows.base.window import WindowContext


class DelayWindow(RowWindow):
    """Every event waits for its own time.

    `waiting` has the time at which each is emitted, its arrival number and its slot. Nothing ever expires.
    """

    def __init__(self, context: WindowContext) -> None:
        super().__init__(context)
        (duration,) = context.constants()
        self.duration = int(str(duration))
        self.waiting: list[tuple[int, int, int]] = []
        self.arrivals = 0

    def arrive(self, event: Arrival, out: Emission) -> None:
        self._let_out(out)
        due = event.timestamp + self.duration
        heappush(self.waiting, (due, self.arrivals, event.slot))
        self.arrivals += 1
        self.schedule(due)

    def fire(self, due: int, out: Emission) -> None:
        self._let_out(out)

    def _let_out(self, out: Emission) -> None:
        while self.waiting and self.waiting[0][0] <= out.clock:
            _, _, slot = heappop(self.waiting)
            out.current(slot, out.clock)
            self.release(slot)

    def held(self) -> list[int]:
        return [slot for _, _, slot in sorted(self.waiting, key=lambda entry: entry[1])]

    def own_state(self) -> State:
        return [[due, slot] for due, _, slot in sorted(self.waiting, key=lambda entry: entry[1])]

    def restore_own(self, state: State) -> None:
        self.waiting = [(due, place, slot) for place, (due, slot) in enumerate(state)]
        self.arrivals = len(self.waiting)
        heapify(self.waiting)
