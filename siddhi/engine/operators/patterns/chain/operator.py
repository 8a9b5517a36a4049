"""Chains of plain elements, whole batches at a time: the operator for the common patterns and sequences.

    batches ──EventReader──▶ events ──run_pattern / run_sequence──▶ matches ──ChainOutput──▶ columns
                                          ▲ │
                                          │ ▼
                                       ChainState

Partial matches refer to rows of the batch while it is processed; at its end the values that are still needed are
copied.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import numpy as np

from siddhi.engine.columnar.batch import EventBatch
from siddhi.engine.columnar.state_size import StateSize, held_bytes
from siddhi.engine.columnar.state_tree import Codes, State
from siddhi.engine.jit.arrays import AnyArray, Int64Array
from siddhi.engine.jit.kernels import grown, kernel_array
from siddhi.engine.operators.base.choices import Execution
from siddhi.engine.operators.base.operator import MergedRows, MergingOperator, OperatorContext, Step
from siddhi.engine.operators.base.scope import source_key
from siddhi.engine.operators.patterns.base.limit import PartialLimit
from siddhi.engine.operators.patterns.base.references import Reference
from siddhi.engine.operators.patterns.chain import memory
from siddhi.engine.operators.patterns.chain.events import EventReader
from siddhi.engine.operators.patterns.chain.joining import joined_chains, parted_chain
from siddhi.engine.operators.patterns.chain.lists import (
    close_instances,
    drop_partials,
    live_partials,
    open_instances,
    relink,
    settle,
)
from siddhi.engine.operators.patterns.chain.memory import ChainRules, ChainState
from siddhi.engine.operators.patterns.chain.output import ChainOutput, SlotEvents
from siddhi.engine.operators.patterns.chain.pattern_loop import run_pattern
from siddhi.engine.operators.patterns.chain.plan import ChainLayout, ChainPlan
from siddhi.engine.operators.patterns.chain.sequence_loop import run_sequence
from siddhi.engine.tuning import INITIAL_CHAIN_ROOM
from siddhi.language.ast import AttributeType


class ChainOperator(MergingOperator):
    """A chain of plain elements over its streams, for all partition instances at once.

    `read` are the references of the query's selection, by the name of their output column. Every match is a row in its
    own chunk, with the timestamp of the event that completed it.
    """

    execution = Execution.COMPILED

    def __init__(self, plan: ChainPlan, read: Mapping[str, Reference], context: OperatorContext) -> None:
        machine = plan.machine
        self._context = context
        self.pool = context.pool
        self.sources = tuple(dict.fromkeys(source_key(element.input) for element in machine.slots))
        self.source_of = [self.sources.index(source_key(element.input)) for element in machine.slots]
        self._count = len(machine.slots)
        layout = ChainLayout(plan, self.source_of, context)
        self._register_types = layout.register_types
        self._fraction_registers = layout.fraction_registers
        self._texts = layout.texts
        self._rules = self._rules_of(plan, layout)
        chained = self._rules.elements[:, memory.INDEXED] != memory.NONE
        bounded = self._rules.elements[:, memory.BOUNDED] != memory.NONE
        self._sequence = machine.sequence
        self._chained = not machine.sequence and bool(chained.any())
        self._list_bounded = not machine.sequence and bool((bounded & ~chained).any())
        self._gathers = self.source_of.count(self.source_of[-1]) > 1  # the matches of an event are emitted as one chunk
        self._run = run_sequence if machine.sequence else run_pattern
        self.reader = EventReader(layout.columns, len(self.sources))
        self.output = ChainOutput(machine, read, context.pool)
        nothing = np.zeros(0, dtype=np.int64)
        self._nothing = EventBatch(
            nothing,
            None,
            nothing,
            nothing,
            self.output.no_rows(),
            None,
            nothing if context.partitioned else None,
            only_current=True,
        )
        self._kept: Int64Array = np.zeros((3, 0), dtype=np.int64)
        self._limit = PartialLimit(context.max_partial_matches)
        self._state = self._new_state()

    def _rules_of(self, plan: ChainPlan, layout: ChainLayout) -> ChainRules:
        machine = plan.machine
        settings = np.zeros(memory.SETTING_COUNT, dtype=np.int64)
        settings[memory.ELEMENTS] = self._count
        settings[memory.WITHIN] = memory.NONE if machine.within_ms is None else machine.within_ms
        settings[memory.IS_SEQUENCE] = machine.sequence
        settings[memory.SCOPE_END] = memory.NONE if plan.scope_end is None else plan.scope_end
        settings[memory.REGISTERS] = memory.REFERENCES + self._count - 1
        settings[memory.FRACTION_NULLS] = len(layout.register_types)
        offers = np.full((len(self.sources), self._count), memory.NONE, dtype=np.int64)
        for source in range(len(self.sources)):
            fed = [slot for slot in reversed(range(self._count)) if self.source_of[slot] == source]
            offers[source, : len(fed)] = fed
        return ChainRules(
            settings,
            layout.elements,
            layout.tests,
            layout.constants,
            layout.comparisons,
            layout.copies,
            offers,
            layout.columns.texts,
        )

    def _new_state(self) -> ChainState:
        width = memory.whole_lines(self._rules.settings[memory.REGISTERS] + len(self._register_types))
        counters = np.zeros(memory.FROM_BEFORE + self._count, dtype=np.int64)
        counters[memory.FREE] = memory.NONE
        table, chain_bounds = self._new_table(2 * INITIAL_CHAIN_ROOM)
        return ChainState(
            partials=memory.in_lines(INITIAL_CHAIN_ROOM, width, 0),
            floats=np.zeros((INITIAL_CHAIN_ROOM, self._fraction_registers), dtype=np.float64),
            lists=memory.in_lines(0, memory.LIST_WIDTH, memory.NONE),
            list_bounds=np.zeros(0, dtype=np.float64),
            table=table,
            chain_bounds=chain_bounds,
            counters=counters,
            touched=np.zeros(INITIAL_CHAIN_ROOM, dtype=np.int64),
            matches=np.zeros((memory.MATCH_REFERENCES + self._count, 2 * INITIAL_CHAIN_ROOM), dtype=np.int64),
        )

    def _new_table(self, places: int) -> tuple[Int64Array, AnyArray]:
        """Return an empty table, and bounds that no event exceeds."""
        if not self._chained:
            places = 0
        table = np.full((self._count, places, 2), memory.NONE, dtype=np.int64)
        bounds = np.full((self._count, places), np.inf, dtype=np.float64)
        for element, bounded in enumerate(self._rules.elements[:, memory.BOUNDED].tolist()):
            if bounded != memory.NONE and self._rules.comparisons[bounded, memory.OPERATOR] < memory.GREATER:
                bounds[element] = -np.inf
        return table, bounds.ravel()

    # ---- lifecycle

    def start(self, clock_ms: int) -> None:
        if not self._context.partitioned:
            self._open(np.zeros(1, dtype=np.int64))

    def _open(self, instances: Int64Array) -> None:
        """Open these instances: one empty partial match waits at the first element of each."""
        count = int(instances.max()) + 1
        state = self._state
        if count * self._count > len(state.lists):
            lists = memory.more_lines(state.lists, count * self._count, memory.NONE)
            bounds = grown(state.list_bounds, len(lists)) if self._list_bounded else state.list_bounds
            state = self._state = state._replace(lists=lists, list_bounds=bounds)
        open_instances(kernel_array(instances), self._count, state.lists)

    def close_partitions(self, partitions: Int64Array) -> None:
        close_instances(partitions, self._state, self._rules)

    # ---- a step

    def process(self, inputs: MergedRows, step: Step) -> EventBatch:
        if len(step.opened):
            self._open(step.opened)
        self._find_texts()
        offsets = _offsets(inputs.batches)
        counters = self._state.counters
        counters[memory.ROWS], places = self.reader.read(inputs, offsets)
        self._run_through()
        out = self._batch(inputs, places, offsets) if counters[memory.MATCHES] else self._nothing
        if counters[memory.TOUCHES]:
            self._keep(inputs, offsets)
        self.keep_to_limit()
        return out

    def _find_texts(self) -> None:
        """Look up the current codes of the strings that tests compare with."""
        for row, text in self._texts.items():
            self._rules.tests[row, memory.CONSTANT] = self._context.pool.code(text)

    def keep_to_limit(self) -> None:
        """Drop the oldest partial matches when there are more than allowed."""
        excess = self._limit.excess(int(self._state.counters[memory.LIVE]))
        if excess:
            self._drop_oldest(excess)

    def _drop_oldest(self, count: int) -> None:
        live = self._live()
        oldest = np.argpartition(self._state.partials[live, memory.START], count - 1)[:count]
        drop_partials(live[oldest], self._state, self._rules)

    def _run_through(self) -> None:
        """Run all events through the state loop, which leaves the matches in order in the state."""
        counters = self._state.counters
        counters[memory.CURSOR] = 0
        while not self._run(*self._state, *self._rules, *self.reader.events):
            self._make_room()

    def _make_room(self) -> None:
        """Make room for the event at which the state loop stopped, and for as many more partial matches and matches."""
        state, events = self._state, self.reader.events
        live, matches = int(state.counters[memory.LIVE]), int(state.counters[memory.MATCHES])
        place = int(state.counters[memory.CURSOR])
        row = int(events.order[place]) if len(events.order) else place
        own = int(events.whole[memory.EVENT_INSTANCE, row]) * self._count
        wanted = live + int(state.lists[own, memory.SEEDS] + state.lists[own, memory.FRESH_SEEDS]) + 1
        if wanted > len(state.partials):
            partials = memory.more_lines(state.partials, wanted, 0)
            floats, touched = grown(state.floats, len(partials)), grown(state.touched, len(partials))
            state = state._replace(partials=partials, floats=floats, touched=touched)
        if matches + wanted > state.matches.shape[1]:
            more = np.zeros((len(state.matches), matches + 2 * wanted), dtype=np.int64)
            state = state._replace(matches=np.concatenate([state.matches, more], axis=1))
        self._state = state
        if self._chained and len(state.partials) > state.table.shape[1]:
            self._empty_table()

    def _empty_table(self) -> None:
        """Replace the table by an empty one with twice as many positions as there is room for partial matches.

        The state loop fills it.
        """
        if not self._sequence:
            table, chain_bounds = self._new_table(1 << (2 * len(self._state.partials) - 1).bit_length())
            self._state = self._state._replace(table=table, chain_bounds=chain_bounds)
            self._state.counters[memory.EMPTY_TABLE] = 1

    def _batch(self, inputs: MergedRows, places: Int64Array | None, offsets: Sequence[int]) -> EventBatch:
        """Return the matches of the batch that was processed."""
        state = self._state
        found = state.matches[:, : state.counters[memory.MATCHES]].copy()
        causes, partials, references = found[0], found[1], found[memory.MATCH_REFERENCES :]
        events = []
        for slot, source in enumerate(self.source_of):
            rows = references[slot]
            if offsets[source]:
                rows = np.where(rows >= 0, rows - offsets[source], memory.NONE)
            from_before = int(state.counters[memory.FROM_BEFORE + slot])
            events.append(SlotEvents(inputs.batches[source], rows, from_before))
        batch, last, _ = events[-1]
        deliveries = causes if self._gathers and len(causes) > 1 else None
        orders = clocks = None
        if len(inputs.batches) > 1:
            causes = causes if places is None else places[causes]
            orders, clocks = inputs.orders[causes], inputs.clocks[causes]
        return EventBatch(
            batch.timestamps[last],
            None,
            orders,
            clocks,
            self.output.columns(events, partials),
            None,
            None if batch.partitions is None else batch.partitions[last],
            deliveries,
            only_current=True,
            origin=(batch, last),
        )

    def _keep(self, inputs: MergedRows, offsets: Sequence[int]) -> None:
        """Copy the events of the batch that live partial matches contain."""
        partials, slots, rows = self._touched()
        room = len(self._state.partials)
        for slot, source in enumerate(self.source_of[:-1]):
            own = slice(None) if self._count == 2 else slots == slot
            own_rows = rows[own] - offsets[source] if offsets[source] else rows[own]
            self.output.keep(slot, partials[own], inputs.batches[source], own_rows, room)

    def _touched(self) -> Int64Array:
        """Return the partial matches that contain events of the batch, their slots, and the rows of these events.

        After this call they refer to the copies that the caller makes.
        """
        state = self._state
        most = int(state.counters[memory.TOUCHES]) * self._count
        if most > self._kept.shape[1]:
            self._kept = np.zeros((3, 2 * most), dtype=np.int64)
        return self._kept[:, : settle(self._kept, state.partials, state.touched, state.counters)]

    # ---- small batches of one source

    def process_few(
        self, source: int, timestamps: Int64Array, values: Mapping[str, AnyArray], instances: Int64Array | None
    ) -> int:
        """Process a few events of one source, and return the number of matches.

        Events are as in `EventReader.read_values`, all in known instances. Matches are available until `finish_few`.
        """
        self._find_texts()
        self.reader.read_values(source, timestamps, values, instances)
        counters = self._state.counters
        counters[memory.ROWS] = len(timestamps)
        self._run_through()
        return counters.item(memory.MATCHES)

    def matches(self) -> tuple[Int64Array, list[int]]:
        """Return the matches of the last batch, as stored in `ChainState`.

        Also return, for each slot, how many matches have an event of an earlier batch in it.
        """
        state = self._state
        return state.matches, state.counters[memory.FROM_BEFORE :].tolist()

    def finish_few(self, source: int, values: Mapping[str, AnyArray]) -> None:
        """Copy the events of `process_few` that live partial matches contain."""
        if self._state.counters.item(memory.TOUCHES):
            partials, slots, rows = self._touched()
            room = len(self._state.partials)
            for slot, fed_by in enumerate(self.source_of[:-1]):
                if fed_by == source:
                    own = slice(None) if self._count == 2 else slots == slot
                    self.output.keep_values(slot, partials[own], values, rows[own], room)
        self.keep_to_limit()

    # ---- state

    def state_size(self) -> StateSize:
        live = int(self._state.counters[memory.LIVE])
        return StateSize(
            partial_matches=live,
            dropped_partial_matches=self._limit.dropped,
            bytes=held_bytes(self._state) + held_bytes(self.output),
        )

    @property
    def live(self) -> int:
        """The number of partial matches."""
        return int(self._state.counters[memory.LIVE])

    def live_by_instance(self, instances: int) -> Int64Array:
        """Return the number of partial matches of each of `instances` partition instances."""
        return np.bincount(self._state.partials[self._live(), memory.INSTANCE], minlength=instances)

    def apart(self, instances: int) -> list[State]:
        """Return the state of each of `instances` partition instances, as that of a separate operator."""
        return parted_chain(self.snapshot(), instances, self._count)

    def _live(self) -> Int64Array:
        """Return the live partials, list by list in order."""
        live: Int64Array = np.zeros(int(self._state.counters[memory.LIVE]), dtype=np.int64)
        live_partials(live, self._state, self._rules)
        return live

    # ---- snapshot

    def snapshot(self) -> State:
        state = self._state
        order = self._live()
        base = self._rules.settings[memory.REGISTERS]
        registers = [
            Codes(state.partials[order, base + number])
            if type_ is AttributeType.STRING
            else state.partials[order, base + number]
            for number, type_ in enumerate(self._register_types)
        ]
        return {
            "partials": state.partials[order][:, : memory.SAVED_COLUMNS],
            "registers": registers,
            "fractions": state.floats[order],
            "updated": state.lists[:, memory.UPDATED].copy(),
            "instances": state.lists[:: self._count, : memory.INSTANCE_WIDTH].copy(),
            "kept": self.output.snapshot(order),
        }

    def joined(self, states: Sequence[State], ids: Sequence[Int64Array]) -> State:
        return joined_chains(states, ids, self._count)

    def restore(self, state: State) -> None:
        count = len(state["partials"])
        fresh = self._new_state()
        partials = memory.more_lines(fresh.partials, count, 0)
        partials[:count, : memory.SAVED_COLUMNS] = state["partials"]
        base = self._rules.settings[memory.REGISTERS]
        partials[:count, memory.REFERENCES : base] = memory.NONE
        partials[:count, memory.PLACE] = memory.NONE
        for number, register in enumerate(state["registers"]):
            partials[:count, base + number] = register.array if isinstance(register, Codes) else register
        floats = grown(fresh.floats, len(partials))
        floats[:count] = state["fractions"]
        lists = memory.in_lines(len(state["updated"]), memory.LIST_WIDTH, memory.NONE)
        lists[:, memory.UPDATED] = state["updated"]
        lists[:: self._count, : memory.INSTANCE_WIDTH] = state["instances"]
        fresh.counters[memory.UNUSED] = fresh.counters[memory.LIVE] = count
        self._state = fresh._replace(
            partials=partials,
            floats=floats,
            lists=lists,
            list_bounds=np.zeros(len(lists) if self._list_bounded else 0, dtype=np.float64),
            touched=grown(fresh.touched, len(partials)),
        )
        self.output.restore(state["kept"])
        relink(count, self._state, self._rules)
        self._empty_table()


def _offsets(batches: Sequence[EventBatch]) -> Sequence[int]:
    """Return the start of each batch when all are concatenated, and the end of the last."""
    if len(batches) == 1:
        return (0, batches[0].size)
    return list(itertools.accumulate((batch.size for batch in batches), initial=0))
