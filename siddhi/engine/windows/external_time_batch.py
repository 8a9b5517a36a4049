"""`externalTimeBatch(attribute, T)`: events in batches of T by an attribute of type long.

    T = 10   attribute   0    4    11             15   23
             in          a    b    c              d    e
             out                   reset +a +b         -a -b reset +c +d

A batch ends when an event at or behind its end comes, which opens the next. Ends are counted from the first event, or
aligned to a start. Resets and expired events carry the newest attribute value as their timestamp.
"""

from __future__ import annotations

import numpy as np

from siddhi.analysis import model
from siddhi.engine.arrays import Int64Array
from siddhi.engine.batch import Column, EventBatch
from siddhi.engine.expressions.evaluation import Evaluation, broadcast
from siddhi.engine.expressions.leaves import scalar_or_none
from siddhi.engine.kernels import kernel, kernel_array
from siddhi.engine.kinds import CURRENT, EXPIRED, RESET
from siddhi.engine.operator import Step
from siddhi.engine.state import State
from siddhi.engine.store import RowStore
from siddhi.engine.windows.emission import emit, emitted, new_emission
from siddhi.engine.windows.row_window import Arrival, Emission, RowWindow
from siddhi.engine.windows.window import WINDOWS, Window, WindowContext
from siddhi.language.ast import AttributeType

_UNSET = np.iinfo(np.int64).min
_FIRST, _OPENED, _END, _NEWEST, _START = 0, 1, 2, 3, 4
"""Lines of the state: [FIRST, OPENED) is the last batch, the rest the one that ends at END; NEWEST is the newest time
seen."""


