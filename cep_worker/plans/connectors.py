"""Sources and sinks that plans and artefacts declare, each with the stream that it refers to."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec

from cep_common.configuration.secrets import Secrets
from cep_common.configuration.yaml_files import read_yaml
from cep_common.errors import ConfigError, InputError
from cep_common.ids import SUPER_TENANT, PlanKey
from cep_common.protocol.links import StreamSchema
from cep_common.protocol.registry import Connector, Delivery, DeployedPlan
from cep_worker.plans.extensions import ConnectorExtensions
from cep_worker.plans.streams import EventStream, PlanStream, StreamDirectory

logger = logging.getLogger(__name__)


class MapDeclaration(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The mapper of an artefact."""

    type: str = ""
    options: dict[str, Any] = {}


class ConnectorDeclaration(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A source or sink of a tenant's event stream, as a YAML file declares it."""

    stream: str
    type: str
    tenant: int = SUPER_TENANT
    options: dict[str, Any] = {}
    map: MapDeclaration = MapDeclaration()

    def artefact(self) -> Artefact:
        """Return the declaration in the form that plans use, with its tenant."""
        connector = Connector(self.stream, self.type, _texts(self.options), self.map.type, _texts(self.map.options))
        return Artefact(connector, self.tenant)


@dataclass(frozen=True, slots=True)
class Artefact:
    """A connector that a file declares for `tenant`."""

    connector: Connector
    tenant: int


@dataclass(frozen=True, slots=True)
class DeclaredConnector:
    """A connector and the stream that it refers to now.

    `key` is the plan that declares it, None for an artefact; `given` has the names of options from the worker's
    configuration; `delivery` is the plan's delivery guarantee.
    """

    connector: Connector
    stream: EventStream
    key: PlanKey | None
    given: frozenset[str] = frozenset()
    delivery: Delivery = "at-least-once"

    def plan(self) -> PlanKey:
        """Return the plan, or the first of those that an artefact serves."""
        return self.key or self.stream.members[0].key

    def is_at(self, other: DeclaredConnector) -> bool:
        """Return whether both belong to the same plan, or to none, and the same stream and attributes.

        The plan may have been renamed.
        """
        mine, others = self.stream, other.stream
        return (
            self.key == other.key
            and mine.lasting_name() == others.lasting_name()
            and mine.schema.attributes == others.schema.attributes
        )

    def is_like(self, other: DeclaredConnector) -> bool:
        """Return whether both are the same connector at the same stream."""
        return self.connector == other.connector and self.is_at(other)

    def tenant(self) -> int:
        """Return the tenant that owns the stream."""
        return self.stream.tenant()


def read_artefacts(directory: str) -> tuple[Artefact, ...]:
    """Return the connectors in the YAML files of `directory`, in the order of file names; none without a directory.

    Raises ConfigError with the file and the key.
    """
    if not directory:
        return ()
    path = Path(directory)
    if not path.is_dir():
        raise ConfigError(f"artefacts: {path} is not a directory")
    return tuple(_read_artefact(file) for file in sorted(path.iterdir()) if file.suffix in (".yaml", ".yml"))


def with_secrets(declared: DeclaredConnector, secrets: Secrets) -> Connector:
    """Return the connector with the values of the secrets that its plan refers to.

    Raises:
        ConfigError: a secret does not exist.
    """
    connector, key = declared.connector, declared.key
    if key is None:
        return connector
    try:
        options = secrets.resolved(connector.options, key.tenant)
        mapped = secrets.resolved(connector.mapper_options, key.tenant)
    except ConfigError as error:
        raise ConfigError(f"connector {connector.type} of stream {connector.stream}: {error.message}") from error
    return Connector(connector.stream, connector.type, options, connector.mapper, mapped, connector.carries)


def declared_by_plan(
    plan: DeployedPlan, kind: Literal["source", "sink"], extensions: ConnectorExtensions
) -> tuple[list[DeclaredConnector], str]:
    """Return the sources or sinks of a plan with the configured options, and the problems of the others.

    Those others cannot be completed, or belong to no imported or exported stream.
    """
    connectors, bindings = (plan.sources, plan.imported) if kind == "source" else (plan.sinks, plan.exported)
    streams = {binding.stream: binding for binding in bindings}
    found = []
    problem = ""
    for connector in connectors:
        binding = streams.get(connector.stream)
        if binding is None:
            needed = "@Import" if kind == "source" else "@Export"
            problem = f"@{kind}(type='{connector.type}') of stream {connector.stream}: the stream needs {needed}"
            continue
        try:
            whole, given = extensions.completed(kind, connector)
        except ConfigError as error:
            problem = error.message
            continue
        member = PlanStream(plan.key, binding, plan.playback)
        stream = EventStream(StreamSchema(member.name(), binding.attributes), (member,), connector.carries)
        found.append(DeclaredConnector(whole, stream, plan.key, given, plan.delivery))
    return found, problem


def declared_by_artefacts(artefacts: Iterable[Artefact], directory: StreamDirectory) -> list[DeclaredConnector]:
    """Return the artefacts whose streams exist; the others wait."""
    found = []
    for artefact in artefacts:
        connector = artefact.connector
        try:
            found.append(DeclaredConnector(connector, directory.resolve(connector.stream, artefact.tenant), None))
        except InputError as error:
            logger.info("artefact waits: type=%s reason=%s", connector.type, error)
    return found


def _read_artefact(path: Path) -> Artefact:
    values = read_yaml(path)
    try:
        return msgspec.convert(values, ConnectorDeclaration).artefact()
    except msgspec.ValidationError as error:
        raise ConfigError(f"{path}: {error}") from error


def _texts(options: dict[str, Any]) -> dict[str, str]:
    """Return options as text, as they would be written in a plan: `true` for True, `5` for 5."""
    return {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in options.items()}
