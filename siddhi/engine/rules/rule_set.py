"""The queries over one stream of which an event concerns only a few.

events ──RuleIndex──▶ (row, rule) ─┬─ rules that let events pass ──Projections──▶ their results, all at once
                                   └─ other queries: each with the events that it may want
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from siddhi.engine.arrays import INT64, BoolArray, Int64Array, filled
from siddhi.engine.batch import EventBatch
from siddhi.engine.column import Column
from siddhi.engine.junction import Junction
from siddhi.engine.operator import Step
from siddhi.engine.pattern.chain import ChainOperator
from siddhi.engine.query import Query
from siddhi.engine.rules.index import RuleIndex
from siddhi.engine.rules.projection import Projection, Projections, projection_of
from siddhi.engine.rules.wanted import Wanted, wanted_events
from siddhi.engine.stage import Stage
from siddhi.engine.strings import StringPool

LEAST_RULES = 8
"""Fewer queries are asked one by one."""
NEVER_BEFORE = np.iinfo(np.int64).min
Numbered = tuple[int, Stage]


class Projected(NamedTuple):
    """`batch` goes to the stream `target`, each row sent by the node of that number in `producers`."""

    target: str
    producers: Int64Array
    batch: EventBatch


@dataclass(slots=True)
class Sifted:
    """What a batch concerns: the results of rules that let events pass, and the other queries, each with its events."""

    projected: list[Projected] = field(default_factory=list)
    concerned: list[tuple[int, Stage, EventBatch]] = field(default_factory=list)


@dataclass(slots=True)
class _Member:
    number: int
    stage: Stage
    wanted: Wanted
    projection: Projection | None
    by_time: bool
    """Whether it is a pattern, to which it matters how late events are."""


class RuleSet:
    """The `members` that read the stream at `source`, in text order."""

    def __init__(self, source: Junction, members: Sequence[_Member], pool: StringPool) -> None:
        self.source = source
        self.stages: list[Numbered] = [(member.number, member.stage) for member in members]
        self.wakeful = [(number, stage) for number, stage in self.stages if stage.node.wakeful]
        self._members = members
        self._index = RuleIndex([tests for member in members for tests in member.wanted], pool)
        sizes = [len(member.wanted) for member in members]
        self._member_of: Int64Array = np.repeat(np.arange(len(members)), sizes)
        self._alternatives = len(self._member_of) > len(members)
        self._projections: list[Projections] = []
        self._group_of: Int64Array = np.full(len(members), -1, INT64)
        self._place_in_group: Int64Array = np.zeros(len(members), INT64)
        self._group(pool)
        self._all_projected = bool((self._group_of >= 0).all())
        self._patterns = [place for place, member in enumerate(members) if member.by_time]
        self._is_pattern: BoolArray = np.array([member.by_time for member in members], np.bool_)
        self._latest = NEVER_BEFORE
        self._had_last: frozenset[int] = frozenset()
        """The patterns that had the last event."""

    def _group(self, pool: StringPool) -> None:
        groups: dict[tuple[str, Hashable], list[int]] = {}
        for place, member in enumerate(self._members):
            target = member.stage.node.target
            if member.projection is not None and target is not None:
                groups.setdefault((target, member.projection.shape), []).append(place)
        for (target, _), places in groups.items():
            alike = [projection for place in places if (projection := self._members[place].projection) is not None]
            numbers: Int64Array = np.array([self._members[place].number for place in places], INT64)
            self._group_of[places] = len(self._projections)
            self._place_in_group[places] = np.arange(len(places))
            self._projections.append(Projections(target, alike, numbers, pool))

    def sift(self, batch: EventBatch, step: Step) -> Sifted:
        """What the rows of `batch`, at least one, concern."""
        sifted = Sifted()
        rows, rules = self._index.find(batch)
        members = self._member_of[rules] if self._alternatives else rules
        if self._patterns and self._note_times(batch, rows, members, step):
            sifted.concerned = [(member.number, member.stage, batch) for member in self._by_time()]
            without = ~self._is_pattern[members]
            rows, members = rows[without], members[without]
        if not len(rows):
            return sifted
        groups = self._group_of[members]
        if _each_by_itself(batch):
            self._project(sifted, batch, rows, members, groups)
            if self._all_projected:
                return sifted
            others = groups < 0
            rows, members = rows[others], members[others]
        self._share_out(sifted, batch, rows, members)
        return sifted

    def _project(
        self, sifted: Sifted, batch: EventBatch, rows: Int64Array, members: Int64Array, groups: Int64Array
    ) -> None:
        for number, projections in enumerate(self._projections):
            own_rows, own = rows, members
            if len(self._projections) > 1 or not self._all_projected:
                mine = groups == number
                own_rows, own = rows[mine], members[mine]
            if len(own):
                places = self._place_in_group[own]
                out = projections.project(batch, own_rows.copy(), places)
                sifted.projected.append(Projected(projections.target, projections.numbers[places], out))

    def _share_out(self, sifted: Sifted, batch: EventBatch, rows: Int64Array, members: Int64Array) -> None:
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

        A pattern tells by its latest event how late another is, and by whether any came between them: as long as all
        come in order, the events that it does not want make no difference. As soon as one is late, all patterns have
        the latest time, and then every event.
        """
        stamps = batch.timestamps
        late = stamps.item(0) < self._latest or bool((stamps[1:] < stamps[:-1]).any())
        if late:
            self.catch_up(step.clocks.item(0))
            self._had_last = frozenset(self._patterns)
        else:
            self._had_last = frozenset(members[rows == batch.size - 1].tolist())
        self._latest = max(self._latest, int(stamps.max()))
        return late

    def catch_up(self, clock: int) -> None:
        """Every pattern has seen that events came which it does not want: one that has nothing but the last time."""
        if self._latest == NEVER_BEFORE:
            return
        for place in self._patterns:
            if place not in self._had_last:
                self._members[place].stage.node.process([self._nothing()], Step(filled(1, clock), clock, clock))
        self._had_last = frozenset(self._patterns)

    def _nothing(self) -> EventBatch:
        """An event of which every attribute is null, which meets no condition."""
        columns = {name: Column.nulls(type_, self.source.pool, 1) for name, type_ in self.source.types.items()}
        one = filled(1, 1)
        return EventBatch(filled(1, self._latest), None, one, filled(1, self._latest), columns, only_current=True)

    def _by_time(self) -> list[_Member]:
        return [self._members[place] for place in self._patterns]


