"""Check the declaration of one source or sink."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from cep_common.configuration.secrets import is_whole_reference, name_fault, with_sample
from cep_common.errors import ConfigError
from cep_common.protocol.registry import Connector
from query_plan.connectors import kafka, mappers, sinks, sources
from query_plan.connectors.attribute_paths import by_attribute, split_options, split_paths
from query_plan.connectors.distribution import (
    destinations_of,
    distribution_faults,
    is_distributed,
    own_options,
    takes_turns,
)
from query_plan.connectors.options import Fault, FaultKind, Options, option_faults
from query_plan.connectors.schemas import CARRIERS, SCHEMA_MAPPERS, SCHEMA_OPTIONS
from query_plan.connectors.templates import attributes_in, sample, unknown_in
from siddhi.extensions.json.path import PathError, json_path

Kind = Literal["source", "sink"]

CONNECTORS: dict[Kind, dict[str, type[Options]]] = {
    "source": {
        "file": sources.FileSourceOptions,
        "http": sources.HttpSourceOptions,
        "inMemory": sources.InMemoryOptions,
        "kafka": kafka.KafkaSourceOptions,
        "zeromq": sources.ZeromqSourceOptions,
    },
    "sink": {
        "email": sinks.EmailOptions,
        "file": sinks.FileSinkOptions,
        "http": sinks.HttpSinkOptions,
        "inMemory": sinks.InMemorySinkOptions,
        "kafka": kafka.KafkaSinkOptions,
        "log": sinks.LogOptions,
        "rdbms": sinks.RdbmsOptions,
        "zeromq": sinks.ZeromqSinkOptions,
    },
}
"""The connector types of workers, with their options."""

MAPPERS: dict[Kind, dict[str, type[Options]]] = {
    "source": {
        "csv": mappers.CsvSourceOptions,
        "json": mappers.JsonSourceOptions,
        "text": mappers.TextSourceOptions,
        "xml": mappers.XmlSourceOptions,
        **SCHEMA_OPTIONS["source"],
    },
    "sink": {
        "csv": mappers.CsvSinkOptions,
        "json": mappers.JsonSinkOptions,
        "ndjson": mappers.NdjsonSinkOptions,
        "text": mappers.TextSinkOptions,
        "xml": mappers.XmlSinkOptions,
        **SCHEMA_OPTIONS["sink"],
    },
}
"""The mappers of types that convert events to text or back, with their options."""

KEY_VALUE: dict[Kind, type[Options]] = {
    "source": mappers.KeyValueSourceOptions,
    "sink": mappers.KeyValueSinkOptions,
}
TEXTUAL: dict[Kind, tuple[str, ...]] = {
    "source": ("file", "http", "kafka"),
    "sink": ("email", "file", "http", "kafka", "log"),
}
"""The types that use text mappers."""
NO_MAPPER = ("", "passThrough")
"""Mapper names that select the type's own mapper."""
_REF = "write the options of the destination, or ref at the sink"
_DEFAULT_MAPPER = {"source": "json", "sink": ""}
_TEMPLATED = ("json", "text", "xml")
_ADVICE = {
    "attachments": "a mail is a text alone: leave it out",
    "payload": "write it within @map(…)",
    "attributes": "write it within @map(…)",
}
"""Options of Siddhi without effect, and the alternative to each."""


@dataclass(frozen=True, slots=True)
class ConnectorFault:
    """A fault of a connector's options or, with `in_map`, of its mapper's.

    With `about_type` the type itself is wrong. `destination` is the number of the destination whose option it is, if it
    belongs to one.
    """

    fault: Fault
    in_map: bool = False
    about_type: bool = False
    destination: int | None = None


def connector_faults(kind: Kind, connector: Connector, attributes: Sequence[str]) -> Iterator[ConnectorFault]:
    """Yield everything that is wrong with `connector` at a stream with these attributes.

    Options that come from a configuration (`ref`) are not checked.
    """
    if kind == "source" or not is_distributed(connector.options):
        yield from _single_faults(kind, connector, attributes)
        return
    for fault in distribution_faults(connector.options, attributes):
        yield ConnectorFault(fault)
    found: set[ConnectorFault] = set()
    each = own_options(connector.options)
    for number, one in enumerate(destinations_of(connector)):
        if takes_turns(connector.options) and number < len(each) and "ref" in each[number]:
            yield ConnectorFault(Fault("ref", "has no effect in a destination of roundRobin", _REF), destination=number)
        for wrong in _single_faults(kind, one, attributes):
            if number < len(each) and wrong.fault.option in each[number] and not wrong.in_map:
                yield replace(wrong, destination=number)
            elif wrong not in found:
                found.add(wrong)
                yield wrong


