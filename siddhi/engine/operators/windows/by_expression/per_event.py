"""Expression windows that are evaluated event by event.

They support expressions that are attributes of the events, and those that the compiled loop cannot evaluate.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace

import numpy as np

from siddhi.analysis import model
from siddhi.analysis.catalogue import builtin_registry
from siddhi.analysis.definition.windows import analyse_window_condition, spans_keys
from siddhi.analysis.expression.walk import has_aggregate
from siddhi.engine.columnar.batch import EventBatch
from siddhi.engine.columnar.column import Column
from siddhi.engine.columnar.kinds import CURRENT, EXPIRED, RESET
from siddhi.engine.columnar.state_tree import State
from siddhi.engine.jit.arrays import Int64Array
from siddhi.engine.operators.base.operator import OperatorContext, Stateful, Step
from siddhi.engine.operators.base.scope import EVENT_TIMESTAMP
from siddhi.engine.operators.expressions.aggregation import AggregateNode
from siddhi.engine.operators.expressions.compiler import ExpressionCompiler
from siddhi.engine.operators.expressions.evaluation import Evaluation, ExpressionNode, to_column
from siddhi.engine.operators.expressions.leaves import scalar_or_none
from siddhi.engine.operators.filters import drop_failed
from siddhi.engine.operators.patterns.base.references import references
from siddhi.engine.operators.windows.base.row_window import Arrival, Emission, RowWindow
from siddhi.engine.operators.windows.base.window import WindowContext
from siddhi.errors import SiddhiError
from siddhi.language.ast import AttributeType

_NOW = np.zeros(1, dtype=np.int64)
_FRESH = np.ones(1, dtype=np.bool_)


@dataclass(frozen=True, slots=True)
class WindowView:
    """A view of a window for an evaluation: the slots of an event and of the ends of the window.

    The event arrives (current), leaves (expired) or is reset.
    """

    slot: int
    first: int
    last: int
    kind: int = CURRENT


class Condition:
    """One expression over a window's events, with the state of its aggregates.

    With aggregates on the right of `and` or `or`, each side is a separate condition: as in Siddhi, the right one
    processes no event and no reset if the left one decides.
    """

    def __init__(self, expression: model.TypedExpression, context: OperatorContext) -> None:
        self.context = context
        self.sides: tuple[Condition, ...] = ()
        if isinstance(expression, model.Logical) and has_aggregate(expression.right):
            self.conjunction = expression.operator == "and"
            self.sides = (Condition(expression.left, context), Condition(expression.right, context))
            self.aggregates: list[AggregateNode] = [*self.sides[0].aggregates, *self.sides[1].aggregates]
            return
        compiler = ExpressionCompiler(context, several=True)
        self.node = compiler.compile(expression)
        self.aggregates = compiler.aggregates
        self.read = references([expression])

    def holds(self, window: ExpressionWindowBase, look: WindowView) -> bool:
        """Return whether the expression is true for `look`, which its aggregates process."""
        if self.sides:
            left, right = self.sides
            return right.holds(window, look) if left.holds(window, look) is self.conjunction else not self.conjunction
        columns: dict[str, Column] = {}
        for name, reference in self.read.items():
            index = reference.index
            chosen = look.slot if index is None else look.last if index.from_last else look.first
            columns[name] = self._column(reference, window, chosen)
        batch = EventBatch(_NOW, np.array([look.kind], dtype=np.int8), _NOW, _NOW, columns)
        fresh = _FRESH if look.kind == RESET else None
        return bool(self.node.truth(Evaluation(batch, fresh=fresh))[0])

    def _column(
        self,
        reference: model.AttributeValue | model.EventReference | model.IsEmptySlot,
        window: ExpressionWindowBase,
        slot: int,
    ) -> Column:
        if isinstance(reference, model.IsEmptySlot):
            return Column(AttributeType.BOOL, self.context.pool, values=np.ones(1, dtype=np.bool_))
        name = reference.name if isinstance(reference, model.AttributeValue) else EVENT_TIMESTAMP
        type_ = reference.type if isinstance(reference, model.AttributeValue) else AttributeType.LONG
        if name == EVENT_TIMESTAMP:
            return Column(type_, self.context.pool, values=window.slots.timestamps[[slot]])
        return window.slots.take(np.array([slot]))[name]

    def snapshot(self) -> State:
        return [node.aggregator.snapshot() for node in self.aggregates]

    def restore(self, state: State) -> None:
        for node, part in zip(self.aggregates, state, strict=True):
            node.aggregator.restore(part)


class WindowExpression(Stateful):
    """The expression of a window, which may change if its text is an attribute of the events.

    In a partition the windows of all keys share one, as in Siddhi: its aggregates run over the events of all of them.
    """

    def __init__(self, call: model.HandlerCall, context: OperatorContext) -> None:
        self.schema = call.output
        self.context = context
        self.text: str | None = None
        self.condition: Condition | None = None
        self.constant = call.condition is not None
        if call.condition is not None:
            self.condition = Condition(call.condition, context)

    def read(self, text: str | None) -> model.TypedExpression | None:
        """Return the expression of `text`; raise SiddhiError when it is not an expression."""
        return None if text is None else analyse_window_condition(text, self.schema, 0, builtin_registry())

    def begin(self, text: str | None, expression: model.TypedExpression | None) -> None:
        """Use `expression`, parsed from `text`, from now on."""
        self.text = text
        self.condition = None if expression is None else Condition(expression, self.context)

    def snapshot(self) -> State:
        return [self.text, None if self.condition is None else self.condition.snapshot()]

    def restore(self, state: State) -> None:
        text, condition = state
        if not self.constant:
            self.begin(text, self.read(text))
        if self.condition is not None:
            self.condition.restore(condition)


class ExpressionWindowBase(RowWindow):
    """Stores the slots of its events in `queue`.

    A changed expression text is evaluated on the stored events one by one.
    """

    def __init__(self, context: WindowContext) -> None:
        call = context.call
        wanted = dict(context.columns)
        arguments = context.arguments()
        wanted |= dict(call.output.attributes)
        super().__init__(WindowContext(call, context.operator, wanted, context.expired, context.compiler, ()))
        for name, type_ in call.output.attributes:
            context.compiler.compile(model.AttributeValue(0, name, type_))
        self.queue: list[int] = []
        self.text_node = None if call.condition is not None else arguments[0]
        self.expression, self._alone = _expression_of(call, context.operator)
        self._texts: list[str | None] = []
        self._conditions: dict[str | None, model.TypedExpression | None] = {}

    def process(self, batch: EventBatch, step: Step) -> EventBatch:
        if self.text_node is not None and batch.size:
            batch = self._readable(self.text_node, batch, step)
        return super().process(batch, step)

    def _readable(self, text_node: ExpressionNode, batch: EventBatch, step: Step) -> EventBatch:
        """Return the events whose text is an expression, and parse these texts; record the other events as failed."""
        evaluation = Evaluation(batch, batch.event_rows())
        column = to_column(text_node.evaluate(evaluation), AttributeType.STRING, self.slots.pool, batch.size)
        texts = [None if text is None else str(text) for text in column.to_list()]
        self._conditions = {}
        for text in dict.fromkeys(texts):
            try:
                self._conditions[text] = self.expression.read(text)
            except SiddhiError as error:
                rows = np.array([other == text for other in texts], dtype=np.bool_)
                evaluation.fail(rows, f"'{text}' is not an expression for a window: {error.problems[0].message}")
        if evaluation.failed is not None:
            positions = np.flatnonzero(drop_failed(evaluation, step))
            texts = [texts[position] for position in positions.tolist()]
            batch = batch.take(positions)
        self._texts = texts
        return batch

    def arrive(self, event: Arrival, out: Emission) -> None:
        if self.text_node is not None and (text := self._texts[event.row]) != self.expression.text:
            self.expression.begin(text, self._conditions[text])
            self.changed(out)
        self.take(event, out)

    def holds(self, look: WindowView) -> bool:
        """Return whether the window's expression is true at `look`."""
        condition = self.expression.condition
        return condition is None or condition.holds(self, look)

    @abstractmethod
    def take(self, event: Arrival, out: Emission) -> None:
        """Process an event when the expression is the same as before."""

    @abstractmethod
    def changed(self, out: Emission) -> None:
        """Process the stored rows after a change of the expression."""

    def held(self) -> list[int]:
        return self.queue

    def own_state(self) -> State:
        return [self.expression.snapshot() if self._alone else None, self.queue, self.more_state()]

    def restore_own(self, state: State) -> None:
        expression, self.queue, more = state
        if self._alone:
            self.expression.restore(expression)
        self.restore_more(more)

    def more_state(self) -> State:
        """Return the window's additional state."""
        return None

    def restore_more(self, state: State) -> None:
        """Restore the state that `more_state` returned."""


