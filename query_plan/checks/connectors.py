"""Rules about `@source`, `@sink` and `@map`.

They run the workers' own checks before deployment, so that errors are reported early.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from query_plan.annotations import named
from query_plan.connectors.distribution import NAME, destinations_in, option_name
from query_plan.connectors.judging import ConnectorFault, Kind, connector_faults
from query_plan.connectors.options import FaultKind
from query_plan.connectors.reading import connector_of
from query_plan.findings import Finding, error_rule, warning_rule
from siddhi.language import ast

WITHOUT_TYPE = error_rule(
    "connector-without-type",
    "`@source` or `@sink` has neither a `type` nor a `ref` to the configuration",
    "write `type='…'` and the options there, or `ref='…'`",
)
UNKNOWN_TYPE = warning_rule(
    "connector-type-unknown",
    "no worker has sources or sinks of this type; the plan runs without it",
    "use a known type, or send events and receive results over HTTP or ZeroMQ, which needs no declaration",
)
UNKNOWN_MAPPER = warning_rule(
    "mapper-type-unknown",
    "no worker has a mapper of this type for the source or sink; the plan runs without it",
    "use a known mapper",
)
UNKNOWN_OPTION = warning_rule(
    "connector-option-unknown",
    "an option of the source, sink or mapper is unknown; the plan runs without that source or sink",
    "remove the option, or use a known one",
)
MISSING_OPTION = warning_rule(
    "connector-option-missing",
    "a source or sink needs an option; unless the workers' configuration has it, the plan runs without it",
    "write the option, or see [options from the configuration](connectors.md#options-from-the-configuration)",
)
WRONG_OPTION = error_rule(
    "connector-option-wrong",
    "an option of a source, sink or mapper has an invalid value, or one that another option excludes",
    "see the tables of [connectors](connectors.md)",
)
IDLE_OPTION = warning_rule(
    "connector-option-without-effect",
    "an option of Siddhi's sources, sinks and mappers is accepted and has no effect here",
    "take the option out",
)
_KINDS: tuple[Kind, ...] = ("source", "sink")


def connectors_can_run(app: ast.App) -> Iterator[Finding]:
    """Check that workers can run each source and sink with its options."""
    for definition in app.definitions:
        if not isinstance(definition, ast.StreamDefinition):
            continue
        attributes = [attribute.name for attribute in definition.attributes]
        for kind in _KINDS:
            for annotation in named(definition.annotations, kind):
                others = tuple(named(annotation.annotations, NAME))[1:]
                for other in others:
                    message = f"@{kind} of {definition.id} has a second @distribution"
                    yield WRONG_OPTION.broken(message, "write all destinations in one", other.span)
                kept = tuple(one for one in annotation.annotations if all(one is not other for other in others))
                judged = replace(annotation, annotations=kept)
                connector = connector_of(definition.id, judged)
                for found in connector_faults(kind, connector, attributes):
                    yield _finding(definition, judged, kind, found)


def _finding(
    definition: ast.StreamDefinition, annotation: ast.Annotation, kind: Kind, found: ConnectorFault
) -> Finding:
    fault = found.fault
    written = annotation
    if found.in_map:
        written = next(named(annotation.annotations, "map"), annotation)
    spans = _spans(written)
    for distribution in named(annotation.annotations, NAME):
        spans |= {option_name(element): element.span for element in distribution.elements}
    if found.destination is not None:
        spans |= _spans(destinations_in(next(named(annotation.annotations, NAME)))[found.destination])
    span = spans.get(fault.option, written.span)
    type_ = annotation.value("type") or ""
    if found.about_type and not found.in_map and not type_.strip():
        message = f"@{kind} of {definition.id} has no type"
        return WITHOUT_TYPE.broken(
            message, f"write @{kind}(type='…', …) with its options; {fault.hint}", annotation.span
        )
    if found.about_type:
        message = f"no worker has a {kind} of type '{type_}'"
        if found.in_map:
            message = f"no worker has a mapper of type '{written.value('type') or ''}' for the {kind} {type_}"
        rule = UNKNOWN_MAPPER if found.in_map else UNKNOWN_TYPE
        return rule.broken(f"{message}; {definition.id} runs without it", fault.hint, span)
    owner = f"@{kind}(type='{type_}') of {definition.id}" if not found.in_map else f"@map of @{kind} of {definition.id}"
    if fault.kind is FaultKind.UNKNOWN:
        message = f"{owner}: no worker knows the option '{fault.option}'; {definition.id} runs without this {kind}"
        return UNKNOWN_OPTION.broken(message, fault.hint, span)
    named_option = f"{fault.option}: " if fault.option else ""
    if fault.kind is FaultKind.MISSING:
        hint = "write it, or set it in the workers' configuration under extensions"
        return MISSING_OPTION.broken(f"{owner}: {fault.message}", hint, span)
    if fault.kind is FaultKind.IDLE:
        text = f"{fault.option} {fault.message}" if fault.option else fault.message
        return IDLE_OPTION.broken(f"{owner}: {text}", fault.hint or "take it out", span)
    hint = fault.hint or "see the pages of docs/connectors"
    return WRONG_OPTION.broken(f"{owner}: {named_option}{fault.message}", hint, span)


def _spans(annotation: ast.Annotation, prefix: str = "") -> dict[str, ast.Span]:
    """Return the position of each option, by the option's full name."""
    found = {f"{prefix}{element.key or ''}".rstrip("."): element.span for element in annotation.elements}
    for nested in annotation.annotations:
        name = f"{prefix}{nested.name.casefold()}"
        found.setdefault(name, nested.span)
        found |= _spans(nested, f"{name}.")
    return found
