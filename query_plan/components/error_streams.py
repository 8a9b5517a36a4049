"""Streams with `@OnError(action='STORE')`: how events that fail in a stage get to the workers' error stores.

    stage ── !S ──▶ query S_errors ──▶ stream S_errors ──▶ publisher ──▶ worker: sink error-store

Each stage that reads `S` ends with such a query, and the publisher sends its stream like any other. So failed events
are acknowledged and take part in checkpoints, as results do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from query_plan.components.members import Member, members
from query_plan.components.names import given_names
from siddhi.analysis import model
from siddhi.language import ast

SINK_TYPE = "error-store"
"""The type of the sink for workers."""
STREAM_OPTION = "stream"
"""The sink's option with the name of the stream whose events failed."""


@dataclass(frozen=True, slots=True)
class ErrorStream:
    """A stream of failed events.

    `stream` carries the failed events of the stream `of`, which is defined at `span`, with its attributes and
    `_error`.
    """

    of: str
    stream: ast.StreamDefinition
    span: ast.Span

    def query(self) -> ast.Query:
        """Return the query that fills the stream, for every stage that reads `of`."""
        name = ast.Annotation("info", (ast.AnnotationElement("name", self.stream.id),))
        source, target = ast.SingleInput(self.of, fault=True), ast.InsertInto(self.stream.id)
        return ast.Query(source, target, annotations=(name,), span=self.span)


def error_streams(app: model.AnalysedApp, found: tuple[Member, ...] | None = None) -> tuple[ErrorStream, ...]:
    """Return the error streams of the plan, in order of definition.

    There is one for each stream whose failed events are to be stored and that some query reads.
    """
    stored = {name: stream for name, stream in app.streams.items() if stream.on_error == "STORE"}
    return tuple(_error_streams(app, stored, members(app) if found is None else found)) if stored else ()


def _error_streams(
    app: model.AnalysedApp, stored: Mapping[str, model.AnalysedStream], found: tuple[Member, ...]
) -> Iterator[ErrorStream]:
    read = {one.stream for member in found for one in member.reads}
    taken = {*app.streams, *app.tables, *app.windows, *app.aggregations, *app.triggers, *app.functions}
    taken |= {*given_names(app), *(name for member in found for name in (member.name, *member.inside))}
    for name, stream in stored.items():
        if stream.fault is not None and name in read:
            attributes = tuple(ast.AttributeDefinition(*attribute) for attribute in stream.fault.attributes)
            made = ast.StreamDefinition(_free_name(f"{name}_errors", taken), attributes)
            yield ErrorStream(name, made, stream.syntax.span if stream.syntax is not None else ast.NOWHERE)


def _free_name(wanted: str, taken: set[str]) -> str:
    name = wanted
    while name in taken:
        name += "_"
    taken.add(name)
    return name
