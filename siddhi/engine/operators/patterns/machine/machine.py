"""A state machine for one query (and one partition instance).

The linked elements, and the path of an event through them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from siddhi.analysis import model
from siddhi.engine.operators.base.scope import source_key
from siddhi.engine.operators.patterns.base.partial import LONG_AGO, Match, Partial, PatternEvent
from siddhi.engine.operators.patterns.machine.absent import AbsentLogicalStep, AbsentStep, Alarm, Progress
from siddhi.engine.operators.patterns.machine.elements import Condition, CountedStep, PatternStep, StepSettings
from siddhi.engine.operators.patterns.machine.horizon import Limits
from siddhi.engine.operators.patterns.machine.logical import LogicalStep

Made = TypeVar("Made", bound=PatternStep)
TimedElement = AbsentStep | AbsentLogicalStep


def machine_slots(machine: model.StateMachine) -> tuple[int, ...]:
    """Return for each slot in text order its place in the machine.

    The orders are the same, except that the right side of `and`/`or` precedes the left.
    """
    order: list[int] = []
    for step in machine.steps:
        _number(step, order)
    places = [0] * len(order)
    for place, slot in enumerate(order):
        places[slot] = place
    return tuple(places)


def _number(step: model.PatternStep, order: list[int]) -> None:
    if isinstance(step, model.PatternElement):
        order.append(step.slot)
    elif isinstance(step, model.LogicalPair):
        order.extend((step.right.slot, step.left.slot))
    else:
        for inner in step.steps:
            _number(inner, order)


@dataclass(frozen=True, slots=True)
class MachinePlan:
    """The shared data of all instances of one machine.

    `conditions` and `attribute_counts` are per slot in text order.
    """

    machine: model.StateMachine
    places: tuple[int, ...]
    conditions: tuple[Condition, ...]
    attribute_counts: tuple[int, ...]


class Machine:
    """One running state machine.

    `progress` is shared by all machines of an operator; `latest` is the latest timestamp of an event.
    """

    def __init__(self, plan: MachinePlan, progress: Progress) -> None:
        self.elements: dict[int, PatternStep] = {}
        self.progress = progress
        self.latest = LONG_AGO
        self._parsed: list[PatternStep] = []
        self._resettable: list[PatternStep] = []
        self._timed: list[TimedElement] = []
        self._sequence = plan.machine.sequence
        _StepBuilder(plan, self).build()

    def start(self, now: int) -> None:
        """Start the machine; waiting times of `not` count from `now`."""
        for element in self._parsed:
            element.initialise()
        for timed in self._timed:
            timed.start(now)

    def prepare(self, slots: Sequence[int], time: int) -> None:
        """Prepare the machine for an event with timestamp `time` that feeds `slots` (last first).

        Old partial matches are dropped, new ones become pending.
        """
        self.latest = max(self.latest, time)
        for element in self._parsed:
            element.expire(self.latest)
        if self._sequence:
            for element in reversed(self._resettable):
                element.reset()
            for element in self._resettable:
                element.update()
        else:
            for slot in reversed(slots):
                self.elements[slot].update()

    def offer(self, slot: int, event: PatternEvent, *, passes: bool) -> list[Match]:
        """Return the matches that `event` completes at `slot` (text order).

        With `passes` it meets the filters that read only the event itself.
        """
        if event.timestamp < self.latest:
            event = replace(event, late=self.latest - event.timestamp)
        return self.elements[slot].offer(event, passes=passes)

    @property
    def parsed(self) -> Sequence[PatternStep]:
        """The elements in the order of their places."""
        return self._parsed

    @property
    def resettable(self) -> Sequence[PatternStep]:
        """The elements that a sequence resets before each event."""
        return self._resettable

    @property
    def timed_elements(self) -> Sequence[TimedElement]:
        """The elements with waiting times, in the order in which alarms of the same time fire."""
        return self._timed

    def partial_count(self) -> int:
        """Return the number of waiting partial matches; one that waits at two elements counts twice."""
        return sum(len(element.pending) + len(element.fresh) for element in self._parsed)

    def entered_partials(self) -> Iterator[tuple[int, Partial]]:
        """Yield the partial matches with an event, with the timestamp of the last one."""
        for element in self._parsed:
            for partial in (*element.pending, *element.fresh):
                if any(partial.slots):
                    yield partial.timestamp, partial

    def drop_partials(self, dropped: set[int]) -> None:
        """Remove the partial matches with these identities from all elements."""
        for element in self._parsed:
            element.pending = [partial for partial in element.pending if id(partial) not in dropped]
            element.fresh = [partial for partial in element.fresh if id(partial) not in dropped]

    def hands_out(self, slots: Sequence[int]) -> bool:
        """Return whether matches found at `slots`, all that one stream feeds, last first, reach the selection.

        They do if the last of these elements is one that completes matches; a stream's only element may also be the
        first of the machine, which is notified of matches by the last. This matters only if a match is found out of
        turn, because an optional last element is complete before it has begun.
        """
        last = self.elements[slots[0]]
        return last.delivers if len(slots) > 1 else last.emitter.delivers

    # ---- absent events

    def next_alarm(self) -> Alarm | None:
        """Return the earliest alarm."""
        element = self._next_timed()
        return None if element is None else element.alarms.first()

    def _next_timed(self) -> TimedElement | None:
        waiting = [(alarm.due, element) for element in self._timed if (alarm := element.alarms.first()) is not None]
        return min(waiting, key=lambda one: one[0], default=(0, None))[1]

    def wake(self, now: int) -> list[Match]:
        """Fire the first alarm and return the matches that it completes; `now` is the clock."""
        element = self._next_timed()
        return [] if element is None else element.wake(element.alarms.pop().due, now)


class _StepBuilder:
    """Creates and links the elements of a machine."""

    def __init__(self, plan: MachinePlan, machine: Machine) -> None:
        self._plan = plan
        self._places = plan.places
        self._machine = machine
        self._limits: Limits = ()
        self._begin_later = False

    def build(self) -> None:
        machine = self._plan.machine
        first, last = self._bound(machine.steps, machine.within_ms, starts=True)
        for element in _both_sides(last):
            element.delivers = True
        if first not in _both_sides(last) or first.waits_for_silence:
            first.emitter = last
        parsed = self._machine._parsed
        # As in Siddhi, a round that begins at a `not` paired with an event keeps the elements after the pair.
        kept = any(isinstance(element.scope_head, AbsentLogicalStep) for element in parsed)
        for element in parsed:
            element.holds_former_events = kept

    def _bound(
        self, steps: Sequence[model.PatternStep], within_ms: int | None, *, starts: bool
    ) -> tuple[PatternStep, PatternStep]:
        """Return the chain of `steps`, with `within_ms` counted from its first event."""
        outer = self._limits, self._begin_later
        if within_ms is not None:
            first = _first_elements(steps[0])
            self._limits = (*self._limits, (tuple(self._places[element.slot] for element in first), within_ms))
            self._begin_later = self._begin_later or any(element.minimum == 0 for element in first)
        ends = self._chain(steps, starts=starts)
        self._limits, self._begin_later = outer
        return ends

    def _chain(self, steps: Sequence[model.PatternStep], *, starts: bool) -> tuple[PatternStep, PatternStep]:
        first, last = self._step(steps[0], starts=starts)
        for step in steps[1:]:
            head, tail = self._step(step, starts=False)
            _link(last, head)
            last = tail
        return first, last

    def _step(self, step: model.PatternStep, *, starts: bool) -> tuple[PatternStep, PatternStep]:
        if isinstance(step, model.EveryScope):
            return self._every(step, starts=starts)
        if isinstance(step, model.BoundScope):
            return self._bound(step.steps, step.within_ms, starts=starts)
        if isinstance(step, model.LogicalPair):
            return self._pair(step, starts=starts)
        element = self._single(step, starts=starts)
        self._machine._resettable.append(element)
        return element, element

    def _every(self, scope: model.EveryScope, *, starts: bool) -> tuple[PatternStep, PatternStep]:
        parsed_before = len(self._machine._parsed)
        units_before = len(self._machine._resettable)
        first, last = self._bound(scope.steps, scope.within_ms, starts=starts)
        for element in _both_sides(last):
            element.rearms = first
        for element in self._machine._parsed[parsed_before:]:
            element.scope_head = first
        self._machine._resettable[units_before:] = [first]
        return first, last

    def _pair(self, pair: model.LogicalPair, *, starts: bool) -> tuple[PatternStep, PatternStep]:
        timed_before = len(self._machine._timed)
        right = self._side(pair.right, pair.operator, starts=starts)
        left = self._side(pair.left, pair.operator, starts=starts)
        self._machine._timed[timed_before:] = reversed(self._machine._timed[timed_before:])
        left.partner, right.partner = right, left
        one_stream = source_key(pair.left.input) == source_key(pair.right.input)
        awaited = not (pair.left.absent or pair.right.absent)
        left.neighbours = right.neighbours = (
            self._plan.machine.sequence and pair.operator == "and" and one_stream and awaited
        )
        self._machine._resettable.append(right)
        return left, right

    def _settings(self, element: model.PatternElement, *, starts: bool) -> StepSettings:
        return StepSettings(
            slot=self._places[element.slot],
            sequence=self._plan.machine.sequence,
            starts=starts,
            condition=self._plan.conditions[element.slot],
            limits=self._limits,
            begin_later=self._begin_later,
            slot_count=len(self._places),
        )

    def _single(self, element: model.PatternElement, *, starts: bool) -> PatternStep:
        settings = self._settings(element, starts=starts)
        if element.absent:
            absent = AbsentStep(settings, element.waiting_ms or 0, self._machine.progress)
            self._machine._timed.append(absent)
            return self._register(element, absent)
        if element.counted:
            return self._register(element, CountedStep(settings, element.minimum, element.maximum))
        return self._register(element, PatternStep(settings))

    def _side(self, element: model.PatternElement, operator: str, *, starts: bool) -> LogicalStep:
        settings = self._settings(element, starts=starts)
        if not element.absent:
            return self._register(element, LogicalStep(settings, operator))
        attributes = self._plan.attribute_counts[element.slot]
        made = AbsentLogicalStep(settings, operator, element.waiting_ms, attributes, self._machine.progress)
        self._machine._timed.append(made)
        return self._register(element, made)

    def _register(self, element: model.PatternElement, made: Made) -> Made:
        self._machine.elements[element.slot] = made
        self._machine._parsed.append(made)
        return made


def _first_elements(step: model.PatternStep) -> tuple[model.PatternElement, ...]:
    while isinstance(step, model.EveryScope | model.BoundScope):
        step = step.steps[0]
    return (step.right, step.left) if isinstance(step, model.LogicalPair) else (step,)


def _both_sides(last: PatternStep) -> tuple[PatternStep, ...]:
    return (last, last.partner) if isinstance(last, LogicalStep) else (last,)


def _link(last: PatternStep, head: PatternStep) -> None:
    for element in _both_sides(last):
        element.following = head
    if isinstance(last, CountedStep) and last.settings.starts and last.settings.sequence and last.minimum == 0:
        head.restarts = last
