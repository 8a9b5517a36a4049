"""Rules about `@Import` and `@Export`, and about streams without producers or consumers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from query_plan.annotations import EXPORTING, IMPORTING, named
from query_plan.components.bindings import binds_by_default, imported_by_default
from query_plan.components.elements import queries_of
from query_plan.findings import Finding, error_rule, warning_rule
from query_plan.planning.survey import Survey
from siddhi.analysis import model
from siddhi.language import ast

MOST_NAMED = 20
_EVENT_STREAM = re.compile(r"[A-Za-z0-9_.-]+:[0-9]+\.[0-9]+\.[0-9]+", re.ASCII)

IMPORT_EMPTY = error_rule("import-empty", "`@Import` names no event stream", "write `@Import('Name:1.0.0')`")
EXPORT_EMPTY = error_rule("export-empty", "`@Export` names no event stream", "write `@Export('Name:1.0.0')`")
IMPORT_MALFORMED = error_rule(
    "import-malformed",
    "`@Import` is not `name:version`",
    "write `@Import('Name:1.0.0')`; a name has letters, digits, `_`, `-`, `.`",
)
EXPORT_MALFORMED = error_rule(
    "export-malformed",
    "`@Export` is not `name:version`",
    "write `@Export('Name:1.0.0')`; a name has letters, digits, `_`, `-`, `.`",
)
ARBITRARY_DATA = warning_rule(
    "arbitrary-data-unsupported",
    "a stream uses attributes that no definition has; its events do not have them",
    "define every attribute that the plan uses",
)
IMPORTED_AND_EXPORTED = error_rule(
    "imported-and-exported", "the plan would feed itself", "export another stream, filled by a query"
)
WITHOUT_QUERIES = warning_rule(
    "plan-without-queries", "the plan has no query; it only keeps what it defines", "add a query"
)
READ_UNPRODUCED = error_rule(
    "stream-without-producer",
    "a stream is read that is neither imported nor written",
    "import it, or let a query insert into it",
)
EXPORTED_UNPRODUCED = warning_rule(
    "exported-stream-not-produced", "a stream is exported that no query writes", "let a query insert into it"
)
IMPORTED_UNREAD = warning_rule(
    "imported-stream-unread", "a stream is imported that no query reads", "take the annotation out"
)
RESULT_UNUSED = warning_rule(
    "result-unused",
    "a stream is written that is neither read nor exported",
    "export it, read it, or fix its name",
)
DEFAULT_BINDINGS = warning_rule(
    "bindings-by-default",
    "no stream is declared as imported or exported, or the input of an app is not declared; the planner chooses",
    "write `@Import` and `@Export`, or `@source` and `@sink`",
)


def event_streams_are_well_formed(app: ast.App) -> Iterator[Finding]:
    """Check that `@Import` and `@Export` name an event stream and its version."""
    for definition, annotation in _cep4_annotations(app):
        value = annotation.value()
        verb = annotation.name
        imports = verb.casefold() == "import"
        if value is None or not value.strip():
            yield (IMPORT_EMPTY if imports else EXPORT_EMPTY).broken(
                f"@{verb} of {definition.id} names no event stream",
                f"write @{verb}('{definition.id}:1.0.0')",
                annotation.span,
            )
        elif not _EVENT_STREAM.fullmatch(value):
            yield (IMPORT_MALFORMED if imports else EXPORT_MALFORMED).broken(
                f"@{verb}('{value}') does not name an event stream and its version",
                f"write @{verb}('{definition.id}:1.0.0'), the name made of letters, digits, '_', '-' and '.'",
                _value_span(annotation),
            )


def no_arbitrary_data(app: ast.App) -> Iterator[Finding]:
    """Warn about `arbitrary.data`: events carry only the attributes of their definition."""
    for definition, annotation in _cep4_annotations(app):
        for element in annotation.elements:
            if (element.key or "").casefold() == "arbitrary.data" and element.value.strip().casefold() == "true":
                yield ARBITRARY_DATA.broken(
                    f"arbitrary.data has no effect: events of {definition.id} have the attributes of its definition",
                    "define every attribute that the plan uses and leave arbitrary.data out",
                    element.span,
                )


def no_stream_is_imported_and_exported(app: ast.App) -> Iterator[Finding]:
    """Check that no stream, and no event stream, is both imported and exported: the plan would feed itself."""
    imported: dict[str, str] = {}
    for definition, annotation in _cep4_annotations(app):
        if annotation.name.casefold() == "import":
            imported[annotation.value() or ""] = definition.id
    for definition, annotation in _cep4_annotations(app):
        if annotation.name.casefold() != "export":
            continue
        if any(True for _ in named(definition.annotations, "import")):
            yield IMPORTED_AND_EXPORTED.broken(
                f"{definition.id} is both imported and exported",
                "export another stream and fill it by a query: from A select * insert into B",
                annotation.span,
            )
        elif annotation.value() in imported:
            yield IMPORTED_AND_EXPORTED.broken(
                f"{definition.id} exports {annotation.value()}, which {imported[annotation.value() or '']} imports",
                "export it under another name or version",
                _value_span(annotation),
            )


def default_bindings_are_announced(plan: Survey) -> Iterator[Finding]:
    """Warn about bindings that are derived by rule, since the plan declares none for a stream."""
    if plan.members and binds_by_default(plan.app):
        imported = _some([binding.stream.id for binding in plan.bindings.imported])
        written = [binding.stream.id for binding in plan.bindings.exported]
        exported = _some([name for name in written if name in plan.app.streams])
        yield DEFAULT_BINDINGS.broken(
            f"no stream is declared as imported or exported; the plan imports {imported} and exports {exported}",
            "to choose explicitly, write @Import('Name:1.0.0') and @Export('Name:1.0.0') before definitions",
            None,
        )
        return
    for name in imported_by_default(plan.app, plan.members):
        yield DEFAULT_BINDINGS.broken(
            f"the source of {name} is not declared; the plan accepts events that are sent to this name",
            f"to declare it, write @source(…) or @Import('{name}:1.0.0') before its definition",
            _definition_span(plan, name),
        )


def _some(names: Sequence[str]) -> str:
    """Return a list of the names, shortened to what fits a message."""
    left = len(names) - MOST_NAMED
    return ", ".join(names[:MOST_NAMED]) + (f" and {left:,} more" if left > 0 else "") or "nothing"


def plan_has_queries(plan: Survey) -> Iterator[Finding]:
    """Warn about a plan without queries; its definitions only serve on-demand queries."""
    hint = "add one: from A select * insert into B"
    if not plan.members and not plan.imported & plan.exported:
        kept = _some([*plan.app.tables, *plan.app.windows])
        yield WITHOUT_QUERIES.broken(f"the plan has no query; it keeps {kept} for on-demand queries", hint, None)


def exported_streams_are_produced(plan: Survey) -> Iterator[Finding]:
    """Check that a query writes each exported stream."""
    produced = plan.imported | frozenset(plan.app.triggers)
    produced = produced.union(*(group.streams_written for group in plan.groups))
    for name in plan.app.streams:
        if name in plan.exported - produced:
            yield EXPORTED_UNPRODUCED.broken(
                f"{name} is exported, but no query inserts into it: it will have no events",
                f"add a query that ends with insert into {name}, or remove {_annotated(plan, name, EXPORTING)}",
                _binding_span(plan, name, EXPORTING),
            )


def read_streams_are_produced(plan: Survey) -> Iterator[Finding]:
    """Check that each stream that is read has a producer."""
    produced = plan.imported | frozenset(plan.app.triggers)
    produced = produced.union(*(group.streams_written for group in plan.groups))
    reported: set[str] = set()
    for read in (read for group in plan.groups for read in group.reads):
        if read.stream not in produced and read.stream not in reported:
            reported.add(read.stream)
            yield READ_UNPRODUCED.broken(
                f"{read.stream} is read, but neither imported nor written by a query",
                f"write @Import('{read.stream}:1.0.0') or @source(…) before its definition",
                read.span,
            )


def imported_streams_are_read(plan: Survey) -> Iterator[Finding]:
    """Yield a finding for each imported stream that no query reads."""
    read = plan.exported.union(*(group.streams_read for group in plan.groups))
    for name in plan.app.streams:
        if name in plan.imported - read:
            yield IMPORTED_UNREAD.broken(
                f"{name} is imported, but no query reads it",
                f"remove {_annotated(plan, name, IMPORTING)} if its events are not needed",
                _binding_span(plan, name, IMPORTING),
            )


def results_have_consumers(plan: Survey) -> Iterator[Finding]:
    """Warn about results without a consumer, often caused by a misspelt stream name."""
    read = plan.exported.union(*(group.streams_read for group in plan.groups), (one.stream for one in plan.carried))
    for query in (query for element in plan.app.elements for query in queries_of(element)):
        name = query.output.target
        if query.output.kind is model.TargetKind.STREAM and name not in read:
            yield RESULT_UNUSED.broken(
                f"{name} is written, but neither read nor exported",
                f"define it with @Export('{name}:1.0.0') or @sink(…), or let a query read it",
                query.syntax.output.span,
            )


def _cep4_annotations(app: ast.App) -> Iterator[tuple[ast.StreamDefinition, ast.Annotation]]:
    for definition in app.definitions:
        if isinstance(definition, ast.StreamDefinition):
            for annotation in named(definition.annotations, "import", "export"):
                yield definition, annotation


def _value_span(annotation: ast.Annotation) -> ast.Span:
    return next((element.span for element in annotation.elements if element.key is None), annotation.span)


def _binding(plan: Survey, stream: str, names: tuple[str, ...]) -> ast.Annotation | None:
    syntax = plan.app.streams[stream].syntax
    return next(named(syntax.annotations, *names), None) if syntax else None


def _binding_span(plan: Survey, stream: str, names: tuple[str, ...]) -> ast.Span | None:
    binding = _binding(plan, stream, names)
    return binding.span if binding else None


def _definition_span(plan: Survey, stream: str) -> ast.Span | None:
    syntax = plan.app.streams[stream].syntax
    return syntax.span if syntax else None


def _annotated(plan: Survey, stream: str, names: tuple[str, ...]) -> str:
    binding = _binding(plan, stream, names)
    return f"@{binding.name}" if binding else "the annotation"
