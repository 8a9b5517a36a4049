"""Run operators that do not support partitions: one copy for each instance, which gets its rows only."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from heapq import heappop, heappush
from typing import Generic, TypeVar

import numpy as np

from siddhi.engine.columnar.batch import EventBatch
from siddhi.engine.columnar.state_size import StateSize, sampled, total
from siddhi.engine.columnar.state_tree import CodeChange, EncodedParts, State, encode_piece
from siddhi.engine.jit.arrays import Int64Array
from siddhi.engine.operators.base.choices import Execution
from siddhi.engine.operators.base.operator import MergedRows, MergingOperator, Operator, Stateful, Step
from siddhi.engine.tuning import MAX_CACHED_INSTANCE_STATE_BYTES

Part = TypeVar("Part", bound=Stateful)
Rows = TypeVar("Rows")


class _Copies(Stateful, Generic[Part]):
    """The copies of an operator by instance, and the deadlines of their timers.

    `template` serves instances without a copy. State that the copies put into `common` is saved with them.
    """

    def __init__(
        self,
        make: Callable[[], Part],
        ranks: Callable[[], Int64Array] | None,
        common: Mapping[int, Stateful] | None = None,
    ) -> None:
        self.make = make
        self.ranks = ranks
        self.common = {} if common is None else common
        self.template = make()
        self.by_id: dict[int, Part] = {}
        self._written: dict[int, bytes] = {}
        self._deadlines: list[tuple[int, int]] = []

    def get(self, instance: int, clock: int) -> Part:
        """Return the copy for `instance`; a new one is started at `clock`."""
        copy = self.by_id.get(instance)
        if copy is None:
            copy = self.by_id[instance] = self.make()
            copy.start(clock)
        self._written.pop(instance, None)
        return copy

    def all(self) -> Iterable[Part]:
        """Return all copies, whose state may then be changed."""
        self._written.clear()
        return self.by_id.values()

    def note_deadline(self, instance: int) -> None:
        """Must be called whenever the deadline of a copy may have changed."""
        due = self.by_id[instance].next_deadline_ms()
        if due is not None:
            heappush(self._deadlines, (due, instance))

    def next_deadline_ms(self) -> int | None:
        while self._deadlines:
            due, instance = self._deadlines[0]
            if instance in self.by_id and self.by_id[instance].next_deadline_ms() == due:
                return due
            heappop(self._deadlines)
        return None

    def due(self, clock: int) -> list[int]:
        """Return the instances whose timers are due at `clock`."""
        found: list[int] = []
        while (due := self.next_deadline_ms()) is not None and due <= clock:
            found.append(heappop(self._deadlines)[1])
        return self.in_turn(set(found))

    def in_turn(self, instances: set[int]) -> list[int]:
        """Return `instances` in the order in which their timers of the same time fire."""
        if len(instances) < 2 or self.ranks is None:
            return sorted(instances)
        ranks = self.ranks()
        return sorted(instances, key=lambda instance: int(ranks[instance]))

    def state_size(self) -> StateSize:
        """Return the size of all copies, estimated from a sample when there are many."""
        some = sampled(list(self.by_id.values()))
        own = total(copy.state_size() for copy in some).scaled(len(self.by_id), len(some))
        return total([own, *(part.state_size() for part in self.common.values())])

    def live_codes(self) -> Iterator[Int64Array]:
        for copy in self.by_id.values():
            yield from copy.live_codes()
        for part in self.common.values():
            yield from part.live_codes()

    def recode(self, change: CodeChange) -> None:
        for copy in self.all():
            copy.recode(change)
        for part in self.common.values():
            part.recode(change)

    def close_partitions(self, partitions: Int64Array) -> None:
        for instance in partitions.tolist():
            self.by_id.pop(instance, None)
            self._written.pop(instance, None)

    def snapshot(self) -> State:
        """Return the state of all copies.

        The state of a copy is encoded again only after the copy was used, as most instances do nothing between two
        snapshots.
        """
        pieces = []
        for instance, copy in self.by_id.items():
            piece = self._written.get(instance)
            if piece is None:
                piece = encode_piece(copy.snapshot())
                if len(piece) <= MAX_CACHED_INSTANCE_STATE_BYTES:
                    self._written[instance] = piece
            pieces.append(piece)
        common = [part.snapshot() for part in self.common.values()]
        return [np.fromiter(self.by_id, dtype=np.int64, count=len(self.by_id)), EncodedParts(pieces), common]

    def joined(self, states: Sequence[State], ids: Sequence[Int64Array]) -> State:
        instances = [numbers[own] for (own, _, _), numbers in zip(states, ids, strict=True)]
        parts = enumerate(self.common.values())
        common = [part.joined([shared[place] for _, _, shared in states], ids) for place, part in parts]
        return [np.concatenate(instances), [copy for _, copies, _ in states for copy in copies], common]

    def restore(self, state: State) -> None:
        instances, copies, common = state
        for part, saved in zip(self.common.values(), common, strict=True):
            part.restore(saved)
        self.by_id, self._written, self._deadlines = {}, {}, []
        for instance, saved in zip(instances.tolist(), copies, strict=True):
            self.by_id[instance] = self.make()
            self.by_id[instance].restore(saved)
            self.note_deadline(instance)


class _Turns(Generic[Part, Rows]):
    """Processes runs of rows of one instance and one chunk one after the other, with the timers between them.

    This keeps the order inside a chunk of several instances. `call` passes rows to a copy, `nothing` is its input when
    a timer is due.
    """

    def __init__(
        self, copies: _Copies[Part], call: Callable[[Part, Rows, Step], EventBatch], nothing: Rows, step: Step
    ) -> None:
        self._copies = copies
        self._call = call
        self._nothing = nothing
        self._step = step
        self._floor = step.floor
        self._shown = step.shown
        self._done = -1
        self._out: list[EventBatch] = []
        self._failed: list[int] = []

    def take(self, instance: int, rows: Rows, order: int, clock: int) -> None:
        """Process the next run, whose first row came at `order` and `clock`."""
        self._fire(order, clock)
        self._reach(order)
        if not self._failed or order != self._failed[-1]:  # skip runs of the chunk after one that failed
            now = Step(np.full(1, clock, dtype=np.int64), self._floor, self._shown)
            self._send(instance, rows, now, order)
        if order & 1 or clock > self._floor:  # timers of the time at which a timer sent rows are still to fire
            self._shown = max(self._shown, clock - 1 + (order & 1))
        self._floor, self._done = clock, order

    def end(self) -> EventBatch:
        """Return the output of all runs and timers of the step."""
        self._fire(self._step.final_order, self._step.final_clock + 1)
        return EventBatch.concat([sent for sent in self._out if sent.size] or self._out[:1])

    def _fire(self, order: int, clock: int) -> None:
        """Fire the timers that go before a row of (`order`, `clock`)."""
        while (due := self._copies.next_deadline_ms()) is not None:
            at = self._step.timer_order(due, self._done)
            if at > min(order, self._step.final_order):
                return
            self._reach(at)
            shown = max(due, self._floor)
            if (at, shown) >= (order, clock):
                return
            for instance in self._copies.due(due):
                now = Step(np.full(1, shown, dtype=np.int64), self._floor, self._shown)
                self._send(instance, self._nothing, now, at)

    def _reach(self, order: int) -> None:
        """Record that the clock has shown the time of the root chunk before `order`."""
        if order >= 2:
            passed = int(self._step.clocks[order // 2 - 1])
            self._floor, self._shown = max(self._floor, passed), max(self._shown, passed)

    def _send(self, instance: int, rows: Rows, now: Step, order: int) -> None:
        sent = self._call(self._copies.get(instance, now.final_clock), rows, now).at_order(order)
        self._copies.note_deadline(instance)
        self._out.append(sent.with_partitions(np.full(sent.size, instance, dtype=np.int64)))
        if (failures := now.taken_failures()) is not None:
            self._failed.append(order)
            self._step.failures.add(np.full(1, order), failures.messages[0])


def _merged(batches: Sequence[EventBatch], nothing: EventBatch) -> EventBatch:
    filled = [batch for batch in batches if batch.size]
    if not filled:
        return nothing
    whole = EventBatch.concat(filled)
    if len(filled) == 1:
        return whole
    chunks = whole.chunk_ids()
    place = np.lexsort((whole.clocks, whole.orders))
    merged = whole.take(place)
    return merged if whole.chunks is None else merged.with_chunks(_by_appearance(chunks[place]), merged.deliveries)


def _by_appearance(chunks: Int64Array) -> Int64Array:
    starts = np.ones(len(chunks), dtype=np.int64)
    starts[1:] = chunks[1:] != chunks[:-1]
    numbers: Int64Array = np.cumsum(starts)
    return numbers


class PerInstance(_Copies[Operator], Operator):
    """An operator of a chain, one copy for each partition instance."""

    execution = Execution.KEYS

    def process(self, batch: EventBatch, step: Step) -> EventBatch:
        """Process the rows of each partition instance with the instance's operator.

        Returns:
            The output of all instances in the order of its causes.
        """
        nothing = batch.slice(0, 0)
        partitions = batch.partitions if batch.partitions is not None else np.zeros(0, dtype=np.int64)
        present = np.unique(partitions).tolist()
        if self.takes_runs(batch) or (self.common and len(present) > 1):
            return self._process_runs(batch, partitions, step)
        out: list[EventBatch] = []
        for instance in self.in_turn({*self.due(step.final_clock), *present}):
            rows = np.flatnonzero(partitions == instance)
            clock = int(batch.clocks[rows[0]]) if len(rows) else step.final_clock
            sent = self.get(instance, clock).process(batch.take(rows).with_partitions(None), step)
            self.note_deadline(instance)
            out.append(sent.with_partitions(np.full(sent.size, instance, dtype=np.int64)))
        if not out:
            return nothing
        return _merged(out, out[0])

    def takes_runs(self, batch: EventBatch) -> bool:
        """Return whether `batch` has events of several instances that came in one chunk."""
        return came_together(batch)

    def _process_runs(self, batch: EventBatch, partitions: Int64Array, step: Step) -> EventBatch:
        turns = _Turns(self, _process, batch.slice(0, 0), step)
        changes = (np.diff(batch.chunk_ids()) != 0) | (np.diff(partitions) != 0)
        starts = [0, *(np.flatnonzero(changes) + 1).tolist(), batch.size]
        for start, stop in itertools.pairwise(starts):
            order = int(batch.orders[start])
            run = batch.slice(start, stop).with_partitions(None).at_order(order & 1)
            turns.take(int(partitions[start]), run, order, int(batch.clocks[start]))
        return turns.end()


def _process(copy: Operator, batch: EventBatch, step: Step) -> EventBatch:
    return copy.process(batch, step)


class HeadPerInstance(_Copies[MergingOperator], MergingOperator):
    """The head of a query, one copy for each partition instance."""

    execution = Execution.KEYS

    def __init__(
        self,
        make: Callable[[], MergingOperator],
        ranks: Callable[[], Int64Array] | None,
        common: Mapping[int, Stateful] | None = None,
    ) -> None:
        """Create the operator without instances.

        Args:
            make: Returns the operator of a new instance.
            ranks: Returns the rank of each instance, which decides between timers of one time.
            common: State that the operators of all instances share, by the `id` of what it is made from.
        """
        super().__init__(make, ranks, common)
        self.sources = self.template.sources

    def process(self, inputs: MergedRows, step: Step) -> EventBatch:
        """Process the merged inputs of each partition instance with the instance's operator.

        Returns:
            The output of all instances in the order of its causes.
        """
        together = any(came_together(batch) for batch in inputs.batches)
        if together or (self.common and inputs.size):
            return self._process_runs(inputs, step)
        present: set[int] = set()
        for batch in inputs.batches:
            if batch.partitions is not None:
                present.update(batch.partitions.tolist())
        out: list[EventBatch] = []
        for instance in self.in_turn({*self.due(step.final_clock), *present}):
            parts = [_of_instance(batch, instance) for batch in inputs.batches]
            clocks = [int(part.clocks[0]) for part in parts if part.size]
            copy = self.get(instance, min(clocks, default=step.final_clock))
            sent = copy.process(MergedRows(parts, inputs.ranks, inputs.timer_ranks), step)
            self.note_deadline(instance)
            out.append(sent.with_partitions(np.full(sent.size, instance, dtype=np.int64)))
        if not out:
            empty = [batch.slice(0, 0) for batch in inputs.batches]
            return _process_inputs(self.template, empty, step)
        return _merged(out, out[0])

    def _process_runs(self, inputs: MergedRows, step: Step) -> EventBatch:
        nothing = [batch.slice(0, 0) for batch in inputs.batches]
        turns = _Turns(self, _process_inputs, nothing, step)
        sources, rows = inputs.sources, inputs.rows
        marks = [(batch.chunk_ids(), batch.partitions) for batch in inputs.batches]
        lines = []
        for source, row in zip(sources.tolist(), rows.tolist(), strict=True):
            chunks, partitions = marks[source]
            lines.append((source, int(chunks[row]), -1 if partitions is None else int(partitions[row])))
        starts = [0, *(place for place in range(1, len(lines)) if lines[place] != lines[place - 1]), len(lines)]
        for start, stop in itertools.pairwise(starts):
            (source, _, instance), first = lines[start], int(rows[start])
            order = int(inputs.orders[start])
            run = inputs.batches[source].slice(first, first + stop - start).with_partitions(None).at_order(order & 1)
            batches = [run if place == source else empty for place, empty in enumerate(nothing)]
            turns.take(instance, batches, order, int(inputs.clocks[start]))
        return turns.end()


def _process_inputs(copy: MergingOperator, batches: list[EventBatch], step: Step) -> EventBatch:
    return copy.process(MergedRows(batches, list(range(len(batches)))), step)


def came_together(batch: EventBatch) -> bool:
    """Return whether one batch has events of several instances, or one event went to several.

    Rows that timers of several instances emitted between two events, all with one even order, do not count.
    """
    partitions, orders = batch.partitions, batch.orders
    if partitions is None:
        return False
    together = (orders[1:] == orders[:-1]) & (orders[1:] & 1 == 1)
    return bool((together & (partitions[1:] != partitions[:-1])).any())


def _of_instance(batch: EventBatch, instance: int) -> EventBatch:
    if batch.partitions is None:
        return batch.slice(0, 0)
    return batch.take(np.flatnonzero(batch.partitions == instance)).with_partitions(None)
