"""The `unique:` windows that let batches out.

    lengthBatch(k, 2)        in    a1    a2    b1         a3    c1
                             out   ·     ·     +a2 +b1    ·     -a2 -b1 reset +a3 +c1
    firstLengthBatch(k, 2)   out   ·     ·     +a1 +b1    ·     -a1 -b1 reset +a3 +c1

Events of a batch stand in the order in which their keys came, with the clock then as their timestamp.
"""

from __future__ import annotations

from siddhi.engine.columnar.state_tree import State
from siddhi.engine.operators.windows.base.cutting import batch_end
from siddhi.engine.operators.windows.base.row_window import Arrival, Emission
from siddhi.engine.operators.windows.base.window import WindowContext
from siddhi.extensions.unique.batches import Batches


class FirstOrLast(Batches):
    """Stores the last event of each key, or the `first`."""

    first = False

    def take(self, event: Arrival) -> None:
        if self.first and self.key(event) in self.by_key:
            self.release(event.slot)
        else:
            super().take(event)


class UniqueLengthBatchWindow(FirstOrLast):
    """A batch is full with its n-th key, never with none."""

    def __init__(self, context: WindowContext) -> None:
        super().__init__(context)
        self.length = int(str(context.constants()[1]))

    def arrive(self, event: Arrival, out: Emission) -> None:
        self.take(event)
        if len(self.by_key) == self.length:
            self.flush(out)


class UniqueFirstLengthBatchWindow(UniqueLengthBatchWindow):
    """As the base class, with the first event of each key."""

    first = True
    needs_key = True


class UniqueTimeBatchWindow(FirstOrLast):
    """Batches of T by the app's clock, counted from the first event or from a given start."""

    def __init__(self, context: WindowContext) -> None:
        super().__init__(context)
        duration, *start = [int(str(constant)) for constant in self.times(context)]
        self.duration = max(duration, 1)
        self.start_time = start[0] if start else None
        self.boundary: int | None = None
        self.waiting = False

    def times(self, context: WindowContext) -> list[object]:
        """Return the constants that are times: the duration, then the start if there is one."""
        return context.constants()[1:]

    def arrive(self, event: Arrival, out: Emission) -> None:
        self._set_boundary(out.clock)
        self.take(event)

    def fire(self, due: int, out: Emission) -> None:
        if due != self.boundary:
            return
        self.flush(out)
        self.boundary = due + self.duration
        self.waiting = bool(self.last)
        if self.waiting:
            self.schedule(self.boundary)

    def _set_boundary(self, clock: int) -> None:
        """Set the end of the batch in progress to a time after the clock, and its timer."""
        if self.waiting:
            return
        if self.boundary is None:
            start = clock if self.start_time is None else self.start_time
            self.boundary = int(batch_end.py_func(clock, start, self.duration))
        elif self.boundary <= clock:
            self.boundary += ((clock - self.boundary) // self.duration + 1) * self.duration
        self.waiting = True
        self.schedule(self.boundary)

    def more_state(self) -> State:
        return [self.boundary, self.waiting]

    def restore_more(self, state: State) -> None:
        self.boundary, self.waiting = state


class UniqueFirstTimeBatchWindow(UniqueTimeBatchWindow):
    """As the base class, with the first event of each key."""

    first = True
    needs_key = True


class UniqueTimeLengthBatchWindow(UniqueTimeBatchWindow):
    """A batch ends with its time or with its n-th key; after the latter events are dropped until its time is over.

    timeLengthBatch(k, 10, 2)   clock   0    4         6    10   12   13                        20
                                in      a1   b1        a2        c1   a3
                                out          +a1 +b1   ·    ·    ·    -a1 -b1 reset +c1 +a3     ·
    """

    def __init__(self, context: WindowContext) -> None:
        super().__init__(context)
        self.length = int(str(context.constants()[-1]))
        self.full = False

    def times(self, context: WindowContext) -> list[object]:
        return context.constants()[1:-1]

    def arrive(self, event: Arrival, out: Emission) -> None:
        if self.full:
            self.release(event.slot)
            return
        super().arrive(event, out)
        if len(self.by_key) >= self.length:
            self.flush(out)
            self.full = True

    def fire(self, due: int, out: Emission) -> None:
        if not self.full or due != self.boundary:
            super().fire(due, out)
            return
        self.full = False
        self.boundary = due + self.duration
        self.schedule(self.boundary)

    def more_state(self) -> State:
        return [super().more_state(), self.full]

    def restore_more(self, state: State) -> None:
        more, self.full = state
        super().restore_more(more)
