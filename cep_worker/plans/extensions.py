"""Options of sources, sinks and mappers in the worker's configuration.

Plans refer to them by name (`ref`), or they apply to all connectors of a type.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from cep_common.errors import ConfigError
from cep_common.protocol.registry import Connector
from query_plan.connectors.judging import CONNECTORS, MAPPERS, Kind
from query_plan.connectors.options import Options, option_names
from query_plan.connectors.schemas import in_map

REF = "ref"


class ExtensionReference(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The type and options that plans refer to by `ref='name'`."""

    name: str
    type: str
    properties: dict[str, Any] = {}


class ExtensionDefaults(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of all sources, sinks or mappers of the type `name`."""

    name: str
    namespace: Literal["source", "sink", "sourceMapper", "sinkMapper"]
    properties: dict[str, Any] = {}


class ConnectorExtension(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One entry of `extensions`, with either `ref` or `extension`."""

    ref: ExtensionReference | None = None
    extension: ExtensionDefaults | None = None

    def __post_init__(self) -> None:
        if (self.ref is None) == (self.extension is None):
            raise ValueError("extensions: each entry has either ref or extension")


class ConnectorExtensions:
    """Adds configured options to connectors."""

    def __init__(self, entries: tuple[ConnectorExtension, ...]) -> None:
        self._references = {entry.ref.name: entry.ref for entry in entries if entry.ref is not None}
        found = (entry.extension for entry in entries if entry.extension is not None)
        self._defaults = {(str(one.namespace), one.name): one.properties for one in found}

    def completed(self, kind: Kind, connector: Connector) -> tuple[Connector, frozenset[str]]:
        """Return the connector with all its options, and the names of those from the configuration (`in_map`).

        Options of the plan override those of its `ref`, which override those of its type.

        Raises:
            ConfigError: the `ref` is unknown.
        """
        where = f"@{kind} of stream {connector.stream}"
        type_, options = self._complete(kind, connector.type, connector.options, CONNECTORS[kind], where)
        mapper, mapped = self._complete(
            f"{kind}Mapper", connector.mapper, connector.mapper_options, MAPPERS[kind], f"@map of {where}"
        )
        given = frozenset(
            {
                *(options.keys() - connector.options.keys()),
                *map(in_map, mapped.keys() - connector.mapper_options.keys()),
            }
        )
        return Connector(connector.stream, type_, options, mapper, mapped, connector.carries), given

    def _complete(
        self, namespace: str, type_: str, options: Mapping[str, str], known: Mapping[str, type[Options]], where: str
    ) -> tuple[str, dict[str, str]]:
        own = {name: text for name, text in options.items() if name != REF}
        meant: Mapping[str, Any] = {}
        if (name := options.get(REF)) is not None:
            reference = self._references.get(name)
            if reference is None:
                names = ", ".join(self._references) or "none"
                advice = f"known: {names}; add it to extensions of the worker's configuration"
                raise ConfigError(f"{where}: ref: there is no '{name}'; {advice}")
            if type_ and type_ != reference.type:
                raise ConfigError(f"{where}: ref: '{name}' is of the type {reference.type}, not {type_}")
            type_, meant = reference.type, reference.properties
        valid = set(option_names(known[type_])) if type_ in known else set()
        defaults = _texts(type_, self._defaults.get((namespace, type_), {}), valid)
        return type_, {**defaults, **_texts(type_, meant, valid), **own}


def _texts(type_: str, properties: Mapping[str, Any], known: set[str]) -> dict[str, str]:
    """Options as texts, as a plan would give them.

    Siddhi puts the type in front of some: `email.address`.
    """
    return {
        name if name in known else name.removeprefix(f"{type_}."): str(value).lower()
        if isinstance(value, bool)
        else str(value)
        for name, value in properties.items()
    }
