"""Sessions as Flask knows them, kept on the server's side: the cookie proves one, and holds nothing else."""

from __future__ import annotations

from typing import Any

from flask import Flask, Request, Response, request
from flask.sessions import SessionInterface, SessionMixin
from werkzeug.datastructures import CallbackDict

from cep_manager.accounts.accounts import Accounts
from cep_manager.accounts.model import User
from cep_manager.accounts.session_store import StoredSession

COOKIE, SECURE_COOKIE = "cep_session", "__Host-cep_session"
"""The second one under HTTPS: browsers take it from this host alone, over HTTPS alone, and for all of its pages."""

AGENT_LENGTH = 200

POLLED = ("/api/", "/fragments/", "/static/")
"""What pages ask for by themselves: it does not prove that a user is present."""


class LoginSession(CallbackDict[str, Any], SessionMixin):
    """What the session carries.

    `proof` is what the cookie showed; `stored` is None while it identifies no user. `given` is the proof of a
    session that begins with this request, and `taken` says that the former one has ended.
    """

    def __init__(self, proof: str = "") -> None:
        super().__init__(on_update=_was_changed)
        self.modified = False
        self.proof = proof
        self.stored: StoredSession | None = None
        self.given = ""
        self.taken = False


def _was_changed(session: Any) -> None:
    session.modified = True


class LoginSessions(SessionInterface):
    """Sessions of `accounts`.

    A request with an Authorization header has no session: the header alone identifies its caller.
    """

    def __init__(self, accounts: Accounts, secure: bool) -> None:
        """`secure`: the server is reached by HTTPS."""
        self._accounts = accounts
        self._secure = secure
        self._cookie = SECURE_COOKIE if secure else COOKIE

    def open_session(self, app: Flask, request: Request) -> LoginSession:
        """Return a session that is looked up on first use: many answers need no session, and no database."""
        return LoginSession("" if "Authorization" in request.headers else request.cookies.get(self._cookie, ""))

    def look_up(self, session: LoginSession) -> None:
        """Find the account that the session belongs to, if any. Raises PlanStoreError."""
        stored = self._accounts.session(session.proof) if session.proof else None
        if stored is None:
            return
        session.update(stored.data)
        session.stored = stored
        if request.method != "GET" or not request.path.startswith(POLLED):
            self._accounts.use_session(session.proof, stored)

    def begin(self, session: LoginSession, user: User) -> None:
        """Store what `session` holds under a new proof, which the browser gets; the former one ends.

        Raises PlanStoreError.
        """
        self.end(session)
        agent = request.user_agent.string[:AGENT_LENGTH]
        session.given = self._accounts.begin_session(user, request.remote_addr or "", agent, dict(session))

    def end(self, session: LoginSession) -> None:
        """End the session. Raises PlanStoreError."""
        if session.proof:
            self._accounts.end_session(session.proof)
        session.taken = True

    def save_session(self, app: Flask, session: SessionMixin, response: Response) -> None:
        """Set the cookie of the session that began with this request, or delete that of one that ended."""
        assert isinstance(session, LoginSession)  # noqa: S101 - `open_session` makes no other
        cookie = {"path": "/", "secure": self._secure, "httponly": True, "samesite": "Lax"}
        if session.given:
            response.set_cookie(self._cookie, session.given, **cookie)  # type: ignore[arg-type]
        elif session.taken:
            response.delete_cookie(self._cookie, **cookie)  # type: ignore[arg-type]
        if session.accessed:
            response.vary.add("Cookie")
