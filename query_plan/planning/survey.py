"""A survey of an analysed plan: everything that the checks judge and the builder builds from, computed once."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from query_plan.annotations import Header, read_header
from query_plan.components.bindings import PlanBindings, plan_bindings
from query_plan.components.error_streams import ErrorStream, error_streams
from query_plan.components.members import Member, members
from query_plan.planning.groups import ExecutionGroup, execution_groups
from siddhi.analysis.model import AnalysedApp


@dataclass(frozen=True)
class Survey:
    app: AnalysedApp
    header: Header
    bindings: PlanBindings
    members: tuple[Member, ...]
    groups: tuple[ExecutionGroup, ...]
    error_streams: tuple[ErrorStream, ...]

    @cached_property
    def imported(self) -> frozenset[str]:
        return frozenset(binding.stream.id for binding in self.bindings.imported)

    @cached_property
    def exported(self) -> frozenset[str]:
        return frozenset(binding.stream.id for binding in self.bindings.exported)

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
        """Return those of `streams` that the plan has, in order of definition."""
        return tuple(sorted((name for name in streams if name in self._place), key=self._place.__getitem__))

    def comes_from_outside(self, stream: str, group: ExecutionGroup) -> bool:
        """Return whether the receiver, a trigger or another group emits `stream`."""
        return (
            stream in self.imported
            or stream in self.app.triggers
            or any(other is not group for other in self.writers.get(stream, ()))
        )

    def needed_outside(self, stream: str, group: ExecutionGroup) -> bool:
        """Return whether `stream` is exported or read by another group."""
        return stream in self.exported or any(other is not group for other in self.readers.get(stream, ()))

    def inputs(self, group: ExecutionGroup) -> tuple[str, ...]:
        """Return the streams that come to `group` from outside, in order of definition."""
        return self.as_defined([name for name in group.streams_read if self.comes_from_outside(name, group)])

    def errors(self, group: ExecutionGroup) -> tuple[ErrorStream, ...]:
        """Return the error streams that `group` emits for events that fail in it."""
        return tuple(one for one in self.error_streams if one.of in group.streams_read)

    def outputs(self, group: ExecutionGroup) -> tuple[str, ...]:
        """Return the streams that `group` writes and others need, in order of definition."""
        return self.as_defined([name for name in group.streams_written if self.needed_outside(name, group)])


def survey(app: AnalysedApp) -> Survey:
    header = read_header(app.syntax)
    found = members(app)
    groups = execution_groups(header.name, found, (*app.tables, *app.windows))
    return Survey(app, header, plan_bindings(app, found), found, groups, error_streams(app, found))


def _by_stream(
    groups: Iterable[ExecutionGroup], streams: Callable[[ExecutionGroup], Iterable[str]]
) -> Mapping[str, tuple[ExecutionGroup, ...]]:
    found: dict[str, list[ExecutionGroup]] = {}
    for group in groups:
        for stream in streams(group):
            found.setdefault(stream, []).append(group)
    return {stream: tuple(members) for stream, members in found.items()}
