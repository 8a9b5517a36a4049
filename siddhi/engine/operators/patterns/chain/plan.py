"""Convert a state machine to a chain of comparisons, and that chain to arrays for the state loop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from siddhi.analysis import model
from siddhi.engine.columnar.column import DTYPES
from siddhi.engine.jit.arrays import AnyArray, Int64Array
from siddhi.engine.operators.base.choices import NotApplicable
from siddhi.engine.operators.base.operator import OperatorContext
from siddhi.engine.operators.patterns.base.conditions import filters_of, split_filter
from siddhi.engine.operators.patterns.base.separable import SlotComparison, SlotTest, separate_all, separate_test
from siddhi.engine.operators.patterns.chain import memory
from siddhi.engine.operators.patterns.chain.events import EventColumns
from siddhi.engine.tuning import MAX_NULL_MASK_COLUMNS
from siddhi.language.ast import AttributeType

_OPERATORS = {
    "==": memory.EQUAL,
    "!=": memory.NOT_EQUAL,
    "<": memory.LESS,
    "<=": memory.LESS_EQUAL,
    ">": memory.GREATER,
    ">=": memory.GREATER_EQUAL,
}


@dataclass(frozen=True, slots=True)
class ChainPlan:
    """A state machine as a chain.

    `tests` and `comparisons` are the filters of each element; `scope_end` is the last element under `every`, or None.
    """

    machine: model.StateMachine
    scope_end: int | None
    tests: tuple[tuple[SlotTest, ...], ...]
    comparisons: tuple[tuple[SlotComparison, ...], ...]


def plan_chain(machine: model.StateMachine, context: OperatorContext) -> ChainPlan | NotApplicable:
    """Return `machine` as a chain, if it is one.

    A chain has only plain elements, at most one leading `every` and comparisons of two events.
    """
    steps = list(machine.steps)
    scope_end: int | None = None
    if isinstance(steps[0], model.EveryScope):
        if steps[0].within_ms is not None:
            return NotApplicable("`within` inside `every`")
        scope_end = len(steps[0].steps) - 1
        steps[:1] = steps[0].steps
    for step in steps:
        if (form := _other_form(step)) is not None:
            return NotApplicable(form)
    tests: list[tuple[SlotTest, ...]] = []
    comparisons: list[tuple[SlotComparison, ...]] = []
    for element in machine.slots:
        split = split_filter(filters_of(element), element.slot, context)
        across = separate_all(split.across, element.slot)
        if across is None:
            return NotApplicable("a condition that is not a comparison of the new event with one earlier event")
        tests.append(tuple(separate_test(part) for part in split.alone))
        comparisons.append(across)
    if sum(map(len, tests)) + 2 * sum(map(len, comparisons)) > MAX_NULL_MASK_COLUMNS:
        return NotApplicable(f"conditions that read more than {MAX_NULL_MASK_COLUMNS} columns")
    return ChainPlan(machine, scope_end, tuple(tests), tuple(comparisons))


def _other_form(step: object) -> str | None:
    """Return the reason why `step` is not a plain element, None when it is."""
    if isinstance(step, model.EveryScope):
        return "`every` after the first element"
    if not isinstance(step, model.PatternElement):
        return "`and` or `or`"
    if step.counted:
        return "an element with a count"
    if step.absent:
        return "an absent event (`not`)"
    handlers = (*step.input.before, *step.input.after)
    return None if all(isinstance(one, model.FilterStep) for one in handlers) else "a stream function of an element"


class ChainLayout:
    """The chain as the arrays that the compiled loops read.

    `texts` are the strings that tests compare with, by the row of `tests` that gets the code.
    """

    def __init__(self, plan: ChainPlan, sources: Sequence[int], context: OperatorContext) -> None:
        self.columns = EventColumns(sources, context)
        self.register_types: list[AttributeType] = []
        self.fraction_registers = 0
        self.texts: dict[int, str] = {}
        self._constants: list[float] = []
        self._registers: dict[tuple[bool, int, int], int] = {}
        self._copies: list[list[tuple[int, int, int]]] = [[] for _ in plan.comparisons]
        self._tests: list[tuple[int, int, int, int]] = []
        self._comparisons: list[tuple[int, int, int, int]] = []
        bounds = [
            (*self._add_tests(slot, tests), *self._add_comparisons(slot, comparisons))
            for slot, (tests, comparisons) in enumerate(zip(plan.tests, plan.comparisons, strict=True))
        ]
        self.tests = _table(self._tests, 4)
        self.constants: AnyArray = np.array(self._constants, dtype=np.float64)
        self.comparisons = _table(self._comparisons, 4)
        self.copies = _table([copy for slot in self._copies for copy in slot], 3)
        ends = np.cumsum([len(slot) for slot in self._copies])
        starts = ends - [len(slot) for slot in self._copies]
        self.elements = np.column_stack([_table(bounds, 6), starts, ends]).astype(np.int64)

    def _add_tests(self, slot: int, tests: Sequence[SlotTest]) -> tuple[int, int]:
        """Return (first row, end) of the tests of `slot`."""
        first = len(self._tests)
        for test in tests:
            column = self.columns.column(slot, test.event, test.operand_type)
            value = test.constant
            if isinstance(value, str):
                self.texts[len(self._tests)] = value
                value = 0
            elif test.fractions:
                self._constants.append(float(DTYPES[test.operand_type].type(value)))
                value = len(self._constants) - 1
            self._tests.append((_OPERATORS[test.operator], int(test.fractions), column, int(value)))
        return first, len(self._tests)

    def _add_comparisons(self, slot: int, comparisons: Sequence[SlotComparison]) -> tuple[int, int, int, int]:
        """Return (first row, end, the row that is indexed, the row that is bounded) of the comparisons of `slot`."""
        first = len(self._comparisons)
        indexed = bounded = memory.NONE
        for comparison in comparisons:
            fractions = comparison.fractions
            event = self.columns.column(slot, comparison.event, comparison.operand_type)
            kept = self.columns.column(comparison.slot, comparison.kept, comparison.operand_type)
            register = (fractions, comparison.slot, kept)
            if register not in self._registers:
                self._registers[register] = self._new_register(comparison)
                self._copies[comparison.slot].append((int(fractions), kept, self._registers[register]))
            operator = _OPERATORS[comparison.operator]
            if operator == memory.EQUAL and not fractions and indexed == memory.NONE:
                indexed = len(self._comparisons)
            elif operator >= memory.LESS and fractions and bounded == memory.NONE:
                bounded = len(self._comparisons)
            self._comparisons.append((operator, int(fractions), event, self._registers[register]))
        return first, len(self._comparisons), indexed, bounded

    def _new_register(self, comparison: SlotComparison) -> int:
        if comparison.fractions:
            self.fraction_registers += 1
            return self.fraction_registers - 1
        self.register_types.append(comparison.operand_type)
        return len(self.register_types) - 1


def _table(rows: Sequence[tuple[int, ...]], width: int) -> Int64Array:
    return np.array(rows, dtype=np.int64).reshape(len(rows), width)
