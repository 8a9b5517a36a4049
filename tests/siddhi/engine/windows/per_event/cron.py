"""`cron('…')`: the events between two times of a Quartz cron expression.

*/10 * * * * ?   clock  1    4    10           12   20                 30   33   40
                 in     a    b                 c                            d
                 out              +a +b             -a -b +c           ·         -c +d

The events of one period pass at its end and expire at the end of the next period that has events.
"""

from __future__ import annotations

from siddhi.cron import parse_cron
from siddhi.engine.columnar.state_tree import State
from siddhi.engine.operators.windows.base.row_window import Arrival, Emission, RowWindow
from siddhi.engine.operators.windows.base.window import WindowContext


class CronWindow(RowWindow):
    """`opened` has slot and timestamp of the events since the last firing, `last` the slots of those before it.

    There is no reset between two periods: the expired events are always emitted, so that aggregates remove them.
    """

    def __init__(self, context: WindowContext) -> None:
        super().__init__(context)
        (text,) = context.constants()
        self.times = parse_cron(str(text))
        self.opened: list[list[int]] = []
        self.last: list[int] = []

    def arrive(self, event: Arrival, out: Emission) -> None:
        if not self.opened:
            due = self.times.next_after(event.clock)
            if due is None:  # the last time of the cron expression is over: nothing is emitted any more
                self.release(event.slot)
                return
            self.schedule(due)
        self.opened.append([event.slot, event.timestamp])

    def fire(self, due: int, out: Emission) -> None:
        for slot in self.last:
            out.expired(slot)
            self.release(slot)
        for slot, timestamp in self.opened:
            out.current(slot, timestamp)
        self.last = [slot for slot, _ in self.opened]
        self.opened = []

    def held(self) -> list[int]:
        return self.last

    def own_state(self) -> State:
        return [[list(pair) for pair in self.opened], list(self.last)]

    def restore_own(self, state: State) -> None:
        self.opened, self.last = state