def _each_by_itself(batch: EventBatch) -> bool:
    """Return whether rows are events that are chunks of their own, each caused by another event."""
    if not batch.only_current or batch.chunks is not None or batch.deliveries is not None:
        return False
    if batch.units is not None or batch.partitions is not None:
        return False
    orders = batch.orders
    if batch.size == 1:
        return orders.item(0) & 1 == 1
    return bool((orders[1:] > orders[:-1]).all()) and bool((orders & 1).all())


def rule_sets(stages: Sequence[Stage], junctions: Mapping[str, Junction]) -> dict[str, RuleSet]:
    """The rule sets among `stages`, by their streams: those that enough queries read that say what they want."""
    found: dict[str, list[_Member]] = {}
    for number, stage in enumerate(stages):
        member = _member(number, stage)
        if member is not None:
            found.setdefault(stage.node.sources[0], []).append(member)
    return {
        key: RuleSet(junctions[key], members, junctions[key].pool)
        for key, members in found.items()
        if len(members) >= LEAST_RULES
    }


def _member(number: int, stage: Stage) -> _Member | None:
    """The stage as a rule, None when it has to see every event."""
    node = stage.node
    if not isinstance(node, Query) or node.partition is not None or len(node.sources) != 1:
        return None
    if node.may_fail or node.reads or stage.fires_first:
        return None
    wanted = wanted_events(node.analysed)
    pattern = node.head is not None
    if wanted is None or (pattern and not isinstance(node.head, ChainOperator)):
        return None
    heard = stage.is_heard or node.writes
    projection = None if heard else projection_of(node.analysed)
    return _Member(number, stage, wanted, projection, by_time=pattern)
