"""Read the sources and sinks of a plan's streams, in the form sent to workers."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Literal

from cep_common.protocol.registry import Connector
from query_plan.components.error_streams import SINK_TYPE, STREAM_OPTION, error_streams
from query_plan.connectors.distribution import NAME, options_of_distribution, separated
from siddhi.analysis.model import AnalysedApp
from siddhi.language import ast


def read_connectors(app: AnalysedApp, kind: Literal["source", "sink"]) -> tuple[Connector, ...]:
    """Return every `@source` and `@sink` of the plan's streams, in text order.

    `type` is removed from the options. `@map` sets the mapper, empty without it. Nested annotations become dotted
    options: `@map(type='json', @attributes(a='$.x'))` has `attributes.a`, and `@payload('…')` is `payload`. Several
    values without names are numbered: `@attributes('$.x', '$.y')` has `attributes.0` and `attributes.1`. A sink with
    `@distribution` becomes one for each destination, except with `roundRobin`.
    """
    return tuple(
        one
        for stream, analysed in app.streams.items()
        if analysed.syntax is not None
        for annotation in _named(analysed.syntax.annotations, kind)
        for one in separated(connector_of(stream, annotation))
    )


def stores_of_errors(app: AnalysedApp) -> tuple[Connector, ...]:
    """Return the sinks for the plan's streams with `@OnError(action='STORE')`."""
    return tuple(Connector(one.stream.id, SINK_TYPE, {STREAM_OPTION: one.of}, "", {}) for one in error_streams(app))


def connector_of(stream: str, annotation: ast.Annotation) -> Connector:
    """Return the connector that `@source` or `@sink` of `stream` declares."""
    options = {element.key: element.value for element in annotation.elements if element.key is not None}
    for nested in annotation.annotations:
        if nested.name.casefold() == NAME:
            options |= dict(options_of_distribution(nested))
        elif nested.name.casefold() not in ("map", "dist"):  # the planner reports that @dist has no effect there
            options |= dict(_flat(nested, f"{nested.name.casefold()}."))
    kind = options.pop("type", "")
    mapper = next(_named(annotation.annotations, "map"), ast.Annotation("map"))
    mapper_options = dict(_flat(mapper, ""))
    return Connector(
        stream=stream,
        type=kind,
        options=options,
        mapper=mapper_options.pop("type", ""),
        mapper_options=mapper_options,
    )


def _flat(annotation: ast.Annotation, prefix: str) -> Iterator[tuple[str, str]]:
    several = sum(element.key is None for element in annotation.elements) > 1
    numbers = itertools.count()
    for element in annotation.elements:
        key = element.key if element.key is not None else str(next(numbers)) if several else ""
        yield f"{prefix}{key}".rstrip("."), element.value
    for nested in annotation.annotations:
        yield from _flat(nested, f"{prefix}{nested.name.casefold()}.")


def _named(annotations: tuple[ast.Annotation, ...], name: str) -> Iterator[ast.Annotation]:
    return (one for one in annotations if one.namespace is None and one.name.casefold() == name)
