"""Which streams a plan takes in from outside and gives out, and by what name the outside knows them.

`@Import` and `@source` bind a stream as input, `@Export` and `@sink` as output. A plan with none of the four takes in
every defined stream that it reads and never writes, and gives out every stream that it writes and never reads.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from query_plan.annotations import EXPORTING, IMPORTING, first, named
from query_plan.members import members
from siddhi.analysis import model
from siddhi.language import ast

ENGINE_ANNOTATIONS = ("onerror",)
"""The annotations of a stream that its engine must know; the others speak to workers."""


@dataclass(frozen=True, slots=True)
class StreamBinding:
    """`event_stream` is `name:version` of the annotation, or the stream's own id where no annotation names one."""

    stream: ast.StreamDefinition
    event_stream: str


class PlanBindings(NamedTuple):
    """Both in order of definition."""

    imported: tuple[StreamBinding, ...]
    exported: tuple[StreamBinding, ...]


def plan_bindings(app: model.AnalysedApp) -> PlanBindings:
    """What workers send into the plan and get out of it."""
    if binds_by_default(app):
        return _default_bindings(app)
    return PlanBindings(_bound(app, IMPORTING), _bound(app, EXPORTING))


def binds_by_default(app: model.AnalysedApp) -> bool:
    """True when no stream of the plan says that it is imported or exported."""
    return not (_bound(app, IMPORTING) or _bound(app, EXPORTING))


def definition_of(app: model.AnalysedApp, stream: str) -> ast.StreamDefinition:
    """The definition of any stream of the plan, written or inferred, with the annotations that its engine must know."""
    found = app.streams[stream]
    annotations = found.syntax.annotations if found.syntax else ()
    return ast.StreamDefinition(
        stream,
        tuple(ast.AttributeDefinition(name, type_) for name, type_ in found.schema.attributes),
        tuple(named(annotations, *ENGINE_ANNOTATIONS)),
    )


def _bound(app: model.AnalysedApp, annotations: tuple[str, ...]) -> tuple[StreamBinding, ...]:
    cep4 = annotations[0]
    bindings = []
    for name, stream in app.streams.items():
        written = tuple(named(stream.syntax.annotations, *annotations)) if stream.syntax else ()
        if written:
            event_stream = first((one for one in written if one.name.casefold() == cep4), None)
            bindings.append(StreamBinding(definition_of(app, name), event_stream.text if event_stream else name))
    return tuple(bindings)


def _default_bindings(app: model.AnalysedApp) -> PlanBindings:
    all_members = members(app)
    read = {one.stream for member in all_members for one in member.reads}
    written = {stream for member in all_members for stream in member.writes}
    inputs = (name for name, stream in app.streams.items() if stream.defined and name in read - written)
    outputs = (name for name in app.streams if name in written - read and not name.startswith("#"))
    return PlanBindings(
        tuple(StreamBinding(definition_of(app, name), name) for name in inputs if name not in app.triggers),
        tuple(StreamBinding(definition_of(app, name), name) for name in outputs),
    )
