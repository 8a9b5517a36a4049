"""Queries over one stream, each of which matches few events.

events ──RuleIndex──▶ (row, rule) ─┬─ rules that let events pass ──Projections──▶ their results, all at once
                                   └─ other queries: each with the events that it may want
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from siddhi.engine.columnar.batch import EventBatch
from siddhi.engine.columnar.column import Column
from siddhi.engine.columnar.strings import StringPool
from siddhi.engine.jit.arrays import INT64, BoolArray, Int64Array, filled
from siddhi.engine.operators.base.operator import Step
from siddhi.engine.operators.patterns.chain.operator import ChainOperator
from siddhi.engine.planner.query import QueryNode
from siddhi.engine.shared_queries.index import RuleIndex
from siddhi.engine.shared_queries.projection import Constants, Projection, Projections, projection_of
from siddhi.engine.shared_queries.shared_pattern import (
    NEVER_BEFORE,
    PatternMatches,
    PatternShape,
    SharedPattern,
    shape_of,
)
from siddhi.engine.shared_queries.wanted import Wanted, wanted_events
from siddhi.engine.streams.junction import Junction
from siddhi.engine.streams.scheduled_node import ScheduledNode
from siddhi.engine.tuning import MIN_SHARED_QUERIES

OWN, GONE = -1, -2
"""Replaces a group: for a query that is evaluated separately, and for an event that has been processed."""
Numbered = tuple[int, ScheduledNode]


class Projected(NamedTuple):
    """`batch` goes to the stream `target`, each row sent by the node of that number in `producers`."""

    target: str
    producers: Int64Array
    batch: EventBatch


@dataclass(slots=True)
class FilteredEvents:
    """The result for a batch: the results of rules that pass events on, and the other queries, each with its events."""

    projected: list[Projected] = field(default_factory=list)
    concerned: list[tuple[int, ScheduledNode, EventBatch]] = field(default_factory=list)


@dataclass(slots=True)
class _RuleMember:
    number: int
    stage: ScheduledNode
    query: QueryNode
    wanted: Wanted
    group: Hashable | None
    """The common part of members that are evaluated together, None for one that is evaluated separately."""
    how: Projection | Constants | None

    @property
    def is_pattern(self) -> bool:
        """Whether it depends on the lateness of events."""
        return self.query.head is not None


class RuleSet:
    """The `members` that read the stream at `source`, in text order."""

    def __init__(self, source: Junction, members: Sequence[_RuleMember], pool: StringPool) -> None:
        self.source = source
        self.stages: list[Numbered] = [(member.number, member.stage) for member in members]
        self.wakeful = [(number, stage) for number, stage in self.stages if stage.node.wakeful]
        self._members = members
        self._index = RuleIndex([tests for member in members for tests in member.wanted], pool)
        sizes = [len(member.wanted) for member in members]
        self._member_of: Int64Array = np.repeat(np.arange(len(members)), sizes)
        self._slot_of: Int64Array = np.concatenate([np.arange(size) for size in sizes])
        self._alternatives = len(self._member_of) > len(members)
        self._projections: list[Projections] = []
        self._shared: list[SharedPattern] = []
        self._group_of: Int64Array = np.full(len(members), OWN, INT64)
        """The number of the projections or, after these, of the shared pattern."""
        self._place_in_group: Int64Array = np.zeros(len(members), INT64)
        self._make_groups(pool)
        own: BoolArray = self._group_of == OWN
        self._is_pattern: BoolArray = own & [member.is_pattern for member in members]
        self._patterns = np.flatnonzero(self._is_pattern).tolist()
        self._latest = NEVER_BEFORE
        self._had_last: frozenset[int] = frozenset()
        """The separate patterns that had the last event."""

    def _make_groups(self, pool: StringPool) -> None:
        groups: dict[Hashable, list[int]] = {}
        for place, member in enumerate(self._members):
            if member.group is not None and member.stage.node.target is not None:
                groups.setdefault((member.stage.node.target, member.group), []).append(place)
        patterns = {group: places for group, places in groups.items() if self._members[places[0]].is_pattern}
        for group, places in groups.items():
            if group not in patterns:
                self._note_group(len(self._projections), places)
                projections = [how for place in places if isinstance(how := self._members[place].how, Projection)]
                target = self._members[places[0]].stage.node.target or ""
                self._projections.append(Projections(target, projections, self._numbers(places), pool))
        for places in patterns.values():
            shape = self._members[places[0]].group
            if len(places) > 1 and isinstance(shape, PatternShape):
                self._note_group(len(self._projections) + len(self._shared), places)
                queries = [self._members[place].query for place in places]
                constants = [how for place in places if isinstance(how := self._members[place].how, tuple)]
                self._shared.append(SharedPattern(shape, queries, constants, self._numbers(places)))

    def _note_group(self, number: int, places: Sequence[int]) -> None:
        self._group_of[places] = number
        self._place_in_group[places] = np.arange(len(places))

    def _numbers(self, places: Sequence[int]) -> Int64Array:
        return np.array([self._members[place].number for place in places], INT64)

    @property
    def heads(self) -> list[ChainOperator]:
        """The operators that patterns share."""
        return [shared.head for shared in self._shared]

    @property
    def is_full(self) -> bool:
        """Whether patterns may exceed their limit, so that each has to continue separately."""
        return any(shared.is_full for shared in self._shared)

    def hand_back(self, clock: int) -> None:
        """Let all queries process all events, and give each separate state."""
        self.catch_up(clock)
        for shared in self._shared:
            shared.hand_back()

    def sift(self, batch: EventBatch, step: Step) -> FilteredEvents:
        """Return the matches and projections of the rows of `batch`, at least one."""
        sifted = FilteredEvents()
        rows, rules = self._index.find(batch)
        members = self._member_of[rules] if self._alternatives else rules
        latest, late = self._latest, False
        if self._patterns or self._shared:
            late = self._note_times(batch, rows, members, step)
        groups = self._group_of[members]
        for number, shared in enumerate(self._shared, start=len(self._projections)):
            mine = groups == number
            if not mine.any():
                shared.miss()
                continue
            found = PatternMatches(batch, rows[mine], self._place_in_group[members[mine]], self._slot_of[rules[mine]])
            made = shared.take(found, step, latest, late=late)
            if made is not None:
                sifted.projected.append(Projected(shared.target, *made))
        if self._projections and len(rows) and _each_by_itself(batch):
            self._project(sifted, batch, rows, members, groups)
            groups = np.where(groups < len(self._projections), np.where(groups == OWN, OWN, GONE), groups)
        own = groups == OWN
        if self._projections and not _each_by_itself(batch):
            own |= groups < len(self._projections)
        if late and self._patterns:
            sifted.concerned = [(member.number, member.stage, batch) for member in self._by_time()]
            own &= ~self._is_pattern[members]
        if own.any():
            self._share_out(sifted, batch, rows[own], members[own])
        return sifted

    def _project(
        self, sifted: FilteredEvents, batch: EventBatch, rows: Int64Array, members: Int64Array, groups: Int64Array
    ) -> None:
        for number, projections in enumerate(self._projections):
            mine = groups == number
            own_rows, own = rows[mine], members[mine]
            if len(own):
                places = self._place_in_group[own]
                out = projections.project(batch, own_rows, places)
                sifted.projected.append(Projected(projections.target, projections.numbers[places], out))

    def _share_out(self, sifted: FilteredEvents, batch: EventBatch, rows: Int64Array, members: Int64Array) -> None:
        if not len(rows):
            return
        order = np.argsort(members, kind="stable")
        rows, members = rows[order], members[order]
        if self._alternatives:
            first: BoolArray = np.ones(len(rows), np.bool_)
            first[1:] = (members[1:] != members[:-1]) | (rows[1:] != rows[:-1])
            rows, members = rows[first], members[first]
        starts = np.flatnonzero(np.append(True, members[1:] != members[:-1])).tolist()
        for start, stop in zip(starts, [*starts[1:], len(rows)], strict=True):
            member = self._members[members[start]]
            own = batch if stop - start == batch.size else batch.take(rows[start:stop])
            sifted.concerned.append((member.number, member.stage, own))

    # ---- late events

    def _note_times(self, batch: EventBatch, rows: Int64Array, members: Int64Array, step: Step) -> bool:
        """Return whether some event of `batch` is earlier than one before it.

        A pattern compares an event with its latest one to determine its lateness, and whether other events came
        between. As long as all events come in order, events that do not match make no difference. As soon as one is
        late, all patterns get the latest time, and then every event.
        """
        stamps = batch.timestamps
        late = stamps.item(0) < self._latest or bool((stamps[1:] < stamps[:-1]).any())
        if late:
            self._catch_up(step.clocks.item(0))
            self._had_last = frozenset(self._patterns)
        elif self._patterns:
            self._had_last = frozenset(members[rows == batch.size - 1].tolist())
        self._latest = max(self._latest, int(stamps.max()))
        return late

    def catch_up(self, clock: int) -> None:
        """Advance every pattern to the last event that does not match it.

        The pattern gets it as an event that has only the latest time.
        """
        for shared in self._shared:
            shared.catch_up(clock, self._latest)
        self._catch_up(clock)

    def _catch_up(self, clock: int) -> None:
        if self._latest == NEVER_BEFORE:
            return
        for place in self._patterns:
            if place not in self._had_last:
                self._members[place].stage.node.process([self._nothing()], Step(filled(1, clock), clock, clock))
        self._had_last = frozenset(self._patterns)

    def _nothing(self) -> EventBatch:
        """Return an event with null attributes, which meets no condition."""
        columns = {name: Column.nulls(type_, self.source.pool, 1) for name, type_ in self.source.types.items()}
        one = filled(1, 1)
        return EventBatch(filled(1, self._latest), None, one, filled(1, self._latest), columns, only_current=True)

    def _by_time(self) -> list[_RuleMember]:
        return [self._members[place] for place in self._patterns]


def _each_by_itself(batch: EventBatch) -> bool:
    """Return whether rows are events that are separate chunks, each with its own cause."""
    if not batch.only_current or batch.chunks is not None or batch.deliveries is not None:
        return False
    if batch.units is not None or batch.partitions is not None:
        return False
    orders = batch.orders
    if batch.size == 1:
        return orders.item(0) & 1 == 1
    return bool((orders[1:] > orders[:-1]).all()) and bool((orders & 1).all())


def rule_sets(stages: Sequence[ScheduledNode], junctions: Mapping[str, Junction]) -> dict[str, RuleSet]:
    """Return the rule sets among `stages`, by their streams."""
    found = rules_by_stream(stages)
    return {key: RuleSet(junctions[key], members, junctions[key].pool) for key, members in found.items()}


def rules_by_stream(stages: Sequence[ScheduledNode]) -> dict[str, list[_RuleMember]]:
    """Return the members of the rule sets among `stages`, by stream.

    A stream has a rule set when enough queries with conditions read it.
    """
    found: dict[str, list[_RuleMember]] = {}
    for number, stage in enumerate(stages):
        member = _member(number, stage)
        if member is not None:
            found.setdefault(stage.node.sources[0], []).append(member)
    return {key: members for key, members in found.items() if len(members) >= MIN_SHARED_QUERIES}


def _member(number: int, stage: ScheduledNode) -> _RuleMember | None:
    """Return the stage as a rule, None when it has to process every event."""
    node = stage.node
    if not isinstance(node, QueryNode) or node.partition is not None or len(node.sources) != 1:
        return None
    if node.may_fail or node.reads or stage.fires_first:
        return None
    wanted = wanted_events(node.analysed)
    if wanted is None or (node.head is not None and not isinstance(node.head, ChainOperator)):
        return None
    group: Hashable | None = None
    how: Projection | Constants | None = None
    if stage.is_heard or node.writes or node.target is None:
        pass
    elif node.head is None:
        how = projection_of(node.analysed)
        group = None if how is None else how.outputs
    elif (shape := shape_of(node)) is not None:
        group, how = shape
    return _RuleMember(number, stage, node, wanted, group, how)
