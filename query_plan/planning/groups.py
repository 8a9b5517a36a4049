"""Execution groups: which members of a plan run together in one stage.

Only `@dist` distributes. A plan without it is one group, named like the plan, with the same results as one engine. In a
plan with `@dist` a member belongs to its `execGroup`, or else to a group of its own. Members that name no group are
then merged where necessary: with members that use the same table, named window or aggregation in memory or the same
private stream (`#S`, `!S`), and with members of the same cycle.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from query_plan.components.members import Member, Read
from query_plan.model import GLOBAL, SHUFFLE, Grouping, GroupingKind


@dataclass(frozen=True)
class ExecutionGroup:
    """The members of a plan that run in one engine.

    `members` are in text order. `name` is the execGroup, else the name of the first member that the plan itself names,
    else that of the first member. `idle_state` are tables and named windows that no member uses, kept for on-demand
    queries.
    """

    name: str
    members: tuple[Member, ...]
    idle_state: tuple[str, ...] = ()

    @property
    def parallel(self) -> int:
        """The number of instances of the group at first, at least 1."""
        return self.members[0].parallel if self.members else 1

    @property
    def most(self) -> int:
        """The largest number of instances that it may have."""
        return self.members[0].most if self.members else 1

    @property
    def scales(self) -> bool:
        """Whether its number of instances follows the load."""
        return any(member.distribution.scales for member in self.members)

    @property
    def shares_state(self) -> bool:
        """Whether each of several instances keeps the whole state, ordered by a common log."""
        return self.most > 1 and any(member.distribution.shares_state for member in self.members)

    @property
    def logs_to_kafka(self) -> bool:
        """Whether that log is a topic of Kafka."""
        return any(member.distribution.logs_to_kafka for member in self.members)

    @cached_property
    def reads(self) -> tuple[Read, ...]:
        """The streams that all members read, in order."""
        return tuple(read for member in self.members for read in member.reads)

    @cached_property
    def reads_of(self) -> Mapping[str, tuple[Read, ...]]:
        """The reads of each stream."""
        found: dict[str, list[Read]] = {}
        for read in self.reads:
            found.setdefault(read.stream, []).append(read)
        return {stream: tuple(reads) for stream, reads in found.items()}

    @cached_property
    def groupings(self) -> Mapping[str, Grouping | None]:
        """How its instances share each stream that it reads; None where the readers require different ways."""
        return {stream: agreed(reads) for stream, reads in self.reads_of.items()}

    @cached_property
    def streams_read(self) -> frozenset[str]:
        """The names of the streams that the group reads."""
        return frozenset(self.reads_of)

    @cached_property
    def streams_written(self) -> frozenset[str]:
        """The names of the streams that the group writes."""
        return frozenset(stream for member in self.members for stream in member.writes)


def agreed(reads: Collection[Read]) -> Grouping | None:
    """Return how instances share the stream of all `reads`; None where the reads require different ways."""
    demands = {read.grouping for read in reads if read.grouping != SHUFFLE and not read.bears}
    if GLOBAL in demands:
        return GLOBAL
    if not demands:
        return GLOBAL if any(read.bears for read in reads) else SHUFFLE
    if len(demands) > 1:
        return None
    (demand,) = demands
    if any(read.bears and demand not in read.bears for read in reads):
        return None
    once = demand.kind in (GroupingKind.FIELDS, GroupingKind.EXPRESSION)
    return demand if once or all(read.grouping == demand for read in reads) else None


def execution_groups(
    plan_name: str, members: tuple[Member, ...], state: Iterable[str] = ()
) -> tuple[ExecutionGroup, ...]:
    """Return the groups of a plan in the order of their first members.

    `state` are the plan's tables and named windows. Those that no member uses are kept by the only group of an
    undistributed plan, by the first group that keeps such state anyway, or by a group of its own, so that they do not
    keep another group from running in parallel.
    """
    groups = _groups_of(plan_name, members)
    used = {name for member in members for name in member.state}
    idle = tuple(name for name in state if name not in used)
    if not idle:
        return groups
    distributed = any(member.distribution.present for member in members)
    keepers = (
        position
        for position, group in enumerate(groups)
        if group.most == 1 and (not distributed or any(member.state for member in group.members))
    )
    keeper = next(keepers, None)
    if keeper is None:
        return (*groups, ExecutionGroup(_free_name(plan_name, {group.name for group in groups}), (), idle))
    return tuple(
        replace(group, idle_state=idle) if position == keeper else group for position, group in enumerate(groups)
    )


def _free_name(wanted: str, taken: set[str]) -> str:
    while wanted in taken:
        wanted += "_"
    return wanted


def _groups_of(plan_name: str, members: tuple[Member, ...]) -> tuple[ExecutionGroup, ...]:
    if not members:
        return ()
    if not any(member.distribution.present for member in members):
        return (ExecutionGroup(plan_name, members),)
    sets = _MemberSets(members)
    _join_sharers(sets)
    _join_loops(sets)
    return tuple(_group(part) for part in sets.parts())


def loops(groups: tuple[ExecutionGroup, ...]) -> tuple[tuple[str, ...], ...]:
    """Return the sets of groups that feed each other in a cycle, each in the order of the groups."""
    readers: dict[str, list[int]] = {}
    for number, group in enumerate(groups):
        for stream in group.streams_read:
            readers.setdefault(stream, []).append(number)
    fed = [
        sorted({reader for stream in group.streams_written for reader in readers.get(stream, ()) if reader != number})
        for number, group in enumerate(groups)
    ]
    circles = (sorted(one) for one in _connected(fed) if len(one) > 1)
    return tuple(tuple(groups[number].name for number in circle) for circle in sorted(circles))


def _connected(successors: Sequence[Sequence[int]]) -> Iterator[list[int]]:
    """Yield the strongly connected sets of a graph (Tarjan), without recursion: chains of groups may be long."""
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    open_nodes: list[int] = []
    is_open: set[int] = set()
    for root in range(len(successors)):
        if root in index:
            continue
        path = [(root, iter(successors[root]))]
        while path:
            node, rest = path[-1]
            if node not in index:
                index[node] = low[node] = len(index)
                open_nodes.append(node)
                is_open.add(node)
            following = next((one for one in rest if one not in index or one in is_open), None)
            if following is None:
                path.pop()
                if path:
                    low[path[-1][0]] = min(low[path[-1][0]], low[node])
                if low[node] == index[node]:
                    first = open_nodes.index(node) if open_nodes[-1] != node else len(open_nodes) - 1
                    found = open_nodes[first:]
                    del open_nodes[first:]
                    is_open.difference_update(found)
                    yield found
            elif following in index:
                low[node] = min(low[node], index[following])
            else:
                path.append((following, iter(successors[following])))


class _MemberSets:
    """Disjoint sets of members.

    At first each execGroup is one set, and each other member is a set of its own. A set is identified by its first
    member.
    """

    def __init__(self, members: tuple[Member, ...]) -> None:
        self.members = members
        first_of: dict[str, int] = {}
        self._before = [
            position if member.group is None else first_of.setdefault(member.group, position)
            for position, member in enumerate(members)
        ]
        self._explicit = {position for position, member in enumerate(members) if member.group is not None}

    def join(self, positions: Iterable[int]) -> None:
        """Merge the sets of all `positions`."""
        firsts = {self._first(position) for position in positions}
        if firsts:
            owner = min(firsts)
            if not self._explicit.isdisjoint(firsts):
                self._explicit.add(owner)
            for first in firsts:
                self._before[first] = owner

    def explicit(self, position: int) -> bool:
        """Return whether a member of the set of `position` names an execGroup."""
        return self._first(position) in self._explicit

    def parts(self) -> tuple[tuple[Member, ...], ...]:
        parts: dict[int, list[Member]] = {}
        for position, member in enumerate(self.members):
            parts.setdefault(self._first(position), []).append(member)
        return tuple(tuple(part) for _, part in sorted(parts.items()))

    def _first(self, position: int) -> int:
        while self._before[position] != position:
            self._before[position] = self._before[self._before[position]]
            position = self._before[position]
        return position


def _join_sharers(sets: _MemberSets) -> None:
    """Join members without execGroup to the first group that shares their state.

    Groups with an execGroup stay separate; the checks refuse such plans.
    """
    shared: dict[str, dict[int, None]] = {}
    for position, member in enumerate(sets.members):
        for name in (*member.state, *member.private):
            shared.setdefault(name, {})[position] = None
    for users in shared.values():
        owner = next((position for position in users if sets.explicit(position)), next(iter(users)))
        sets.join([owner, *(position for position in users if not sets.explicit(position))])


def _join_loops(sets: _MemberSets) -> None:
    """Merge groups that form a cycle, unless the plan itself names more than one of them."""
    parts = sets.parts()
    by_number = tuple(ExecutionGroup(str(number), part) for number, part in enumerate(parts))
    positions = {id(member): position for position, member in enumerate(sets.members)}
    for loop in loops(by_number):
        inside = [positions[id(member)] for name in loop for member in parts[int(name)]]
        if not any(sets.explicit(position) for position in inside):
            sets.join(inside)


def _group(members: tuple[Member, ...]) -> ExecutionGroup:
    asked = next((member.group for member in members if member.group is not None), None)
    if asked is not None:
        return ExecutionGroup(asked, members)
    return ExecutionGroup(next((member for member in members if member.named), members[0]).name, members)
