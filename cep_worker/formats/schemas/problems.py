"""Problems with schemas and bodies, and the size limits of both."""

from __future__ import annotations

import importlib
from typing import Any

from cep_common.errors import CepError, ConfigError, InputError

EXTRA = "pip install 'cep-on-spark[schemas]'"
MOST_SCHEMA_BYTES = 1_048_576
"""The maximum size of a schema, without the schemas that it refers to."""
MOST_BODY_BYTES = 16_777_216
"""The maximum size of a body with a schema."""
LONGEST_REASON = 300


class SchemaError(CepError):
    """A schema is invalid or unsupported. Retrying is useless."""

    code = "bad-schema"


class SchemaUnavailableError(InputError):
    """The registry does not return a schema now; it may later, so events wait."""

    def __init__(self, message: str) -> None:
        super().__init__("registry-unavailable", message)


class BodyError(ValueError):
    """A body does not match its schema, or an event cannot be encoded by it."""


def library(name: str, mapper: str) -> Any:
    """Return the module `name`.

    Raises:
        ConfigError: it is not installed.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        package = name.partition(".")[0]
        raise ConfigError(
            f"@map(type='{mapper}') needs the package {package}: {EXTRA} where the worker runs"
        ) from error


def short(error: object) -> str:
    """Return a library's message as one line of bounded length."""
    said = " ".join(str(error).split()) or type(error).__name__
    return said if len(said) <= LONGEST_REASON else f"{said[:LONGEST_REASON]}…"
