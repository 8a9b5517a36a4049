"""`timeLength(T, n)`: the last n events, none older than T.

T = 10, n = 2    clock   0    4    5         14    15
                 in      a    b    c
                 out     +a   +b   -a +c     -b    -c
"""

from __future__ import annotations

from collections import OrderedDict
from heapq import heapify, heappop, heappush

from siddhi.engine.columnar.state_tree import State
from siddhi.engine.operators.windows.base.row_window import Arrival, Emission, RowWindow
from siddhi.engine.operators.windows.base.window import WindowContext


class TimeLengthWindow(RowWindow):
    """A length of 0 stores and expires nothing.

    The oldest event leaves a full window, and every event leaves at its own time. `queue` has the timestamp of the
    event in each slot, in order of arrival; `ends` has the time at which each slot leaves, and may name events that
    have left before.
    """

    def __init__(self, context: WindowContext) -> None:
        super().__init__(context)
        duration, length = context.constants()
        self.duration = int(str(duration))
        self.length = int(str(length))
        self.queue: OrderedDict[int, int] = OrderedDict()
        self.ends: list[tuple[int, int, int]] = []
        self.arrivals = 0

    def arrive(self, event: Arrival, out: Emission) -> None:
        self._expire(out)
        if self.length <= 0:
            out.current(event.slot, event.timestamp)
            self.release(event.slot)
            return
        if len(self.queue) >= self.length:
            self._leave(next(iter(self.queue)), out)
        out.current(event.slot, event.timestamp)
        self.queue[event.slot] = event.timestamp
        end = event.timestamp + self.duration
        heappush(self.ends, (end, self.arrivals, event.slot))
        self.arrivals += 1
        self.schedule(end)

    def fire(self, due: int, out: Emission) -> None:
        self._expire(out)

    def _expire(self, out: Emission) -> None:
        while self.ends and self.ends[0][0] <= out.clock:
            end, _, slot = heappop(self.ends)
            if self.queue.get(slot) == end - self.duration:
                self._leave(slot, out)

    def _leave(self, slot: int, out: Emission) -> None:
        del self.queue[slot]
        out.expired(slot)
        self.release(slot)

    def held(self) -> list[int]:
        return list(self.queue)

    def own_state(self) -> State:
        return [[timestamp, slot] for slot, timestamp in self.queue.items()]

    def restore_own(self, state: State) -> None:
        self.queue = OrderedDict((slot, timestamp) for timestamp, slot in state)
        self.ends = [(timestamp + self.duration, place, slot) for place, (timestamp, slot) in enumerate(state)]
        self.arrivals = len(self.ends)
        heapify(self.ends)