def _single_faults(kind: Kind, connector: Connector, attributes: Sequence[str]) -> Iterator[ConnectorFault]:
    referring = "ref" in connector.options
    known = CONNECTORS[kind]
    options = {name: text for name, text in connector.options.items() if name != "ref"}
    for name, text in connector.options.items():
        if wrong := name_fault(text):
            yield ConnectorFault(Fault(name, wrong))
    for name, text in connector.mapper_options.items():
        if connector.mapper in SCHEMA_MAPPERS and (wrong := name_fault(text)):
            yield _in_map(Fault(name, wrong))
    options = {name: _judged(name, text) for name, text in options.items()}
    if connector.type not in known:
        if not referring or connector.type:
            message = f"unknown type of {kind} {connector.type}" if connector.type else f"the {kind} has no type"
            fault = Fault("type", message, _meant(connector.type, known), FaultKind.UNKNOWN)
            yield ConnectorFault(fault, about_type=True)
        return
    struct = known[connector.type]
    for fault in _with_advice(_varying_faults(struct, options, attributes, referring)):
        yield ConnectorFault(fault)
    if options.get("on.error", "").strip().upper() == "STREAM":
        message = f"STREAM works like STORE: events go to the error store, not to queries of !{connector.stream}"
        yield ConnectorFault(Fault("on.error", message, "write on.error='STORE'", FaultKind.IDLE))
    yield from _mapper_faults(kind, connector, attributes)


def refuse_faults(kind: Kind, connector: Connector, attributes: Sequence[str], where: str) -> None:
    """Raise ConfigError for the first fault that prevents `connector` from running."""
    for found in connector_faults(kind, connector, attributes):
        if found.fault.kind is not FaultKind.IDLE:
            place = f"@map of {where}" if found.in_map else where
            raise ConfigError(f"{place}: {found.fault.text()}")


def _varying_faults(
    struct: type[Options], options: Mapping[str, str], attributes: Sequence[str], referring: bool
) -> Iterator[Fault]:
    """Yield the faults of options, some of which contain values of events."""
    filled = dict(options)
    for name, text in options.items():
        if not attributes_in(text) or name.endswith("password"):
            continue
        if name not in struct.varying:
            if name in {field.replace("_", ".") for field in struct.__struct_fields__}:
                advice = "write a stream and a @sink for each"
                yield Fault(name, f"{{{{{attributes_in(text)[0]}}}}} cannot differ from event to event", advice)
            continue
        if problem := unknown_in(text, attributes):
            yield Fault(name, problem)
        if name != "method" and not text.strip().startswith("{{"):
            filled[name] = sample(text)
    whole = {name for name in struct.varying if options.get(name, "").strip().startswith("{{")}
    yield from (
        fault for fault in option_faults(struct, filled, given_elsewhere=referring) if fault.option not in whole
    )


def _mapper_faults(kind: Kind, connector: Connector, attributes: Sequence[str]) -> Iterator[ConnectorFault]:
    mapper, given = connector.mapper, connector.mapper_options
    if connector.type not in TEXTUAL[kind]:
        yield from _untexted_faults(kind, connector, attributes)
        return
    if "ref" in given:
        return
    name = _DEFAULT_MAPPER[kind] if mapper in NO_MAPPER else mapper
    if not name:
        if given:
            yield _in_map(Fault("", "options without a type", "write @map(type='json', …)"))
        return
    struct = MAPPERS[kind].get(name)
    if struct is None:
        where = f" for the {kind} {connector.type}"
        unknown = Fault("type", f"unknown type of mapper {name}{where}", _meant(name, MAPPERS[kind]), FaultKind.UNKNOWN)
        yield ConnectorFault(unknown, in_map=True, about_type=True)
        return
    if name in SCHEMA_MAPPERS:
        if connector.type not in CARRIERS:
            message = f"{name} is for {' and '.join(CARRIERS)}, which carry one binary body for each event"
            yield _in_map(Fault("type", message, "write @map(type='json')"))
            return
        given = {option: with_sample(text, "secret") for option, text in given.items()}
    paths, others = split_paths(given) if kind == "source" else ({}, dict(given))
    if kind == "source" and name == "text":
        _, others = split_options(others, "regex")
    if kind == "sink" and name == "csv":
        _, others = split_options(others, "payload")
    yield from map(_in_map, option_faults(struct, others))
    if kind == "source":
        yield from map(_in_map, _path_faults(name, paths, given, attributes))
    elif name in _TEMPLATED and (problem := unknown_in(given.get("payload", ""), attributes)):
        yield _in_map(Fault("payload", problem))


