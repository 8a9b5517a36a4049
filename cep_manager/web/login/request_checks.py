"""Checks of every request with a known caller.

Forms and scripts prove that they are the console's own, and a password that somebody else assigned is changed first.
"""

from __future__ import annotations

from collections.abc import Callable

from flask import Response, g, redirect, request, url_for
from flask_wtf.csrf import validate_csrf
from werkzeug.wrappers import Response as AnyResponse
from wtforms import ValidationError

from cep_common.security.web import Refuse
from cep_manager.accounts.model import User
from cep_manager.web.login.next_page import is_page
from cep_manager.web.login.page_context import CSRF_FIELD, CSRF_HEADER

SAFE_METHODS = ("GET", "HEAD", "OPTIONS")

BEFORE_PASSWORD = frozenset(
    {
        "accounts.password_page",
        "accounts.change_password",
        "accounts.log_out",
        "api.change_password",
        "api.show_caller",
    }
)
"""What a user who must choose a password may do."""


def refuse_forgeries(refuse: Refuse) -> Callable[[], Response | None]:
    """Return a check of every request against forgery by other sites.

    Changes by a session must carry the session's own proof, which no other site can know. Requests with credentials of
    their own need none, since no browser sends these unasked.
    """

    def check() -> Response | None:
        if request.method in SAFE_METHODS or g.get("shown") != "session":
            return None
        # The header first: reading the form uses the body up, which may be meant as something else.
        try:
            validate_csrf(request.headers.get(CSRF_HEADER) or request.form.get(CSRF_FIELD))
        except ValidationError:
            return refuse(403, "csrf", "the request did not come from a page of this session: load the page again")
        return None

    return check


def ask_for_password(refuse: Refuse) -> Callable[[], Response | AnyResponse | None]:
    """Return a check of every request: a user with an assigned password must choose a new one first."""

    def check() -> Response | AnyResponse | None:
        user: User | None = g.get("account")
        if user is None or not user.must_change_password or g.shown == "token":
            return None
        if request.endpoint in BEFORE_PASSWORD:
            return None
        if request.method in SAFE_METHODS and is_page(request.path):
            return redirect(url_for("accounts.password_page"), code=303)
        return refuse(403, "password-must-change", "choose a new password first, in the console or with `cep login`")

    return check
