"""Chains of plain elements, whole batches at a time: the operator for the common patterns and sequences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from siddhi.analysis import model
from siddhi.engine.arrays import AnyArray, Int64Array
from siddhi.engine.batch import EventBatch
from siddhi.engine.expressions.compiler import ExpressionCompiler
from siddhi.engine.expressions.evaluation import Evaluation, Node, as_type, broadcast
from siddhi.engine.expressions.operators import NUMERIC
from siddhi.engine.kernels import grown
from siddhi.engine.kinds import CURRENT, EXPIRED
from siddhi.engine.operator import MergedRows, MergingOperator, OperatorContext, Step
from siddhi.engine.pattern import chain_kernel as kernel
from siddhi.engine.pattern.chain_output import ChainOutput
from siddhi.engine.pattern.conditions import EventFilter, split_filter
from siddhi.engine.pattern.references import Reference
from siddhi.engine.pattern.separable import SlotComparison, separate_all
from siddhi.engine.scope import source_key
from siddhi.engine.state import Codes, State
from siddhi.language.ast import AttributeType

_OPERATORS = {
    "==": kernel.EQUAL,
    "!=": kernel.NOT_EQUAL,
    "<": kernel.LESS,
    "<=": kernel.LESS_EQUAL,
    ">": kernel.GREATER,
    ">=": kernel.GREATER_EQUAL,
}
_MOST_COLUMNS = 62
"""So many columns have a bit each in a row's null mask."""


@dataclass(frozen=True, slots=True)
class ChainPlan:
    """A state machine as a chain: per element what it compares; `scope_end` is the last element under `every`, or None."""

    machine: model.StateMachine
    scope_end: int | None
    alone: tuple[tuple[model.TypedExpression, ...], ...]
    comparisons: tuple[tuple[SlotComparison, ...], ...]


def plan_chain(machine: model.StateMachine, context: OperatorContext) -> ChainPlan | None:
    """The chain that `machine` is, or None when it has other forms than plain elements, one leading `every` and comparisons of two
    events."""
    steps = list(machine.steps)
    scope_end: int | None = None
    if isinstance(steps[0], model.EveryScope):
        scope_end = len(steps[0].steps) - 1
        steps[:1] = steps[0].steps
    if not all(isinstance(step, model.PatternElement) and _plain(step) for step in steps):
        return None
    alone: list[tuple[model.TypedExpression, ...]] = []
    comparisons: list[tuple[SlotComparison, ...]] = []
    for element in machine.slots:
        split = split_filter(element, context)
        across = separate_all(split.across, element.slot)
        if across is None:
            return None
        alone.append(split.alone)
        comparisons.append(across)
    if sum(len(element) for element in comparisons) > _MOST_COLUMNS:
        return None
    return ChainPlan(machine, scope_end, tuple(alone), tuple(comparisons))


def _plain(element: model.PatternElement) -> bool:
    handlers = (*element.input.before, *element.input.after)
    only_filters = all(isinstance(step, model.FilterStep) for step in handlers)
    return not element.counted and not element.absent and only_filters


@dataclass(slots=True)
class _Columns:
    """The expressions over one event that comparisons need: what each is called in the kernel, and how it is computed."""

    context: OperatorContext
    whole: list[tuple[int, Node, AttributeType]] = field(default_factory=list)
    fractions: list[tuple[int, Node, AttributeType]] = field(default_factory=list)
    _known: dict[tuple[int, model.TypedExpression, AttributeType], int] = field(default_factory=dict)

    def column(self, slot: int, expression: model.TypedExpression, comparison: SlotComparison) -> int:
        """The number of `expression` over events of `slot` among the columns of its class."""
        key = (slot, expression, comparison.operand_type)
        if key not in self._known:
            columns = self.fractions if comparison.fractions else self.whole
            node = ExpressionCompiler(self.context).compile(expression)
            self._known[key] = len(columns)
            columns.append((slot, node, comparison.operand_type))
        return self._known[key]


