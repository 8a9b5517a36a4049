"""A state machine as a chain of comparisons, and that chain as the arrays that the state loop reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from siddhi.analysis import model
from siddhi.engine.arrays import AnyArray, BoolArray, Int64Array
from siddhi.engine.batch import EventBatch
from siddhi.engine.expressions.compiler import ExpressionCompiler
from siddhi.engine.expressions.evaluation import Evaluation, Node, as_type, broadcast
from siddhi.engine.expressions.operators import NUMERIC
from siddhi.engine.operator import OperatorContext
from siddhi.engine.pattern import chain_kernel as kernel
from siddhi.engine.pattern.conditions import filters_of, split_filter
from siddhi.engine.pattern.separable import SlotComparison, separate_all
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
    """A state machine as a chain. `alone` and `comparisons`: the filters of each element; `scope_end`: the last
    element under `every`, or None."""

    machine: model.StateMachine
    scope_end: int | None
    alone: tuple[tuple[model.TypedExpression, ...], ...]
    comparisons: tuple[tuple[SlotComparison, ...], ...]


def plan_chain(machine: model.StateMachine, context: OperatorContext) -> ChainPlan | None:
    """The chain that `machine` is, or None when it has other forms than plain elements, one leading `every` and
    comparisons of two events."""
    steps = list(machine.steps)
    scope_end: int | None = None
    if isinstance(steps[0], model.EveryScope):
        if steps[0].within_ms is not None:
            return None
        scope_end = len(steps[0].steps) - 1
        steps[:1] = steps[0].steps
    if not all(isinstance(step, model.PatternElement) and _plain(step) for step in steps):
        return None
    alone: list[tuple[model.TypedExpression, ...]] = []
    comparisons: list[tuple[SlotComparison, ...]] = []
    for element in machine.slots:
        split = split_filter(filters_of(element), element.slot, context)
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


@dataclass(frozen=True, slots=True)
class EventColumn:
    """An expression over one event of `source`, for all rows at once; `name` is set when it is just an attribute."""

    source: int
    type: AttributeType
    node: Node
    name: str | None

    def fill(self, target: AnyArray, batch: EventBatch, evaluation: Evaluation) -> BoolArray | None:
        """Writes the values into `target`; returns where they are not null, or None when none is."""
        if self.name is not None:
            column = batch.columns[self.name]
            target[:] = column.values
            return column.valid
        values, valid = broadcast(self.node.evaluate(evaluation), batch.size)
        target[:] = as_type(values, self.type) if self.type in NUMERIC else values
        return values >= 0 if self.type is AttributeType.STRING else valid


class EventColumns:
    """The expressions over one event that comparisons need, numbered, whole numbers and fractions apart."""

    def __init__(self, sources: Sequence[int], context: OperatorContext) -> None:
        self._sources = sources
        self._context = context
        self._known: dict[tuple[object, ...], int] = {}
        self.whole: list[EventColumn] = []
        self.fractions: list[EventColumn] = []

    def column(self, slot: int, expression: model.TypedExpression, comparison: SlotComparison) -> int:
        """The number of `expression` over events of `slot` among the columns of its class."""
        source, type_ = self._sources[slot], comparison.operand_type
        name = None
        if isinstance(expression, model.AttributeValue) and expression.type is type_:
            name = expression.name
        key = (source, name or (slot, expression), type_)
        if key not in self._known:
            columns = self.fractions if comparison.fractions else self.whole
            self._known[key] = len(columns)
            node = ExpressionCompiler(self._context).compile(expression)
            columns.append(EventColumn(source, type_, node, name))
        return self._known[key]


class ChainLayout:
    """The chain as the kernel's arrays say it."""

    def __init__(self, plan: ChainPlan, sources: Sequence[int], context: OperatorContext) -> None:
        self.columns = EventColumns(sources, context)
        self.register_types: list[AttributeType] = []
        self.fraction_registers = 0
        registers: dict[tuple[bool, int, int], int] = {}
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
                register = (fractions, comparison.slot, kept)
                if register not in registers:
                    registers[register] = self._new_register(comparison)
                    copies[comparison.slot].append((int(fractions), kept, registers[register]))
                operator = _OPERATORS[comparison.operator]
                if operator == kernel.EQUAL and not fractions and indexed == kernel.NONE:
                    indexed = len(rows)
                elif operator >= kernel.LESS and fractions and bounded == kernel.NONE:
                    bounded = len(rows)
                rows.append((operator, int(fractions), event, registers[register]))
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
