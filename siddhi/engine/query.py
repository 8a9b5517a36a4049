"""A query made ready to run: its input, selection and output rate."""

from __future__ import annotations

from collections.abc import Sequence

from siddhi.analysis import model
from siddhi.engine.batch import EventBatch, empty_batch
from siddhi.engine.chain import build_chain
from siddhi.engine.expressions.compiler import ExpressionCompiler, MembershipTest
from siddhi.engine.families import not_supported
from siddhi.engine.operator import MergingOperator, Operator, OperatorContext, Stateful, Step, merge_rows
from siddhi.engine.pattern.references import selection_references
from siddhi.engine.pattern.state_machine import StateMachineOperator
from siddhi.engine.rates.build import build_limiter
from siddhi.engine.scope import source_key
from siddhi.engine.selector import Selector
from siddhi.engine.state import State
from siddhi.language import ast
from siddhi.language.ast import EventType


class Query:
    """Takes the rows of its input streams and gives back what it selects, current and expired rows as its output asks.

    `sources` are the streams read; `arrival` gives each its place among rows of one cause. `splits` says that one
    chunk coming in may become several going out.
    """

    def __init__(
        self, analysed: model.AnalysedQuery, context: OperatorContext, in_table: MembershipTest | None = None
    ) -> None:
        self.analysed = analysed
        self.name = analysed.name
        several = not isinstance(analysed.input, model.SourceInput)
        compiler = ExpressionCompiler(context, several=several, in_table=in_table)
        self.limiter = build_limiter(analysed, context.pool)
        snapshot = isinstance(analysed.rate, ast.SnapshotRate)
        self.selector = Selector(
            analysed.selection,
            analysed.output.events,
            compiler,
            context,
            keep_resets=self.limiter is not None and (snapshot or getattr(analysed.rate, "kind", "") == "first"),
            collapse=not snapshot,
            tag_groups=self.limiter is not None,
        )
        self.head: MergingOperator | None = None
        self.chain: list[Operator] = []
        source = analysed.input
        if isinstance(source, model.SourceInput):
            self.sources: tuple[str, ...] = (source_key(source),)
            wanted = analysed.output.events is not EventType.CURRENT
            self.chain = build_chain(
                source,
                compiler.columns,
                context,
                expired=wanted,
                selected=plainly_selected(analysed.selection),
                in_table=in_table,
            )
        elif isinstance(source, model.StateMachine):
            self.head = StateMachineOperator(source, selection_references(analysed), context)
            self.sources = self.head.sources
        else:
            raise not_supported("joins", analysed.syntax.span)
        self._nothing = empty_batch(analysed.output.schema.attributes, context.pool)
        self.arrival = tuple(range(len(self.sources)))
        self.splits = self.head is not None
        self.parts: tuple[Stateful, ...] = (
            *([self.head] if self.head else []),
            *self.chain,
            self.selector,
            *([self.limiter] if self.limiter else []),
        )

    @property
    def timed(self) -> bool:
        """True when timers may make the query send."""
        return any(type(part).next_deadline_ms is not Stateful.next_deadline_ms for part in self.parts)

    def next_deadline_ms(self) -> int | None:
        """The time at which the query's earliest timer is due, or None."""
        deadlines = [due for part in self.parts if (due := part.next_deadline_ms()) is not None]
        return min(deadlines) if deadlines else None

    def process(self, inputs: Sequence[EventBatch], step: Step) -> EventBatch:
        """What the query sends for the rows of its inputs (one batch for each of `sources`) and the timers of the
        step."""
        batch = self.head.process(merge_rows(inputs, self.arrival), step) if self.head else inputs[0]
        for operator in self.chain:
            if batch.size or _is_due(operator, step):
                batch = operator.process(batch, step)
        batch = self.selector.process(batch, step) if batch.size else self._nothing
        if self.limiter is not None and (batch.size or _is_due(self.limiter, step)):
            return self.limiter.process(batch, step)
        return batch

    def start(self, clock_ms: int) -> None:
        """The app has started at `clock_ms`."""
        for part in self.parts:
            part.start(clock_ms)

    def snapshot(self) -> State:
        return [part.snapshot() for part in self.parts]

    def restore(self, state: State) -> None:
        for part, saved in zip(self.parts, state, strict=True):
            part.restore(saved)


def _is_due(operator: Operator, step: Step) -> bool:
    due = operator.next_deadline_ms()
    return due is not None and due <= step.final_clock


def plainly_selected(selection: model.AnalysedSelection) -> tuple[str, ...]:
    """The input attributes that `selection` selects as they are."""
    expressions = (output.expression for output in selection.attributes)
    return tuple(expression.name for expression in expressions if isinstance(expression, model.AttributeValue))
