"""Patterns and sequences: a flat chain of steps over numbered slots."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from siddhi.analysis.context import Context
from siddhi.analysis.expression.scope import Slot
from siddhi.analysis.model import (
    BoundScope,
    EveryScope,
    LogicalPair,
    PatternElement,
    PatternStep,
    SourceKind,
    StateMachine,
)
from siddhi.analysis.query.inputs import analyse_chain
from siddhi.language import ast

_Leaf = ast.StreamElement | ast.AbsentElement


def analyse_state(context: Context, state: ast.StateInput) -> StateMachine | None:
    """Return the state machine of a pattern or sequence; None if the attributes of a slot are unknown."""
    return _MachineBuilder(context, state).build()


def state_slots(machine: StateMachine) -> tuple[Slot, ...]:
    """Return the slots of a state machine in the order of its selection.

    Of a pair, Siddhi puts the right side first.
    """
    return tuple(
        Slot(element.slot, element.input.reference, element.input.output, element.counted, named=_is_named(element))
        for element in _in_order(machine.steps)
    )


class _MachineBuilder:
    def __init__(self, context: Context, state: ast.StateInput) -> None:
        self._context = context
        self._state = state
        self._leaves = _leaves(state.element)
        self._done: dict[int, PatternElement] = {}
        self._known = self._all_slots()

    def build(self) -> StateMachine | None:
        steps = self._steps(self._state.element, 0)
        if len(self._done) < len(self._leaves):
            return None
        slots = tuple(self._done[number] for number in range(len(self._leaves)))
        for element in _repeated(steps):
            if element.waiting_ms == 0:
                leaf = self._leaves[element.slot]
                message = "a silence of 0 milliseconds under `every` would never let the clock advance"
                self._context.problems.add("no-time", message, leaf.span, "write a time of at least 1 millisecond")
        return StateMachine(self._state.sequence, steps, slots, _milliseconds(self._state.within))

    def _all_slots(self) -> dict[int, Slot]:
        """Return every slot by number, with the schema of its source before any handler.

        A slot stays hidden until it is built.
        """
        known: dict[int, Slot] = {}
        for number, leaf in enumerate(self._leaves):
            source = leaf.input
            schema = self._context.symbols.schema_of(source.source)
            if schema is not None and not source.inner and not source.fault:
                reference = source.alias or source.source
                known[number] = Slot(number, reference, schema, _is_counted(leaf), hidden=True)
        return known

    def _steps(self, element: ast.StateElement, first: int) -> tuple[PatternStep, ...]:
        """Return the steps of `element`, whose slots are numbered from `first`."""
        match element:
            case ast.NextElement():
                steps = self._chain(element, first)
                return (BoundScope(steps, element.within.milliseconds),) if element.within is not None else steps
            case ast.EveryElement():
                return (EveryScope(self._steps(element.element, first), _milliseconds(element.within)),)
            case ast.LogicalElement():
                return self._pair(element, first)
            case _:
                built = self._element(element, first)
                return (built,) if built is not None else ()

    def _chain(self, chain: ast.NextElement, first: int) -> tuple[PatternStep, ...]:
        steps: list[PatternStep] = []
        held = _held_by_every(chain) if self._state.sequence else 1
        for number, part in enumerate(chain.elements):
            own = self._steps(part, first)
            first += len(_leaves(part))
            if 0 < number < held and steps and isinstance(steps[0], EveryScope):
                steps[0] = EveryScope((*steps[0].steps, *own), steps[0].within_ms)
            else:
                steps += own
        return tuple(steps)

    def _pair(self, pair: ast.LogicalElement, first: int) -> tuple[PatternStep, ...]:
        sides = [(pair.left, first), (pair.right, first + 1)]
        if isinstance(pair.right, ast.AbsentElement) and not isinstance(pair.left, ast.AbsentElement):
            # Siddhi has the `not` on the left wherever it is written.
            sides.reverse()
        # Siddhi builds the right side first: the left one may refer to it, not vice versa.
        right = self._element(*sides[1])
        left = self._element(*sides[0])
        return (LogicalPair(pair.operator, left, right),) if left is not None and right is not None else ()

    def _element(self, leaf: _Leaf, number: int) -> PatternElement | None:
        others = tuple(slot for other, slot in sorted(self._known.items()) if other != number)
        source = analyse_chain(self._context, leaf.input, number, others, in_pattern=True)
        if source is None:
            return None
        if source.kind in {SourceKind.TABLE, SourceKind.AGGREGATION}:
            message = f"{source.kind.value} '{source.source}' is not allowed in a pattern"
            self._context.problems.add("not-a-stream", message, leaf.input.span)
            return None
        minimum, maximum = 1, 1
        if isinstance(leaf, ast.StreamElement) and leaf.minimum is not None and leaf.maximum is not None:
            minimum, maximum = leaf.minimum, leaf.maximum
        counted = _is_counted(leaf)
        self._known[number] = Slot(number, source.reference, source.output, counted)
        absent = isinstance(leaf, ast.AbsentElement)
        waiting = _milliseconds(leaf.waiting) if isinstance(leaf, ast.AbsentElement) else None
        built = PatternElement(number, source, minimum, maximum, counted, absent, waiting)
        self._done[number] = built
        return built


def _leaves(element: ast.StateElement) -> tuple[_Leaf, ...]:
    """Return the elements in text order."""
    match element:
        case ast.NextElement():
            return tuple(leaf for part in element.elements for leaf in _leaves(part))
        case ast.EveryElement():
            return _leaves(element.element)
        case ast.LogicalElement():
            return element.left, element.right
        case _:
            return (element,)


def _held_by_every(chain: ast.NextElement) -> int:
    """Return the number of elements that `every` at the start of a sequence covers.

    This is one, except in a sequence that has a timed `not` after its first element and ends with an event: there, as
    in Siddhi, it covers all elements before the last.
    """
    last = len(chain.elements) - 1
    behind = any(_waits_for_silence(part) for part in chain.elements[1:last])
    return last if behind and not _waits_for_silence(chain.elements[last]) else 1


def _waits_for_silence(element: ast.StateElement) -> bool:
    """Return whether `element` is a `not` without an event in the same step, or a chain with one.

    The `not` may be under `every`, but the elements of a chain under `every` do not count.
    """
    if isinstance(element, ast.LogicalElement):
        return False
    if isinstance(element, ast.NextElement):
        return any(_waits_for_silence(part) for part in element.elements)
    return isinstance(element.element if isinstance(element, ast.EveryElement) else element, ast.AbsentElement)


def _in_order(steps: Iterable[PatternStep]) -> Iterator[PatternElement]:
    for step in steps:
        if isinstance(step, PatternElement):
            yield step
        elif isinstance(step, LogicalPair):
            yield from (step.right, step.left)
        else:
            yield from _in_order(step.steps)


def _repeated(steps: Iterable[PatternStep]) -> Iterator[PatternElement]:
    """Return the elements under `every`."""
    for step in steps:
        if isinstance(step, EveryScope):
            yield from _in_order(step.steps)
        elif isinstance(step, BoundScope):
            yield from _repeated(step.steps)


def _is_named(element: PatternElement) -> bool:
    syntax = element.input.syntax
    return syntax is not None and syntax.alias not in {None, syntax.source}


def _is_counted(leaf: _Leaf) -> bool:
    return isinstance(leaf, ast.StreamElement) and leaf.minimum is not None


def _milliseconds(time: ast.TimeConstant | None) -> int | None:
    return time.milliseconds if time is not None else None
