"""What every page's template knows of its viewer: `user`, `may(permission)`, `csrf()`."""

from __future__ import annotations

from flask import Flask, g
from flask_wtf.csrf import generate_csrf
from markupsafe import Markup

from cep_common.security.access import Permission, Principal, is_granted

CSRF_FIELD = "csrf_token"
CSRF_HEADER = "X-CSRFToken"


def add_page_context(app: Flask) -> None:
    """Templates, and macros that they import, know `csrf()`, the hidden field of every form that changes something.

    `csrf_token()`, its value for scripts; and `may(name)`, of a `Permission`. Templates know `user` too, None when
    no login is required, and `account`, the user as an account, None for those that have none here.
    """
    app.jinja_env.globals.update(csrf=_field, csrf_token=_token, may=_may)
    app.context_processor(lambda: {"user": _user(), "account": g.get("account")})


def _user() -> Principal | None:
    user: Principal | None = g.get("principal")
    return user


def _may(permission: str) -> bool:
    user = _user()
    return is_granted(user, Permission[permission]) if user is not None else bool(g.get("anybody"))


def _token() -> str:
    """Empty when the page's requests need no proof of where they come from: no session identifies their user."""
    return str(generate_csrf()) if g.get("shown") == "session" else ""


def _field() -> Markup:
    token = _token()
    return Markup('<input type="hidden" name="{}" value="{}">').format(CSRF_FIELD, token) if token else Markup()
