"""Rules about `@source`, `@sink` and `@map`: what a plan asks for that no worker has is told before it is deployed."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from query_plan.annotations import named
from query_plan.findings import Finding, error_rule, warning_rule
from siddhi.language import ast

CONNECTOR_TYPES = {
    "source": ("file", "http", "inMemory", "zeromq"),
    "sink": ("email", "file", "http", "inMemory", "log", "rdbms", "zeromq"),
}
"""What workers have."""

MAPPER_TYPES: dict[str, dict[str, tuple[str, ...]]] = {
    "source": dict.fromkeys(("file", "http"), ("csv", "json", "text", "xml")),
    "sink": dict.fromkeys(("email", "file", "http", "log"), ("csv", "json", "ndjson", "text", "xml")),
}
"""The mappers of those that turn events into texts or back. The others have none of their own."""

_ANY_MAPPER = "passThrough"
"""Siddhi's name for none: the type's own mapper is taken."""

WITHOUT_TYPE = error_rule(
    "connector-without-type",
    "`@source` or `@sink` does not say its type",
    "write `type='…'` and the options there; what `ref` names in a deployment file is not known here",
)
UNKNOWN_TYPE = warning_rule(
    "connector-type-unknown",
    "no worker has sources or sinks of such a type; the plan runs without it",
    "use a type that there is, or bring events in and results out by HTTP or ZeroMQ, which needs no declaration",
)
UNKNOWN_MAPPER = warning_rule(
    "mapper-type-unknown",
    "no worker has a mapper of such a type for the source or sink; the plan runs without it",
    "use a mapper that there is",
)


def connectors_are_known(app: ast.App) -> Iterator[Finding]:
    """Each source and sink names a type that workers have."""
    for definition in app.definitions:
        if not isinstance(definition, ast.StreamDefinition):
            continue
        for annotation in named(definition.annotations, *CONNECTOR_TYPES):
            kind = annotation.name.casefold()
            written = next((one for one in annotation.elements if one.key == "type"), None)
            known = CONNECTOR_TYPES[kind]
            if written is None or not written.value.strip():
                yield WITHOUT_TYPE.broken(
                    f"@{kind} of {definition.id} does not say its type",
                    f"write @{kind}(type='{known[1]}', …) with its options; known types: {', '.join(known)}",
                    annotation.span,
                )
            elif written.value not in known:
                yield UNKNOWN_TYPE.broken(
                    f"no worker has a {kind} of type '{written.value}'; {definition.id} goes without it",
                    _meant(written.value, known),
                    written.span,
                )
            else:
                yield from _mappers_are_known(definition, annotation, written.value)


def _mappers_are_known(
    definition: ast.StreamDefinition, annotation: ast.Annotation, connector_type: str
) -> Iterator[Finding]:
    kind = annotation.name.casefold()
    known = MAPPER_TYPES[kind].get(connector_type)
    for mapper in named(annotation.annotations, "map"):
        written = next((one for one in mapper.elements if one.key == "type"), None)
        if known is not None and written is not None and written.value not in ("", _ANY_MAPPER, *known):
            yield UNKNOWN_MAPPER.broken(
                f"no worker has a mapper of type '{written.value}' for the {kind} {connector_type}; "
                f"{definition.id} goes without it",
                _meant(written.value, known),
                written.span,
            )


def _meant(written: str, known: tuple[str, ...]) -> str:
    """Which of the `known` words may be meant, or all of them."""
    near = difflib.get_close_matches(written.casefold(), [one.casefold() for one in known], n=1)
    meant = next((one for one in known if near and one.casefold() == near[0]), None)
    return f"did you mean '{meant}'?" if meant else f"known types: {', '.join(known)}"
