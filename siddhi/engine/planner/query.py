"""Build a query: its input, selection and output rate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Protocol

from siddhi.analysis import model
from siddhi.analysis.parts import parts_of as model_parts
from siddhi.analysis.reading import computes
from siddhi.engine.columnar.batch import EventBatch, empty_batch
from siddhi.engine.columnar.column import Column
from siddhi.engine.columnar.state_size import StateSize, total
from siddhi.engine.columnar.state_tree import State
from siddhi.engine.jit.arrays import Int64Array
from siddhi.engine.operators.base.choices import Choices, NotApplicable
from siddhi.engine.operators.base.operator import MergedRows, MergingOperator, Operator, OperatorContext, Step
from siddhi.engine.operators.base.per_instance import HeadPerInstance
from siddhi.engine.operators.base.scope import source_key
from siddhi.engine.operators.environment import Environment
from siddhi.engine.operators.expressions.compiler import ExpressionCompiler
from siddhi.engine.operators.expressions.evaluation import ExpressionNode
from siddhi.engine.operators.filters import Filter
from siddhi.engine.operators.fused_windows.build import fused_selection
from siddhi.engine.operators.fused_windows.sliding import SlidingSelection
from siddhi.engine.operators.joins.build import build_join
from siddhi.engine.operators.joins.join import JoinOperator
from siddhi.engine.operators.named_window import window_inlet
from siddhi.engine.operators.node import AppNode
from siddhi.engine.operators.partitions.place import PartitionPlace
from siddhi.engine.operators.patterns.base.references import selection_references
from siddhi.engine.operators.patterns.build import build_state_machine
from siddhi.engine.operators.rate_limits.build import build_limiter
from siddhi.engine.operators.selection.group_properties import empties_groups, removal_order
from siddhi.engine.operators.selection.plain_query import plain_query
from siddhi.engine.operators.selection.selector import Selector
from siddhi.engine.operators.source_chain import added_attributes, build_chain
from siddhi.engine.operators.tables.table import Table
from siddhi.engine.operators.tables.writer import TableWriter
from siddhi.engine.operators.windows.base.window import may_reject
from siddhi.language import ast
from siddhi.language.ast import AttributeType, EventType

_TARGETS = {
    model.TargetKind.STREAM: "",
    model.TargetKind.INNER_STREAM: "#",
    model.TargetKind.WINDOW: window_inlet(""),
}


class SharedHead(Protocol):
    """The part of one query in the state of a head that several queries share."""

    def snapshot(self) -> State:
        """Return the state in the form in which the query's own head would save it."""

    def state_size(self) -> StateSize:
        """Return the size of the query's state."""


