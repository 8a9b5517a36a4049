"""CURVE keys, a pair for each role.

The files have the format of ZeroMQ's own tools: `ROLE.key` (public) and `ROLE.key_secret`.
"""

from __future__ import annotations

import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import zmq
from zmq.auth import load_certificate

from cep_common.errors import ConfigError
from cep_common.security.client_keys import FOLDER as CLIENTS
from cep_common.security.client_keys import SUFFIX, Action, ClientKey, ClientKeys, metadata_of
from cep_common.security.roles import Role

PRIVATE_FILE, PUBLIC_FILE, PRIVATE_FOLDER = 0o600, 0o644, 0o700
OTHERS = stat.S_IRWXO


@dataclass(frozen=True, slots=True)
class Keyring:
    """A process's own key, and the public keys of all roles that it knows. Its repr has no secret."""

    role: Role
    public: bytes = field(repr=False)
    secret: bytes = field(repr=False)
    known: Mapping[Role, bytes] = field(repr=False)
    clients: ClientKeys = field(repr=False)

    def role_of(self, public: bytes) -> Role | None:
        """Return the role of the key `public`; None when it is unknown."""
        role = next((role for role, key in self.known.items() if key == public), None)
        return Role.CLIENT if role is None and self.clients.of(public) is not None else role

    def user_of(self, public: bytes) -> str:
        """Return the owner of the key `public`: a role, or `client:NAME`; empty when it is unknown."""
        role = next((role for role, key in self.known.items() if key == public), None)
        if role is not None:
            return role.value
        client = self.clients.of(public)
        return f"{Role.CLIENT.value}:{client.name}" if client is not None else ""

    def refusal(self, user: str, action: Action, tenant: int, stream: str) -> str:
        """Return why `user` may not send to, or listen to, a tenant's `stream`; empty when it may.

        Processes of the system, and clients with the key of their role, may do so for any tenant.
        """
        role, bounded, name = user.partition(":")
        if role not in set(Role):
            return "the key is unknown"
        if not bounded:
            return ""
        client = self.clients.named(name)
        return f"the key {name} was revoked" if client is None else client.refusal(action, tenant, stream)


def write_keys(folder: Path, roles: Iterable[Role] = Role) -> list[Path]:
    """Write a new key pair for each of `roles` into `folder`, which is created if missing, and return the files.

    Only their owner can read the secret ones.

    Raises:
        ConfigError: One of the files exists already; nothing is written.
    """
    pairs = [(public_file(folder, role), secret_file(folder, role)) for role in roles]
    there = [path for pair in pairs for path in pair if path.exists()]
    if there:
        raise ConfigError(f"{there[0]}: already exists; keys are not overwritten: name another folder")
    try:
        folder.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
        for public_path, secret_path in pairs:
            public, secret = zmq.curve_keypair()
            _write(public_path, PUBLIC_FILE, {"public-key": public})
            _write(secret_path, PRIVATE_FILE, {"public-key": public, "secret-key": secret})
    except OSError as error:
        raise ConfigError(f"{folder}: keys cannot be written: {error.strerror}") from error
    return [path for pair in pairs for path in pair]


def write_client_key(folder: Path, to: Path, key: ClientKey, secret: bytes) -> list[Path]:
    """Write a client's public key into `folder` of a worker's keys, and the files that the client needs into `to`.

    Returns:
        The files.

    Raises:
        ConfigError: There is a key of this name already, or `folder` has no worker's key.
    """
    worker = public_file(folder, Role.WORKER)
    if not worker.exists():
        raise ConfigError(f"{worker}: does not exist; make the keys of the system with `cep keys {folder}` first")
    bounded = folder / CLIENTS / f"{key.name}{SUFFIX}"
    handed = [to / worker.name, public_file(to, Role.CLIENT), secret_file(to, Role.CLIENT)]
    for path in (bounded, *handed):
        if path.exists():
            raise ConfigError(f"{path}: already exists; keys are not overwritten: take another name or folder")
    try:
        bounded.parent.mkdir(mode=0o755, exist_ok=True)
        to.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
        _write(handed[0], PUBLIC_FILE, {"public-key": _read(worker)[0]})
        _write(handed[1], PUBLIC_FILE, {"public-key": key.public})
        _write(handed[2], PRIVATE_FILE, {"public-key": key.public, "secret-key": secret})
        _write(bounded, PUBLIC_FILE, {"public-key": key.public}, metadata_of(key))
    except OSError as error:
        raise ConfigError(f"{error.filename or folder}: keys cannot be written: {error.strerror}") from error
    return [bounded, *handed]


def read_keys(folder: Path, role: Role) -> Keyring:
    """Return the keys of a process of `role`: its own secret and the public keys in `folder`.

    The folder must contain the process's secret key and at least one public key of another role.

    Raises:
        ConfigError: With the file that is missing or invalid.
    """
    secret_path = secret_file(folder, role)
    public, secret = _read(secret_path)
    if secret is None:
        raise ConfigError(f"{secret_path}: holds no secret key")
    if secret_path.stat().st_mode & OTHERS:
        raise ConfigError(f"{secret_path}: every user of this host can read it; chmod 600 {secret_path}")
    known = {one: _read(public_file(folder, one))[0] for one in Role if public_file(folder, one).exists()}
    known[role] = public
    return Keyring(role, public, secret, known, ClientKeys(folder / CLIENTS))


def public_file(folder: Path, role: Role) -> Path:
    """Return where the role's public key is stored."""
    return folder / f"{role.value}.key"


def secret_file(folder: Path, role: Role) -> Path:
    """Return where the role's secret key is stored."""
    return folder / f"{role.value}.key_secret"


def _write(path: Path, mode: int, keys: Mapping[str, bytes], metadata: Iterable[tuple[str, str]] = ()) -> None:
    """Write a file in the form that `load_certificate` reads, created with `mode` so that it is never more readable."""
    path.touch(mode=mode, exist_ok=False)
    lines = [f'    {name} = "{key.decode()}"\n' for name, key in keys.items()]
    about = [f'    {name} = "{value}"\n' for name, value in metadata]
    text = ["# CURVE key of CEP on Spark\n", "metadata\n", *about, "curve\n", *lines]
    path.write_text("".join(text), encoding="ascii")


def _read(path: Path) -> tuple[bytes, bytes | None]:
    try:
        public, secret = load_certificate(path)
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: cannot be read as a key; make keys with `cep keys DIR`") from error
    for key in (public, secret):
        if key is not None and len(key) != 40:
            raise ConfigError(f"{path}: holds a key of {len(key)} characters instead of 40")
    return public, secret
