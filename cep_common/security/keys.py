"""CURVE keys, a pair for each role.

The files are those that ZeroMQ's own tools read and write: `ROLE.key` (public) and `ROLE.key_secret`.
"""

from __future__ import annotations

import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import zmq
from zmq.auth import load_certificate

from cep_common.errors import ConfigError
from cep_common.security.roles import Role

PRIVATE_FILE, PUBLIC_FILE, PRIVATE_FOLDER = 0o600, 0o644, 0o700
OTHERS = stat.S_IRWXO


@dataclass(frozen=True, slots=True)
class Keyring:
    """A process's own key, and the public keys of all roles that it knows. Shows no secret when it is printed."""

    role: Role
    public: bytes = field(repr=False)
    secret: bytes = field(repr=False)
    known: Mapping[Role, bytes] = field(repr=False)

    def role_of(self, public: bytes) -> Role | None:
        """Return the role of the key `public`; None when it is unknown."""
        return next((role for role, key in self.known.items() if key == public), None)


def write_keys(folder: Path, roles: Iterable[Role] = Role) -> list[Path]:
    """Write a new pair of keys for each of `roles` into `folder` (created when missing), and return the files.

    Only their owner can read the secret ones.

    Raises:
        ConfigError: When one of the files exists already; nothing is written then.
    """
    pairs = [(public_file(folder, role), secret_file(folder, role)) for role in roles]
    there = [path for pair in pairs for path in pair if path.exists()]
    if there:
        raise ConfigError(f"{there[0]}: is there already; keys are not overwritten: name another folder")
    try:
        folder.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
        for public_path, secret_path in pairs:
            public, secret = zmq.curve_keypair()
            _write(public_path, PUBLIC_FILE, {"public-key": public})
            _write(secret_path, PRIVATE_FILE, {"public-key": public, "secret-key": secret})
    except OSError as error:
        raise ConfigError(f"{folder}: keys cannot be written: {error.strerror}") from error
    return [path for pair in pairs for path in pair]


def read_keys(folder: Path, role: Role) -> Keyring:
    """Return the keys of a process of `role`: its own secret and the public keys in `folder`.

    Its own secret must be there, and at least one public key of the others.

    Raises:
        ConfigError: With the file that is missing or invalid.
    """
    secret_path = secret_file(folder, role)
    public, secret = _read(secret_path)
    if secret is None:
        raise ConfigError(f"{secret_path}: holds no secret key")
    if secret_path.stat().st_mode & OTHERS:
        raise ConfigError(f"{secret_path}: anybody on this host can read it; chmod 600 {secret_path}")
    known = {one: _read(public_file(folder, one))[0] for one in Role if public_file(folder, one).exists()}
    known[role] = public
    return Keyring(role, public, secret, known)


def public_file(folder: Path, role: Role) -> Path:
    """Return where the role's public key is stored."""
    return folder / f"{role.value}.key"


def secret_file(folder: Path, role: Role) -> Path:
    """Return where the role's secret key is stored."""
    return folder / f"{role.value}.key_secret"


def _write(path: Path, mode: int, keys: Mapping[str, bytes]) -> None:
    """Write a file in the form that `load_certificate` reads, at no time readable by more than `mode` says."""
    path.touch(mode=mode, exist_ok=False)
    lines = [f'    {name} = "{key.decode()}"\n' for name, key in keys.items()]
    path.write_text("".join(["# CURVE key of CEP on Spark\n", "metadata\n", "curve\n", *lines]), encoding="ascii")


def _read(path: Path) -> tuple[bytes, bytes | None]:
    try:
        public, secret = load_certificate(path)
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: cannot be read as a key; make keys with `cep keys DIR`") from error
    for key in (public, secret):
        if key is not None and len(key) != 40:
            raise ConfigError(f"{path}: holds a key of {len(key)} characters instead of 40")
    return public, secret
