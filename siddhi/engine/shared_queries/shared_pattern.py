"""Run patterns over one stream that differ only in the conditions on single events in one operator.

Each pattern is an instance of the operator, as a key is in a partition. The index finds the events that a pattern may
match, and as which element; so the operator itself has no constants:

    events ──RuleIndex──▶ (row, pattern, element) ──▶ rows with an instance, and for each element whether it is met
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from siddhi.analysis import model
from siddhi.analysis.expression.walk import conjunction, conjuncts
from siddhi.analysis.parts import parts_of
from siddhi.column_names import internal_name
from siddhi.engine.columnar.batch import EventBatch, renumber_chunks
from siddhi.engine.columnar.column import Column
from siddhi.engine.columnar.state_size import StateSize
from siddhi.engine.columnar.state_tree import State
from siddhi.engine.jit.arrays import BoolArray, Int64Array, filled
from siddhi.engine.operators.base.choices import NotApplicable
from siddhi.engine.operators.base.operator import MergedRows, OperatorContext, Step
from siddhi.engine.operators.base.scope import column_of
from siddhi.engine.operators.patterns.base.conditions import filters_of
from siddhi.engine.operators.patterns.base.references import selection_references
from siddhi.engine.operators.patterns.chain.operator import ChainOperator
from siddhi.engine.operators.patterns.chain.plan import plan_chain
from siddhi.engine.planner.query import QueryNode
from siddhi.engine.shared_queries.projection import Constants, Outputs, outputs_of
from siddhi.engine.shared_queries.wanted import is_plain_test
from siddhi.language.ast import AttributeType

NEVER_BEFORE = np.iinfo(np.int64).min
_TRUE = model.ConstantValue(value=True, type=AttributeType.BOOL)


@dataclass(frozen=True, slots=True)
class PatternShape:
    """The common parts of patterns that share an operator.

    These are the pattern, whose conditions on an event only test whether it met the plain tests of an element, and the
    source of each output.
    """

    machine: model.StateMachine
    outputs: Outputs


def shape_of(query: QueryNode) -> tuple[PatternShape, Constants] | None:
    """Return the shape of the pattern `query` and the constants that it selects.

    Return None when it cannot share an operator.
    """
    analysed = query.analysed
    machine = analysed.input
    selected = outputs_of(analysed)
    if selected is None or not isinstance(machine, model.StateMachine) or not query.may_share:
        return None
    outputs = tuple(
        (name, type_, None if value is None else column_of(value, several=True)) for name, type_, value in selected[0]
    )
    slots = tuple(_without_tests(element) for element in machine.slots)
    steps = tuple(_with_slots(step, slots) for step in machine.steps)
    return PatternShape(replace(machine, steps=steps, slots=slots), outputs), selected[1]


def _without_tests(element: model.PatternElement) -> model.PatternElement:
    met = model.AttributeValue(element.slot, met_column(element.slot), AttributeType.BOOL)
    others = [
        part
        for step in filters_of(element)
        for part in conjuncts(step.condition)
        if not is_plain_test(part, element.slot)
    ]
    condition = conjunction([model.Comparison("==", met, _TRUE, AttributeType.BOOL), *others])
    assert condition is not None  # noqa: S101 - it has a part
    source = replace(element.input, before=(model.FilterStep(condition),), after=(), reference=f"e{element.slot}")
    return replace(element, input=source)


def _with_slots(step: model.PatternStep, slots: Sequence[model.PatternElement]) -> model.PatternStep:
    if isinstance(step, model.EveryScope):
        return replace(step, steps=tuple(_with_slots(inner, slots) for inner in step.steps))
    assert isinstance(step, model.PatternElement)  # noqa: S101 - other patterns are no rules
    return slots[step.slot]


def met_column(slot: int) -> str:
    """Return the column that contains whether an event met the plain tests of the element in `slot`."""
    return internal_name(f"met{slot}")


class PatternMatches(NamedTuple):
    """The rows of `batch` that patterns may match: row by row, pattern by pattern, with the element."""

    batch: EventBatch
    rows: Int64Array
    members: Int64Array
    slots: Int64Array


class SharedPattern:
    """The patterns `members` of one shape; the index of each is its instance."""

    def __init__(
        self, shape: PatternShape, members: Sequence[QueryNode], constants: Sequence[Constants], numbers: Int64Array
    ) -> None:
        first = members[0]
        self.numbers = numbers
        self._members = members
        self._all_constants = constants
        self._outputs = shape.outputs
        self._slots = len(shape.machine.slots)
        context = replace(first.context, partitioned=True, instance_ranks=None, common={}, failing=set())
        self._most = context.max_partial_matches
        self.pool = context.pool
        self.head = _head(shape, first, replace(context, max_partial_matches=self._most * len(members)))
        schema = shape.machine.slots[0].input.schema
        parts = parts_of((shape.machine, first.analysed.selection))
        read = {part.name for part in parts if isinstance(part, model.AttributeValue)}
        self._read = [(name, type_) for name, type_ in schema.attributes if name in read]
        self._any_last = False
        self._had_last: BoolArray = np.zeros(len(members), np.bool_)
        """The patterns that had the last event."""
        self._constants: dict[str, Column] = {}
        self._generation = -1
        self._pieces: list[State] | None = None
        self._sizes: Int64Array | None = None
        each = [np.array([place]) for place in range(len(members))]
        self.head.restore(self.head.joined([member.snapshot_of_head() for member in members], each))
        for place, member in enumerate(members):
            member.share_head(_Part(self, place))

    @property
    def target(self) -> str:
        """The stream that all members feed."""
        target = self._members[0].target
        assert target is not None  # noqa: S101 - rules that share an operator feed a stream
        return target

    # ---- events

    def take(
        self, found: PatternMatches, step: Step, latest: int, *, late: bool
    ) -> tuple[Int64Array, EventBatch] | None:
        """Process the rows that were `found`; return the node number of each result, and the results.

        Return None when there are none. The latest event before them had the time `latest`; with `late` some rows are
        late.
        """
        self._pieces = self._sizes = None
        batch, rows, members, slots = found
        stamps = batch.timestamps
        first: BoolArray = np.ones(len(rows), np.bool_)
        first[1:] = (rows[1:] != rows[:-1]) | (members[1:] != members[:-1])
        met: BoolArray = np.zeros((self._slots, int(first.sum())), np.bool_)
        met[slots, np.cumsum(first) - 1] = True
        rows, members = rows[first], members[first]
        times = None
        if late:
            rows, members, met, times = self._with_missed(stamps, latest, (rows, members, met))
        self.miss()
        if rows[-1] == batch.size - 1:
            self._had_last[members[rows == batch.size - 1]] = self._any_last = True
        pairs = batch.take(rows, [name for name, _ in self._read]).with_units(None)
        return self._results(self._processed(pairs, members, met, times, step), batch)

    def miss(self) -> None:
        """Record that an event came that no pattern wants."""
        if self._any_last:
            self._had_last[:] = self._any_last = False

    def _processed(
        self, pairs: EventBatch, members: Int64Array, met: BoolArray, times: Int64Array | None, step: Step
    ) -> EventBatch:
        columns = dict(pairs.columns)
        for slot in range(self._slots):
            columns[met_column(slot)] = Column(AttributeType.BOOL, self.pool, values=met[slot])
        pairs = pairs.with_columns(columns).with_partitions(members)
        if times is not None:
            pairs = pairs.with_timestamps(times)
        if not self.head.reader.computed:
            return self.head.process(MergedRows([pairs], (0,)), step)
        with np.errstate(all="ignore"):  # numbers overflow silently, as in Java
            return self.head.process(MergedRows([pairs], (0,)), step)

    def _with_missed(
        self, stamps: Int64Array, latest: int, pairs: tuple[Int64Array, Int64Array, BoolArray]
    ) -> tuple[Int64Array, Int64Array, BoolArray, Int64Array]:
        """Return the rows of a batch with late events, with added rows for missed events.

        Such a row precedes a row of the pattern that missed events: it matches nothing and has the latest of their
        times. All rows are returned with their times.
        """
        rows, members, met = pairs
        order = np.argsort(members, kind="stable")
        before: Int64Array = np.full(len(rows), -1, np.int64)
        same = members[order][1:] == members[order][:-1]
        before[order[1:][same]] = rows[order[:-1][same]]
        pending = (before < 0) & ~self._had_last[members] & (latest != NEVER_BEFORE)
        between = rows - before > 1
        missed = between | pending
        until: Int64Array = np.where(pending, latest, NEVER_BEFORE)
        until[between] = np.maximum(until[between], _greatest(stamps, before[between] + 1, rows[between]))
        places = np.repeat(np.arange(len(rows)), 1 + missed)
        told: BoolArray = np.ones(len(places), np.bool_)
        told[1:] = places[1:] != places[:-1]
        told &= missed[places]
        return (
            rows[places],
            members[places],
            met[:, places] & ~told,
            np.where(told, until[places], stamps[rows][places]),
        )

    def _results(self, out: EventBatch, batch: EventBatch) -> tuple[Int64Array, EventBatch] | None:
        if not out.size:
            return None
        members = out.partitions
        assert members is not None  # noqa: S101 - each pattern is an instance
        producers = self.numbers[members]
        if self._generation != self.pool.generation:
            self._take_constants()
        columns = {
            name: self._constants[name].take(members) if column is None else out.columns[column]
            for name, _, column in self._outputs
        }
        out = out.with_columns(columns).with_partitions(None).with_chunks(out.deliveries)
        orders = batch.orders
        if batch.size > 1 and not (orders[1:] > orders[:-1]).all():
            place = np.lexsort((producers, out.clocks, out.orders))
            producers, out = producers[place], out.take(place)
            out = out if out.chunks is None else out.with_chunks(renumber_chunks(out.chunks))
        return producers, out

    def _take_constants(self) -> None:
        for place, (name, type_, column) in enumerate(self._outputs):
            if column is None:
                constants = [own[place] for own in self._all_constants]
                self._constants[name] = Column.of(type_, self.pool, constants)
        self._generation = self.pool.generation

    # ---- state

    @property
    def is_full(self) -> bool:
        """Return whether one of the patterns may exceed its limit of partial matches."""
        return self.head.live > self._most

    def catch_up(self, clock: int, latest: int) -> None:
        """Advance every pattern to the latest event that does not match it, at `latest`.

        The pattern gets it as an event that has only this time.
        """
        if latest == NEVER_BEFORE or self._had_last.all():
            return
        members = np.flatnonzero(~self._had_last)
        count = len(members)
        columns = {name: Column.nulls(type_, self.pool, count) for name, type_ in self._read}
        ones, times = filled(count, 1), filled(count, latest)
        nothing = EventBatch(times, None, ones, filled(count, clock), columns, only_current=True)
        met: BoolArray = np.zeros((self._slots, count), np.bool_)
        self._processed(nothing, members, met, None, Step(filled(1, clock), clock, clock))
        self._had_last[:] = self._any_last = True
        self._pieces = self._sizes = None

    def hand_back(self) -> None:
        """Give every pattern its part of the state, permanently if they are too large together."""
        for member in self._members:
            member.share_head(None)
            if self.is_full and isinstance(member.head, ChainOperator):
                member.may_share = False
                member.head.keep_to_limit()

    def piece(self, place: int) -> State:
        """Return the state of one pattern in the form in which its own operator would save it."""
        if self._pieces is None:
            self._pieces = self.head.apart(len(self._members))
        return self._pieces[place]

    def size(self, place: int) -> StateSize:
        """Return the size of one pattern; memory is divided equally."""
        if self._sizes is None:
            self._sizes = self.head.live_by_instance(len(self._members))
        whole = self.head.state_size()
        return StateSize(partial_matches=int(self._sizes[place]), bytes=whole.bytes // len(self._members))


@dataclass(frozen=True, slots=True)
class _Part:
    """The part of one pattern in the common state."""

    shared: SharedPattern
    place: int

    def snapshot(self) -> State:
        return self.shared.piece(self.place)

    def state_size(self) -> StateSize:
        return self.shared.size(self.place)


def _head(shape: PatternShape, first: QueryNode, context: OperatorContext) -> ChainOperator:
    plan = plan_chain(shape.machine, context)
    assert not isinstance(plan, NotApplicable)  # noqa: S101 - with fewer conditions it is a chain all the more
    return ChainOperator(plan, selection_references(first.analysed), context)


def _greatest(stamps: Int64Array, starts: Int64Array, stops: Int64Array) -> Int64Array:
    """Return the greatest of `stamps[start:stop]` for each pair, none of which is empty."""
    levels = [stamps]
    while 2 ** len(levels) <= len(stamps):
        half, width = levels[-1], 2 ** (len(levels) - 1)
        levels.append(np.maximum(half[:-width], half[width:]))
    depths = np.frexp(stops - starts)[1] - 1
    greatest: Int64Array = np.empty(len(starts), np.int64)
    for depth, level in enumerate(levels):
        own = depths == depth
        greatest[own] = np.maximum(level[starts[own]], level[stops[own] - 2**depth])
    return greatest
