"""Secrets by name: `${secret:NAME}` in a plan refers to a file on the host that uses it.

    <folder>/<tenant>/<NAME>        the value; one last line end is not part of it

Plans, messages, databases and logs only contain the reference. The resolved value is redacted in the process's log.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path

from cep_common.configuration.redaction import cover_values
from cep_common.errors import ConfigError

_REFERENCE = re.compile(r"\$\{secret:([^{}]*)\}")
_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,127}")
MOST_BYTES = 65_536
"""The maximum size of a secret."""


def names_in(text: str) -> tuple[str, ...]:
    """Return the names of the secrets that the text refers to, in order."""
    return tuple(_REFERENCE.findall(text))


def is_reference(text: str) -> bool:
    """Return whether the text refers to a secret; something else may be around it, as in a URL."""
    return _REFERENCE.search(text) is not None


def is_whole_reference(text: str) -> bool:
    """Return whether the text is a reference and nothing else."""
    return _REFERENCE.fullmatch(text) is not None


def with_sample(text: str, sample: str) -> str:
    """Return the text with `sample` where it refers to secrets."""
    return _REFERENCE.sub(lambda _: sample, text)


def name_fault(text: str) -> str:
    """Return what is wrong with the names of secrets in the text; empty if nothing is."""
    wrong = [name for name in names_in(text) if _NAME.fullmatch(name) is None]
    return f"{wrong[0][:80]!r} is not a valid name of a secret: use letters, digits, _, - and ." if wrong else ""


class Secrets:
    """The secrets in `folder` (empty: there are none). Each file is read when its secret is used."""

    def __init__(self, folder: str, key: str) -> None:
        """Use the secrets in `folder`, which the configuration sets under `key`."""
        self._folder = folder
        self._key = key

    def resolved(self, options: Mapping[str, str], tenant: int) -> dict[str, str]:
        """Return the options of a plan of the tenant with the values of the secrets that they refer to.

        Raises:
            ConfigError: With the option and the secret's name.
        """
        found = {}
        for option, text in options.items():
            try:
                found[option] = self.fill(text, tenant)
            except ConfigError as error:
                raise ConfigError(f"{option}: {error.message}") from error
        return found

    def fill(self, text: str, tenant: int) -> str:
        """Return the text with values in place of references. Raise ConfigError for an unknown secret."""
        if not is_reference(text):
            return text
        if fault := name_fault(text):
            raise ConfigError(fault)
        return _REFERENCE.sub(lambda found: self._value(found[1], tenant), text)

    def _value(self, name: str, tenant: int) -> str:
        if not self._folder:
            raise ConfigError(
                f"there is no secret {name} here: set {self._key} of the configuration to the folder of the secrets"
            )
        path = Path(self._folder) / str(tenant) / name
        try:
            with path.open("rb") as file:
                if stat.S_IMODE(os.fstat(file.fileno()).st_mode) & stat.S_IRWXO:
                    raise ConfigError(f"the secret {name} can be read by every user of this host: chmod 600 {path}")
                value = file.read(MOST_BYTES + 1)
        except OSError as error:
            raise ConfigError(
                f"there is no secret {name} of tenant {tenant} in {self._key}: {error.strerror}"
            ) from None
        if len(value) > MOST_BYTES:
            raise ConfigError(f"the secret {name} is longer than {MOST_BYTES} bytes")
        try:
            text = value.decode().removesuffix("\n").removesuffix("\r")
        except UnicodeDecodeError:
            raise ConfigError(f"the secret {name} is not text") from None
        cover_values((text,))
        return text
