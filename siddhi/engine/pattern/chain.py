"""Chains of plain elements, whole batches at a time: the operator for the common patterns and sequences."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import numpy as np

from siddhi.engine.arrays import AnyArray, Int64Array
from siddhi.engine.batch import EventBatch
from siddhi.engine.expressions.evaluation import Evaluation
from siddhi.engine.kernels import grown
from siddhi.engine.kinds import CURRENT, EXPIRED
from siddhi.engine.operator import MergedRows, MergingOperator, OperatorContext, Step
from siddhi.engine.pattern import chain_kernel as kernel
from siddhi.engine.pattern.chain_kernel import ChainEvents, ChainRules, ChainState
from siddhi.engine.pattern.chain_output import ChainOutput
from siddhi.engine.pattern.chain_plan import ChainLayout, ChainPlan
from siddhi.engine.pattern.conditions import EventFilter
from siddhi.engine.pattern.references import Reference
from siddhi.engine.scope import source_key
from siddhi.engine.state import Codes, State
from siddhi.engine.state_size import StateSize, held_bytes
from siddhi.language.ast import AttributeType


class ChainOperator(MergingOperator):
    """A chain of plain elements over its streams, for all partition instances at once.

    `read` are the references of the query's selection, by the name of the output column that answers each. Every
    match is a row of its own chunk, with the timestamp of the event that completed it.
    """

    handles_partitions = True

    def __init__(self, plan: ChainPlan, read: Mapping[str, Reference], context: OperatorContext) -> None:
        machine = plan.machine
        self._context = context
        self.sources = tuple(dict.fromkeys(source_key(element.input) for element in machine.slots))
        self._source_of = [self.sources.index(source_key(element.input)) for element in machine.slots]
        self._count = len(machine.slots)
        self._filters = [EventFilter(alone, context) for alone in plan.alone]
        layout = ChainLayout(plan, self._source_of, context)
        self._columns = layout.columns
        self._register_types = layout.register_types
        settings = np.zeros(kernel.SETTING_COUNT, dtype=np.int64)
        settings[kernel.ELEMENTS] = self._count
        settings[kernel.WITHIN] = kernel.NONE if machine.within_ms is None else machine.within_ms
        settings[kernel.IS_SEQUENCE] = machine.sequence
        settings[kernel.SCOPE_END] = kernel.NONE if plan.scope_end is None else plan.scope_end
        settings[kernel.REGISTERS] = kernel.REFERENCES + self._count
        offers = np.full((len(self.sources), self._count), kernel.NONE, dtype=np.int64)
        for source in range(len(self.sources)):
            fed = [slot for slot in reversed(range(self._count)) if self._source_of[slot] == source]
            offers[source, : len(fed)] = fed
        self._rules = ChainRules(settings, layout.elements, layout.comparisons, layout.copies, offers)
        self._sequence = machine.sequence
        self._output = ChainOutput(machine, read, context.pool)
        nothing = np.zeros(0, dtype=np.int64)
        self._nothing = EventBatch(
            nothing,
            np.zeros(0, dtype=np.int8),
            nothing,
            nothing,
            self._output.no_rows(),
            None,
            nothing if context.partitioned else None,
        )
        self._fraction_registers = layout.fraction_registers
        self._kept: Int64Array = np.zeros((0, 3), dtype=np.int64)
        self._state = self._new_state()

    def _new_state(self) -> ChainState:
        width = kernel.REFERENCES + self._count + len(self._register_types)
        counters = np.zeros(kernel.COUNTER_COUNT, dtype=np.int64)
        counters[kernel.FREE] = kernel.NONE
        table, bounds = self._new_table(64)
        return ChainState(
            partials=np.zeros((8, width), dtype=np.int64),
            floats=np.zeros((8, self._fraction_registers), dtype=np.float64),
            lists=np.full((0, kernel.LIST_WIDTH), kernel.NONE, dtype=np.int64),
            table=table,
            bounds=bounds,
            instances=np.zeros((0, kernel.INSTANCE_WIDTH), dtype=np.int64),
            counters=counters,
            touched=np.zeros(8, dtype=np.int64),
            matches=np.zeros((0, 2 + self._count), dtype=np.int64),
        )

    def _new_table(self, places: int) -> tuple[Int64Array, AnyArray]:
        table = np.full((self._count, places, 2), kernel.NONE, dtype=np.int64)
        bounds = np.full((self._count, places), np.inf, dtype=np.float64)
        for element, bounded in enumerate(self._rules.elements[:, kernel.BOUNDED].tolist()):
            if bounded != kernel.NONE and self._rules.comparisons[bounded, kernel.OPERATOR] < kernel.GREATER:
                bounds[element] = -np.inf
        return table, bounds

    # ---- life

    def start(self, clock_ms: int) -> None:
        if not self._context.partitioned:
            self._open(np.zeros(1, dtype=np.int64))

    def _open(self, instances: Int64Array) -> None:
        """These instances begin: one empty partial waits at the first element of each."""
        if not len(instances):
            return
        count = int(instances.max()) + 1
        state = self._state
        if count > len(state.instances):
            grown_instances = grown(state.instances, count)
            lists = grown(state.lists, len(grown_instances) * self._count, kernel.NONE)
            state = self._state = state._replace(instances=grown_instances, lists=lists)
        entries = instances[:, np.newaxis] * self._count + np.arange(self._count)
        state.lists[entries.ravel()] = kernel.NONE
        state.instances[instances] = 0
        state.instances[instances, kernel.LATEST] = kernel.LONG_AGO
        state.instances[instances, kernel.FRESH_SEEDS] = 1

    def close_partitions(self, partitions: Int64Array) -> None:
        for instance in partitions.tolist():
            if instance < len(self._state.instances):
                kernel.close_instance(instance, self._state, self._rules)
                self._state.instances[instance] = 0

    # ---- a step

    def process(self, inputs: MergedRows, step: Step) -> EventBatch:
        self._open(step.opened)
        offsets = _offsets(inputs.batches)
        rows, places = self._rows(inputs, offsets)
        matches = self._run(ChainEvents(rows, *self._event_columns(inputs, offsets)))
        batch = self._batch(inputs, matches, places, offsets)
        if self._state.counters[kernel.TOUCHES]:
            self._keep(inputs, offsets)
        return batch

    def _run(self, events: ChainEvents) -> Int64Array:
        """Takes all rows through the state loop; the matches in order."""
        found: list[Int64Array] = []
        run = kernel.run_sequence if self._sequence else kernel.run_pattern
        counters = self._state.counters
        counters[kernel.CURSOR] = 0
        while (done := int(counters[kernel.CURSOR])) < len(events.rows):
            self._make_room(len(events.rows) - done)
            counters[kernel.MATCHES] = 0
            run(self._state, self._rules, events)
            if counters[kernel.MATCHES]:
                found.append(self._state.matches[: counters[kernel.MATCHES]].copy())
        if len(found) == 1:
            return found[0]
        return np.concatenate(found) if found else self._state.matches[:0]

    def _rows(self, inputs: MergedRows, offsets: Sequence[int]) -> tuple[Int64Array, Int64Array | None]:
        """(source, event, timestamp, instance) of each row that is an event; its place among all rows if some are
        not."""
        events = inputs.rows if len(inputs.batches) == 1 else inputs.rows + np.asarray(offsets)[inputs.sources]
        rows = np.zeros((inputs.size, 4), dtype=np.int64)
        rows[:, 0] = inputs.sources
        rows[:, 1] = events
        rows[:, 2] = _end_to_end([batch.timestamps for batch in inputs.batches])[events]
        if self._context.partitioned:
            rows[:, 3] = _instances(inputs.batches)[events]
        kinds = _end_to_end([batch.kinds for batch in inputs.batches])
        if kinds.max(initial=CURRENT) <= EXPIRED:
            return rows, None
        counts = kinds[events] <= EXPIRED
        return rows[counts], np.flatnonzero(counts)

    def _event_columns(
        self, inputs: MergedRows, offsets: Sequence[int]
    ) -> tuple[AnyArray, Int64Array, AnyArray, Int64Array]:
        total = offsets[-1]
        passing = np.ones((self._count, total), dtype=np.bool_)
        whole = np.empty((len(self._columns.whole), total), dtype=np.int64)
        fractions = np.empty((len(self._columns.fractions), total), dtype=np.float64)
        nulls = np.zeros(total, dtype=np.int64)
        spans = [slice(start, stop) for start, stop in itertools.pairwise(offsets)]
        evaluations = [Evaluation(batch) for batch in inputs.batches]
        for slot, source in enumerate(self._source_of):
            if not self._filters[slot].always:
                passing[slot, spans[source]] = self._filters[slot].mask(inputs.batches[source])
        bit = 0
        for columns, targets in ((self._columns.whole, whole), (self._columns.fractions, fractions)):
            for column, target in zip(columns, targets, strict=True):
                source = column.source
                valid = column.fill(target[spans[source]], inputs.batches[source], evaluations[source])
                if valid is not None:
                    nulls[spans[source]] |= (~valid).astype(np.int64) << bit
                bit += 1
        return passing, whole, fractions, nulls

    def _make_room(self, rows: int) -> None:
        state = self._state
        live = int(state.counters[kernel.LIVE])
        seeds = int(state.instances[:, kernel.SEEDS :].sum()) if len(state.instances) < rows else 0
        wanted = live + rows + seeds + 2
        if wanted > len(state.partials):
            partials = grown(state.partials, wanted)
            floats, touched = grown(state.floats, len(partials)), grown(state.touched, len(partials))
            state = state._replace(partials=partials, floats=floats, touched=touched)
        if live + wanted + 2 > len(state.matches):
            state = state._replace(matches=grown(state.matches, live + wanted + 2))
        self._state = state
        if wanted > state.table.shape[1] and not self._sequence:
            self._refill_table(wanted)

    def _refill_table(self, partials: int) -> None:
        """The table has room for so many partials and holds all that wait."""
        table, bounds = self._new_table(1 << max(6, (2 * partials).bit_length()))
        self._state = self._state._replace(table=table, bounds=bounds)
        kernel.rebuild_table(self._state, self._rules)

    def _batch(
        self, inputs: MergedRows, matches: Int64Array, places: Int64Array | None, offsets: Sequence[int]
    ) -> EventBatch:
        if not len(matches):
            return self._nothing
        causes = matches[:, 0] if places is None else places[matches[:, 0]]
        references = [
            np.where(matches[:, 2 + slot] >= 0, matches[:, 2 + slot] - offsets[source], kernel.NONE)
            for slot, source in enumerate(self._source_of)
        ]
        batches = [inputs.batches[source] for source in self._source_of]
        last = references[-1]
        return EventBatch(
            batches[-1].timestamps[last],
            np.full(len(matches), CURRENT, dtype=np.int8),
            inputs.orders[causes],
            inputs.clocks[causes],
            self._output.columns(batches, references, matches[:, 1]),
            None,
            None if batches[-1].partitions is None else batches[-1].partitions[last],
        )

    def _keep(self, inputs: MergedRows, offsets: Sequence[int]) -> None:
        """Copies out of the batch what live partials hold of it."""
        self._kept = grown(self._kept, int(self._state.counters[kernel.TOUCHES]) * self._count)
        count = kernel.settle_chain(self._kept, self._state)
        kept = self._kept[:count]
        for slot, source in enumerate(self._source_of[:-1]):
            of_slot = kept[kept[:, 1] == slot] if self._count > 2 else kept
            self._output.keep(slot, of_slot[:, 0], inputs.batches[source], of_slot[:, 2] - offsets[source])

    # ---- what is held

    def state_size(self) -> StateSize:
        live = int(self._state.counters[kernel.LIVE])
        return StateSize(partial_matches=live, bytes=held_bytes(self._state) + held_bytes(self._output))

    # ---- snapshot

    def snapshot(self) -> State:
        state = self._state
        order = np.zeros(int(state.counters[kernel.LIVE]), dtype=np.int64)
        kernel.live_partials(order, state)
        base = kernel.REFERENCES + self._count
        registers = [
            Codes(state.partials[order, base + number])
            if type_ is AttributeType.STRING
            else state.partials[order, base + number]
            for number, type_ in enumerate(self._register_types)
        ]
        return {
            "partials": state.partials[order][:, : kernel.REFERENCES],
            "registers": registers,
            "fractions": state.floats[order],
            "updated": state.lists[:, kernel.UPDATED].copy(),
            "instances": state.instances.copy(),
            "kept": self._output.snapshot(order),
        }

    def restore(self, state: State) -> None:
        count = len(state["partials"])
        fresh = self._new_state()
        partials = grown(fresh.partials, count)
        partials[:count, : kernel.REFERENCES] = state["partials"]
        base = kernel.REFERENCES + self._count
        partials[:count, kernel.REFERENCES : base] = kernel.NONE
        for number, register in enumerate(state["registers"]):
            partials[:count, base + number] = register.array if isinstance(register, Codes) else register
        floats = grown(fresh.floats, len(partials))
        floats[:count] = state["fractions"]
        lists = np.full((len(state["updated"]), kernel.LIST_WIDTH), kernel.NONE, dtype=np.int64)
        lists[:, kernel.UPDATED] = state["updated"]
        fresh.counters[kernel.UNUSED] = fresh.counters[kernel.LIVE] = count
        self._state = fresh._replace(
            partials=partials,
            floats=floats,
            lists=lists,
            instances=state["instances"].copy(),
            touched=grown(fresh.touched, len(partials)),
        )
        self._output.restore(state["kept"])
        kernel.relink(count, self._state, self._rules)
        if not self._sequence:
            self._refill_table(count)


def _end_to_end(arrays: Sequence[AnyArray]) -> AnyArray:
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)


def _instances(batches: Sequence[EventBatch]) -> Int64Array:
    return _end_to_end([batch.partitions for batch in batches if batch.partitions is not None])


def _offsets(batches: Sequence[EventBatch]) -> list[int]:
    """Where the rows of each batch begin when all are laid end to end, and where the last ends."""
    offsets = [0]
    for batch in batches:
        offsets.append(offsets[-1] + batch.size)
    return offsets
