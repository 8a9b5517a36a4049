"""Convert the state of machines to a tree and back.

It has tables of events, chains and partial matches, and the lists of partial matches per element.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from siddhi.engine.columnar.state_tree import Codes, State
from siddhi.engine.operators.patterns.base.columns import SlotLayout
from siddhi.engine.operators.patterns.base.partial import EventChain, Partial, PatternEvent
from siddhi.engine.operators.patterns.machine.absent import AbsentLogicalStep, AbsentStep, Progress
from siddhi.engine.operators.patterns.machine.elements import CountedStep, PatternStep
from siddhi.engine.operators.patterns.machine.machine import Machine, MachinePlan
from siddhi.language.ast import AttributeType

NO_CHAIN = -1


class _SnapshotWriter:
    """Numbers events, chains and partial matches on first encounter; shared ones are written once."""

    def __init__(self, layouts: Sequence[SlotLayout], places: Sequence[int]) -> None:
        self._layouts = layouts
        self._slot_of_place = {place: slot for slot, place in enumerate(places)}
        self._events: list[list[PatternEvent]] = [[] for _ in layouts]
        self._event_numbers: list[dict[int, int]] = [{} for _ in layouts]
        self._chains: list[list[int]] = []
        self._chain_numbers: dict[int, int] = {}
        self._partials: list[list[Any]] = []
        self._partial_numbers: dict[int, int] = {}

    def partials(self, waiting: Sequence[Partial]) -> list[int]:
        return [self._partial(partial) for partial in waiting]

    def _partial(self, partial: Partial) -> int:
        number = self._partial_numbers.get(id(partial))
        if number is None:
            number = len(self._partials)
            self._partial_numbers[id(partial)] = number
            chains = [self._chain(chain, self._slot_of_place[place]) for place, chain in enumerate(partial.slots)]
            self._partials.append([partial.timestamp, partial.expired, chains])
        return number

    def _chain(self, chain: EventChain | None, slot: int) -> int:
        if chain is None:
            return NO_CHAIN
        number = self._chain_numbers.get(id(chain))
        if number is None:
            number = len(self._chains)
            self._chain_numbers[id(chain)] = number
            self._chains.append([self._event(event, slot) for event in chain])
        return number

    def _event(self, event: PatternEvent, slot: int) -> int:
        numbers = self._event_numbers[slot]
        number = numbers.get(id(event))
        if number is None:
            number = len(numbers)
            numbers[id(event)] = number
            self._events[slot].append(event)
        return number

    def tables(self) -> State:
        return {
            "events": [_event_table(layout, kept) for layout, kept in zip(self._layouts, self._events, strict=True)],
            "chains": self._chains,
            "partials": self._partials,
        }


def _event_table(layout: SlotLayout, events: Sequence[PatternEvent]) -> State:
    columns: list[State] = []
    for position, type_ in enumerate(layout.types):
        items = [event.values[position] for event in events]
        if type_ is AttributeType.STRING:
            columns.append(Codes(np.array([-1 if item is None else item for item in items], dtype=np.int64)))
        else:
            columns.append(items)
    return {
        "timestamps": np.array([event.timestamp for event in events], dtype=np.int64),
        "late": np.array([event.late for event in events], dtype=np.int64),
        "columns": columns,
    }


def _events_of(table: State) -> list[PatternEvent]:
    columns: list[list[Any]] = []
    for column in table["columns"]:
        if isinstance(column, Codes):
            columns.append([None if code < 0 else code for code in column.array.tolist()])
        else:
            columns.append(column)
    timestamps = table["timestamps"].tolist()
    rows = zip(*columns, strict=True) if columns else [()] * len(timestamps)
    late = table["late"].tolist()
    return [PatternEvent(*event) for event in zip(timestamps, rows, late, strict=True)]


def snapshot_machines(machines: Mapping[int, Machine], layouts: Sequence[SlotLayout], places: Sequence[int]) -> State:
    """Return the state of `machines` by key; `layouts` and `places` are per slot in text order."""
    writer = _SnapshotWriter(layouts, places)
    instances = [
        [key, [_element_state(machine.elements[slot], writer) for slot in range(len(places))], machine.latest]
        for key, machine in machines.items()
    ]
    return {"instances": instances, **writer.tables()}


def _element_state(element: PatternStep, writer: _SnapshotWriter) -> State:
    state = {
        "pending": writer.partials(element.pending),
        "fresh": writer.partials(element.fresh),
        "initialised": element.initialised,
        "emitted": element.emitted,
    }
    if isinstance(element, CountedStep):
        state["restart_due"] = element.restart_due
    if isinstance(element, AbsentStep | AbsentLogicalStep):
        state["active"] = element.active
        state["alarms"] = element.alarms.dues()
        state["since"] = element.last_alarm if isinstance(element, AbsentStep) else element.last_arrival
    return state


def restore_machines(state: State, plan: MachinePlan, progress: Progress) -> dict[int, Machine]:
    """Return the machines from a state of `snapshot_machines`."""
    slot_of_place = {place: slot for slot, place in enumerate(plan.places)}
    events = [_events_of(table) for table in state["events"]]
    chains: dict[int, EventChain] = {}
    partials = []
    for timestamp, expired, numbers in state["partials"]:
        slots: list[EventChain | None] = []
        for place, number in enumerate(numbers):
            if number != NO_CHAIN and number not in chains:
                kept = events[slot_of_place[place]]
                chains[number] = [kept[event] for event in state["chains"][number]]
            slots.append(None if number == NO_CHAIN else chains[number])
        partials.append(Partial(slots, timestamp, expired))
    machines: dict[int, Machine] = {}
    for key, elements, latest in state["instances"]:
        machines[key] = Machine(plan, progress)
        machines[key].latest = latest
        for slot, element in enumerate(elements):
            _restore_element(machines[key].elements[slot], element, partials)
    return machines


def _restore_element(element: PatternStep, state: State, partials: Sequence[Partial]) -> None:
    element.pending = [partials[number] for number in state["pending"]]
    for number in state["fresh"]:
        element.welcome(partials[number])
    element.initialised = state["initialised"]
    element.emitted = state["emitted"]
    if isinstance(element, CountedStep):
        element.restart_due = state["restart_due"]
    if isinstance(element, AbsentStep | AbsentLogicalStep):
        element.active = state["active"]
        element.alarms.restore(state["alarms"])
        if isinstance(element, AbsentStep):
            element.last_alarm = state["since"]
        else:
            element.last_arrival = state["since"]
