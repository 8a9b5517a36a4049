"""`timeLength(T, n)`: the last n events, none older than T.

T = 10, n = 2    clock   0    4    5         14    15
                 in      a    b    c
                 out     +a   +b   -a +c     -b    -c
"""

from __future__ import annotations

from collections import deque

from siddhi.engine.state import State
from siddhi.engine.windows.row_window import Arrival, Emission, RowWindow
from siddhi.engine.windows.window import WINDOWS, WindowContext


@WINDOWS.register("timeLength")
class TimeLengthWindow(RowWindow):
    """A length of 0 holds nothing and lets nothing expire."""

    def __init__(self, context: WindowContext) -> None:
        super().__init__(context)
        duration, length = context.constants()
        self.duration = int(str(duration))
        self.length = int(str(length))
        self.queue: deque[tuple[int, int]] = deque()

    def arrive(self, event: Arrival, out: Emission) -> None:
        self._expire(out)
        if self.length <= 0:
            out.current(event.slot, event.timestamp)
            self.release(event.slot)
            return
        if len(self.queue) >= self.length:
            self._leave(out)
        out.current(event.slot, event.timestamp)
        self.queue.append((event.timestamp, event.slot))
        self.schedule(event.timestamp + self.duration)

    def fire(self, due: int, out: Emission) -> None:
        self._expire(out)

    def _expire(self, out: Emission) -> None:
        while self.queue and self.queue[0][0] + self.duration <= out.clock:
            self._leave(out)

    def _leave(self, out: Emission) -> None:
        _, slot = self.queue.popleft()
        out.expired(slot)
        self.release(slot)

    def held(self) -> list[int]:
        return [slot for _, slot in self.queue]

    def own_state(self) -> State:
        return [list(entry) for entry in self.queue]

    def restore_own(self, state: State) -> None:
        self.queue = deque((timestamp, slot) for timestamp, slot in state)
