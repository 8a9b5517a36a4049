"""The page about oneself: tokens and sessions."""

from __future__ import annotations

from flask import Blueprint, g, make_response, redirect, render_template, request, url_for

from cep_common.security.access import AccessRole
from cep_manager.accounts.accounts import Accounts
from cep_manager.accounts.errors import AccountExistsError, AccountInvalidError
from cep_manager.accounts.model import LONGEST_TOKEN_DAYS, LONGEST_TOKEN_NAME, is_within
from cep_manager.errors import BadRequestError
from cep_manager.web.account_pages.login import Known
from cep_manager.web.api.requests import read_number
from cep_manager.web.console.page import Page, page
from cep_manager.web.login.account_callers import session_key
from cep_manager.web.login.auditing import about
from cep_manager.web.login.own_account import own_account, own_account_in_person

DAYS = (7, 30, 90, 180, 365)

NOTICES = {
    "revoked": "The token was revoked; requests with it are refused.",
    "ended": "That session was ended.",
}


def account_pages(blueprint: Blueprint, known: Known) -> None:
    """Add the page. `known` raises AccountsOffError if accounts are switched off."""

    @blueprint.get("/account")
    @page
    def show_account() -> Page:
        return _account_page(known()[0])

    @blueprint.post("/account/tokens")
    @page
    def create_token() -> Page:
        accounts, _ = known()
        user = own_account_in_person()
        about(request.form.get("name", ""))
        try:
            role = read_role(request.form.get("role", ""))
            days = read_number(request.form.get("days", ""), "days")
            token = accounts.create_token(user, request.form.get("name", ""), role, days)
        except (AccountInvalidError, AccountExistsError, BadRequestError) as error:
            return make_response(_account_page(accounts, problem=error.message), 422)
        return make_response(_account_page(accounts, token=token), 201)

    @blueprint.post("/account/tokens/revoke")
    @page
    def revoke_token() -> Page:
        accounts, _ = known()
        about(request.form.get("name", ""))
        accounts.revoke_token(own_account_in_person(), request.form.get("name", ""))
        return redirect(url_for("accounts.show_account", notice="revoked"), code=303)

    @blueprint.post("/account/sessions/end")
    @page
    def end_session() -> Page:
        accounts, _ = known()
        accounts.end_other_session(own_account_in_person(), request.form.get("key", ""))
        return redirect(url_for("accounts.show_account", notice="ended"), code=303)


def read_role(written: str) -> AccessRole:
    """Return the role that is `written`. Raises AccountInvalidError."""
    try:
        return AccessRole(written)
    except ValueError:
        known = ", ".join(role.value for role in AccessRole)
        raise AccountInvalidError(f"a role is one of {known}, not {written[:40]!r}") from None


def _account_page(accounts: Accounts, problem: str = "", token: str = "") -> str:
    user = own_account()
    return render_template(
        "accounts/account.html",
        tokens=accounts.users.tokens(user.name),
        sessions=accounts.sessions_of(user.name),
        own_key=session_key() if g.shown == "session" else "",
        now_ms=accounts.clock.now_ms(),
        roles=[role.value for role in reversed(AccessRole) if is_within(role, user.role)],
        days=DAYS,
        most_days=LONGEST_TOKEN_DAYS,
        longest_name=LONGEST_TOKEN_NAME,
        problem=problem,
        token=token,
        notice=NOTICES.get(request.args.get("notice", ""), ""),
    )
