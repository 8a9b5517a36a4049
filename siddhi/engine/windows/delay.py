"""`delay(T)`: every event, T later, with the clock then as its timestamp."""

from __future__ import annotations

from collections import deque

from siddhi.engine.state import State
from siddhi.engine.windows.row_window import Arrival, Emission, RowWindow
from siddhi.engine.windows.window import WINDOWS, WindowContext


@WINDOWS.register("delay")
class DelayWindow(RowWindow):
    """A queue: an event that came late waits behind those before it. Nothing ever expires."""

    def __init__(self, context: WindowContext) -> None:
        super().__init__(context)
        (duration,) = context.constants()
        self.duration = int(str(duration))
        self.waiting: deque[tuple[int, int]] = deque()
        self.newest: int | None = None

    def arrive(self, event: Arrival, out: Emission) -> None:
        self._let_out(out)
        self.waiting.append((event.timestamp + self.duration, event.slot))
        if self.newest is None or event.timestamp > self.newest:
            self.newest = event.timestamp
            self.schedule(event.timestamp + self.duration)

    def fire(self, due: int, out: Emission) -> None:
        self._let_out(out)

    def _let_out(self, out: Emission) -> None:
        while self.waiting and self.waiting[0][0] <= out.clock:
            _, slot = self.waiting.popleft()
            out.current(slot, out.clock)
            self.release(slot)

    def held(self) -> list[int]:
        return [slot for _, slot in self.waiting]

    def own_state(self) -> State:
        return [[list(entry) for entry in self.waiting], self.newest]

    def restore_own(self, state: State) -> None:
        waiting, self.newest = state
        self.waiting = deque((due, slot) for due, slot in waiting)