class QueryNode(AppNode):
    """A query that processes rows of its input streams and returns what it selects.

    It returns current and expired rows as its output requires.
    """

    def __init__(
        self,
        analysed: model.AnalysedQuery,
        context: OperatorContext,
        environment: Environment,
        partition: PartitionPlace | None = None,
    ) -> None:
        """Build the operators of a query.

        Args:
            analysed: The query.
            context: The context for new operators.
            environment: What the queries of the app share.
            partition: The partition that the query is in, None outside of partitions.
        """
        environment.begin_query()
        self.by_key = partition is not None
        context = replace(context, common={} if self.by_key else context.common, failing=set(), choices=Choices())
        self.choices = context.choices
        self.context = context
        self.analysed = analysed
        self.name = analysed.name
        self.head: MergingOperator | None = None
        self._shared: SharedHead | None = None
        self.may_share = True
        self.chain: list[Operator] = []
        self._added: Mapping[str, Column] = {}
        self.hands_on = False
        """Whether current rows are emitted exactly as a join produces them."""
        self.partition = partition
        if partition is not None:
            partition.instances.add_listener(self.name)
        self.limiter = build_limiter(analysed, context)
        several = not isinstance(analysed.input, model.SourceInput)
        selecting = replace(context, removal_order=removal_order(analysed))
        compiler = ExpressionCompiler(selecting, several=several, in_table=environment.in_table)
        self.nodes: Mapping[int, ExpressionNode] = compiler.nodes
        """The nodes that evaluate the expressions of the selection and of filters of one input, by the `id` of their
        parts."""
        self.fused = context.choices.applicable("selection", "FusedSelection", fused_selection(analysed, context))
        self.selector = self.fused or self._build_selector(compiler, context)
        self._build_input(compiler, context, environment)
        self._build_output(context, environment)
        if partition is not None:
            # changes of a tracked named window are the same for all instances
            streams = (source if source in self.silent else partition.stream(source) for source in self.sources)
            self.sources = tuple(streams)
            self.target = None if self.target is None else partition.target(self.target)
        self.splits = self.head is not None
        self.splits_chunks = isinstance(self.head, JoinOperator) and self.head.keeps_nothing
        self.arrival = tuple(range(len(self.sources)))
        self.reads = frozenset(environment.looked_into)
        self._all_tables = environment.tables
        self._tables = environment.tables.keys() - environment.looked_into_carefully
        self.computes = self.writer is not None or computes(analysed, aggregates=self.fused is None)
        self.parts = (
            *([self.head] if self.head else []),
            *self.chain,
            self.selector,
            *([self.limiter] if self.limiter else []),
        )
        self.may_fail = bool(context.failing) or may_fail(analysed)
        self.plain = plain_query(analysed) if partition is None else None
        self.repeatable = not self.may_fail and self._keeps_nothing()
        self._nothing = empty_batch(analysed.output.schema.attributes, context.pool)

    def _keeps_nothing(self) -> bool:
        """Return whether the query is stateless and always gives the same output for the same events."""
        selection, output = self.analysed.selection, self.analysed.output
        if self.by_key or self.timed or self.limiter is not None or selection.group_by or selection.aggregates:
            return False
        if AttributeType.OBJECT in (type_ for _, type_ in output.schema.attributes):
            return False
        calls = (part for part in model_parts((self.analysed.input, selection)) if isinstance(part, model.Call))
        if any(call.name in _RANDOM for call in calls):
            return False
        looks = self.head is None or (isinstance(self.head, JoinOperator) and self.head.keeps_nothing)
        return looks and all(isinstance(one, Filter) and not one.aggregates for one in self.chain)

    def _build_selector(self, compiler: ExpressionCompiler, context: OperatorContext) -> Selector:
        analysed = self.analysed
        snapshot, grouped = isinstance(analysed.rate, ast.SnapshotRate), bool(analysed.selection.group_by)
        counted = getattr(analysed.rate, "kind", "") == "first"
        return Selector(
            analysed.selection,
            analysed.output.events,
            compiler,
            context,
            keep_resets=counted or (snapshot and not grouped),
            collapse=not snapshot,
            limiter=self.limiter,
            empties=empties_groups(analysed),
        )

    def _build_input(self, compiler: ExpressionCompiler, context: OperatorContext, environment: Environment) -> None:
        source = self.analysed.input
        if isinstance(source, model.SourceInput):
            self.sources = (source_key(source),)
            self._added = {name: Column.nulls(type_, context.pool, 0) for name, type_ in added_attributes(source)}
            self.chain = build_chain(
                source if self.fused is None else replace(source, window=None),
                compiler.columns if self.fused is None else self.fused.columns,
                context,
                expired=self.analysed.output.events is not EventType.CURRENT,
                selected=plainly_selected(self.analysed.selection),
                in_table=environment.in_table,
            )
            return
        if isinstance(source, model.StateMachine):
            self.head = build_state_machine(source, selection_references(self.analysed), context)
        else:
            self.head = self._build_join(source, compiler, context, environment)
            if isinstance(self.head, JoinOperator) and self.head.tracked is not None:
                self.tracks = frozenset({(source.left, source.right)[self.head.tracked.slot].source})
                self.silent = frozenset({str(self.head.tracked.source)})
            for side in (source.left, source.right):
                if side.kind in (model.SourceKind.TABLE, model.SourceKind.WINDOW):
                    environment.looked_into.add(side.source)
        self.sources = self.head.sources

    def _build_join(
        self, join: model.Join, compiler: ExpressionCompiler, context: OperatorContext, environment: Environment
    ) -> MergingOperator:
        selector = self.selector
        outputs = selector.hand_over_names() if isinstance(selector, Selector) else None
        self.hands_on = isinstance(selector, Selector) and outputs is not None and selector.unlimited
        only_current = self._looks_at_current_only(compiler)
        shows_expired = self.analysed.output.events is not EventType.CURRENT

        def made(within: OperatorContext) -> JoinOperator | NotApplicable:
            return build_join(
                join,
                compiler,
                within,
                environment,
                only_current=only_current,
                shows_expired=shows_expired,
                outputs=outputs,
            )

        def make() -> MergingOperator:
            copy = made(replace(context, partitioned=False))
            assert isinstance(copy, JoinOperator)  # noqa: S101 - outside a partition each join has an operator
            return copy

        whole = context.choices.applicable("input", "JoinOperator", made(context))
        return whole or HeadPerInstance(make, context.instance_ranks, context.common)

    def _looks_at_current_only(self, compiler: ExpressionCompiler) -> bool:
        """Return whether expired rows and resets do not affect the query's output."""
        selector = self.selector
        plain = self.limiter is None and not compiler.aggregates and self.analysed.output.events is EventType.CURRENT
        return plain and isinstance(selector, Selector) and not selector.can_fail

    def _build_output(self, context: OperatorContext, environment: Environment) -> None:
        output = self.analysed.output
        self.writer: TableWriter | None = None
        if output.kind in _TARGETS:
            self.target = _TARGETS[output.kind] + output.target
        elif output.kind is model.TargetKind.TABLE:
            compiler = ExpressionCompiler(context, in_table=environment.in_table)
            self.writer = TableWriter(output, environment.tables[output.target], compiler)
            self.writes = frozenset({output.target})

    @property
    def shares(self) -> frozenset[str]:
        """The tables that several nodes may change and read in the same step."""
        if self.may_fail or isinstance(self.head, HeadPerInstance):
            return frozenset()
        if self.writer is not None and not self.writer.shares:
            return frozenset()
        return frozenset(self._tables & (self.reads | self.writes))

    def table(self, name: str) -> Table | None:
        """Return the table of that name, None when there is only a named window or an aggregation of it."""
        return self._all_tables.get(name)

    def process(self, inputs: Sequence[EventBatch], step: Step) -> EventBatch:
        """Process the inputs of one step.

        Returns:
            The rows that the query inserts or returns.
        """
        if self.partition is not None:
            step = self.partition.instances.tell(self.name, step)
            if self.limiter is not None and len(step.opened):
                self.limiter.open(step.opened, step.opened_clocks)
        batch = (
            self.head.process(MergedRows(inputs, self.arrival, self.timer_arrival), step) if self.head else inputs[0]
        )
        for operator in self.chain:
            if batch.size:
                batch = operator.process(batch, step)
            elif _is_due(operator, step):
                batch = operator.process(batch.with_columns({**batch.columns, **self._added}), step)
        if batch.size or (self.fused is not None and _is_due(self.fused, step)):
            batch = self.selector.process(batch, step)
        else:
            batch = self._nothing
        if self.limiter is not None and (batch.size or _is_due(self.limiter, step)):
            return self.limiter.process(batch, step)
        return batch

    def let_time_pass(self, clock: int) -> None:
        """Advance the time to `clock`, which the app's clock has shown before it returns to the events of a backlog."""
        if isinstance(self.fused, SlidingSelection):
            self.fused.let_time_pass(clock)

    def restore_but_rate(self, state: State) -> None:
        """Restore the state, as `restore` does, for a query whose output rate has changed and starts over."""
        kept = self.parts[:-1] if self.limiter is not None else self.parts
        for part, saved in zip(kept, state, strict=False):
            part.restore(saved)

    # ---- a head shared by several queries

    def share_head(self, shared: SharedHead | None) -> None:
        """Continue with the state of the head in `shared` from now on (None: the query's own head)."""
        if shared is None and self._shared is not None and self.head is not None:
            self.head.restore(self._shared.snapshot())
        self._shared = shared

    def snapshot_of_head(self) -> State:
        """Return the state of the head, wherever it is."""
        assert self.head is not None  # noqa: S101 - only heads are shared
        return self.head.snapshot() if self._shared is None else self._shared.snapshot()

    def snapshot(self) -> State:
        """Return the state of all operators, in the order of `parts`."""
        return [self.snapshot_of_head() if part is self.head else part.snapshot() for part in self.parts]

    def state_size(self) -> StateSize:
        """Return the size of the state; a shared part counts once, for its first query."""
        if self._shared is None:
            return super().state_size()
        others = total(part.state_size() for part in self.parts if part is not self.head)
        return others + self._shared.state_size()

    @cached_property
    def wakeful(self) -> bool:
        """Whether the node may have work in a step without input."""
        return self.timed or self.partition is not None

    def wakes(self, step: Step) -> bool:
        """Return whether the node has work in `step`: timers that are due, or new partition instances."""
        new = self.partition is not None and self.partition.instances.has_news(self.name)
        return new or super().wakes(step)

    def close_partitions(self, partitions: Int64Array) -> None:
        """Drop the state of the partition instances `partitions`."""
        super().close_partitions(partitions)
        numbers = self.selector.forget_partitions(partitions)
        if numbers is not None and self.limiter is not None:
            self.limiter.renumber_groups(numbers)

    def write(self, batch: EventBatch, step: Step) -> int:
        """Write `batch` to the query's table.

        Returns:
            The number of rows that were written, 0 for a query that writes to a stream.
        """
        return 0 if self.writer is None else self.writer.write(batch, step)


_RANDOM = frozenset({"UUID", "rand"})
"""Functions with varying results."""


def may_fail(query: model.AnalysedQuery) -> bool:
    """Return whether handlers of the inputs of `query`, or reads of tables, may fail events."""
    source = query.input
    inputs = [source] if isinstance(source, model.SourceInput) else []
    if isinstance(source, model.Join):
        inputs = [source.left, source.right]
    elif isinstance(source, model.StateMachine):
        inputs = [element.input for element in source.slots]
    for one in inputs:
        window = one.window
        if window is not None and may_reject(window):
            return True
        if one.kind is model.SourceKind.AGGREGATION:
            return True
        if any(isinstance(step, model.HandlerCall) for step in (*one.before, *one.after)):
            return True
    return False


def _is_due(operator: Operator, step: Step) -> bool:
    due = operator.next_deadline_ms()
    return due is not None and due <= step.final_clock


def plainly_selected(selection: model.AnalysedSelection) -> tuple[str, ...]:
    """Return the input attributes that `selection` selects as they are."""
    expressions = (output.expression for output in selection.attributes)
    return tuple(expression.name for expression in expressions if isinstance(expression, model.AttributeValue))
