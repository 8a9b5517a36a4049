"""The `unique:` windows that let batches out.

    lengthBatch(k, 2)        in    a1    a2    b1         a3    c1
                             out   ·     ·     +a2 +b1    ·     -a2 -b1 reset +a3 +c1
    firstLengthBatch(k, 2)   out   ·     ·     +a1 +b1    ·     -a1 -b1 reset +a3 +c1

Events of a batch stand in the order in which their keys came, with the clock then as their timestamp.
"""

from __future__ import annotations

from siddhi.engine.state import State
from siddhi.engine.windows.cutting import batch_end
from siddhi.engine.windows.row_window import Arrival, Emission
from siddhi.engine.windows.window import WINDOWS, WindowContext
from siddhi.extensions.unique.keys import KeyedWindow


class Batches(KeyedWindow):
    """The batch in progress lies in `by_key`, the slots of the last one in `last`."""

    first = False

    def __init__(self, context: WindowContext) -> None:
        super().__init__(context)
        self.last: list[int] = []

    def take(self, event: Arrival) -> None:
        """The event is in the batch in progress, unless the first of its key stays."""
        key = self.key(event)
        if self.first and key in self.by_key:
            self.release(event.slot)
            return
        replaced = self.by_key.get(key)
        if replaced is not None:
            self.release(replaced)
        self.by_key[key] = event.slot

    def flush(self, out: Emission, *, keep_timestamps: bool = False, expired_at: int | None = None) -> None:
        """The last batch has expired and the one in progress is the last."""
        out.new_chunk()
        for slot in self.last:
            if self.expired:
                out.expired(slot, expired_at)
            self.release(slot)
        self.last = list(self.by_key.values())
        self.by_key = {}
        if self.last:
            out.reset(self.last[0])
            for slot in self.last:
                out.current(slot, int(self.slots.timestamps[slot]) if keep_timestamps else out.clock)

    def held(self) -> list[int]:
        return self.last

    def own_state(self) -> State:
        return [self.saved_keys(), self.last, self.more_state()]

    def restore_own(self, state: State) -> None:
        keys, self.last, more = state
        self.restore_keys(keys)
        self.restore_more(more)

    def more_state(self) -> State:
        """What a window remembers besides."""
        return None

    def restore_more(self, state: State) -> None:
        """The counterpart of `more_state`."""


@WINDOWS.register("lengthBatch", "unique")
class UniqueLengthBatchWindow(Batches):
    """A batch is full with its n-th key, never with none."""

    def __init__(self, context: WindowContext) -> None:
        super().__init__(context)
        self.length = int(str(context.constants()[1]))

    def arrive(self, event: Arrival, out: Emission) -> None:
        self.take(event)
        if len(self.by_key) == self.length:
            self.flush(out)


@WINDOWS.register("firstLengthBatch", "unique")
class UniqueFirstLengthBatchWindow(UniqueLengthBatchWindow):
    """Of each key the first event stays."""

    first = True
    needs_key = True


@WINDOWS.register("timeBatch", "unique")
class UniqueTimeBatchWindow(Batches):
    """Batches of T by the app's clock, counted from the first event or from a given start."""

    def __init__(self, context: WindowContext) -> None:
        super().__init__(context)
        duration, *start = [int(str(constant)) for constant in self.times(context)]
        self.duration = max(duration, 1)
        self.start_time = start[0] if start else None
        self.boundary: int | None = None
        self.waiting = False

    def times(self, context: WindowContext) -> list[object]:
        """The constants that are times: the duration, then the start if there is one."""
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
        """The end of the batch in progress lies ahead of the clock, and its timer is set."""
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


@WINDOWS.register("firstTimeBatch", "unique")
class UniqueFirstTimeBatchWindow(UniqueTimeBatchWindow):
    """Of each key the first event stays."""

    first = True
    needs_key = True


@WINDOWS.register("timeLengthBatch", "unique")
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
