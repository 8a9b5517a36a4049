"""ZeroMQ contexts that have a process's keys and decide which peers may connect to its sockets."""

from __future__ import annotations

import ipaddress
import logging
from pathlib import Path
from typing import Any

import zmq
from zmq.auth.thread import ThreadAuthenticator
from zmq.utils import z85

from cep_common.errors import ConfigError
from cep_common.monitoring.paced_log import PacedLog
from cep_common.security.client_keys import Action
from cep_common.security.config import SecurityConfig
from cep_common.security.keys import Keyring, read_keys
from cep_common.security.roles import SOCKET_RULES, Role, SocketKind, may_connect

logger = logging.getLogger(__name__)
paced_logger = PacedLog(logger)

Socket = zmq.Socket[bytes]

MOST_SOCKETS = 16_384
"""Sockets of one process: a stage host has some for each of its plans, and ZeroMQ's default is 1,023."""


class GuardedContext(zmq.Context[Socket]):
    """A context whose sockets use CURVE if it has a `keyring`.

    Without one they listen on loopback only, unless it is `insecure`.
    """

    keyring: Keyring | None = None
    insecure: bool = False
    _authenticator: _PeerAuthenticator | None = None

    def guard(self, keyring: Keyring) -> None:
        """Use `keyring` for sockets that are created from now on."""
        self.keyring = keyring
        self._authenticator = _PeerAuthenticator(self, keyring)
        self._authenticator.start()

    def destroy(self, linger: int | None = None) -> None:
        """Close every socket and stop the authentication of peers."""
        if self._authenticator is not None:
            self._authenticator.stop()
            self._authenticator = None
        super().destroy(linger)


class _PeerAuthenticator(ThreadAuthenticator):
    """Decide for libzmq, in a thread of its own, whether a key may connect to a kind of socket (its ZAP domain).

    Frames have the role as `User-Id`, and for restricted clients also the name.
    """

    def __init__(self, context: zmq.Context[Socket], keyring: Keyring) -> None:
        super().__init__(context)
        self._keyring = keyring
        for kind in SOCKET_RULES:
            self.configure_curve_callback(kind.name, self)

    def callback(self, domain: str, key: bytes) -> bool:
        """Return whether the holder of `key` may connect to the kind of socket named `domain`."""
        role, kind = self._keyring.role_of(key), SocketKind[domain]
        if role is not None and may_connect(role, kind):
            return True
        peer = role.value if role else "unknown key"
        paced_logger.problem(f"{kind.value} {peer}", "refused at a socket: socket=%r role=%s", kind.value, peer)
        return False

    def curve_user_id(self, client_public_key: bytes) -> str:
        return self._keyring.user_of(z85.encode(client_public_key))


def open_context(config: SecurityConfig, role: Role, listens: dict[str, str] | None = None) -> GuardedContext:
    """Open a context for a process of `role` that listens at the hosts in `listens` (configuration key to host).

    Raises:
        ConfigError: When keys cannot be read, or when there are none and a host is beyond loopback.
    """
    keyring = read_keys(Path(config.keys), role) if config.keys else None
    if keyring is None and not config.insecure:
        for key, host in (listens or {}).items():
            _refuse_beyond_loopback(host, f"{key}: ")
    context = GuardedContext()
    context.set(zmq.MAX_SOCKETS, MOST_SOCKETS)
    context.insecure = config.insecure
    if config.insecure:
        logger.warning(
            "INSECURE: anyone who can reach this process can send messages to it; role=%s security.insecure=true", role
        )
    if keyring is not None:
        context.guard(keyring)
    return context


def guard_listening(socket: Socket, context: zmq.Context[Any], kind: SocketKind, host: str) -> None:
    """Accept only peers of roles that may connect to this kind of socket.

    Raises:
        ConfigError: When it would listen at a `host` beyond loopback without keys.
    """
    keyring = context.keyring if isinstance(context, GuardedContext) else None
    if keyring is None:
        if not (isinstance(context, GuardedContext) and context.insecure):
            _refuse_beyond_loopback(host, f"the socket for {kind.value}: ")
        return
    if SOCKET_RULES[kind].owner is not keyring.role:
        raise ConfigError(f"a {keyring.role.value} does not listen for {kind.value}")
    socket.setsockopt(zmq.CURVE_SERVER, 1)
    socket.setsockopt(zmq.CURVE_SECRETKEY, keyring.secret)
    socket.setsockopt(zmq.ZAP_DOMAIN, kind.name.encode())
    socket.setsockopt(zmq.ZAP_ENFORCE_DOMAIN, 1)


def guard_connecting(socket: Socket, context: zmq.Context[Any], kind: SocketKind) -> None:
    """Let `socket` connect only to the owner of this kind of socket, under the role of its process.

    Raises:
        ConfigError: When the owner's public key is not known.
    """
    keyring = context.keyring if isinstance(context, GuardedContext) else None
    if keyring is None:
        return
    owner = SOCKET_RULES[kind].owner
    if owner not in keyring.known:
        raise ConfigError(f"security.keys: has no {owner.value}.key, the public key of a {owner.value}")
    socket.setsockopt(zmq.CURVE_SERVERKEY, keyring.known[owner])
    socket.setsockopt(zmq.CURVE_PUBLICKEY, keyring.public)
    socket.setsockopt(zmq.CURVE_SECRETKEY, keyring.secret)


def refusal_of(context: zmq.Context[Any] | None, user: str, action: Action, tenant: int, stream: str) -> str:
    """Return why the peer `user` may not send to, or listen to, a tenant's `stream`; empty when it may.

    Without keys every peer may.
    """
    keyring = context.keyring if isinstance(context, GuardedContext) else None
    return "" if keyring is None else keyring.refusal(user, action, tenant, stream)


def about_silence(context: zmq.Context[Any]) -> str:
    """Return a hint for the error about a peer that does not answer: peers do not answer those that they refuse."""
    keyring = context.keyring if isinstance(context, GuardedContext) else None
    if keyring is None:
        return "if it has keys, it does not answer peers without keys"
    return f"it does not answer if its keys are different or do not permit the role {keyring.role.value}"


def is_loopback(host: str) -> bool:
    """Return whether only this host can connect to `host`."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _refuse_beyond_loopback(host: str, where: str) -> None:
    if not is_loopback(host):
        raise ConfigError(
            f"{where}{host} can be reached from other hosts, and there are no keys: make them with `cep keys DIR` and "
            "name the folder in security.keys (or accept every client with security.insecure: true)"
        )
