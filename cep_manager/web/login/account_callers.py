"""The caller of a request to the manager: by Authorization header (token, or name and password), else by session."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from flask import Flask, Response, g, request, session
from flask_login import LoginManager, current_user, login_user, logout_user
from flask_wtf.csrf import generate_csrf

from cep_common.security.access import Principal
from cep_common.security.web import Gate, callers_tenant, shown_token
from cep_manager.accounts.accounts import Accounts
from cep_manager.accounts.errors import WrongPasswordError
from cep_manager.accounts.model import User
from cep_manager.web.login.login_sessions import LoginSession, LoginSessions

BEARER = 'Bearer realm="cep"'
BASIC = f'{BEARER}, Basic realm="cep: a user with the password, or any name with a token as password"'


class LoggedIn:
    """The user of a session, as Flask-Login knows one."""

    is_authenticated = is_active = True
    is_anonymous = False

    def __init__(self, user: User) -> None:
        self.user = user

    def get_id(self) -> str:
        """Return the user's name, by which the session refers to the user."""
        return self.user.name


class AccountCallers:
    """Callers of the manager `app` with `accounts`.

    While a request is answered, `g.account` is the user who makes it, if it is one, and `g.shown` by what that was
    shown.
    """

    def __init__(self, app: Flask, gate: Gate, accounts: Accounts, secure: bool) -> None:
        self._gate = gate
        self._accounts = accounts
        self._sessions = LoginSessions(accounts, secure)
        app.session_interface = self._sessions
        app.secret_key = accounts.sessions.secret()
        app.config["WTF_CSRF_TIME_LIMIT"] = None  # a proof is good for as long as its session
        manager = LoginManager(app, add_context_processor=False)
        # Sessions are kept here, and end when they are to end: nothing is read from the address of the browser.
        manager.session_protection = None
        manager.user_loader(_user_of_session)

    def needed(self) -> bool:
        return self._accounts.config.login or self._gate.needs_token()

    def identify(self) -> Principal | None:
        g.account, g.shown, g.token = None, "", ""
        if "Authorization" in request.headers:
            return self._by_header()
        if not self._accounts.config.login:
            return None
        self._sessions.look_up(_session())
        if not current_user.is_authenticated:
            return None
        g.account, g.shown = current_user.user, "session"
        return current_user.user.principal()  # type: ignore[no-any-return]

    def log_in(self, user: User) -> None:
        """Log the present request's browser in as the user, in a new session.

        A new session, since another user may know the former one or have set it in the browser. Raises PlanStoreError,
        and WrongPasswordError when the user's password no longer opens the account.
        """
        now = _session()
        now.clear()
        g.pop("csrf_token", None)
        login_user(LoggedIn(user))
        generate_csrf()
        self._sessions.begin(now, user)
        g.account, g.principal, g.shown = user, user.principal(), "session"

    def log_out(self) -> None:
        """Log the present request's browser out. Raises PlanStoreError."""
        logout_user()
        self._sessions.end(_session())

    def end_with_caller(self, answer: Response) -> Response:
        """End a streaming answer when its caller loses access.

        That is after a log-out, when a token is revoked, a session expires, or the user is disabled or given another
        password, role or tenant.
        """
        began: Principal | None = g.get("principal")
        if answer.mimetype == "text/event-stream" and began is not None:
            answer.response = _while_same(answer.response, began, self._now())
        return answer

    def _now(self) -> Callable[[], Principal | None]:
        """Return a function that checks the current request's caller again later.

        It gives None when the caller's proof is no longer valid. `Accounts` asks the database about once a second,
        however often the function is called.
        """
        accounts, account, token = self._accounts, g.account, shown_token()
        if g.shown == "session":
            proof = _session().proof
            return lambda: stored.user.principal() if (stored := accounts.session(proof)) is not None else None
        if g.shown == "password":
            return lambda: user.principal() if (user := accounts.still(account)) is not None else None
        return lambda: self._by_token(token)

    def _by_token(self, token: str) -> Principal | None:
        """Return the principal of a token, of the token file or of a user."""
        principal = self._gate.principal(token)
        if principal is not None:
            return principal
        found = self._accounts.user_by_token(token)
        return found[0].principal(found[1]) if found is not None else None

    def challenge(self) -> str:
        """Return the challenge of a refused request.

        Browsers answer Basic with a dialog of their own, so it is sent only to Storm's API and where the console has no
        login page.
        """
        return BEARER if self._accounts.config.login and not request.path.startswith("/storm/") else BASIC

    def tenant(self, principal: Principal) -> int:
        return callers_tenant()

    def _by_header(self) -> Principal | None:
        token = shown_token()
        principal = self._gate.principal(token)
        if principal is not None:
            g.shown = "token"
            return principal
        if not self._accounts.config.login:
            return None
        found = self._accounts.user_by_token(token)
        if found is not None:
            kept, user = found
            g.account, g.shown, g.token = user, "token", kept.name
            return kept.principal(user)
        shown = request.authorization
        if shown is None or shown.type != "basic" or not shown.username or not shown.password:
            return None
        try:
            user = self._accounts.user_by_password(shown.username, shown.password, request.remote_addr or "")
        except WrongPasswordError:
            return None
        g.account, g.shown = user, "password"
        return user.principal()


def session_key() -> str:
    """Return the key of the present request's session among its user's; empty when it has none."""
    stored = _session().stored
    return stored.session.key if stored is not None else ""


def _session() -> LoginSession:
    found: Any = session._get_current_object()  # type: ignore[attr-defined]
    assert isinstance(found, LoginSession)  # noqa: S101 - the app has no other
    return found


def _user_of_session(name: str) -> LoggedIn | None:
    stored = _session().stored
    return LoggedIn(stored.user) if stored is not None and stored.user.name == name else None


def _while_same(parts: Iterable[Any], began: Principal, now: Callable[[], Principal | None]) -> Iterator[Any]:
    for part in parts:
        if now() != began:
            return
        yield part
