"""The stored tokens of `cep login`, one for each manager's address, in a file that only its owner can read."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

import msgspec

from cep_common.errors import ConfigError
from cep_common.process.private_folders import make_private


class Credential(msgspec.Struct, frozen=True):
    """A token for one manager: its user, and its name there."""

    user: str
    name: str
    token: str


class Credentials:
    """The file at `path`."""

    def __init__(self, path: Path) -> None:
        """Create the view of a credentials file.

        Args:
            path: The file; it need not exist yet.
        """
        self._path = path

    @classmethod
    def of_user(cls, environment: Mapping[str, str]) -> Credentials:
        """Return where the user's configuration is kept: `$XDG_CONFIG_HOME/cep`, else `~/.config/cep`."""
        folder = environment.get("XDG_CONFIG_HOME") or str(Path("~/.config").expanduser())
        return cls(Path(folder) / "cep" / "credentials.json")

    def of(self, manager: str) -> Credential | None:
        """Return the token for the manager at the address (several are separated by commas). Raises ConfigError."""
        kept = self._read()
        return next((kept[one] for one in _addresses(manager) if one in kept), None)

    def keep(self, manager: str, credential: Credential) -> None:
        """Store the token. Raises ConfigError."""
        self._write({**self._read(), **dict.fromkeys(_addresses(manager), credential)})

    def forget(self, manager: str) -> None:
        """Delete the token of the manager. Raises ConfigError."""
        self._write({address: one for address, one in self._read().items() if address not in _addresses(manager)})

    def _read(self) -> dict[str, Credential]:
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=dict[str, Credential])
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise ConfigError(f"{self._path}: cannot be read: {error.strerror}") from error
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ConfigError(f"{self._path}: holds no tokens: {error}; remove it and log in again") from error

    def _write(self, credentials: dict[str, Credential]) -> None:
        """Replace the file atomically; the temporary file is private to its owner from the start."""
        try:
            make_private(self._path.parent)
            handle, name = tempfile.mkstemp(dir=self._path.parent, prefix=".credentials.")
            with os.fdopen(handle, "wb") as file:
                file.write(msgspec.json.format(msgspec.json.encode(credentials), indent=2) + b"\n")
            Path(name).replace(self._path)
        except OSError as error:
            raise ConfigError(f"{self._path}: cannot be written: {error.strerror}") from error


def _addresses(manager: str) -> tuple[str, ...]:
    return tuple(one.strip().rstrip("/") for one in manager.split(","))