def _untexted_faults(kind: Kind, connector: Connector, attributes: Sequence[str]) -> Iterator[ConnectorFault]:
    """Yield the faults of mappers for types without text mappers: a topic may have `keyvalue`, the others none."""
    given = {name: text for name, text in connector.mapper_options.items() if name != "ref"}
    if connector.type != "inMemory":
        if (given or connector.mapper not in NO_MAPPER) and connector.type == "zeromq":
            yield _in_map(Fault("", "events are sent as Arrow batches; remove @map", kind=_idle_if(kind == "sink")))
        return
    if connector.mapper == "keyvalue":
        prefix = "attributes" if kind == "source" else "payload"
        chosen, others = split_options(given, prefix)
        yield from map(_in_map, option_faults(KEY_VALUE[kind], others))
        if kind == "source" and chosen:
            yield from map(_in_map, _named_faults(chosen, attributes))
        return
    for name in given:
        message = "has no effect: events go from stream to stream as they are"
        yield _in_map(Fault(name, message, "take it out, or use @map(type='keyvalue', …)", FaultKind.IDLE))


def _judged(option: str, text: str) -> str:
    """Return the option with secrets replaced by sample values."""
    if is_whole_reference(text) and option.endswith("url"):
        return "https://secret.invalid/"
    return with_sample(text, "secret")


def _idle_if(idle: bool) -> FaultKind:
    return FaultKind.IDLE if idle else FaultKind.WRONG


def _path_faults(
    mapper: str, paths: Mapping[str, str], given: Mapping[str, str], attributes: Sequence[str]
) -> Iterator[Fault]:
    """Yield the faults of `@attributes`: unknown attributes and invalid paths."""
    if paths:
        yield from _named_faults(paths, attributes)
    if mapper == "json" or mapper in SCHEMA_MAPPERS:
        named = {f"attributes.{name}" if name else "attributes": path for name, path in paths.items()}
        for option, path in {"enclosing.element": given.get("enclosing.element", mappers.WHOLE), **named}.items():
            if path.strip().casefold().startswith("trp:"):
                continue
            try:
                json_path(path.strip())
            except PathError as error:
                yield Fault(option, str(error))
    if mapper == "text" and bool(paths) != any(name.partition(".")[0] == "regex" for name in given):
        yield Fault("", "regex.A='…' and @attributes(attribute='A[1]') go together")
    if mapper == "xml" and not paths and given.get("enclosing.element"):
        yield Fault("enclosing.element", "needs @attributes(…) with an XPath for each attribute")


def _named_faults(paths: Mapping[str, str], attributes: Sequence[str]) -> Iterator[Fault]:
    try:
        by_attribute(paths, attributes, "")
    except ConfigError as error:
        yield Fault("", error.message.removeprefix(": "))


def _with_advice(faults: Iterable[Fault]) -> Iterator[Fault]:
    for fault in faults:
        name = fault.option.partition(".")[0]
        advice = _ADVICE.get(name) if fault.kind is FaultKind.UNKNOWN else None
        yield replace(fault, hint=advice) if advice else fault


def _in_map(fault: Fault) -> ConnectorFault:
    return ConnectorFault(fault, in_map=True)


def _meant(written: str, known: Iterable[str]) -> str:
    """Return the most similar of the `known` words, or all of them."""
    words = {one.casefold(): one for one in known}
    near = difflib.get_close_matches(written.casefold(), words, n=1)
    return f"did you mean '{words[near[0]]}'?" if near else f"known types: {', '.join(words.values())}"
