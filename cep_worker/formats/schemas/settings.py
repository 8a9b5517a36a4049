"""The schema options of a mapper, parsed."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Literal

from cep_common.errors import ConfigError
from cep_common.reach.guard import Guard
from cep_worker.formats.schemas.problems import MOST_SCHEMA_BYTES, library
from cep_worker.formats.schemas.registry import AVRO, JSON, PROTOBUF, RegisteredSchema, RegistryAddress
from query_plan.connectors.options import path_of
from query_plan.connectors.schemas import REGISTRY, SchemaOptions, in_map

TYPES = {"avro": AVRO, "jsonschema": JSON, "protobuf": PROTOBUF}
"""The name of each mapper's schema type in registries."""
_LIBRARIES = {"avro": "fastavro", "jsonschema": "jsonschema_rs", "protobuf": "google.protobuf"}


def own_schema(kind: str, options: SchemaOptions, where: str) -> RegisteredSchema | None:
    """Return the schema that the plan contains, or None.

    Raises:
        ConfigError: its file cannot be read, or the mapper's library is not installed.
    """
    library(_LIBRARIES[kind], kind)
    if options.schema_file:
        return RegisteredSchema(TYPES[kind], _content(options.schema_file, where))
    return RegisteredSchema(TYPES[kind], options.schema_def) if options.schema_def else None


def mapper_guard(guard: Guard | None, given: Collection[str]) -> Guard | None:
    """Return the guard of a mapper's registry; None if its address is from the configuration (`given`)."""
    return None if in_map(REGISTRY) in given else guard


def registry_address(
    options: SchemaOptions, guard: Guard | None, use: Literal["source", "sink"]
) -> RegistryAddress | None:
    """Return the address of the registry, or None without one."""
    if not options.schema_registry:
        return None
    credentials = (options.basic_auth_username, options.basic_auth_password) if options.basic_auth_username else None
    trusted, certificate = (
        str(path_of(one)) if one else "" for one in (options.ssl_truststore_path, options.ssl_keystore_path)
    )
    return RegistryAddress(options.schema_registry, credentials, trusted, certificate, guard, use)


def _content(uri: str, where: str) -> bytes:
    try:
        with Path(path_of(uri)).open("rb") as file:
            data = file.read(MOST_SCHEMA_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"{where}: schema.file: {path_of(uri)} cannot be read: {error.strerror}") from error
    if len(data) > MOST_SCHEMA_BYTES:
        raise ConfigError(f"{where}: schema.file: {path_of(uri)} is longer than {MOST_SCHEMA_BYTES:,} bytes")
    return data