def _expression_of(call: model.HandlerCall, context: OperatorContext) -> tuple[WindowExpression, bool]:
    """Return the expression of a window created from `call`, and whether no other window shares it."""
    if context.common is None or not spans_keys(call):
        return WindowExpression(call, context), True
    found = context.common.setdefault(id(call), WindowExpression(call, context))
    assert isinstance(found, WindowExpression)  # noqa: S101 - nothing else is made from a window's call
    return found, False


class ExpressionWindow(ExpressionWindowBase):
    """A window that its oldest events leave until the expression is true; the new event itself may leave at once."""

    def take(self, event: Arrival, out: Emission) -> None:
        self._admit(event.slot, out)
        out.current(event.slot, event.timestamp)

    def _admit(self, slot: int, out: Emission) -> None:
        self.queue.append(slot)
        if self.holds(WindowView(slot, self.queue[0], slot)):
            return
        while self.queue:
            oldest = self.queue.pop(0)
            holds = self.holds(WindowView(oldest, self.queue[0] if self.queue else oldest, slot, EXPIRED))
            out.expired(oldest)
            self.release(oldest)
            if holds:
                return

    def changed(self, out: Emission) -> None:
        held, self.queue = self.queue, []
        for slot in held:
            self._admit(slot, out)


class ExpressionBatchWindow(ExpressionWindowBase):
    """A window of batches, each ended by an event for which the expression is false.

    The event opens the next batch or, if included, is the last of its batch. Aggregates in the expression restart with
    that event either way, as in Siddhi. Streaming emits events at once and only their expiry is a batch. Events that
    were read while they waited are emitted with their own timestamps and never expire, as in Siddhi.
    """

    def __init__(self, context: WindowContext) -> None:
        super().__init__(context)
        _, *options = context.arguments()
        self.including = options[0] if options else None
        self.streaming = len(options) > 1 and bool(scalar_or_none(options[1]))
        self.last: list[int] = []
        self.seen = 0
        self._due: list[tuple[int, int]] = []

    def take(self, event: Arrival, out: Emission) -> None:
        self._admit(event.slot, event.timestamp, out)

    def _admit(self, slot: int, timestamp: int, out: Emission) -> None:
        out.new_chunk()
        for due, when in self._due:
            out.expired(due, when)
            self.release(due)
        self._due = []
        front = self._ended_by(slot)
        if front is None:
            if self.streaming:
                out.current(slot, timestamp)
        elif not front:
            self._let_pass(slot, out)
        elif not self.streaming:
            self._let_out(front if self.queue else [*front, slot], slot, timestamp, out)
        elif self.queue:
            self._expire(front, out)
            out.current(slot, timestamp)
        else:
            out.current(slot, timestamp)
            self._expire([*front, slot], out)

    def _ended_by(self, slot: int) -> list[int] | None:
        """Return the events of the batch that the one in `slot` ended; None if it joined them.

        The event in `slot` is then stored, unless it is the last of their batch.
        """
        self.queue.append(slot)
        look = WindowView(slot, self.queue[0], slot)
        if self.holds(look):
            return None
        self.holds(replace(look, kind=RESET))
        self.holds(look)
        front = self.queue[:-1]
        self.queue = [slot] if front and not self._is_included(slot) else []
        return front

    def _is_included(self, slot: int) -> bool:
        """Return whether the event in `slot`, which ends a batch, is its last."""
        if self.including is None:
            return False
        place = np.array([slot])
        event = EventBatch(self.slots.timestamps[place], None, _NOW, _NOW, self.slots.take(place), only_current=True)
        return bool(self.including.truth(Evaluation(event))[0])

    def _let_pass(self, slot: int, out: Emission) -> None:
        """Emit an event for which the expression is false without preceding events.

        It expires before it is emitted, and is not stored.
        """
        self._expire([*self.last, slot], out)
        out.current(slot, out.clock)
        self.last = []

    def _let_out(self, batch: list[int], trigger: int, timestamp: int, out: Emission) -> None:
        """Expire the last batch and replace it by `batch`.

        Events of a batch get the clock as timestamp, except for those that were read and the one that ends it. There is
        no reset: expired events are subtracted.
        """
        self._expire(self.last, out)
        seen, self.last = batch[: self.seen], batch[self.seen :]
        self.seen = 0
        for slot in seen:
            out.current(slot, int(self.slots.timestamps[slot]))
            self.release(slot)
        for slot in self.last:
            out.current(slot, timestamp if slot == trigger else out.clock)

    def _expire(self, slots: list[int], out: Emission) -> None:
        for slot in slots:
            out.expired(slot)
            self.release(slot)

    def changed(self, out: Emission) -> None:
        held, self.queue, self.seen = self.queue, [], 0
        for slot in held:
            timestamp = int(self.slots.timestamps[slot])
            if self.streaming:
                self._readmit(slot, timestamp, out.clock)
            else:
                self._admit(slot, timestamp, out)

    def _readmit(self, slot: int, timestamp: int, now: int) -> None:
        """Test a stored event, which was emitted already, again with the new expression.

        Events that expire as a result are emitted before the event with the new expression. The event that ends its
        batch keeps its timestamp, as in Siddhi.
        """
        front = self._ended_by(slot)
        if front is not None:
            self._due.extend((earlier, now) for earlier in front)
            if not self.queue:
                self._due.append((slot, timestamp))

    def held(self) -> list[int]:
        """Return the rows that a read shows: none in a streaming window, as in Siddhi."""
        return [] if self.streaming else super().held()

    def look(self) -> tuple[Int64Array, dict[str, Column]]:
        shown = super().look()
        self.seen = len(shown[0])
        return shown

    def more_state(self) -> State:
        return [self.last, self.seen]

    def restore_more(self, state: State) -> None:
        self.last, self.seen = state
