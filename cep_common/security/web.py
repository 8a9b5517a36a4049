"""What every request to an HTTP server must pass: the name it was sent to, the client's pace, its token, its rights."""

from __future__ import annotations

import ipaddress
import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

from flask import Flask, Response, g, request
from werkzeug.datastructures import Authorization

from cep_common.clock import Clock, SystemClock
from cep_common.errors import ConfigError, UnauthorisedError
from cep_common.ids import SUPER_TENANT, parse_tenant
from cep_common.monitoring.http_refusals import REFUSALS
from cep_common.security.access import Calls, Permission, Principal, is_granted, speaks_for
from cep_common.security.config import ServerSecurity
from cep_common.security.context import is_loopback
from cep_common.security.pace import RequestPace
from cep_common.security.tokens import PREFIX, TokenFile
from cep_common.security.web_limits import BodyHead, BodyRefusal

logger = logging.getLogger(__name__)

SENT_BY_SINK = "Cep-Sink"
"""The header by which sinks of type `http` say whose they are. A manager takes no requests of sinks: a plan would speak
with the rights of its worker's host."""

LOGIN_BYTES = 16_384
"""So large a body may be of those who are about to show who they are, where people log in."""

Refuse = Callable[[int, str, str], Response]
"""An answer in the server's own form, from status, code and message."""


class Gate:
    """One for each server, used by all its threads."""

    def __init__(
        self, config: ServerSecurity, host: str, clock: Clock, users: bool = False, key: str = "http.host"
    ) -> None:
        """Create the gate of a server at `host`, which `key` names.

        With `users`, requests must authenticate as one of these users.

        Raises:
            ConfigError: When the host is beyond loopback and there are neither tokens nor users, or when the file of
                tokens is invalid.
        """
        self._users = users
        self._tokens = TokenFile(Path(config.tokens)) if config.tokens else None
        if self._tokens is not None and not self._tokens.tokens():
            raise ConfigError(f"security.tokens: {config.tokens} holds no token; make one with `cep token create`")
        self._insecure = config.insecure
        self.refuse_open_host(host, key)
        if self.needs_token() and not config.certificate and not is_loopback(host):
            what = "passwords and tokens" if users else "tokens"
            logger.warning("%s can be read on their way: host=%s has no security.certificate", what, host)
        self._names = {"localhost", host.lower(), *(name.lower() for name in config.hosts)}
        self._pace = RequestPace(config.requests_per_s)
        self._clock = clock
        self._lock = threading.Lock()

    def refuse_open_host(self, host: str, key: str) -> None:
        """Raise ConfigError when a server at `host`, which `key` names, would admit everybody from everywhere."""
        if not self.needs_token() and not self._insecure and not is_loopback(host):
            raise ConfigError(
                f"{key}: {host} can be reached from other hosts, and there are no tokens: make one with `cep token "
                "create` and name the file in security.tokens (or let anybody in with security.insecure: true)"
            )

    def needs_token(self) -> bool:
        """Return whether requests must carry a token, or something else that identifies the caller."""
        return self._users or self._tokens is not None

    def knows(self, host: str) -> bool:
        """Return whether `host`, as a request names it, is one of the server's names.

        An address always is: only a name can be made to point here by somebody else (DNS rebinding).
        """
        name = (urlsplit(f"//{host}").hostname or "").lower()
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return name in self._names
        return True

    def admit(self, client: str) -> bool:
        """Return whether the client is within its rate of requests."""
        with self._lock:
            return self._pace.admit(client, self._clock.monotonic_ms())

    def admit_body(self, head: BodyHead) -> BodyRefusal | None:
        """Return why the body of a request is not to be read: no known sender, and no possible user, sends it.

        Whether a user does is for the database to say, which the thread of all connections does not wait for.
        """
        if not self.needs_token():
            return None
        try:
            shown = Authorization.from_header(head.authorization)
        except ValueError:
            shown = None
        token = token_of(shown)
        if self.principal(token) is not None:
            return None
        may_be_user = bool(head.cookie) or token.startswith(PREFIX) or (shown is not None and shown.type == "basic")
        if self._users and (may_be_user or (head.length is not None and head.length <= LOGIN_BYTES)):
            return None
        return BodyRefusal(401, "not-authenticated", SHOW_ONE if shown is None else NOT_KNOWN)

    def principal(self, token: str) -> Principal | None:
        """Whose token it is, or None."""
        if self._tokens is None:
            return None
        with self._lock:
            return self._tokens.principal(token)


def open_gate() -> Gate:
    """Return the gate of a server on loopback that requires no token."""
    return Gate(ServerSecurity(), "127.0.0.1", SystemClock())


class Callers(Protocol):
    """How a server knows who makes its present request."""

    def needed(self) -> bool:
        """Return whether requests must identify their caller."""

    def identify(self) -> Principal | None:
        """Return who makes the present request; None when it is not known.

        Raises:
            CepError: When that cannot be determined now.
        """

    def challenge(self) -> str:
        """Return what a request without identification must carry, as the header WWW-Authenticate says it."""

    def tenant(self, principal: Principal) -> int:
        """Return the tenant of a request of the principal that names none."""


