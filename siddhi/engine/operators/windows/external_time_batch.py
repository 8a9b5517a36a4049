"""`externalTimeBatch(attribute, T)`: events in batches of T by an attribute of type long.

    T = 10   attribute   0    4    11             15   23
             in          a    b    c              d    e
             out                   reset +a +b         -a -b reset +c +d

A batch ends when an event at or behind its end comes, which opens the next. Ends are counted from the first event, or
aligned to a start. An event without a time fails. Resets and expired events carry the newest attribute value as their
timestamp.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from siddhi.analysis import model
from siddhi.engine.columnar.batch import EventBatch
from siddhi.engine.columnar.state_tree import State
from siddhi.engine.jit.arrays import AnyArray, Int64Array
from siddhi.engine.jit.bits import address_of
from siddhi.engine.jit.kernels import kernel_part, state_kernel
from siddhi.engine.jit.memory import word_at
from siddhi.engine.operators.base.operator import Step
from siddhi.engine.operators.expressions.evaluation import Evaluation, ExpressionNode, broadcast
from siddhi.engine.operators.expressions.leaves import ColumnNode, scalar_or_none
from siddhi.engine.operators.filters import with_value
from siddhi.engine.operators.windows.base.cutting import (
    CLOCK,
    NO_CUTS,
    ORDER,
    ROWS,
    STAMP,
    Cutter,
    CuttingWindow,
    batch_end,
)
from siddhi.engine.operators.windows.base.row_window import Arrival, Emission, RowWindow
from siddhi.engine.operators.windows.base.window import WINDOWS, WindowContext, WindowOperator
from siddhi.engine.operators.windows.keyed.layout import EXTERNAL_BATCH_KIND
from siddhi.engine.operators.windows.keyed.window import KeyedWindow, Plan
from siddhi.engine.tuning import BATCH_END_BLOCK_ROWS

_UNSET = np.iinfo(np.int64).min
_NOBODY = -1
"""The slot of a missing row."""
_TIME = "the time of 'externalTimeBatch'"

_END, _START = 0, 1
"""The state: the end of the batch in progress, a bound above all times, and the origin of ends."""


@kernel_part
def _latest(times_at, row, rows):  # type: ignore[no-untyped-def]
    """Return the latest of the times from `row` up to `rows`, computed without branches."""
    latest = np.int64(word_at(times_at + 8 * row))
    for other in range(row + 1, rows):
        latest = max(latest, np.int64(word_at(times_at + 8 * other)))
    return latest


@state_kernel
def _cut(duration, aligned, state, rows, times_at, starts_at, cuts):  # type: ignore[no-untyped-def]
    """Return the number of cuts; the int64 of `rows` rows begin at the two addresses.

    The first batch begins at a start from the event, however far ahead; a constant one (`aligned`) aligns its end. The
    newest event of all determines the cuts.
    """
    count = 0
    end, start = state[_END], state[_START]
    for block in range(0, rows, BATCH_END_BLOCK_ROWS):
        stop = min(block + BATCH_END_BLOCK_ROWS, rows)
        if end != _UNSET and _latest(times_at, block, stop) < end:
            continue
        for row in range(block, stop):
            time = np.int64(word_at(times_at + 8 * row))
            if end == _UNSET:
                if start == _UNSET:
                    start = np.int64(word_at(starts_at + 8 * row))
                end = start + duration
                if aligned or time >= start:
                    end = batch_end(time, start, duration)
            if time >= end:
                cuts[ROWS, count] = row
                cuts[STAMP, count] = time
                count += 1
                end = batch_end(time, start, duration)
    state[_END], state[_START] = end, start
    return count


def _numbers(node: ExpressionNode, batch: EventBatch) -> Int64Array:
    """Return the values of `node`, a long, for every row, contiguously."""
    if isinstance(node, ColumnNode):
        return np.ascontiguousarray(batch.columns[node.column].values)
    return np.ascontiguousarray(broadcast(node.evaluate(Evaluation(batch)), batch.size).values, np.int64)


class ExternalTimeCutter(Cutter):
    """A cutter without a timeout: only events end batches."""

    notes_looks = False

    def __init__(self, context: WindowContext) -> None:
        self.time, duration, *start = context.arguments()
        self.start_at = start[0] if start else self.time
        self.aligned = bool(start) and scalar_or_none(self.start_at) is not None
        self.duration = int(str(scalar_or_none(duration)))
        self.expired = context.expired
        self.lines = np.full(2, _UNSET, dtype=np.int64)
        self._cuts: Int64Array = np.empty((4, 0), dtype=np.int64)

    def accepted(self, batch: EventBatch, step: Step) -> EventBatch:
        return with_value(batch, self.time, step, _TIME)

    def cut(self, batch: EventBatch, step: Step, last: int, opened: int) -> Int64Array:
        times = _numbers(self.time, batch)
        starts = times if self.start_at is self.time else _numbers(self.start_at, batch)
        if batch.size > self._cuts.shape[1]:
            self._cuts = np.empty((4, batch.size), dtype=np.int64)
        count = _cut(
            self.duration, self.aligned, self.lines, batch.size, address_of(times), address_of(starts), self._cuts
        )
        if not count:
            return NO_CUTS
        cuts = self._cuts[:, :count].copy()
        cuts[ORDER], cuts[CLOCK] = batch.orders[cuts[ROWS]], batch.clocks[cuts[ROWS]]
        return cuts

    def ends_none(self, values: Mapping[str, AnyArray], rows: int, opened: int) -> bool:
        end, time = self.lines.item(_END), self.time
        if end == _UNSET or not isinstance(time, ColumnNode):
            return False
        times = values[time.column]
        return bool(times.item(0) < end if rows == 1 else times[:rows].max() < end)

    def snapshot(self) -> State:
        """Return the state, with a bound for the newest time between snapshots.

        It is only needed that the bound is not below the end.
        """
        return self.lines[[_END, _END, _START]]

    def restore(self, state: State) -> None:
        self.lines = state[[0, -1]]


class TimedExternalTimeBatchWindow(RowWindow):
    """Emits a batch after a timeout as well, if no event has ended it for so long by the app's clock.

    Late events of that batch cause it to be emitted again as a whole: the rows emitted before expire and are emitted
    once more, followed by the new events. The reset has the values of the first event since the last batch that was
    emitted again; a batch emitted again leaves the reset to the next batch. `replaced` is the attribute that gets the
    end of the batch which its event entered, and keeps it when that expires. A timeout of 0 means none, as in Siddhi.
    """

    expires_if_wanted = True

    def __init__(self, context: WindowContext) -> None:
        super().__init__(context)
        self.time, duration, self.start_at, timeout, *replaced = context.arguments()
        self.aligned = scalar_or_none(self.start_at) is not None
        self.duration = int(str(scalar_or_none(duration)))
        self.timeout = int(str(scalar_or_none(timeout)))
        replaces = bool(replaced and scalar_or_none(replaced[0]))
        attribute = context.call.arguments[0]
        self.replaced = attribute.name if replaces and isinstance(attribute, model.AttributeValue) else None
        self.sent: list[tuple[int, int]] = []
        self.opened: list[tuple[int, int]] = []
        self.standing = _NOBODY
        self.start_time: int | None = None
        self.end = 0
        self.newest = _UNSET
        self.flushed = False
        self.due = 0
        self._times: list[int] = []
        self._starts: list[int] = []

    def accepted(self, batch: EventBatch, step: Step) -> EventBatch:
        return with_value(batch, self.time, step, _TIME)

    def prepare(self, batch: EventBatch) -> None:
        evaluation = Evaluation(batch)
        self._times = broadcast(self.time.evaluate(evaluation), batch.size).values.tolist()
        self._starts = broadcast(self.start_at.evaluate(evaluation), batch.size).values.tolist()

    def arrive(self, event: Arrival, out: Emission) -> None:
        time = self._times[event.row]
        if self.start_time is None:
            self.start_time = self._starts[event.row]
            self.end = self.start_time + self.duration
            if self.aligned or time >= self.start_time:
                self.end = int(batch_end.py_func(time, self.start_time, self.duration))
            self._wait(event.clock)
        self.newest = max(self.newest, time)
        if time >= self.end:
            out.new_chunk()
            if self.flushed:
                self._send_again(out)
                self.flushed = False
            else:
                self._flush(out)
            self.end = int(batch_end.py_func(self.newest, self.start_time, self.duration))
            self._wait(event.clock)
        if self.replaced is not None:
            self.slots.put(self.replaced, event.slot, self.end)
        self.opened.append((event.slot, event.timestamp))
        if self.standing == _NOBODY:
            self.standing = event.slot

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
        if self.timeout > 0:
            self.due = clock + self.timeout
            self.schedule(self.due)

    def _flush(self, out: Emission) -> None:
        """Expire the last batch and emit the open one."""
        leaving = {slot for slot, _ in self.sent}
        for slot, _ in self.sent:
            self._expire(slot, out)
        self.sent = []
        if self.opened:
            self._let_out(out)
            leaving.add(self.standing)
            self.standing = _NOBODY
        for slot in leaving - {self.standing, *(slot for slot, _ in self.sent)}:
            self.release(slot)

    def _send_again(self, out: Emission) -> None:
        """Emit the rows of a timeout again, together with later rows."""
        if self.opened:
            for slot, _ in self.sent:
                self._expire(slot, out)
            self._let_out(out)

    def _expire(self, slot: int, out: Emission) -> None:
        if self.expired:
            out.expired(slot, self.newest)

    def _let_out(self, out: Emission) -> None:
        out.reset(self.standing)
        self.sent.extend(self.opened)
        self.opened = []
        for slot, timestamp in self.sent:
            out.current(slot, timestamp)

    def held(self) -> list[int]:
        return [slot for slot, _ in self.sent]

    def own_state(self) -> State:
        batches = [[list(row) for row in rows] for rows in (self.sent, self.opened)]
        return [batches, self.standing, self.start_time, self.end, self.newest, self.flushed, self.due]

    def restore_own(self, state: State) -> None:
        batches, self.standing, self.start_time, self.end, self.newest, self.flushed, self.due = state
        self.sent, self.opened = ([(slot, timestamp) for slot, timestamp in rows] for rows in batches)


@WINDOWS.register("externalTimeBatch")
def external_time_batch(context: WindowContext) -> WindowOperator:
    """Return the window with or without a timeout."""
    if len(context.call.arguments) > 3:
        return TimedExternalTimeBatchWindow(context)
    cutter = ExternalTimeCutter(context)
    if not context.operator.partitioned:
        return CuttingWindow(context, cutter)

    def lines(batch: EventBatch, _slots: Int64Array, _window: KeyedWindow) -> list[Int64Array]:
        return [_numbers(cutter.time, batch), _numbers(cutter.start_at, batch)]

    plan = Plan(
        EXTERNAL_BATCH_KIND, span=cutter.duration, origin=0 if cutter.aligned else None, sort_lines=2, lines=lines,
        accepted=cutter.accepted,
    )  # fmt: skip
    return KeyedWindow(context, plan)