@kernel
def batch_end(time, start, duration):  # type: ignore[no-untyped-def]
    """The end of the batch that `time` falls into."""
    past = time - start
    return time + duration - (past - past // duration * duration)


@kernel
def _run(duration, expired, state, begin, times, starts, stamps, offset, orders, clocks, out):  # type: ignore[no-untyped-def]
    """Returns the number of rows written."""
    count = 0
    chunk = 0
    for row in range(len(times)):
        new = begin + row
        time, order, clock = times[row], orders[row], clocks[row]
        if state[_END] == _UNSET:
            if state[_START] == _UNSET:
                state[_START] = starts[row]
            state[_END] = batch_end(time, state[_START], duration)
        state[_NEWEST] = max(state[_NEWEST], time)
        if time < state[_END]:
            continue
        chunk += 1
        newest = state[_NEWEST]
        if expired:
            for old in range(state[_FIRST], state[_OPENED]):
                count = emit(out, count, old, EXPIRED, newest, order, clock, chunk)
        if new > state[_OPENED]:
            count = emit(out, count, state[_OPENED], RESET, newest, order, clock, chunk)
        for current in range(state[_OPENED], new):
            count = emit(out, count, current, CURRENT, stamps[current - offset], order, clock, chunk)
        state[_FIRST] = state[_OPENED] if expired else new
        state[_OPENED] = new
        state[_END] = batch_end(newest, state[_START], duration)
    return count


class ExternalTimeBatchWindow(Window):
    """Without a timeout only events make batches go out."""

    def __init__(self, context: WindowContext) -> None:
        self.time, duration, *start = context.arguments()
        self.start_at = start[0] if start else self.time
        self.duration = int(str(scalar_or_none(duration)))
        self.expired = context.expired
        self.store = RowStore(context.columns, context.operator.pool)
        self.lines = np.array([0, 0, _UNSET, _UNSET, _UNSET], dtype=np.int64)

    def process(self, batch: EventBatch, step: Step) -> EventBatch:
        held = len(self.store)
        evaluation = Evaluation(batch)
        times = broadcast(self.time.evaluate(evaluation), batch.size).values
        starts = broadcast(self.start_at.evaluate(evaluation), batch.size).values
        begin = self.store.append(batch)
        stamps, offset = self.store.timestamps()
        out = new_emission(2 * (held + batch.size) + batch.size)
        count = _run(
            self.duration,
            self.expired,
            self.lines,
            begin,
            kernel_array(times, np.int64),
            kernel_array(starts, np.int64),
            stamps,
            offset,
            kernel_array(batch.orders),
            kernel_array(batch.clocks),
            out,
        )
        result = emitted(out, count, self.store)
        self.store.forget(int(self.lines[_FIRST]))
        return result

    def visible(self) -> Int64Array:
        return np.arange(int(self.lines[_FIRST]), int(self.lines[_OPENED]))

    def own_state(self) -> State:
        return self.lines.copy()

    def restore_own(self, state: State) -> None:
        self.lines = state


class TimedExternalTimeBatchWindow(RowWindow):
    """With a timeout a batch goes out as well when no event has ended it for so long by the app's clock.

    Events that come for it later make it go out again, whole: what was sent expires and comes once more, with the new
    events behind.
    """

    def __init__(self, context: WindowContext) -> None:
        super().__init__(context)
        self.time, duration, self.start_at, timeout, *replaced = context.arguments()
        self.duration = int(str(scalar_or_none(duration)))
        self.timeout = int(str(scalar_or_none(timeout)))
        replaces = bool(replaced and scalar_or_none(replaced[0]))
        attribute = context.call.arguments[0]
        self.replaced = attribute.name if replaces and isinstance(attribute, model.AttributeValue) else None
        self.sent: list[tuple[int, int]] = []
        self.opened: list[tuple[int, int]] = []
        self.start_time: int | None = None
        self.end = 0
        self.newest = _UNSET
        self.flushed = False
        self.due = 0
        self._times: list[int] = []
        self._starts: list[int] = []
        self._ends: list[int] = []

    def prepare(self, batch: EventBatch) -> None:
        evaluation = Evaluation(batch)
        self._times = broadcast(self.time.evaluate(evaluation), batch.size).values.tolist()
        self._starts = broadcast(self.start_at.evaluate(evaluation), batch.size).values.tolist()

    def arrive(self, event: Arrival, out: Emission) -> None:
        time = self._times[event.row]
        if self.start_time is None:
            self.start_time = self._starts[event.row]
            self.end = int(batch_end(time, self.start_time, self.duration))
            self._wait(event.clock)
        self.newest = max(self.newest, time)
        if time >= self.end:
            out.new_chunk()
            if self.flushed:
                self._send_again(out)
                self.flushed = False
            else:
                self._flush(out)
            self.end = int(batch_end(self.newest, self.start_time, self.duration))
            self._wait(event.clock)
        self.opened.append((event.slot, event.timestamp))

    def fire(self, due: int, out: Emission) -> None:
        if self.due > out.clock:
            return
        if self.flushed:
            self._send_again(out)
        else:
            self._flush(out)
            self.flushed = True
        self._wait(out.clock)

    def _wait(self, clock: int) -> None:
        self.due = clock + self.timeout
        self.schedule(self.due)

    def _flush(self, out: Emission) -> None:
        """The last batch expires and the open one goes out."""
        for slot, _ in self.sent:
            self._expire(slot, out)
            self.release(slot)
        self.sent = []
        self._let_out(out)

    def _send_again(self, out: Emission) -> None:
        """What went out at a timeout goes out again with what came since."""
        if self.opened:
            for slot, _ in self.sent:
                self._expire(slot, out)
            self._let_out(out)

    def _expire(self, slot: int, out: Emission) -> None:
        if self.expired:
            out.expired(slot, self.newest)

    def _let_out(self, out: Emission) -> None:
        if not self.opened:
            return
        out.reset(self.opened[0][0])
        self.sent.extend(self.opened)
        self.opened = []
        for slot, timestamp in self.sent:
            out.current(slot, timestamp)
        self._ends.extend([self.end] * (len(out.slots) - len(self._ends)))

    def process(self, batch: EventBatch, step: Step) -> EventBatch:
        self._ends = []
        result = super().process(batch, step)
        if self.replaced is None or self.replaced not in result.columns:
            return result
        ends = self._ends + [self.end] * (result.size - len(self._ends))
        column = Column(AttributeType.LONG, self.slots.pool, values=np.array(ends, dtype=np.int64))
        return result.with_columns({**result.columns, self.replaced: column})

    def held(self) -> list[int]:
        return [slot for slot, _ in self.sent]

    def own_state(self) -> State:
        batches = [[list(row) for row in rows] for rows in (self.sent, self.opened)]
        return [batches, self.start_time, self.end, self.newest, self.flushed, self.due]

    def restore_own(self, state: State) -> None:
        batches, self.start_time, self.end, self.newest, self.flushed, self.due = state
        self.sent, self.opened = ([(slot, timestamp) for slot, timestamp in rows] for rows in batches)


@WINDOWS.register("externalTimeBatch")
def external_time_batch(context: WindowContext) -> Window:
    """The window with or without a timeout."""
    return (
        TimedExternalTimeBatchWindow(context) if len(context.call.arguments) > 3 else ExternalTimeBatchWindow(context)
    )