class TokenCallers:
    """Callers who show tokens of the gate's file: as bearers, or as the password that a browser asked for."""

    def __init__(self, gate: Gate) -> None:
        """Create the check of tokens.

        Args:
            gate: Knows the tokens and what each may do.
        """
        self._gate = gate

    def needed(self) -> bool:
        """Return whether requests need a token."""
        return self._gate.needs_token()

    def identify(self) -> Principal | None:
        """Return who sent the present request, None if its token is missing or unknown."""
        return self._gate.principal(shown_token())

    def challenge(self) -> str:
        """Return the `WWW-Authenticate` header of a refused request."""
        return 'Bearer realm="cep", Basic realm="cep: any name, a token as password"'

    def tenant(self, principal: Principal) -> int:
        """Return the tenant whose plans `principal` sees when a request names none."""
        return SUPER_TENANT if principal.tenant is None else principal.tenant


SHOW_ONE = (
    "show a token: Authorization: Bearer TOKEN (see `cep token`);"
    " `cep` shows --token, CEP_TOKEN or what `cep login` got"
)
NOT_KNOWN = "the token or password that was shown is not known here; it may be mistyped, revoked or expired"


def guard(app: Flask, gate: Gate, calls: Calls, refuse: Refuse, callers: Callers | None = None) -> None:
    """Have every request to `app` pass `gate` first.

    `calls` says what each request asks for, and `callers` who makes it: without it they carry tokens. While a request
    is answered, `g.principal` is who makes it if that is known, and `g.anybody` is true when no identification is
    needed. `callers` also decides the tenant of a request that names none.
    """
    known = callers or TokenCallers(gate)

    def turn_away(status: int, code: str, message: str) -> Response:
        REFUSALS.note(code)
        return refuse(status, code, message)

    def check() -> Response | None:
        if not _knows(gate):
            return turn_away(403, "unknown-host", "this server has no such name; add it to security.hosts if it should")
        if not gate.admit(request.remote_addr or ""):
            answer = turn_away(429, "too-many-requests", "too many requests a second; send them more slowly")
            answer.headers["Retry-After"] = "1"
            return answer
        permission = calls.get(called(), Permission.ADMINISTER)
        g.anybody = not known.needed()
        if g.anybody or (permission is Permission.OPEN and request.endpoint):
            return None
        principal = known.identify()
        if principal is None:
            answer = turn_away(401, "not-authenticated", NOT_KNOWN if request.authorization else SHOW_ONE)
            if answer.status_code == 401:
                answer.headers["WWW-Authenticate"] = known.challenge()
            return answer
        g.principal = principal
        if request.endpoint and not is_granted(principal, permission):
            reason = f"{principal.name} is {principal.role.value}, which may not {permission.value}"
            return turn_away(403, "not-authorised", reason)
        if not speaks_for(principal, _tenant(known.tenant(principal))):
            return turn_away(403, "not-authorised", _no_tenant(principal))
        return None

    app.before_request_funcs.setdefault(None, []).insert(0, check)


def callers_tenant() -> int:
    """Return the tenant of the present request's caller; the super tenant for those who may act for all."""
    principal: Principal | None = g.get("principal")
    return SUPER_TENANT if principal is None or principal.tenant is None else principal.tenant


def caller_name() -> str:
    """Return who makes the present request: by name, else by address."""
    principal: Principal | None = g.get("principal")
    return f"user {principal.name}" if principal is not None else f"address {request.remote_addr or ''}"


def answer_for(tenant: int) -> None:
    """Raise UnauthorisedError when the present request's caller may not act for `tenant`."""
    principal: Principal | None = g.get("principal")
    if principal is not None and not speaks_for(principal, tenant):
        raise UnauthorisedError(_no_tenant(principal))


def _no_tenant(principal: Principal) -> str:
    return f"{principal.name} may act for tenant {principal.tenant} only"


def called() -> str:
    """Return the present request's call, by its name in `Calls`."""
    action = (request.view_args or {}).get("action")
    return f"{request.endpoint}:{action}" if action else request.endpoint or ""


def _knows(gate: Gate) -> bool:
    try:
        return gate.knows(request.headers.get("Host", ""))
    except ValueError:
        return False


def shown_token() -> str:
    """Return the token of the request: as a bearer, or as the password that a browser asked for."""
    return token_of(request.authorization)


def token_of(shown: Authorization | None) -> str:
    """Return the token in an `Authorization` header; empty when it has none."""
    if shown is None:
        return ""
    return (shown.token if shown.type == "bearer" else shown.password if shown.type == "basic" else "") or ""


def _tenant(unnamed: int) -> int:
    """Return the tenant that the request names; the server refuses one that cannot be read."""
    written = request.args.get("tenant") or request.headers.get("tenant")
    try:
        return unnamed if written is None else parse_tenant(written)
    except ValueError:
        return SUPER_TENANT
