"""Access tokens of users and programs for HTTP servers. A file stores their hashes, never the tokens.

A token is 256 random bits and cannot be guessed, so a plain hash is secure, and fast enough for every request.
"""

from __future__ import annotations

import hashlib
import logging
import os
import secrets
import tempfile
from pathlib import Path

import msgspec

from cep_common.errors import ConfigError, InputError
from cep_common.security.access import AccessRole, Principal

logger = logging.getLogger(__name__)

PREFIX = "cep_"
"""The prefix of tokens, by which people and secret scanners recognise them."""

_BYTES = 32


class StoredToken(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A stored token: its owner, and the SHA-256 of its text."""

    name: str
    role: AccessRole
    sha256: str
    created_ms: int
    tenant: int | None = None


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    tokens: tuple[StoredToken, ...] = ()


class TokenFile:
    """A file of tokens. Readers see changes at the next request; one process at a time may create or revoke tokens."""

    def __init__(self, path: Path) -> None:
        """Create the view of a token file.

        Args:
            path: The file; it need not exist yet.
        """
        self._path = path
        self._seen: tuple[int, int, int] | None = None
        self._by_hash: dict[str, Principal] = {}

    def tokens(self) -> tuple[StoredToken, ...]:
        """Return the tokens in the file; none if it is missing. Raise ConfigError when it cannot be read."""
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=_File).tokens
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise ConfigError(f"{self._path}: cannot be read: {error.strerror}") from error
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ConfigError(f"{self._path}: is not a file of tokens: {error}") from error

    def create(self, name: str, role: AccessRole, tenant: int | None, now_ms: int) -> str:
        """Create a token and return it; only its hash is stored. Raise InputError when the name is in use."""
        tokens = self.tokens()
        if any(one.name == name for one in tokens):
            raise InputError("token-exists", f"there is a token named {name}; revoke it first, or choose another name")
        token = PREFIX + secrets.token_urlsafe(_BYTES)
        self._write((*tokens, StoredToken(name, role, _hash(token), now_ms, tenant)))
        return token

    def revoke(self, name: str) -> None:
        """Revoke the token of `name`. Raise InputError when there is none."""
        tokens = self.tokens()
        left = tuple(one for one in tokens if one.name != name)
        if len(left) == len(tokens):
            known = ", ".join(one.name for one in tokens) or "none"
            raise InputError("unknown-token", f"there is no token named {name}; there are: {known}")
        self._write(left)

    def principal(self, token: str) -> Principal | None:
        """Return the owner of the token; None when it is unknown, or when the file cannot be read."""
        self._refresh()
        return self._by_hash.get(_hash(token))

    def _refresh(self) -> None:
        try:
            status = self._path.stat()
            seen = (status.st_mtime_ns, status.st_size, status.st_ino)
            if seen != self._seen:
                self._by_hash = {one.sha256: Principal(one.name, one.role, one.tenant) for one in self.tokens()}
                self._seen = seen
        except (OSError, ConfigError) as error:
            if self._by_hash or self._seen is None:
                logger.warning("tokens cannot be read, all requests are refused: file=%s error=%s", self._path, error)
            self._by_hash, self._seen = {}, (0, 0, 0)

    def _write(self, tokens: tuple[StoredToken, ...]) -> None:
        """Replace the file as a whole; only its owner can read it."""
        text = msgspec.json.format(msgspec.json.encode(_File(tokens)), indent=2)
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=self._path.parent, prefix=f".{self._path.name}.")
            with os.fdopen(handle, "wb") as file:
                file.write(text + b"\n")
            Path(name).replace(self._path)
        except OSError as error:
            raise ConfigError(f"{self._path}: cannot be written: {error.strerror}") from error


def bearer(token: str) -> dict[str, str]:
    """Return the headers of a request with `token`; empty without a token."""
    return {"Authorization": f"Bearer {token}"} if token else {}


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