class _Layout:
    """The chain as the kernel's arrays say it."""

    def __init__(self, plan: ChainPlan, context: OperatorContext) -> None:
        self.columns = _Columns(context)
        self.register_types: list[AttributeType] = []
        self.fraction_registers = 0
        registers: dict[tuple[bool, int], int] = {}
        copies: list[list[tuple[int, int, int]]] = [[] for _ in plan.comparisons]
        rows: list[tuple[int, int, int, int]] = []
        bounds: list[tuple[int, int, int, int]] = []
        for slot, comparisons in enumerate(plan.comparisons):
            first = len(rows)
            indexed = bounded = kernel.NONE
            for comparison in comparisons:
                fractions = comparison.fractions
                event = self.columns.column(slot, comparison.event, comparison)
                kept = self.columns.column(comparison.slot, comparison.kept, comparison)
                if (fractions, kept) not in registers:
                    registers[fractions, kept] = self._new_register(comparison)
                    copies[comparison.slot].append((int(fractions), kept, registers[fractions, kept]))
                operator = _OPERATORS[comparison.operator]
                if operator == kernel.EQUAL and not fractions and indexed == kernel.NONE:
                    indexed = len(rows)
                elif operator >= kernel.LESS and fractions and bounded == kernel.NONE:
                    bounded = len(rows)
                rows.append((operator, int(fractions), event, registers[fractions, kept]))
            bounds.append((first, len(rows), indexed, bounded))
        self.comparisons = _table(rows, 4)
        self.copies = _table([copy for slot in copies for copy in slot], 3)
        ends = np.cumsum([len(slot) for slot in copies])
        starts = ends - [len(slot) for slot in copies]
        self.elements = np.column_stack([_table(bounds, 4), starts, ends]).astype(np.int64)

    def _new_register(self, comparison: SlotComparison) -> int:
        if comparison.fractions:
            self.fraction_registers += 1
            return self.fraction_registers - 1
        self.register_types.append(comparison.operand_type)
        return len(self.register_types) - 1


def _table(rows: Sequence[tuple[int, ...]], width: int) -> Int64Array:
    return np.array(rows, dtype=np.int64).reshape(len(rows), width)


