"""`unique:externalTimeBatch`, without and with a timeout.

T = 10, timeout 5   attribute   0    4           6                    11
                    key         a    a           b                    c
                    clock       0    4     5     6    10              11    16
                    out                    +a         -a reset +a +b        -a -b reset +c

A batch is emitted after a timeout by the app's clock if no event has opened the next one. Late events of the batch
cause it to be emitted again as a whole: the events emitted before expire and are emitted once more, with the new events
in their keys' positions or at the end.
"""

from __future__ import annotations

from siddhi.analysis import model
from siddhi.engine.columnar.batch import EventBatch
from siddhi.engine.columnar.state_tree import State
from siddhi.engine.operators.base.operator import Step
from siddhi.engine.operators.expressions.evaluation import Evaluation, to_column
from siddhi.engine.operators.filters import with_value
from siddhi.engine.operators.windows.base.cutting import batch_end
from siddhi.engine.operators.windows.base.row_window import Arrival, Emission
from siddhi.engine.operators.windows.base.window import WINDOWS, WindowContext, WindowOperator
from siddhi.extensions.unique.batches import Batches
from siddhi.extensions.unique.keys import Key
from siddhi.language.ast import AttributeType


class UniqueExternalTimeBatchWindow(Batches):
    """Batches of T by an attribute; an event at or after the end of the batch emits it.

    There are no timers. If the attribute is to be replaced, events have the end of their batch in it.
    """

    def __init__(self, context: WindowContext) -> None:
        super().__init__(context)
        self.time = context.arguments()[1]
        duration, *start = [int(str(constant)) for constant in context.constants()[2:4]]
        self.duration = max(duration, 1)
        self.start_time = start[0] if start else None
        attribute = context.call.arguments[1]
        replaces = True in context.constants()[5:]
        self.replaced = attribute.name if replaces and isinstance(attribute, model.AttributeValue) else None
        self.end: int | None = None
        self.newest = 0
        self.times: list[int] = []

    def accepted(self, batch: EventBatch, step: Step) -> EventBatch:
        return with_value(batch, self.time, step, "the time of 'unique:externalTimeBatch'")

    def prepare(self, batch: EventBatch) -> None:
        super().prepare(batch)
        value = self.time.evaluate(Evaluation(batch))
        column = to_column(value, AttributeType.LONG, self.slots.pool, batch.size)
        self.times = column.values.tolist()

    def arrive(self, event: Arrival, out: Emission) -> None:
        time = self.times[event.row]
        if self.end is None:
            start = time if self.start_time is None else self.start_time
            self.end = int(batch_end.py_func(time, start, self.duration))
            self.newest = time
        elif time >= self.end:
            self.end_batch(out)
            self.end += ((time - self.end) // self.duration + 1) * self.duration
        self.newest = max(self.newest, time)
        if self.replaced is not None:
            self.slots.put(self.replaced, event.slot, self.end)
        self.take(event)

    def end_batch(self, out: Emission) -> None:
        """End the batch in progress and emit it."""
        self.flush(out, keep_timestamps=True, expired_at=self.newest)

    def more_state(self) -> State:
        return [self.end, self.newest]

    def restore_more(self, state: State) -> None:
        self.end, self.newest = state


class TimedUniqueExternalTimeBatchWindow(UniqueExternalTimeBatchWindow):
    """Batches by an attribute, emitted early after a timeout.

    `sent` is the last batch by key; `flushed` is set when it is the one in progress, emitted by the timeout. Timers
    tick every `timeout` from the last event that opened a batch; when there is nothing to emit, `idle` is set instead
    of a timer.
    """

    def __init__(self, context: WindowContext) -> None:
        super().__init__(context)
        self.timeout = max(int(str(context.constants()[4])), 1)
        self.sent: dict[Key, int] = {}
        self.flushed = False
        self.due = 0
        self.idle = False

    def arrive(self, event: Arrival, out: Emission) -> None:
        opens = self.end is None or self.times[event.row] >= self.end
        super().arrive(event, out)
        if opens:
            self._wait(out.clock)
        elif self.idle:
            self._wait(out.clock - (out.clock - self.due) % self.timeout)

    def fire(self, due: int, out: Emission) -> None:
        if self.due > out.clock:
            return
        if self.flushed and not self.by_key:
            self.idle = True
            return
        self._let_out(out)
        self.flushed = True
        self._wait(out.clock)

    def end_batch(self, out: Emission) -> None:
        self._let_out(out)
        self.flushed = False

    def _wait(self, clock: int) -> None:
        self.idle = False
        self.due = clock + self.timeout
        self.schedule(self.due)

    def _let_out(self, out: Emission) -> None:
        """Emit the batch in progress.

        Events that a timeout has emitted already are emitted again if there is something new.
        """
        if self.flushed and not self.by_key:
            return
        out.new_chunk()
        for slot in self.sent.values():
            if self.expired:
                out.expired(slot, self.newest)
        gone = [slot for key, slot in self.sent.items() if not self.flushed or key in self.by_key]
        for slot in gone:
            self.release(slot)
        self.sent = {**self.sent, **self.by_key} if self.flushed else self.by_key
        if self.by_key:
            out.reset(next(iter(self.by_key.values())))
            for slot in self.sent.values():
                out.current(slot, int(self.slots.timestamps[slot]))
        self.by_key = {}

    def held(self) -> list[int]:
        return list(self.sent.values())

    def more_state(self) -> State:
        sent = [[list(key), slot] for key, slot in self.sent.items()]
        return [super().more_state(), sent, self.flushed, self.due, self.idle]

    def restore_more(self, state: State) -> None:
        more, sent, self.flushed, self.due, self.idle = state
        super().restore_more(more)
        self.sent = {tuple(key): slot for key, slot in sent}


@WINDOWS.register("externalTimeBatch", "unique")
def unique_external_time_batch(context: WindowContext) -> WindowOperator:
    """Return the window with or without a timeout."""
    timed = any(int(str(timeout)) > 0 for timeout in context.constants()[4:5])
    return TimedUniqueExternalTimeBatchWindow(context) if timed else UniqueExternalTimeBatchWindow(context)
