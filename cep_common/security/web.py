"""What every request to an HTTP server must pass: the name it was sent to, the client's pace, its token, its rights."""

from __future__ import annotations

import ipaddress
import logging
import threading
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

from flask import Flask, Response, g, request

from cep_common.clock import Clock, SystemClock
from cep_common.errors import ConfigError, UnauthorisedError
from cep_common.ids import SUPER_TENANT, parse_tenant
from cep_common.security.access import Calls, Permission, Principal, is_granted, speaks_for
from cep_common.security.config import ServerSecurity
from cep_common.security.context import is_loopback
from cep_common.security.pace import RequestPace
from cep_common.security.tokens import TokenFile

logger = logging.getLogger(__name__)

Refuse = Callable[[int, str, str], Response]
"""An answer in the server's own form, from status, code and message."""


class Gate:
    """One for each server, used by all its threads."""

    def __init__(self, config: ServerSecurity, host: str, clock: Clock) -> None:
        """The gate of a server at `host`. Raises ConfigError when that is beyond loopback and there are no tokens, or
        when the file of tokens is none."""
        self._tokens = TokenFile(Path(config.tokens)) if config.tokens else None
        if self._tokens is not None and not self._tokens.tokens():
            raise ConfigError(f"security.tokens: {config.tokens} holds no token; make one with `cep token create`")
        self._insecure = config.insecure
        self.refuse_open_host(host, "http.host")
        if self._tokens is not None and not config.certificate and not is_loopback(host):
            logger.warning("tokens can be read on their way: host=%s has no security.certificate", host)
        self._names = {"localhost", host.lower(), *(name.lower() for name in config.hosts)}
        self._pace = RequestPace(config.requests_per_s)
        self._clock = clock
        self._lock = threading.Lock()

    def refuse_open_host(self, host: str, key: str) -> None:
        """Raises ConfigError when a server at `host`, which `key` names, would let in everybody from everywhere."""
        if self._tokens is None and not self._insecure and not is_loopback(host):
            raise ConfigError(
                f"{key}: {host} can be reached from other hosts, and there are no tokens: make one with `cep token "
                "create` and name the file in security.tokens (or let anybody in with security.insecure: true)"
            )

    def needs_token(self) -> bool:
        """True when requests must show a token."""
        return self._tokens is not None

    def knows(self, host: str) -> bool:
        """True when `host`, as a request names it, is one of the server's names. An address always is: only a name can
        be made to point here by somebody else (DNS rebinding)."""
        name = (urlsplit(f"//{host}").hostname or "").lower()
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return name in self._names
        return True

    def admit(self, client: str) -> bool:
        """True when the client does not ask too often."""
        with self._lock:
            return self._pace.admit(client, self._clock.monotonic_ms())

    def principal(self, token: str) -> Principal | None:
        """Whose token it is, or None."""
        if self._tokens is None:
            return None
        with self._lock:
            return self._tokens.principal(token)


def open_gate() -> Gate:
    """The gate of a server on loopback that asks nobody for a token."""
    return Gate(ServerSecurity(), "127.0.0.1", SystemClock())


def guard(app: Flask, gate: Gate, calls: Calls, refuse: Refuse) -> None:
    """Every request to `app` passes `gate` first; `calls` says what each asks for."""

    def check() -> Response | None:
        if not _knows(gate):
            return refuse(403, "unknown-host", "this server has no such name; add it to security.hosts if it should")
        if not gate.admit(request.remote_addr or ""):
            answer = refuse(429, "too-many-requests", "too many requests a second; send them more slowly")
            answer.headers["Retry-After"] = "1"
            return answer
        permission = calls.get(_call(), Permission.ADMINISTER)
        if not gate.needs_token() or (permission is Permission.OPEN and request.endpoint):
            return None
        principal = gate.principal(_token())
        if principal is None:
            answer = refuse(401, "not-authenticated", "show a token: Authorization: Bearer TOKEN (see `cep token`)")
            answer.headers["WWW-Authenticate"] = 'Bearer realm="cep", Basic realm="cep: any name, a token as password"'
            return answer
        if request.endpoint and not is_granted(principal, permission):
            reason = f"{principal.name} is {principal.role.value}, which may not {permission.value}"
            return refuse(403, "not-authorised", reason)
        g.principal = principal
        return None if speaks_for(principal, _tenant()) else refuse(403, "not-authorised", _no_tenant(principal))

    app.before_request_funcs.setdefault(None, []).insert(0, check)


def answer_for(tenant: int) -> None:
    """Raises UnauthorisedError when whoever makes the present request may not act for `tenant`."""
    principal: Principal | None = g.get("principal")
    if principal is not None and not speaks_for(principal, tenant):
        raise UnauthorisedError(_no_tenant(principal))


def _no_tenant(principal: Principal) -> str:
    return f"{principal.name} may act for tenant {principal.tenant} only"


def _call() -> str:
    action = (request.view_args or {}).get("action")
    return f"{request.endpoint}:{action}" if action else request.endpoint or ""


def _knows(gate: Gate) -> bool:
    try:
        return gate.knows(request.headers.get("Host", ""))
    except ValueError:
        return False


def _token() -> str:
    """The token that the request shows: as a bearer, or as the password that a browser asked for."""
    shown = request.authorization
    if shown is None:
        return ""
    return (shown.token if shown.type == "bearer" else shown.password if shown.type == "basic" else "") or ""


def _tenant() -> int:
    """The tenant that the request names; one that cannot be read is the server's to refuse."""
    written = request.args.get("tenant") or request.headers.get("tenant")
    try:
        return SUPER_TENANT if written is None else parse_tenant(written)
    except ValueError:
        return SUPER_TENANT
