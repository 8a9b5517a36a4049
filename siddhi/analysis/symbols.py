"""The names that the app has defined so far: streams, tables, windows, triggers, functions, aggregations."""

from __future__ import annotations

from dataclasses import dataclass, field

from siddhi.analysis.model import (
    AnalysedAggregation,
    AnalysedFunction,
    AnalysedStream,
    AnalysedTable,
    AnalysedWindow,
    Schema,
    SourceKind,
)
from siddhi.analysis.problems import Problems
from siddhi.errors import did_you_mean
from siddhi.language import ast
from siddhi.spans import Span


def has_mark(name: str, span: Span, problems: Problems) -> bool:
    """Return whether `name` begins with the mark of inner or fault streams, which is reported.

    Back-quotes allow such a name, but the stream `` `#S` `` could not be distinguished from the inner stream `#S`.
    """
    if not name.startswith(("#", "!")):
        return False
    message = f"the name '{name}' begins with '{name[0]}', which marks {'inner' if name[0] == '#' else 'fault'} streams"
    problems.add("marked-name", message, span, "give it a name without the mark")
    return True


@dataclass
class Symbols:
    """Definitions by id.

    `broken` contains ids whose definition has problems; their readers are not checked. A function with problems is
    None.
    """

    streams: dict[str, AnalysedStream] = field(default_factory=dict)
    tables: dict[str, AnalysedTable] = field(default_factory=dict)
    windows: dict[str, AnalysedWindow] = field(default_factory=dict)
    triggers: dict[str, ast.TriggerDefinition] = field(default_factory=dict)
    functions: dict[str, AnalysedFunction | None] = field(default_factory=dict)
    aggregations: dict[str, AnalysedAggregation] = field(default_factory=dict)
    inner_streams: dict[str, Schema] | None = None
    """The partition that is being analysed, else None."""
    broken: set[str] = field(default_factory=set)

    def kind_of(self, name: str) -> SourceKind | None:
        """Return the kind of the definition called `name`, or None."""
        if name in self.triggers:
            return SourceKind.TRIGGER
        for kind, known in (
            (SourceKind.STREAM, self.streams),
            (SourceKind.TABLE, self.tables),
            (SourceKind.WINDOW, self.windows),
            (SourceKind.AGGREGATION, self.aggregations),
        ):
            if name in known:
                return kind
        return None

    def schema_of(self, name: str) -> Schema | None:
        """Return the schema of the stream, table, window or aggregation `name`, None if there is none."""
        for known in (self.streams, self.tables, self.windows, self.aggregations):
            if name in known:
                return known[name].schema
        return None

    def names(self) -> tuple[str, ...]:
        """Return the names of all streams, tables, windows and aggregations."""
        return (*self.streams, *self.tables, *self.windows, *self.aggregations)

    def find_source(self, source: ast.SingleInput, problems: Problems) -> tuple[SourceKind, str, Schema] | None:
        """Return kind, id and schema of the definition that `source` names.

        None if it is unknown (reported) or has errors.
        """
        if source.inner:
            return self._find_inner(source, problems)
        if source.fault:
            return self._find_fault(source, problems)
        if source.source in self.broken:
            return None
        kind, schema = self.kind_of(source.source), self.schema_of(source.source)
        if kind is None or schema is None:
            problems.add(
                "unknown-stream",
                f"stream '{source.source}' is not defined",
                source.span,
                did_you_mean(source.source, self.names()) or "define it, or insert into it in a query above this one",
            )
            return None
        return kind, source.source, schema

    def _find_inner(self, source: ast.SingleInput, problems: Problems) -> tuple[SourceKind, str, Schema] | None:
        name = f"#{source.source}"
        if name in self.broken:
            return None
        known = self.inner_streams
        if known is None and name in self.streams:
            return SourceKind.STREAM, name, self.streams[name].schema
        if known is not None and source.source in known:
            return SourceKind.INNER_STREAM, source.source, known[source.source]
        hint = did_you_mean(source.source, known or ()) or "insert into it in a query above this one"
        problems.add("unknown-stream", f"inner stream '{name}' is not defined", source.span, hint)
        return None

    def _find_fault(self, source: ast.SingleInput, problems: Problems) -> tuple[SourceKind, str, Schema] | None:
        if source.source in self.broken:
            return None
        stream = self.streams.get(source.source)
        if stream is None or stream.fault is None:
            problems.add(
                "unknown-stream",
                f"stream '{source.source}' has no fault stream",
                source.span,
                "define the stream with @OnError(action='STREAM'), or 'STORE'",
            )
            return None
        return SourceKind.FAULT_STREAM, source.source, stream.fault
