"""Patterns and sequences of every form, event by event: the operator for forms that no faster one supports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heapreplace

import numpy as np

from siddhi.analysis import model
from siddhi.engine.columnar.batch import EventBatch
from siddhi.engine.columnar.kinds import CURRENT, EXPIRED
from siddhi.engine.columnar.state_size import StateSize, held_bytes, sampled, total
from siddhi.engine.columnar.state_tree import State
from siddhi.engine.jit.arrays import Int64Array
from siddhi.engine.operators.base.choices import Execution
from siddhi.engine.operators.base.operator import MergedRows, MergingOperator, OperatorContext, Step
from siddhi.engine.operators.base.scope import source_key
from siddhi.engine.operators.patterns.base.columns import SlotReader, layouts
from siddhi.engine.operators.patterns.base.conditions import SlotCondition, filter_expressions, filters_of, split_filter
from siddhi.engine.operators.patterns.base.limit import PartialLimit
from siddhi.engine.operators.patterns.base.partial import Match, PatternEvent
from siddhi.engine.operators.patterns.base.references import Reference, references
from siddhi.engine.operators.patterns.machine.absent import Progress
from siddhi.engine.operators.patterns.machine.alarm_clock import AlarmClock
from siddhi.engine.operators.patterns.machine.element_reader import ElementReader
from siddhi.engine.operators.patterns.machine.joining import joined_machines
from siddhi.engine.operators.patterns.machine.machine import Machine, MachinePlan, machine_slots
from siddhi.engine.operators.patterns.machine.snapshot import restore_machines, snapshot_machines

WHOLE_APP = 0
"""The key of the only machine of a query outside partitions."""


@dataclass(slots=True)
class _MatchOutput:
    """The matches of a step.

    Each has its order, clock and partition instance, and the number of its output chunk.
    """

    matches: list[Match]
    orders: list[int]
    clocks: list[int]
    partitions: list[int]
    chunks: list[int]

    def add(self, matches: list[Match], order: int, clock: int, partition: int, *, together: bool = False) -> None:
        """Add matches that are emitted `together`, or each separately."""
        self.matches.extend(matches)
        count = len(matches)
        self.orders.extend([order] * count)
        self.clocks.extend([clock] * count)
        self.partitions.extend([partition] * count)
        chunk = self.chunks[-1] + 1 if self.chunks else 0
        self.chunks.extend([chunk] * count if together else range(chunk, chunk + count))


class EventMachineOperator(MergingOperator):
    """A state machine over its streams, one instance for each partition instance.

    `read` are the references of the query's selection, by the name of their output column. Every match is a row in its
    own chunk, with the timestamp of the event (or of the end of the absence) that completed it.
    """

    execution = Execution.EVENTS

    def __init__(self, machine: model.StateMachine, read: Mapping[str, Reference], context: OperatorContext) -> None:
        self._context = context
        self.sources = tuple(dict.fromkeys(source_key(element.input) for element in machine.slots))
        places = machine_slots(machine)
        self._layouts = layouts(machine, {**read, **references(filter_expressions(machine))})
        splits = [split_filter(filters_of(element), element.slot, context) for element in machine.slots]
        self._elements = [
            ElementReader(element, layout, context)
            for element, layout in zip(machine.slots, self._layouts, strict=True)
        ]
        self._conditions = tuple(
            SlotCondition(slot, split.across, places, self._layouts, context) for slot, split in enumerate(splits)
        )
        self._plan = MachinePlan(
            machine, places, self._conditions, tuple(len(layout.names) for layout in self._layouts)
        )
        self._readers = {
            name: SlotReader(
                reference, places[reference.slot], self._layouts[reference.slot], context.pool, tested=False
            )
            for name, reference in read.items()
        }
        offered = sorted(range(len(places)), key=lambda slot: -places[slot])
        self._offered = tuple(
            tuple(slot for slot in offered if source_key(machine.slots[slot].input) == source)
            for source in self.sources
        )
        self._gathers = any(len(slots) > 1 for slots in self._offered)
        self._timed = any(element.absent for element in machine.slots)
        self._progress = Progress()
        self._machines: dict[int, Machine] = {}
        self._alarms = AlarmClock()
        self._limit = PartialLimit(context.max_partial_matches)
        self._counted = 0
        self._uncounted_rows = 0

    # ---- lifecycle

    def start(self, clock_ms: int) -> None:
        if not self._context.partitioned:
            self._open(WHOLE_APP, clock_ms)

    def _open(self, key: int, clock_ms: int) -> None:
        machine = Machine(self._plan, self._progress)
        self._machines[key] = machine
        self._progress.clock = clock_ms
        machine.start(clock_ms)
        self._note_alarm(key)

    def _note_alarm(self, key: int) -> None:
        if self._timed:
            alarm = self._machines[key].next_alarm()
            self._alarms.note(key, None if alarm is None else alarm.due)

    def close_partitions(self, partitions: Int64Array) -> None:
        for key in partitions.tolist():
            self._machines.pop(key, None)
            self._alarms.note(key, None)
        for element in self._elements:
            element.close_partitions(partitions)
        for condition in self._conditions:
            condition.close_partitions(partitions.tolist())

    def next_deadline_ms(self) -> int | None:
        return self._alarms.next_due()

    def state_size(self) -> StateSize:
        """Return the size of all machines, estimated from a sample when there are many."""
        some = sampled(list(self._machines.values()))
        size = total(StateSize(partial_matches=machine.partial_count(), bytes=held_bytes(machine)) for machine in some)
        whole = size.scaled(len(self._machines), len(some))
        return whole + StateSize(dropped_partial_matches=self._limit.dropped)

    def snapshot(self) -> State:
        return {
            "machines": snapshot_machines(self._machines, self._layouts, self._plan.places),
            "conditions": [condition.snapshot() for condition in self._conditions],
            "elements": [element.snapshot() for element in self._elements],
        }

    def joined(self, states: Sequence[State], ids: Sequence[Int64Array]) -> State:
        slot_of_place = {place: slot for slot, place in enumerate(self._plan.places)}
        return {
            "machines": joined_machines([state["machines"] for state in states], ids, slot_of_place),
            "conditions": [
                condition.joined([state["conditions"][place] for state in states], ids)
                for place, condition in enumerate(self._conditions)
            ],
            "elements": [
                element.joined([state["elements"][place] for state in states], ids)
                for place, element in enumerate(self._elements)
            ],
        }

    def restore(self, state: State) -> None:
        self._machines = restore_machines(state["machines"], self._plan, self._progress)
        self._alarms = AlarmClock()
        for key in self._machines:
            self._note_alarm(key)
        for condition, kept in zip(self._conditions, state["conditions"], strict=True):
            condition.restore(kept)
        for element, kept in zip(self._elements, state["elements"], strict=True):
            element.restore(kept)

    # ---- a step

    def process(self, inputs: MergedRows, step: Step) -> EventBatch:
        output = _MatchOutput([], [], [], [], [])
        self._progress.step += 1
        for key, order, clock in zip(
            step.opened.tolist(), step.opened_orders.tolist(), step.opened_clocks.tolist(), strict=True
        ):
            self._progress.order = order
            self._open(key, clock)
        self._progress.order = -1
        self._offer_rows(inputs, step, output)
        self._fire_alarms(step, step.final_order, step.final_clock + 1, output)
        self._keep_to_limit(inputs.size)
        return self._batch(output)

    def _keep_to_limit(self, rows: int) -> None:
        """Drop the oldest partial matches if there are too many.

        They are only counted after enough rows have arrived to exceed the limit.
        """
        self._uncounted_rows += rows
        if self._uncounted_rows * len(self._conditions) < self._limit.most - self._counted:
            return
        machines = self._machines.values()
        self._uncounted_rows = 0
        self._counted = sum(machine.partial_count() for machine in machines)
        if self._counted <= self._limit.most:
            return
        entered = [entry for machine in machines for entry in machine.entered_partials()]
        excess = self._limit.excess(len(entered))
        if excess:
            entered.sort(key=lambda entry: entry[0])
            dropped = {id(partial) for _, partial in entered[:excess]}
            for machine in machines:
                machine.drop_partials(dropped)
            self._counted -= excess

    def _offer_rows(self, inputs: MergedRows, step: Step, output: _MatchOutput) -> None:
        events, passing = self._prepare(inputs, step)
        keys = [None if batch.partitions is None else batch.partitions.tolist() for batch in inputs.batches]
        kinds = [batch.kinds.tolist() for batch in inputs.batches]
        rows = zip(
            inputs.sources.tolist(), inputs.rows.tolist(), inputs.orders.tolist(), inputs.clocks.tolist(), strict=True
        )
        for source, row, order, clock in rows:
            self._fire_alarms(step, order, clock, output)
            if kinds[source][row] not in (CURRENT, EXPIRED):
                continue
            partitions = keys[source]
            key = WHOLE_APP if partitions is None else partitions[row]
            machine = self._machines[key]
            slots = self._offered[source]
            self._progress.order, self._progress.clock = order, clock
            machine.prepare(slots, events[slots[0]][row].timestamp)
            first_match = len(output.matches)
            for slot in slots:
                condition = self._conditions[slot]
                condition.clock, condition.partition = clock, key
                matches = machine.offer(slot, events[slot][row], passes=passing[slot][row])
                if matches and machine.hands_out(slots):
                    output.add(matches, order, clock, key, together=len(slots) > 1)
                self._book_failure(slot, order, step)
            for match in output.matches[first_match:]:
                match.take_time()
            self._note_alarm(key)

    def _prepare(self, inputs: MergedRows, step: Step) -> tuple[dict[int, list[PatternEvent]], dict[int, list[bool]]]:
        events: dict[int, list[PatternEvent]] = {}
        passing: dict[int, list[bool]] = {}
        for source, batch in enumerate(inputs.batches):
            for slot in self._offered[source]:
                events[slot], passing[slot] = self._elements[slot].read(batch, step)
        return events, passing

    def _book_failure(self, slot: int, order: int, step: Step) -> None:
        condition = self._conditions[slot]
        if condition.failure is not None:
            step.failures.add(np.array([order], dtype=np.int64), condition.failure)
            condition.failure = None

    def _fire_alarms(self, step: Step, order: int, clock: int, output: _MatchOutput) -> None:
        """Fire every alarm that precedes a row of (order, clock), earliest first.

        An alarm that has fired does not change the order of others, which never precede it. The clock never goes back,
        even when an alarm fires that was due before the one that it had to wait for.
        """
        latest = max(clock, int(step.clocks[min(order // 2, len(step.clocks) - 1)]))
        keys = self._alarms.until(latest)
        if not keys:
            return
        ranks = self._ranks(keys)
        waiting = [
            (*place, rank, key)
            for key, rank in zip(keys, ranks, strict=True)
            if (place := self._alarm_place(key, step)) is not None
        ]
        heapify(waiting)
        shown = step.floor
        while waiting and waiting[0][:2] < (order, clock):
            due_order, due, rank, key = waiting[0]
            reached = int(step.clocks[(due_order - 1) // 2]) if due_order else step.floor
            now = shown = max(due, shown, reached, output.clocks[-1] if output.clocks else due)
            self._progress.order, self._progress.clock = due_order, now
            output.add(self._machines[key].wake(now), due_order, now, key)
            self._note_alarm(key)
            place = self._alarm_place(key, step)
            if place is None or place[1] > latest:
                heappop(waiting)
            else:
                heapreplace(waiting, (*place, rank, key))

    def _ranks(self, keys: Sequence[int]) -> Sequence[int]:
        """Return the place of each of the partition instances `keys` among those whose alarms are due at one moment."""
        if len(keys) == 1 or self._context.instance_ranks is None:
            return keys
        ranks: list[int] = self._context.instance_ranks()[np.array(keys)].tolist()
        return ranks

    def _alarm_place(self, key: int, step: Step) -> tuple[int, int] | None:
        """Return (order, due time) of the machine's first alarm.

        The order does not precede events that were already processed.
        """
        alarm = self._machines[key].next_alarm()
        if alarm is None:
            return None
        set_at = alarm.order if alarm.step == self._progress.step else -1
        done = self._progress.order
        return max(step.timer_order(alarm.due, set_at), done + (done & 1)), alarm.due

    def _batch(self, output: _MatchOutput) -> EventBatch:
        matches = output.matches
        rows = [match.slots for match in matches]
        return EventBatch(
            np.array([match.timestamp for match in matches], dtype=np.int64),
            np.full(len(matches), CURRENT, dtype=np.int8),
            np.array(output.orders, dtype=np.int64),
            np.array(output.clocks, dtype=np.int64),
            {name: reader.column(rows) for name, reader in self._readers.items()},
            None,
            np.array(output.partitions, dtype=np.int64) if self._context.partitioned else None,
            np.array(output.chunks, dtype=np.int64) if self._gathers and len(matches) > 1 else None,
        )
