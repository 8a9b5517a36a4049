"""The rule about options of `@source`, `@sink` and `@map`: those that no worker takes are told before the plan runs."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from query_plan.annotations import named
from query_plan.findings import Finding, warning_rule
from siddhi.language import ast

CONNECTOR_OPTIONS: dict[str, dict[str, tuple[str, ...]]] = {
    "source": {
        "file": (
            "file.uri", "mode", "tailing", "file.polling.interval", "timestamp", "header.present",
            "action.after.process",
        ),
        "http": ("receiver.url", "timestamp", "basic.auth.enabled"),
        "inMemory": ("topic",),
        "zeromq": ("endpoint", "window.rows"),
    },
    "sink": {
        "email": (
            "address", "to", "subject", "cc", "bcc", "username", "password", "password.file", "host", "port",
            "ssl.enable", "auth", "content.type", "timeout.ms", "on.error", "retry.count",
        ),
        "file": ("file.uri", "append", "add.line.separator"),
        "http": (
            "publisher.url", "method", "headers", "batch.rows", "timeout.ms", "on.error", "retry.count",
            "basic.auth.enabled", "basic.auth.username", "basic.auth.password",
        ),
        "inMemory": ("topic",),
        "log": ("priority", "prefix"),
        "rdbms": ("url", "table.name", "password.file", "create", "timestamp.column", "on.error"),
        "zeromq": ("endpoint", "stream"),
    },
}  # fmt: skip
"""What each type takes."""

MAPPER_OPTIONS: dict[str, dict[str, tuple[str, ...]]] = {
    "source": {
        "csv": ("delimiter", "header.present", "header", "fail.on.unknown.attribute", "event.grouping.enabled"),
        "json": ("fail.on.missing.attribute", "enclosing.element"),
        "text": ("fail.on.missing.attribute", "event.grouping.enabled", "delimiter", "new.line.character"),
        "xml": (
            "namespaces", "enclosing.element", "enclosing.element.as.event", "fail.on.missing.attribute",
            "extract.leaf.node.data", "enable.streaming.xml.content",
        ),
    },
    "sink": {
        "csv": ("delimiter", "header", "event.grouping.enabled"),
        "json": ("payload", "enclosing.element", "validate.json"),
        "ndjson": ("payload",),
        "text": ("payload", "event.grouping.enabled", "delimiter", "new.line.character"),
        "xml": ("payload", "enclosing.element", "validate.xml"),
    },
}  # fmt: skip
"""What the mappers of `file`, `http` and `log` take, beside `@attributes` and `@payload`."""

_NAMED_FREELY = {"text": "regex."}
"""What begins options of a source's mapper whose names the plan chooses."""
_WITHIN_MAP = {"source": "attributes", "sink": "payload"}
_TEXTUAL = ("email", "file", "http", "log")
"""The types that have mappers."""

_ADVICE = {
    "dir.uri": "a source reads one file, not those of a folder: name it in file.uri",
    "move.after.process": "files stay where they are: leave it out",
    "attachments": "a mail is a text alone: leave it out",
    "connection.pool.size": "a sink has one connection: leave it out",
    "@distribution": "write a @sink for each destination; each gets all events",
    "@payload": "write it within @map(…)",
    "@attributes": "write it within @map(…)",
}
"""What Siddhi has, and what to do instead."""

UNKNOWN_OPTION = warning_rule(
    "connector-option-unknown",
    "no worker knows such an option of the source, sink or mapper; the plan runs without that source or sink",
    "take the option out, or use one that there is",
)


def connector_options_are_known(app: ast.App) -> Iterator[Finding]:
    """Each option of a source or sink of a known type, and of a known mapper of it, is one that workers have."""
    for definition in app.definitions:
        if not isinstance(definition, ast.StreamDefinition):
            continue
        for annotation in named(definition.annotations, *CONNECTOR_OPTIONS):
            yield from _options_are_known(definition, annotation)


def _options_are_known(definition: ast.StreamDefinition, annotation: ast.Annotation) -> Iterator[Finding]:
    kind = annotation.name.casefold()
    type_ = _type_of(annotation)
    if (known := CONNECTOR_OPTIONS[kind].get(type_)) is None:
        return
    yield from _elements_are_known(definition, annotation, f"{kind} {type_}", known, "")
    for nested in annotation.annotations:
        if nested.name.casefold() not in ("map", "dist"):  # @dist has a rule of its own
            yield _unknown(definition, f"{kind} {type_}", f"@{nested.name}", known, nested.span)
        elif type_ in _TEXTUAL and (mapped := MAPPER_OPTIONS[kind].get(mapper := _type_of(nested))) is not None:
            freely = _NAMED_FREELY.get(mapper, "") if kind == "source" else ""
            yield from _elements_are_known(definition, nested, f"{kind}'s mapper {mapper}", mapped, freely)
            for inner in nested.annotations:
                if inner.name.casefold() != _WITHIN_MAP[kind]:
                    yield _unknown(definition, f"{kind}'s mapper {mapper}", f"@{inner.name}", mapped, inner.span)


def _elements_are_known(
    definition: ast.StreamDefinition, annotation: ast.Annotation, owner: str, known: tuple[str, ...], freely: str
) -> Iterator[Finding]:
    for element in annotation.elements:
        if element.key is None or element.key in ("type", *known) or (freely and element.key.startswith(freely)):
            continue
        yield _unknown(definition, owner, element.key, known, element.span)


def _unknown(
    definition: ast.StreamDefinition, owner: str, option: str, known: tuple[str, ...], span: ast.Span
) -> Finding:
    near = difflib.get_close_matches(option, known, n=1)
    return UNKNOWN_OPTION.broken(
        f"no worker knows the option '{option}' of a {owner}; {definition.id} goes without it",
        _ADVICE.get(option) or (f"did you mean '{near[0]}'?" if near else f"known options: {', '.join(known)}"),
        span,
    )


def _type_of(annotation: ast.Annotation) -> str:
    return next((one.value for one in annotation.elements if one.key == "type"), "")
