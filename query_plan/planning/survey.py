"""A survey of an analysed plan: everything that the checks and the builder need, computed once."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from query_plan.annotations import Header, read_header
from query_plan.components.bindings import EventBinding, PlanBindings, definition_of, plan_bindings
from query_plan.components.error_streams import ErrorStream, error_streams
from query_plan.components.members import Member, members
from query_plan.planning.carried_streams import CarriedStream, carried_streams
from query_plan.planning.groups import ExecutionGroup, execution_groups
from siddhi.analysis.model import AnalysedApp


@dataclass(frozen=True)
class Survey:
    """What the planner and the checks know of an analysed app."""

    app: AnalysedApp
    header: Header
    bindings: PlanBindings
    members: tuple[Member, ...]
    groups: tuple[ExecutionGroup, ...]
    error_streams: tuple[ErrorStream, ...]
    carried: tuple[CarriedStream, ...] = ()
    """The streams that Kafka carries; `bindings` are those written in the plan."""

    @cached_property
    def imported(self) -> frozenset[str]:
        """The names of the streams with events from outside."""
        return frozenset(binding.stream.id for binding in self.bindings.imported)

    @cached_property
    def exported(self) -> frozenset[str]:
        """The names of the streams whose events leave the plan."""
        return frozenset(binding.stream.id for binding in self.bindings.exported)

    @cached_property
    def all_bindings(self) -> PlanBindings:
        """The bindings with those of carried streams."""
        if not self.carried:
            return self.bindings
        taken = {one.stream for one in self.carried if one.use != "out"}
        given = {one.stream for one in self.carried if one.use != "in"}
        return PlanBindings(
            self._with_carried(self.bindings.imported, taken), self._with_carried(self.bindings.exported, given)
        )

    def _with_carried(self, bound: tuple[EventBinding, ...], carried: set[str]) -> tuple[EventBinding, ...]:
        known = {one.stream.id: one for one in bound}
        added = {name: EventBinding(definition_of(self.app, name), name) for name in carried if name not in known}
        streams = tuple((known | added)[name] for name in self.as_defined(known.keys() | added.keys()))
        return streams + tuple(one for one in bound if one.stream.id not in self.app.streams)

    @cached_property
    def writers(self) -> Mapping[str, tuple[ExecutionGroup, ...]]:
        """The groups that write each stream, in their order."""
        return _by_stream(self.groups, lambda group: group.streams_written)

    @cached_property
    def readers(self) -> Mapping[str, tuple[ExecutionGroup, ...]]:
        """The groups that read each stream, in their order."""
        return _by_stream(self.groups, lambda group: group.streams_read)

    @cached_property
    def _place(self) -> Mapping[str, int]:
        return {name: place for place, name in enumerate(self.app.streams)}

    def as_defined(self, streams: Collection[str]) -> tuple[str, ...]:
        """Return those of `streams` that the plan contains, in order of definition."""
        return tuple(sorted((name for name in streams if name in self._place), key=self._place.__getitem__))

    def comes_from_outside(self, stream: str, group: ExecutionGroup) -> bool:
        """Return whether the receiver, a trigger or another group emits `stream`."""
        return (
            stream in self.imported
            or stream in self.app.triggers
            or any(other is not group for other in self.writers.get(stream, ()))
        )

    def needed_outside(self, stream: str, group: ExecutionGroup) -> bool:
        """Return whether `stream` is exported, carried by Kafka, or read by another group."""
        return (
            stream in self.exported
            or any(one.stream == stream for one in self.carried)
            or any(other is not group for other in self.readers.get(stream, ()))
        )

    def inputs(self, group: ExecutionGroup) -> tuple[str, ...]:
        """Return the streams that `group` receives, in order of definition."""
        return self.as_defined([name for name in group.streams_read if self.comes_from_outside(name, group)])

    def errors(self, group: ExecutionGroup) -> tuple[ErrorStream, ...]:
        """Return the error streams that `group` emits for events that fail in it."""
        return tuple(one for one in self.error_streams if one.of in group.streams_read)

    def outputs(self, group: ExecutionGroup) -> tuple[str, ...]:
        """Return the streams that `group` writes and others need, in order of definition."""
        return self.as_defined([name for name in group.streams_written if self.needed_outside(name, group)])


def survey(app: AnalysedApp) -> Survey:
    """Collect what the planner and the checks need to know of the app."""
    header = read_header(app.syntax)
    found = members(app)
    groups = execution_groups(header.name, found, (*app.tables, *app.windows))
    bound = plan_bindings(app, found)
    carried = carried_streams(app, header, found, groups, bound)
    return Survey(app, header, bound, found, groups, error_streams(app, found), carried)


def _by_stream(
    groups: Iterable[ExecutionGroup], streams: Callable[[ExecutionGroup], Iterable[str]]
) -> Mapping[str, tuple[ExecutionGroup, ...]]:
    found: dict[str, list[ExecutionGroup]] = {}
    for group in groups:
        for stream in streams(group):
            found.setdefault(stream, []).append(group)
    return {stream: tuple(members) for stream, members in found.items()}
