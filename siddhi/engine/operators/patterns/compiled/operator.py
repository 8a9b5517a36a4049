"""Patterns and sequences of every form in one compiled loop.

    batches ──RowReader──▶ rows ──run_machine──▶ matches ──MatchOutput──▶ columns
                                     ▲ │
                                     │ ▼
                                    Memory

Events in partial matches are copied into `Memory`, so nothing refers to an earlier batch. The saved state is the same
as that of the reference, `EventMachineOperator`, so that either can replace the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from siddhi.analysis import model
from siddhi.analysis.expression.walk import conjunction
from siddhi.engine.columnar.batch import EventBatch
from siddhi.engine.columnar.state_size import StateSize, held_bytes
from siddhi.engine.columnar.state_tree import State
from siddhi.engine.jit.arrays import Int64Array
from siddhi.engine.jit.bits import address_of
from siddhi.engine.jit.kernels import kernel_array
from siddhi.engine.operators.base.choices import Execution
from siddhi.engine.operators.base.operator import MergedRows, MergingOperator, OperatorContext, Step
from siddhi.engine.operators.base.scope import source_key
from siddhi.engine.operators.expressions.compiler import ExpressionCompiler
from siddhi.engine.operators.patterns.base.columns import layouts
from siddhi.engine.operators.patterns.base.conditions import EventFilter, filter_expressions, filters_of, split_filter
from siddhi.engine.operators.patterns.base.limit import PartialLimit
from siddhi.engine.operators.patterns.base.references import Reference, references
from siddhi.engine.operators.patterns.compiled.expressions import Feed, NotCompilableError, Programs
from siddhi.engine.operators.patterns.compiled.kernels import memory as at
from siddhi.engine.operators.patterns.compiled.kernels.collect import close_instances, drop_partials, waiting_partials
from siddhi.engine.operators.patterns.compiled.kernels.loop import open_instance, order_alarms, return_due, run_machine
from siddhi.engine.operators.patterns.compiled.layout import EventReferences, element_table, reference_machine
from siddhi.engine.operators.patterns.compiled.output import MatchOutput
from siddhi.engine.operators.patterns.compiled.reader import RowReader, null_events
from siddhi.engine.operators.patterns.compiled.room import (
    first_memory,
    framed,
    free_unreached,
    make_room,
    more_instances,
)
from siddhi.engine.operators.patterns.compiled.saved import MachineReader, MachineWriter
from siddhi.engine.operators.patterns.machine.joining import joined_machines
from siddhi.engine.operators.patterns.machine.machine import machine_slots
from siddhi.engine.tuning import MAX_NULL_MASK_COLUMNS


class CompiledMachineOperator(MergingOperator):
    """A state machine over its streams, for all partition instances at once.

    `read` are the references of the query's selection, by the name of their output column. Every match is a row in its
    own chunk, with the timestamp of the event (or of the end of the absence) that completed it.

    Raises:
        NotCompilableError: the loop does not support the machine.
    """

    execution = Execution.COMPILED

    def __init__(self, machine: model.StateMachine, read: Mapping[str, Reference], context: OperatorContext) -> None:
        self._context = context
        self.sources = tuple(dict.fromkeys(source_key(element.input) for element in machine.slots))
        self._feed_of_slot = [self.sources.index(source_key(element.input)) for element in machine.slots]
        self._places = places = machine_slots(machine)
        self._slots = sorted(range(len(places)), key=lambda slot: places[slot])
        self._layouts = layouts(machine, {**read, **references(filter_expressions(machine))})
        self._feeds = [Feed(context) for _ in self.sources]
        for slot, layout in enumerate(self._layouts):
            for name, type_ in zip(layout.names, layout.types, strict=True):
                self._feeds[self._feed_of_slot[slot]].attribute(name, type_)
        self._programs = Programs(
            self._feeds, self._feed_of_slot, [element.counted for element in machine.slots], places, context
        )
        filters = self._read_filters(machine)
        self._reader = RowReader(self._feeds, filters, [self._feed_of_slot[slot] for slot in self._slots])
        if self._reader.whole_count + self._reader.fraction_count > MAX_NULL_MASK_COLUMNS:
            raise NotCompilableError(f"it reads more than {MAX_NULL_MASK_COLUMNS} values of an event")
        events = EventReferences(read, places)
        self._rules = self._rules_of(machine, events)
        self._output = MatchOutput(read, events, self._feeds, self._feed_of_slot, self._reader.whole_count, context)
        self._timed = bool(self._rules.settings[at.HAS_TIMERS])
        self._gathers = bool(self._rules.settings[at.GATHERS])
        self._limit = PartialLimit(context.max_partial_matches)
        self._memory = self._first_memory()
        self._nothing = self._batch(self._memory.matches)

    def _read_filters(self, machine: model.StateMachine) -> list[EventFilter]:
        filters: dict[int, EventFilter] = {}
        for element in machine.slots:
            handlers = (*element.input.before, *element.input.after)
            if not all(isinstance(step, model.FilterStep) for step in handlers):
                raise NotCompilableError("an element calls a stream function")
            if element.absent and element.waiting_ms == 0:
                raise NotCompilableError("it waits for a silence of 0 milliseconds")
            for step in filters_of(element):
                whole = ExpressionCompiler(self._context, several=True).compile(step.condition)
                if whole.can_fail or whole.stateful:
                    raise NotCompilableError("a filter may fail or keeps state")
            split = split_filter(filters_of(element), element.slot, self._context)
            filters[self._places[element.slot]] = EventFilter(split.alone, self._context)
            self._programs.add(element.slot, conjunction(split.across))
        return [filters[place] for place in range(len(filters))]

    def _rules_of(self, machine: model.StateMachine, events: EventReferences) -> at.Rules:
        linked = reference_machine(machine, self._places)
        feed_of_place = dict(zip(self._places, self._feed_of_slot, strict=True))
        elements, limits = element_table(linked, feed_of_place, self._programs)
        offers = np.full((len(self.sources), len(elements)), at.NONE, dtype=np.int64)
        hands_out = np.zeros(len(self.sources), dtype=np.int64)
        gathers = False
        for source in range(len(self.sources)):
            fed = [place for place in reversed(range(len(elements))) if feed_of_place[place] == source]
            offers[source, : len(fed)] = fed
            hands_out[source] = linked.hands_out([self._slots[place] for place in fed])
            gathers = gathers or len(fed) > 1
        settings = np.zeros(at.SETTING_COUNT, dtype=np.int64)
        settings[at.IS_SEQUENCE] = machine.sequence
        settings[at.HAS_TIMERS] = bool(linked.timed_elements)
        settings[at.GROWTH] = 3 + int((elements[:, at.MINIMUM] == 0).sum())
        settings[at.REFERENCES] = len(events.table)
        settings[at.GATHERS] = gathers
        return at.Rules(
            settings,
            elements,
            offers,
            hands_out,
            limits,
            np.array([element.slot for element in linked.resettable], dtype=np.int64),
            np.array([element.slot for element in linked.timed_elements], dtype=np.int64),
            self._programs.instructions,
            self._programs.constants,
            self._programs.fraction_constants,
            events.table,
        )

    def _first_memory(self) -> at.Memory:
        shape = (self._reader.whole_count, self._reader.fraction_count)
        memory = first_memory(self._rules, len(self.sources), shape, self._programs.most_registers)
        for source, feed in enumerate(self._feeds):  # the values of expressions for a missing event
            rows = slice(2 * source, 2 * source + 2)
            nulls, whole, fractions = self._reader.values(source, null_events(feed.types, 2, self._context.pool))
            memory.kept[rows, at.KEPT_NULLS] = nulls
            memory.kept[rows, at.KEPT_COLUMNS :] = whole
            memory.kept_fractions[rows] = fractions
        framed(memory, self._rules)
        return memory

    # ---- lifecycle

    def start(self, clock_ms: int) -> None:
        return_due(self._framed())  # no alarm is due, but this loads the loop
        if not self._context.partitioned:
            self._memory = make_room(self._memory, self._rules)
            open_instance(self._framed(), 0, clock_ms)

    def close_partitions(self, partitions: Int64Array) -> None:
        memory = self._memory
        close_instances(self._framed(), kernel_array(partitions))
        count = int(memory.counters[at.ALARMS])
        alarms = memory.alarms[:count][~np.isin(memory.alarms[:count, at.ALARM_INSTANCE], partitions)]
        memory.alarms[: len(alarms)] = alarms
        memory.counters[at.ALARMS] = len(alarms)
        order_alarms(self._framed())

    @property
    def timed(self) -> bool:
        return self._timed

    def next_deadline_ms(self) -> int | None:
        memory = self._memory
        return memory.alarms.item(0, at.DUE) if memory.counters[at.ALARMS] else None

    def state_size(self) -> StateSize:
        return StateSize(
            partial_matches=int(self._memory.counters[at.LIVE]),
            dropped_partial_matches=self._limit.dropped,
            bytes=held_bytes(self._memory),
        )

    def snapshot(self) -> State:
        free_unreached(self._memory, self._rules)
        writer = MachineWriter(self._memory, self._rules, self._layouts, self._feeds, self._feed_of_slot)
        nothing: list[State] = [[[], 1, []] for _ in self._places]
        return {"machines": writer.state(self._places), "conditions": nothing, "elements": [[] for _ in self._places]}

    def joined(self, states: Sequence[State], ids: Sequence[Int64Array]) -> State:
        slot_of_place = dict(enumerate(self._slots))
        return {
            "machines": joined_machines([state["machines"] for state in states], ids, slot_of_place),
            "conditions": [[[], 1, []] for _ in self._places],
            "elements": [[] for _ in self._places],
        }

    def restore(self, state: State) -> None:
        reader = MachineReader(
            self._rules, self._layouts, self._reader, self._feeds, self._feed_of_slot, self._context.pool
        )
        self._memory = reader.memory(state["machines"], self._first_memory(), self._places)
        self._framed()

    # ---- a step

    def process(self, inputs: MergedRows, step: Step) -> EventBatch:
        for place, text in self._programs.texts.items():
            self._rules.constants[place] = self._context.pool.code(text)
        if len(step.opened):
            self._memory = more_instances(self._memory, self._rules, int(step.opened.max()) + 1)
            self._framed()
        self._run(self._reader.read(inputs, step))
        found = self._memory.counters.item(at.MATCHES)
        batch = self._batch(self._memory.matches[:found]) if found else self._nothing
        self._memory.counters[at.MATCHES] = 0
        self._keep_to_limit()
        return batch

    def _run(self, rows: at.Rows) -> None:
        frame = self._memory.counters
        frame[at.CURSOR] = frame[at.OPENED] = frame[at.MATCHES] = 0
        frame[at.DONE_ORDER] = at.NONE
        frame[at.SHOWN_CLOCK] = rows.bounds[0]
        self._point_at(rows)
        while (state := run_machine(frame)) != at.FINISHED:
            if state == at.ASKS_FOR_RANKS:
                rows = rows._replace(ranks=self._ranks())
                due = self._memory.due_alarms[: frame[at.DUE_ALARMS]]  # alarms of one instance, which had no rank yet
                due[:, at.RANK] = rows.ranks[due[:, at.ALARM_INSTANCE]]
                self._point_at(rows)
            else:
                self._memory = make_room(self._memory, self._rules)
                self._framed()
        if frame[at.DUE_ALARMS]:
            if frame[at.ALARMS] + frame[at.DUE_ALARMS] > len(self._memory.alarms):
                self._memory = make_room(self._memory, self._rules)
                self._framed()
            return_due(frame)

    def _framed(self) -> Int64Array:
        """Return the frame for the current arrays; call it whenever one of them was replaced."""
        return framed(self._memory, self._rules)

    def _point_at(self, rows: at.Rows) -> None:
        """Set the addresses of `rows` in the frame."""
        frame = self._memory.counters
        frame[at.ROWS_AT.start : at.ROWS_AT.stop] = [address_of(array) for array in rows]
        frame[at.ROW_COUNT] = len(rows.order)
        frame[at.STEP_COUNT] = len(rows.step_clocks)
        frame[at.OPENED_COUNT] = rows.opened.shape[1]
        frame[at.RANK_COUNT] = len(rows.ranks)
        frame[at.PASSING_WIDTH] = rows.passing.shape[1]

    def _ranks(self) -> Int64Array:
        """Return the place of each partition instance among those whose alarms are due at one moment."""
        instances = len(self._memory.lists) // (len(self._rules.elements) + 1)
        if self._context.instance_ranks is None:
            return np.arange(instances)
        return kernel_array(self._context.instance_ranks())

    def _batch(self, matches: Int64Array) -> EventBatch:
        return EventBatch(
            matches[:, at.MATCH_TIME].copy(),
            None,
            matches[:, at.MATCH_ORDER].copy(),
            matches[:, at.MATCH_CLOCK].copy(),
            self._output.columns(matches, self._memory),
            None,
            matches[:, at.MATCH_INSTANCE].copy() if self._context.partitioned else None,
            matches[:, at.MATCH_CHUNK].copy() if self._gathers and len(matches) > 1 else None,
            only_current=True,
        )

    def _keep_to_limit(self) -> None:
        """Drop the oldest partial matches when there are too many."""
        memory = self._memory
        if memory.counters[at.LIVE] <= self._limit.most:
            return
        found = np.zeros((int(memory.counters[at.LIVE]), 2), dtype=np.int64)
        count = waiting_partials(memory.counters, found)
        excess = self._limit.excess(count)
        if excess:
            oldest = np.argsort(found[:count, 1], kind="stable")[:excess]
            dropped = np.zeros(len(memory.partials), dtype=np.int8)
            dropped[found[oldest, 0]] = 1
            drop_partials(memory.counters, dropped)
