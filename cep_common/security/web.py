"""Access checks of every request to an HTTP server: its host name, the client's rate, its token and its permissions."""

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
"""The header with which sinks of type `http` name their plan. Managers refuse requests of sinks: a plan would act
with the permissions of its worker's host."""

LOGIN_BYTES = 16_384
"""The maximum size of a body of an unauthenticated request to a login form."""

Refuse = Callable[[int, str, str], Response]
"""Builds a response in the server's own format from status, code and message."""


class Gate:
    """The access checks of one server. Thread-safe."""

    def __init__(
        self, config: ServerSecurity, host: str, clock: Clock, users: bool = False, key: str = "http.host"
    ) -> None:
        """Create the gate of a server at `host`, which `key` names.

        With `users`, requests must authenticate as one of these users.

        Raises:
            ConfigError: The host is not loopback and there are neither tokens nor users, or the tokens are invalid.
        """
        self._users = users
        self._tokens = TokenFile(Path(config.tokens)) if config.tokens else None
        if self._tokens is not None and not self._tokens.tokens():
            raise ConfigError(f"security.tokens: {config.tokens} holds no token; make one with `cep token create`")
        self._insecure = config.insecure
        self.refuse_open_host(host, key)
        if self.needs_token() and not config.certificate and not is_loopback(host):
            what = "passwords and tokens" if users else "tokens"
            logger.warning("%s are sent unencrypted: host=%s has no security.certificate", what, host)
        self._names = {"localhost", host.lower(), *(name.lower() for name in config.hosts)}
        self._pace = RequestPace(config.requests_per_s)
        self._clock = clock
        self._lock = threading.Lock()

    def refuse_open_host(self, host: str, key: str) -> None:
        """Raise ConfigError when a server at `host`, which `key` sets, would accept any client from anywhere."""
        if not self.needs_token() and not self._insecure and not is_loopback(host):
            raise ConfigError(
                f"{key}: {host} can be reached from other hosts, and there are no tokens: make one with `cep token "
                "create` and name the file in security.tokens (or accept every client with security.insecure: true)"
            )

    def needs_token(self) -> bool:
        """Return whether requests must authenticate their caller."""
        return self._users or self._tokens is not None

    def knows(self, host: str) -> bool:
        """Return whether `host`, as a request names it, is one of the server's names.

        Addresses always are: only names can be pointed at this server by others (DNS rebinding).
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
        """Return why the body of a request is not read: its sender is neither known nor possibly a user.

        Credentials of users are checked later, since the thread of all connections does not wait for the database.
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
        """Return the owner of the token, or None."""
        if self._tokens is None:
            return None
        with self._lock:
            return self._tokens.principal(token)


def open_gate() -> Gate:
    """Return the gate of a server on loopback that requires no token."""
    return Gate(ServerSecurity(), "127.0.0.1", SystemClock())


class Callers(Protocol):
    """Identifies the callers of a server's requests."""

    def needed(self) -> bool:
        """Return whether requests must identify their caller."""

    def identify(self) -> Principal | None:
        """Return the caller of the current request; None when it is not known.

        Raises:
            CepError: The caller cannot be determined now.
        """

    def challenge(self) -> str:
        """Return the header WWW-Authenticate of the response to a request without credentials."""

    def tenant(self, principal: Principal) -> int:
        """Return the tenant of the principal's request if it names none."""


class TokenCallers:
    """Identifies callers by tokens of the gate's file, sent as bearer tokens or passwords of basic authentication."""

    def __init__(self, gate: Gate) -> None:
        """Create the check of tokens.

        Args:
            gate: The access checks with the tokens.
        """
        self._gate = gate

    def needed(self) -> bool:
        """Return whether requests need a token."""
        return self._gate.needs_token()

    def identify(self) -> Principal | None:
        """Return the caller of the current request, None if its token is missing or unknown."""
        return self._gate.principal(shown_token())

    def challenge(self) -> str:
        """Return the `WWW-Authenticate` header of a refused request."""
        return 'Bearer realm="cep", Basic realm="cep: any name, a token as password"'

    def tenant(self, principal: Principal) -> int:
        """Return the tenant whose plans `principal` sees when a request names none."""
        return SUPER_TENANT if principal.tenant is None else principal.tenant


SHOW_ONE = (
    "send a token: Authorization: Bearer TOKEN (see `cep token`); `cep` sends --token, CEP_TOKEN or that of `cep login`"
)
NOT_KNOWN = "the token or password is not valid here; it may be mistyped, revoked or expired"


def guard(app: Flask, gate: Gate, calls: Calls, refuse: Refuse, callers: Callers | None = None) -> None:
    """Check every request to `app` before it is handled.

    `calls` has the permission that each call requires, and `callers` identifies callers, by default by tokens. While a
    request is handled, `g.principal` is its caller if known, and `g.anybody` is true when no authentication is needed.
    `callers` also determines the tenant of a request that names none.
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
    """Return the tenant of the current request's caller; the super tenant for callers that may act for all."""
    principal: Principal | None = g.get("principal")
    return SUPER_TENANT if principal is None or principal.tenant is None else principal.tenant


def caller_name() -> str:
    """Return the caller of the current request: its name, else its address."""
    principal: Principal | None = g.get("principal")
    return f"user {principal.name}" if principal is not None else f"address {request.remote_addr or ''}"


def answer_for(tenant: int) -> None:
    """Raise UnauthorisedError when the current request's caller may not act for `tenant`."""
    principal: Principal | None = g.get("principal")
    if principal is not None and not speaks_for(principal, tenant):
        raise UnauthorisedError(_no_tenant(principal))


def _no_tenant(principal: Principal) -> str:
    return f"{principal.name} may act for tenant {principal.tenant} only"


def called() -> str:
    """Return the name in `Calls` of the current request's call."""
    action = (request.view_args or {}).get("action")
    return f"{request.endpoint}:{action}" if action else request.endpoint or ""


def _knows(gate: Gate) -> bool:
    try:
        return gate.knows(request.headers.get("Host", ""))
    except ValueError:
        return False


def shown_token() -> str:
    """Return the token of the request, sent as a bearer token or as the password of basic authentication."""
    return token_of(request.authorization)


def token_of(shown: Authorization | None) -> str:
    """Return the token in an `Authorization` header; empty when it has none."""
    if shown is None:
        return ""
    return (shown.token if shown.type == "bearer" else shown.password if shown.type == "basic" else "") or ""


def _tenant(unnamed: int) -> int:
    """Return the tenant that the request names. One that cannot be parsed is refused later."""
    written = request.args.get("tenant") or request.headers.get("tenant")
    try:
        return unnamed if written is None else parse_tenant(written)
    except ValueError:
        return SUPER_TENANT