class ChainOperator(MergingOperator):
    """A chain of plain elements over its streams, for all partition instances at once.

    `read` are the references of the query's selection, by the name of the output column that answers each. Every match is a
    row of its own chunk, with the timestamp of the event that completed it.
    """

    handles_partitions = True

    def __init__(self, plan: ChainPlan, read: Mapping[str, Reference], context: OperatorContext) -> None:
        machine = plan.machine
        self._context = context
        self.sources = tuple(dict.fromkeys(source_key(element.input) for element in machine.slots))
        self._source_of = [self.sources.index(source_key(element.input)) for element in machine.slots]
        self._count = len(machine.slots)
        self._filters = [EventFilter(alone, context) for alone in plan.alone]
        layout = _Layout(plan, context)
        self._columns = layout.columns
        self._register_types = layout.register_types
        self._comparisons, self._copies, self._elements = layout.comparisons, layout.copies, layout.elements
        self._settings = np.zeros(kernel.SETTING_COUNT, dtype=np.int64)
        self._settings[kernel.ELEMENTS] = self._count
        self._settings[kernel.WITHIN] = kernel.NONE if machine.within_ms is None else machine.within_ms
        self._settings[kernel.IS_SEQUENCE] = machine.sequence
        self._settings[kernel.SCOPE_END] = kernel.NONE if plan.scope_end is None else plan.scope_end
        self._settings[kernel.REGISTERS] = kernel.REFERENCES + self._count
        self._offers = np.full((len(self.sources), self._count), kernel.NONE, dtype=np.int64)
        for source in range(len(self.sources)):
            fed = [slot for slot in reversed(range(self._count)) if self._source_of[slot] == source]
            self._offers[source, : len(fed)] = fed
        self._output = ChainOutput(machine, read, context.pool)
        self._clear(layout.fraction_registers)

    def _clear(self, fraction_registers: int) -> None:
        width = kernel.REFERENCES + self._count + len(self._register_types)
        self._partials: Int64Array = np.zeros((8, width), dtype=np.int64)
        self._floats: AnyArray = np.zeros((8, fraction_registers), dtype=np.float64)
        self._lists: Int64Array = np.full((0, kernel.LIST_WIDTH), kernel.NONE, dtype=np.int64)
        self._instances: Int64Array = np.zeros((0, kernel.INSTANCE_WIDTH), dtype=np.int64)
        self._counters: Int64Array = np.zeros(kernel.COUNTER_COUNT, dtype=np.int64)
        self._counters[kernel.FREE] = kernel.NONE
        self._touched: Int64Array = np.zeros(8, dtype=np.int64)
        self._matches: Int64Array = np.zeros((0, 2 + self._count), dtype=np.int64)
        self._kept: Int64Array = np.zeros((0, 3), dtype=np.int64)
        self._make_table(64)

    def _make_table(self, places: int) -> None:
        self._table: Int64Array = np.full((self._count, places, 2), kernel.NONE, dtype=np.int64)
        self._bounds: AnyArray = np.zeros((self._count, places), dtype=np.float64)

    # ---- life

    def start(self, clock_ms: int) -> None:
        if not self._context.partitioned:
            self._open(np.zeros(1, dtype=np.int64))

    def _open(self, instances: Int64Array) -> None:
        """These instances begin: one empty partial waits at the first element of each."""
        if not len(instances):
            return
        count = int(instances.max()) + 1
        if count > len(self._instances):
            self._instances = grown(self._instances, count)
            self._lists = grown(self._lists, len(self._instances) * self._count, kernel.NONE)
        self._instances[instances] = 0
        self._instances[instances, kernel.LATEST] = kernel.LONG_AGO
        self._instances[instances, kernel.FRESH_SEEDS] = 1

    def close_partitions(self, partitions: Int64Array) -> None:
        for instance in partitions.tolist():
            kernel.close_instance(
                instance, self._partials, self._lists, self._table, self._counters, self._settings
            )

    # ---- a step

    def process(self, inputs: MergedRows, step: Step) -> EventBatch:
        self._open(step.opened)
        rows, places = self._rows(inputs)
        offsets = _offsets(inputs.batches)
        passing, whole, fractions, nulls = self._event_columns(inputs, offsets)
        found: list[Int64Array] = []
        self._counters[kernel.CURSOR] = 0
        while self._counters[kernel.CURSOR] < len(rows):
            self._make_room(len(rows) - int(self._counters[kernel.CURSOR]))
            self._counters[kernel.MATCHES] = 0
            kernel.run_chain(
                rows,
                passing,
                whole,
                fractions,
                nulls,
                self._offers,
                self._settings,
                self._elements,
                self._comparisons,
                self._copies,
                self._partials,
                self._floats,
                self._lists,
                self._table,
                self._bounds,
                self._instances,
                self._counters,
                self._touched,
                self._matches,
            )
            found.append(self._matches[: self._counters[kernel.MATCHES]].copy())
        matches = np.concatenate(found) if len(found) > 1 else (found[0] if found else self._matches[:0])
        batch = self._batch(inputs, matches, places, offsets)
        self._keep(inputs, offsets)
        return batch

    def _rows(self, inputs: MergedRows) -> tuple[Int64Array, Int64Array]:
        """(source, event, timestamp, instance) of each row that is an event, and its place among all rows."""
        offsets = np.asarray(_offsets(inputs.batches))
        events = inputs.rows + offsets[inputs.sources]
        rows = np.zeros((inputs.size, 4), dtype=np.int64)
        rows[:, 0] = inputs.sources
        rows[:, 1] = events
        rows[:, 2] = np.concatenate([batch.timestamps for batch in inputs.batches])[events]
        if self._context.partitioned:
            instances = [batch.partitions for batch in inputs.batches if batch.partitions is not None]
            rows[:, 3] = np.concatenate(instances)[events]
        kinds = np.concatenate([batch.kinds for batch in inputs.batches])[events]
        counts = (kinds == CURRENT) | (kinds == EXPIRED)
        if counts.all():
            return rows, np.arange(inputs.size)
        return rows[counts], np.flatnonzero(counts)

    def _event_columns(
        self, inputs: MergedRows, offsets: Sequence[int]
    ) -> tuple[AnyArray, Int64Array, AnyArray, Int64Array]:
        total = offsets[-1]
        passing = np.zeros((self._count, total), dtype=np.bool_)
        whole = np.zeros((len(self._columns.whole), total), dtype=np.int64)
        fractions = np.zeros((len(self._columns.fractions), total), dtype=np.float64)
        nulls = np.zeros(total, dtype=np.int64)
        evaluations = [Evaluation(batch) for batch in inputs.batches]
        for slot, source in enumerate(self._source_of):
            passing[slot, offsets[source] : offsets[source + 1]] = self._filters[slot].mask(inputs.batches[source])
        columns = [(slot, node, type_, whole[number]) for number, (slot, node, type_) in enumerate(self._columns.whole)]
        columns += [
            (slot, node, type_, fractions[number]) for number, (slot, node, type_) in enumerate(self._columns.fractions)
        ]
        for bit, (slot, node, type_, column) in enumerate(columns):
            source = self._source_of[slot]
            span = slice(offsets[source], offsets[source + 1])
            values, valid = broadcast(node.evaluate(evaluations[source]), inputs.batches[source].size)
            column[span] = as_type(values, type_) if type_ in NUMERIC else values
            if type_ is AttributeType.STRING and valid is None:
                valid = values >= 0
            if valid is not None and not valid.all():
                nulls[span] |= (~valid).astype(np.int64) << bit
        return passing, whole, fractions, nulls

    def _make_room(self, rows: int) -> None:
        live = int(self._counters[kernel.LIVE])
        seeds = int(self._instances[:, kernel.SEEDS :].sum()) if len(self._instances) < rows else 0
        wanted = live + rows + seeds + 2
        if wanted > len(self._partials):
            self._partials = grown(self._partials, wanted)
            self._floats = grown(self._floats, len(self._partials))
            self._touched = grown(self._touched, len(self._partials))
        self._matches = grown(self._matches, 2 * live + rows + seeds + 4)
        places = self._table.shape[1]
        if 2 * wanted > places and self._settings[kernel.IS_SEQUENCE] == 0:
            while places < 4 * wanted:
                places *= 2
            self._make_table(places)
            kernel.rebuild_table(
                self._partials,
                self._floats,
                self._lists,
                self._table,
                self._bounds,
                self._elements,
                self._comparisons,
                self._settings,
            )

    def _batch(
        self, inputs: MergedRows, matches: Int64Array, places: Int64Array, offsets: Sequence[int]
    ) -> EventBatch:
        cause = matches[:, 0]
        ends = matches[:, 1 + self._count]
        references = [
            matches[:, 2 + slot] - (offsets[source] if slot == self._count - 1 else 0)
            for slot, source in enumerate(self._source_of)
        ]
        for slot, source in enumerate(self._source_of[:-1]):
            references[slot] = np.where(references[slot] >= 0, references[slot] - offsets[source], kernel.NONE)
        batches = [inputs.batches[source] for source in self._source_of]
        columns = self._output.columns(batches, references, matches[:, 1])
        timestamps = np.concatenate([batch.timestamps for batch in inputs.batches])
        partitions = None
        if self._context.partitioned:
            instances = [batch.partitions for batch in inputs.batches if batch.partitions is not None]
            partitions = np.concatenate(instances)[ends]
        return EventBatch(
            timestamps[ends],
            np.full(len(matches), CURRENT, dtype=np.int8),
            inputs.orders[places[cause]],
            inputs.clocks[places[cause]],
            columns,
            None,
            partitions,
        )

    def _keep(self, inputs: MergedRows, offsets: Sequence[int]) -> None:
        """Copies out of the batch what live partials hold of it."""
        touched = int(self._counters[kernel.TOUCHES])
        if not touched:
            return
        self._kept = grown(self._kept, touched * self._count)
        count = kernel.settle_chain(self._partials, self._touched, self._counters, self._kept, self._settings)
        kept = self._kept[:count]
        for slot, source in enumerate(self._source_of[:-1]):
            of_slot = kept[kept[:, 1] == slot] if self._count > 2 else kept
            self._output.keep(slot, of_slot[:, 0], inputs.batches[source], of_slot[:, 2] - offsets[source])

    # ---- snapshot

    def snapshot(self) -> State:
        order = np.zeros(int(self._counters[kernel.LIVE]), dtype=np.int64)
        kernel.live_partials(self._partials, self._lists, order)
        base = kernel.REFERENCES + self._count
        registers = [
            Codes(self._partials[order, base + number])
            if type_ is AttributeType.STRING
            else self._partials[order, base + number]
            for number, type_ in enumerate(self._register_types)
        ]
        return {
            "partials": self._partials[order][:, : kernel.REFERENCES],
            "registers": registers,
            "fractions": self._floats[order],
            "updated": self._lists[:, kernel.UPDATED].copy(),
            "instances": self._instances.copy(),
            "kept": self._output.snapshot(order),
        }

    def restore(self, state: State) -> None:
        count = len(state["partials"])
        self._clear(self._floats.shape[1])
        self._partials = grown(self._partials, count)
        self._floats = grown(self._floats, len(self._partials))
        self._touched = grown(self._touched, len(self._partials))
        self._partials[:count, : kernel.REFERENCES] = state["partials"]
        base = kernel.REFERENCES + self._count
        self._partials[:count, kernel.REFERENCES : base] = kernel.NONE
        for number, register in enumerate(state["registers"]):
            self._partials[:count, base + number] = register.array if isinstance(register, Codes) else register
        self._floats[:count] = state["fractions"]
        self._instances = state["instances"].copy()
        self._lists = np.full((len(state["updated"]), kernel.LIST_WIDTH), kernel.NONE, dtype=np.int64)
        self._lists[:, kernel.UPDATED] = state["updated"]
        self._counters[kernel.UNUSED] = self._counters[kernel.LIVE] = count
        self._output.restore(state["kept"])
        kernel.relink(count, self._partials, self._lists, self._settings)
        places = self._table.shape[1]
        while places < 4 * count:
            places *= 2
        self._make_table(places)
        kernel.rebuild_table(
            self._partials,
            self._floats,
            self._lists,
            self._table,
            self._bounds,
            self._elements,
            self._comparisons,
            self._settings,
        )


def _offsets(batches: Sequence[EventBatch]) -> list[int]:
    """Where the rows of each batch begin when all are laid end to end, and where the last ends."""
    offsets = [0]
    for batch in batches:
        offsets.append(offsets[-1] + batch.size)
    return offsets
