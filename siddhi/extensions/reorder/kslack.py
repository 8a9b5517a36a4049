"""`#reorder:kslack(attribute)`.

    attribute   1    4    3     5          9               (K is 0, and 2 from the fourth event on)
    out         +1   +4   ·     +3         +5

K is the most that an event has been behind the greatest so far. With each new greatest value everything that lies K or
more behind it leaves, in order.
"""

from __future__ import annotations

from bisect import insort

import numpy as np

from siddhi.analysis import model
from siddhi.engine.columnar.batch import EventBatch
from siddhi.engine.columnar.state_tree import State
from siddhi.engine.operators.base.operator import Step
from siddhi.engine.operators.expressions.compiler import ExpressionCompiler
from siddhi.engine.operators.expressions.evaluation import Evaluation, to_column
from siddhi.engine.operators.filters import with_value
from siddhi.engine.operators.windows.base.row_window import Arrival, Emission, RowWindow
from siddhi.engine.operators.windows.base.window import WindowContext
from siddhi.extensions.stateful import stateful_stream_function
from siddhi.language.ast import AttributeType

_UNLIMITED = np.iinfo(np.int64).max


class KSlack(RowWindow):
    """The KSlack algorithm, which sorts late events by holding all of them back.

    `waiting` holds the events since the last new greatest value, `buffer` the rest, sorted: [value, number, slot].
    """

    def __init__(self, call: model.HandlerCall, compiler: ExpressionCompiler) -> None:
        columns = dict(call.output.attributes)
        context = WindowContext(call, compiler.context, columns, expired=False, compiler=compiler, selected=())
        super().__init__(context)
        for name, type_ in columns.items():
            compiler.compile(model.AttributeValue(0, name, type_))
        self.value = context.arguments()[0]
        options = self.options(context)
        discard = options.pop() if options and isinstance(options[-1], bool) else False
        timeout, maximum = [*options, None, None][:2]
        every = _given(timeout)
        self.timeout = None if every is None else max(every, 1)
        limit = _given(maximum)
        self.maximum = _UNLIMITED if limit is None else limit
        self.discard = discard
        self.origin = 0
        self.armed = False
        self.slack = 0
        self.greatest = 0
        self.last_sent = -1
        self.count = 0
        self.waiting: list[list[int]] = []
        self.buffer: list[list[int]] = []
        self.values: list[int] = []

    def options(self, context: WindowContext) -> list[object]:
        """Return the constants for timeout, greatest K and whether late events are dropped, as far as they are given.

        The last one is recognised by its type, so it may follow any of the others.
        """
        return context.constants()[1:]

    def start(self, clock_ms: int) -> None:
        self.origin = clock_ms

    def accepted(self, batch: EventBatch, step: Step) -> EventBatch:
        return with_value(batch, self.value, step, "the attribute by which events are sorted")

    def prepare(self, batch: EventBatch) -> None:
        value = self.value.evaluate(Evaluation(batch))
        self.values = to_column(value, AttributeType.LONG, self.slots.pool, batch.size).values.tolist()

    def arrive(self, event: Arrival, out: Emission) -> None:
        value = self.values[event.row]
        if self.discard and value < self.last_sent:
            self.release(event.slot)
            return
        self.waiting.append([value, self.count, event.slot])
        self.count += 1
        if value > self.greatest:
            self.greatest = value
            behind = value - min(entry[0] for entry in self.waiting)
            self.slack = self.slack_for(behind)
            self._merge()
            self._let_out(value - self.slack, out)
        self._arm(out.clock)

    def slack_for(self, behind: int) -> int:
        """Return K after an event arrived `behind` the greatest."""
        return max(self.slack, min(behind, self.maximum))

    def fire(self, due: int, out: Emission) -> None:
        self.armed = False
        self._merge()
        self._let_out(_UNLIMITED, out)

    def _merge(self) -> None:
        for entry in self.waiting:
            insort(self.buffer, entry)
        self.waiting = []

    def _let_out(self, up_to: int, out: Emission) -> None:
        while self.buffer and self.buffer[0][0] <= up_to:
            value, _, slot = self.buffer.pop(0)
            self.last_sent = value
            out.current(slot, int(self.slots.timestamps[slot]))
            self.release(slot)

    def _arm(self, clock: int) -> None:
        """Set a timer for the next tick since the start while events are held back."""
        if self.timeout is None or self.armed or not (self.waiting or self.buffer):
            return
        self.armed = True
        self.schedule(clock + self.timeout - (clock - self.origin) % self.timeout)

    def held(self) -> list[int]:
        return [slot for _, _, slot in sorted(self.buffer + self.waiting)]

    def own_state(self) -> State:
        numbers = [self.origin, self.armed, self.slack, self.greatest, self.last_sent, self.count]
        return [numbers, [list(entry) for entry in self.waiting], [list(entry) for entry in self.buffer]]

    def restore_own(self, state: State) -> None:
        numbers, self.waiting, self.buffer = state
        self.origin, self.armed, self.slack, self.greatest, self.last_sent, self.count = numbers


def _given(constant: object) -> int | None:
    """Return the number, or None for none or -1, which means no limit."""
    number = -1 if constant is None else int(str(constant))
    return None if number < 0 else number


stateful_stream_function("kslack", "reorder", KSlack)
