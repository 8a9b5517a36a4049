"""A survey of an analysed plan: everything that the checks judge and the builder builds from, computed once."""

from __future__ import annotations

from dataclasses import dataclass

from query_plan.annotations import Header, read_header
from query_plan.bindings import PlanBindings, plan_bindings
from query_plan.error_streams import ErrorStream, error_streams
from query_plan.groups import Group, execution_groups
from query_plan.members import Member, members
from siddhi.analysis.model import AnalysedApp


@dataclass(frozen=True, slots=True)
class Survey:
    app: AnalysedApp
    header: Header
    bindings: PlanBindings
    members: tuple[Member, ...]
    groups: tuple[Group, ...]
    error_streams: tuple[ErrorStream, ...]

    @property
    def imported(self) -> frozenset[str]:
        return frozenset(binding.stream.id for binding in self.bindings.imported)

    @property
    def exported(self) -> frozenset[str]:
        return frozenset(binding.stream.id for binding in self.bindings.exported)

    def comes_from_outside(self, stream: str, group: Group) -> bool:
        """True when the receiver, a trigger or another group gives out `stream`."""
        return (
            stream in self.imported
            or stream in self.app.triggers
            or any(stream in other.streams_written for other in self.groups if other is not group)
        )

    def needed_outside(self, stream: str, group: Group) -> bool:
        """True when `stream` is exported or another group takes it in."""
        return stream in self.exported or any(
            stream in other.streams_read for other in self.groups if other is not group
        )

    def inputs(self, group: Group) -> tuple[str, ...]:
        """The streams that come to `group` from outside, in order of definition."""
        return tuple(
            name for name in self.app.streams if name in group.streams_read and self.comes_from_outside(name, group)
        )

    def errors(self, group: Group) -> tuple[ErrorStream, ...]:
        """What `group` gives out of events that fail in it."""
        return tuple(one for one in self.error_streams if one.of in group.streams_read)

    def outputs(self, group: Group) -> tuple[str, ...]:
        """The streams that `group` writes and others need, in order of definition."""
        return tuple(
            name for name in self.app.streams if name in group.streams_written and self.needed_outside(name, group)
        )


def survey(app: AnalysedApp) -> Survey:
    header = read_header(app.syntax)
    found = members(app)
    groups = execution_groups(header.name, found, (*app.tables, *app.windows))
    return Survey(app, header, plan_bindings(app), found, groups, error_streams(app))
