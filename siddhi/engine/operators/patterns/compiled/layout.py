"""Convert a state machine to arrays for the compiled loop, with the links between elements of the reference machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from siddhi.analysis import model
from siddhi.engine.jit.arrays import Int64Array
from siddhi.engine.operators.patterns.base.partial import Partial, PatternEvent
from siddhi.engine.operators.patterns.base.references import Reference
from siddhi.engine.operators.patterns.compiled.expressions import Programs
from siddhi.engine.operators.patterns.compiled.kernels import memory as at
from siddhi.engine.operators.patterns.machine.absent import AbsentLogicalStep, AbsentStep, Progress
from siddhi.engine.operators.patterns.machine.elements import CountedStep, PatternStep
from siddhi.engine.operators.patterns.machine.logical import LogicalStep
from siddhi.engine.operators.patterns.machine.machine import Machine, MachinePlan
from siddhi.language import ast


def reference_machine(machine: model.StateMachine, places: tuple[int, ...]) -> Machine:
    """Return the reference machine, which is used only for the links between elements."""
    plan = MachinePlan(machine, places, (_never,) * len(places), (0,) * len(places))
    return Machine(plan, Progress())


def _never(partials: Sequence[Partial], _event: PatternEvent) -> Sequence[bool]:
    return [False] * len(partials)


def element_table(machine: Machine, feeds: Mapping[int, int], programs: Programs) -> tuple[Int64Array, Int64Array]:
    """Return the rows of the elements by place, and the limits that they refer to.

    Args:
        machine: the reference machine.
        feeds: the source that feeds each place.
        programs: the conditions by place.
    """
    by_place = {element.slot: element for element in machine.elements.values()}
    table = np.full((len(by_place), at.ELEMENT_WIDTH), at.NONE, dtype=np.int64)
    limits: list[tuple[int, int]] = []
    counted_before = {
        element.following.slot
        for element in by_place.values()
        if isinstance(element, CountedStep) and element.following is not None
    }
    for place, element in by_place.items():
        row = table[place]
        settings = element.settings
        row[at.KIND] = _kind(element)
        row[at.FOLLOWING] = _place(element.following)
        row[at.REARMS] = _place(element.rearms)
        row[at.SCOPE_HEAD] = _place(element.scope_head)
        row[at.RESTARTS] = _place(element.restarts)
        row[at.EMITTER] = _place(element.emitter)
        row[at.DELIVERS] = element.delivers
        row[at.HOLDS_FORMER] = element.holds_former_events
        row[at.STARTS] = settings.starts
        row[at.BEGIN_LATER] = settings.begin_later
        row[[at.MINIMUM, at.MAXIMUM]] = 1
        row[[at.SIDE_BY_SIDE, at.NEIGHBOURS, at.CONJUNCTION]] = 0
        if isinstance(element, CountedStep):
            row[[at.MINIMUM, at.MAXIMUM]] = element.minimum, element.maximum
            row[at.SIDE_BY_SIDE] = settings.sequence and element.minimum > 1
        if isinstance(element, LogicalStep):
            row[at.PARTNER] = element.partner.slot
            row[at.NEIGHBOURS] = element.neighbours
            row[at.CONJUNCTION] = element.conjunction
        if isinstance(element, AbsentStep | AbsentLogicalStep):
            row[at.WAITING] = at.NONE if element.waiting_ms is None else element.waiting_ms
            row[at.TIMED_PLACE] = machine.timed_elements.index(element)
        row[at.FIRST_LIMIT] = len(limits)
        limits += [(slot, within) for slots, within in settings.limits for slot in slots]
        row[at.END_LIMIT] = len(limits)
        row[at.FIRST_INSTRUCTION], row[at.END_INSTRUCTION] = programs.bounds[place]
        before_absent = element.following is not None and element.following.waits_for_silence
        row[at.BEFORE_ABSENT] = settings.sequence and before_absent
        row[at.FEED] = feeds[place]
        row[at.SURVIVES] = element.survives_mismatch
        row[at.SHOWN_TWICE] = settings.sequence or element.holds_former_events or place in counted_before
    return table, np.array(limits, dtype=np.int64).reshape(-1, 2)


def _kind(element: PatternStep) -> int:
    if isinstance(element, AbsentLogicalStep):
        return at.ABSENT_LOGICAL
    if isinstance(element, LogicalStep):
        return at.LOGICAL
    if isinstance(element, AbsentStep):
        return at.ABSENT
    return at.COUNTED if isinstance(element, CountedStep) else at.PLAIN


def _place(element: PatternStep | None) -> int:
    return at.NONE if element is None else element.slot


def selection_of(index: ast.EventIndex | None) -> tuple[int, int]:
    """Return how the kernel selects the event at `index`, and the offset."""
    if index is None:
        return at.LAST_EVENT, 0
    return (at.FROM_LAST if index.from_last else at.FROM_FIRST), index.offset


class EventReferences:
    """The events of a match that a selection reads, each once."""

    def __init__(self, read: Mapping[str, Reference], places: Sequence[int]) -> None:
        self._known: dict[tuple[int, int, int], int] = {}
        self.of_column: dict[str, int] = {}
        for name, reference in read.items():
            key = (places[reference.slot], *selection_of(reference.index))
            self.of_column[name] = self._known.setdefault(key, len(self._known))

    @property
    def table(self) -> Int64Array:
        """Return place, mode and offset of each."""
        return np.array(list(self._known), dtype=np.int64).reshape(-1, 3)
