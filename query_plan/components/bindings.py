"""Input and output streams of a plan, and their external names.

`@Import` and `@source` bind a stream as input, `@Export` and `@sink` as output. A plan with none of the four imports
every defined stream that it reads and never writes, and exports every stream that it writes and never reads. An app
imports what it reads and never writes in any case: as in Siddhi, events can be sent to a stream without annotations.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from query_plan.annotations import EXPORTING, IMPORTING, first, named, read_header
from query_plan.components.error_streams import error_streams
from query_plan.components.members import Member, members
from siddhi.analysis import model
from siddhi.language import ast

ENGINE_ANNOTATIONS = ("onerror",)
"""The annotations of a stream that its engine must know; workers handle the others."""


@dataclass(frozen=True, slots=True)
class EventBinding:
    """A stream and its external name: `name:version` from the annotation, or else the stream's own id."""

    stream: ast.StreamDefinition
    event_stream: str


class PlanBindings(NamedTuple):
    """The imported and exported streams in order of definition; the streams of failed events to be stored come last."""

    imported: tuple[EventBinding, ...]
    exported: tuple[EventBinding, ...]


def plan_bindings(app: model.AnalysedApp, found: tuple[Member, ...] | None = None) -> PlanBindings:
    """Return the streams that workers send into the plan and receive from it; `found` are its members, if known."""
    found = members(app) if found is None else found
    imported = _bound(app, IMPORTING) | {name: name for name in imported_by_default(app, found)}
    exported = _bound(app, EXPORTING) | {name: name for name in _exported_by_default(app, found)}
    failed = tuple(EventBinding(one.stream, one.stream.id) for one in error_streams(app, found))
    return PlanBindings(_bindings(app, imported), _bindings(app, exported) + failed)


def binds_by_default(app: model.AnalysedApp) -> bool:
    """Return whether no stream of the plan is declared as imported or exported."""
    return not (_bound(app, IMPORTING) or _bound(app, EXPORTING))


def imported_by_default(app: model.AnalysedApp, found: tuple[Member, ...]) -> tuple[str, ...]:
    """Return the streams that are imported by rule.

    These are the defined streams that are read or exported, that no query writes, and that no annotation declares as
    imported. An execution plan that binds any stream has none, since it declares its imports itself.
    """
    if read_header(app.syntax).dialect_3x and not binds_by_default(app):
        return ()
    read, written = _traffic(found)
    needed = (read | set(_bound(app, EXPORTING))) - written - set(_bound(app, IMPORTING)) - set(app.triggers)
    return tuple(name for name, stream in app.streams.items() if stream.defined and name in needed)


def definition_of(app: model.AnalysedApp, stream: str) -> ast.StreamDefinition:
    """Return the definition of any stream of the plan, written or inferred, with the annotations its engine needs."""
    found = app.streams[stream]
    annotations = found.syntax.annotations if found.syntax else ()
    return ast.StreamDefinition(
        stream,
        tuple(ast.AttributeDefinition(name, type_) for name, type_ in found.schema.attributes),
        tuple(named(annotations, *ENGINE_ANNOTATIONS)),
    )


def _bindings(app: model.AnalysedApp, names: Mapping[str, str]) -> tuple[EventBinding, ...]:
    return tuple(EventBinding(definition_of(app, name), names[name]) for name in app.streams if name in names)


def _bound(app: model.AnalysedApp, annotations: tuple[str, ...]) -> dict[str, str]:
    """Return the streams that have one of `annotations`, with their external names."""
    cep4 = annotations[0]
    bound = {}
    for name, stream in app.streams.items():
        written = tuple(named(stream.syntax.annotations, *annotations)) if stream.syntax else ()
        if written:
            event_stream = first((one for one in written if one.name.casefold() == cep4), None)
            bound[name] = event_stream.text if event_stream else name
    return bound


def _exported_by_default(app: model.AnalysedApp, found: tuple[Member, ...]) -> tuple[str, ...]:
    if not binds_by_default(app):
        return ()
    read, written = _traffic(found)
    unread = written - read
    return tuple(name for name in app.streams if name in unread and not name.startswith("#"))


def _traffic(found: tuple[Member, ...]) -> tuple[set[str], set[str]]:
    """Return the streams that queries read, and the streams that they write."""
    read = {one.stream for member in found for one in member.reads}
    return read, {stream for member in found for stream in member.writes}
