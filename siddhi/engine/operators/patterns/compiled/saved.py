"""The state of the compiled state machine as a tree.

`siddhi.engine.operators.patterns.machine.snapshot` writes and reads the tree.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from siddhi.engine.columnar.batch import EventBatch
from siddhi.engine.columnar.column import DTYPES, Column
from siddhi.engine.columnar.kinds import CURRENT
from siddhi.engine.columnar.state_tree import Codes, State
from siddhi.engine.columnar.strings import StringPool
from siddhi.engine.jit.arrays import AnyArray
from siddhi.engine.jit.kernels import state_kernel
from siddhi.engine.operators.patterns.base.columns import SlotLayout, column_of_items
from siddhi.engine.operators.patterns.compiled.expressions import FRACTIONS, Feed
from siddhi.engine.operators.patterns.compiled.kernels import memory as at
from siddhi.engine.operators.patterns.compiled.kernels.lists import add_last, clear_horizon, welcome
from siddhi.engine.operators.patterns.compiled.kernels.loop import order_alarms
from siddhi.engine.operators.patterns.compiled.reader import RowReader
from siddhi.engine.operators.patterns.compiled.room import framed, free_unreached, make_room, more_instances
from siddhi.engine.operators.patterns.machine.snapshot import NO_CHAIN
from siddhi.language.ast import AttributeType


class MachineWriter:
    """Writes the state of all instances; events, chains and partial matches are numbered on first encounter."""

    def __init__(
        self,
        memory: at.Memory,
        rules: at.Rules,
        layouts: Sequence[SlotLayout],
        feeds: Sequence[Feed],
        feed_of_slot: Sequence[int],
    ) -> None:
        self._m = memory
        self._rules = rules
        self._layouts = layouts
        self._feeds = feeds
        self._feed_of_slot = feed_of_slot
        self._partials: list[State] = []
        self._partial_numbers: dict[int, int] = {}
        self._chains: list[list[int]] = []
        self._chain_numbers: dict[int, int] = {}
        self._events: list[dict[int, int]] = [{} for _ in layouts]

    def state(self, places: Sequence[int]) -> State:
        """Return the tree; `places` are those of the slots."""
        slot_of_place = {place: slot for slot, place in enumerate(places)}
        memory, stride = self._m, len(places) + 1
        opened = np.flatnonzero(memory.lists[stride - 1 :: stride, at.OPEN])
        alarms = self._alarms()
        instances = []
        for instance in opened.tolist():
            base = instance * stride
            elements = [self._element(base, place, instance, alarms, slot_of_place) for place in places]
            instances.append([instance, elements, int(memory.lists[base + stride - 1, at.LATEST])])
        return {
            "instances": instances,
            "events": [self._event_table(slot) for slot in range(len(places))],
            "chains": self._chains,
            "partials": self._partials,
        }

    def _alarms(self) -> dict[tuple[int, int], list[int]]:
        """Return the times of the alarms by instance and place, in the order in which they will fire."""
        count = int(self._m.counters[at.ALARMS])
        alarms = self._m.alarms[:count]
        found: dict[tuple[int, int], list[int]] = {}
        order = np.lexsort((alarms[:, at.ALARM_NUMBER], alarms[:, at.DUE]))
        for due, _, instance, timed, _ in alarms[order].tolist():
            found.setdefault((instance, int(self._rules.timed[timed])), []).append(due)
        return found

    def _element(
        self,
        base: int,
        place: int,
        instance: int,
        alarms: dict[tuple[int, int], list[int]],
        slot_of_place: dict[int, int],
    ) -> State:
        row = self._m.lists[base + place]
        state = {
            "pending": self._waiting(int(row[at.PENDING_HEAD]), slot_of_place),
            "fresh": self._waiting(int(row[at.FRESH_HEAD]), slot_of_place),
            "initialised": bool(row[at.INITIALISED]),
            "emitted": bool(row[at.EMITTED]),
        }
        kind = self._rules.elements[place, at.KIND]
        if kind == at.COUNTED:
            state["restart_due"] = bool(row[at.RESTART_DUE])
        if kind in (at.ABSENT, at.ABSENT_LOGICAL):
            state["active"] = bool(row[at.ACTIVE])
            state["alarms"] = alarms.get((instance, place), [])
            state["since"] = int(row[at.SINCE])
        return state

    def _waiting(self, entry: int, slot_of_place: dict[int, int]) -> list[int]:
        numbers = []
        while entry != at.NONE:
            partial, entry = self._m.entries[entry].tolist()
            numbers.append(self._partial(partial, slot_of_place))
        return numbers

    def _partial(self, partial: int, slot_of_place: dict[int, int]) -> int:
        number = self._partial_numbers.get(partial)
        if number is None:
            number = self._partial_numbers[partial] = len(self._partials)
            time, expired, *values = self._m.partials[partial].tolist()
            chains = [self._chain(place, value, slot_of_place[place]) for place, value in enumerate(values)]
            self._partials.append([time, bool(expired), chains])
        return number

    def _chain(self, place: int, value: int, slot: int) -> int:
        if value == at.NONE:
            return NO_CHAIN
        if self._rules.elements[place, at.KIND] != at.COUNTED:
            self._chains.append([self._event(value, slot)])
            return len(self._chains) - 1
        number = self._chain_numbers.get(value)
        if number is None:
            number = self._chain_numbers[value] = len(self._chains)
            self._chains.append([self._event(event, slot) for event in self._events_of(value)])
        return number

    def _events_of(self, chain: int) -> list[int]:
        chunk, _, left = self._m.chains[chain].tolist()
        events: list[int] = []
        while left > 0:
            row = self._m.chunks[chunk].tolist()
            events += row[at.CHUNK_EVENTS :][:left]
            left -= at.CHUNK_SIZE
            chunk = row[at.CHUNK_NEXT]
        return events

    def _event(self, event: int, slot: int) -> int:
        return self._events[slot].setdefault(event, len(self._events[slot]))

    def _event_table(self, slot: int) -> State:
        events = np.array(list(self._events[slot]), dtype=np.int64)
        kept, feed = self._m.kept[events], self._feeds[self._feed_of_slot[slot]]
        whole_count = self._m.kept.shape[1] - at.KEPT_COLUMNS
        columns: list[State] = []
        for name, type_ in zip(self._layouts[slot].names, self._layouts[slot].types, strict=True):
            column = feed.attribute(name, type_)
            fraction = type_ in FRACTIONS
            bit = whole_count + column.number if fraction else column.number
            null = kept[:, at.KEPT_NULLS] >> bit & 1 != 0
            if type_ is AttributeType.STRING:
                columns.append(Codes(np.where(null, -1, kept[:, at.KEPT_COLUMNS + column.number])))
                continue
            values: AnyArray = (
                kept[:, at.KEPT_COLUMNS + column.number]
                if not fraction
                else self._m.kept_fractions[events, column.number]
            )
            items = values.astype(DTYPES[type_]).tolist()
            columns.append([None if gone else item for item, gone in zip(items, null.tolist(), strict=True)])
        return {
            "timestamps": kept[:, at.KEPT_TIME].copy(),
            "late": kept[:, at.KEPT_LATE].copy(),
            "columns": columns,
        }


class MachineReader:
    """Builds the memory of the instances of a saved state."""

    def __init__(
        self,
        rules: at.Rules,
        layouts: Sequence[SlotLayout],
        rows: RowReader,
        feeds: Sequence[Feed],
        feed_of_slot: Sequence[int],
        pool: StringPool,
    ) -> None:
        self._rules = rules
        self._layouts = layouts
        self._rows = rows
        self._feeds = feeds
        self._feed_of_slot = feed_of_slot
        self._pool = pool

    def memory(self, state: State, empty: at.Memory, places: Sequence[int]) -> at.Memory:
        """Return the memory described by `state`; `empty` is the memory without instances."""
        waiting = [
            (key, place, fresh, partial)
            for key, elements, _ in state["instances"]
            for place, element in zip(places, elements, strict=True)
            for fresh, name in enumerate(("pending", "fresh"))
            for partial in element[name]
        ]
        alarms = [
            (due, key, place)
            for key, elements, _ in state["instances"]
            for place, element in zip(places, elements, strict=True)
            for due in element.get("alarms", ())
        ]
        chunk_count = sum(1 + len(chain) // at.CHUNK_SIZE for chain in state["chains"])
        event_count = sum(len(table["timestamps"]) for table in state["events"]) + len(empty.kept)
        wanted = max(len(waiting), len(state["partials"]), len(state["chains"]), chunk_count, event_count, len(alarms))
        last = max((key for key, _, _ in state["instances"]), default=0)
        memory = more_instances(make_room(empty, self._rules, wanted), self._rules, last + 1)
        first_events = self._keep_events(state["events"], memory, len(empty.kept), places)
        self._keep_partials(state, memory, first_events)
        self._keep_elements(state["instances"], memory, places)
        self._keep_alarms(alarms, memory)
        numbers = np.array(waiting, dtype=np.int64).reshape(-1, 4)
        wait_again(framed(memory, self._rules), numbers)
        free_unreached(memory, self._rules)
        return memory

    def _keep_events(
        self, tables: Sequence[State], memory: at.Memory, first: int, places: Sequence[int]
    ) -> dict[int, int]:
        """Store the events of the tables; return the number of the first one of each place."""
        firsts = {}
        for slot, table in enumerate(tables):
            firsts[places[slot]] = first
            count = len(table["timestamps"])
            nulls, whole, fractions = self._rows.values(self._feed_of_slot[slot], self._events(slot, table))
            kept = memory.kept[first : first + count]
            kept[:, at.KEPT_TIME], kept[:, at.KEPT_LATE] = table["timestamps"], table["late"]
            kept[:, at.KEPT_NULLS] = nulls
            kept[:, at.KEPT_COLUMNS :] = whole
            memory.kept_fractions[first : first + count] = fractions
            first += count
        return firsts

    def _events(self, slot: int, table: State) -> EventBatch:
        count = len(table["timestamps"])
        feed = self._feeds[self._feed_of_slot[slot]]
        columns = {name: Column.nulls(type_, self._pool, count) for name, type_ in feed.types.items()}
        layout = self._layouts[slot]
        for name, type_, saved in zip(layout.names, layout.types, table["columns"], strict=True):
            if isinstance(saved, Codes):
                columns[name] = Column(type_, self._pool, values=saved.array.astype(np.int64))
            else:
                columns[name] = column_of_items(type_, self._pool, saved)
        zeros = np.zeros(count, dtype=np.int64)
        return EventBatch(table["timestamps"], np.full(count, CURRENT, dtype=np.int8), zeros, zeros, columns)

    def _keep_partials(self, state: State, memory: at.Memory, first_events: dict[int, int]) -> None:
        elements = self._rules.elements
        counted = [bool(elements[place, at.KIND] == at.COUNTED) for place in range(len(elements))]
        kept_chains: dict[int, int] = {}
        chunks = 0
        for number, (time, expired, of_places) in enumerate(state["partials"]):
            values: list[int] = []
            for place, chain in enumerate(of_places):
                if chain == NO_CHAIN:
                    values.append(at.NONE)
                    continue
                events = [first_events[place] + event for event in state["chains"][chain]]
                if not counted[place]:
                    values.append(events[0])
                    continue
                if chain not in kept_chains:
                    kept_chains[chain] = len(kept_chains)
                    chunks = _keep_chain(memory, kept_chains[chain], events, chunks)
                values.append(kept_chains[chain])
            memory.partials[number] = [time, int(expired), *values]

    def _keep_elements(self, instances: Sequence[Any], memory: at.Memory, places: Sequence[int]) -> None:
        stride = len(places) + 1
        for key, elements, latest in instances:
            base = key * stride
            memory.lists[base + stride - 1, [at.LATEST, at.WAITING_COUNT, at.OPEN]] = latest, 0, 1
            for place, element in zip(places, elements, strict=True):
                row = memory.lists[base + place]
                row[:] = 0
                row[[at.PENDING_HEAD, at.PENDING_TAIL, at.FRESH_HEAD, at.FRESH_TAIL]] = at.NONE
                row[at.INITIALISED] = element["initialised"]
                row[at.EMITTED] = element["emitted"]
                row[at.RESTART_DUE] = element.get("restart_due", False)
                row[at.ACTIVE] = element.get("active", True)
                row[at.SINCE] = element.get("since", 0)

    def _keep_alarms(self, alarms: Sequence[tuple[int, int, int]], memory: at.Memory) -> None:
        timed = {place: number for number, place in enumerate(self._rules.timed.tolist())}
        for number, (due, instance, place) in enumerate(alarms):
            memory.alarms[number] = [due, 0, instance, timed[place], number]
        memory.counters[at.ALARMS] = memory.counters[at.ALARM_COUNT] = len(alarms)
        order_alarms(framed(memory, self._rules))


def _keep_chain(memory: at.Memory, chain: int, events: Sequence[int], chunks: int) -> int:
    """Write the events of a chain into the chunks from `chunks` on; return the first unused chunk."""
    count = 1 + (len(events) - 1) // at.CHUNK_SIZE
    memory.chains[chain] = [chunks, chunks + count - 1, len(events)]
    for number in range(count):
        chunk = memory.chunks[chunks + number]
        part = events[number * at.CHUNK_SIZE : (number + 1) * at.CHUNK_SIZE]
        chunk[at.CHUNK_NEXT] = chunks + number + 1 if number < count - 1 else at.NONE
        chunk[at.CHUNK_PREVIOUS] = chunks + number - 1 if number else at.NONE
        chunk[at.CHUNK_EVENTS : at.CHUNK_EVENTS + len(part)] = part
    return chunks + count


@state_kernel
def wait_again(m, waiting):  # type: ignore[no-untyped-def]
    """Restore the lists of waiting partials: (instance, place, whether fresh, partial)."""
    stride = m[at.ELEMENT_COUNT] + 1
    for row in range(m[at.LIST_ROWS]):
        if row % stride != stride - 1:
            clear_horizon(row, m)
    for number in range(waiting.shape[0]):
        base, element, partial = (waiting[number, 0] * stride, waiting[number, 1], waiting[number, 3])
        if waiting[number, 2]:
            welcome(base, element, partial, m)
        else:
            add_last(base, element, at.PENDING_HEAD, partial, m)
