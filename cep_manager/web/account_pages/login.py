"""Logging in and out, and choosing a password."""

from __future__ import annotations

from collections.abc import Callable

from flask import Blueprint, Response, g, make_response, redirect, render_template, request, url_for

from cep_manager.accounts.accounts import Accounts
from cep_manager.accounts.errors import AccountInvalidError, TooManyAttemptsError, WrongPasswordError
from cep_manager.accounts.model import LONGEST_PASSWORD, SHORTEST_PASSWORD, USER_NAME
from cep_manager.web.console.page import Page, page
from cep_manager.web.login.account_callers import AccountCallers
from cep_manager.web.login.next_page import HOME, safe_next
from cep_manager.web.login.own_account import own_account_in_person

Known = Callable[[], tuple[Accounts, AccountCallers]]

LONGEST_NAME_SHOWN = 64


def login_pages(blueprint: Blueprint, known: Known) -> None:
    """Add the pages. `known` raises AccountsOffError if accounts are switched off."""

    @blueprint.get("/login")
    @page
    def login_page() -> Page:
        known()
        return _login_form()

    @blueprint.post("/login")
    @page
    def log_in() -> Page:
        accounts, callers = known()
        name = request.form.get("name", "").strip().lower()
        if USER_NAME.fullmatch(name) and accounts.users.find(name) is not None:
            g.tried = name
        try:
            user = accounts.log_in(name, request.form.get("password", ""), request.remote_addr or "")
            callers.log_in(user)
        except WrongPasswordError:
            return make_response(_login_form(problem="Name and password do not match. Try again."), 401)
        except TooManyAttemptsError as error:
            return _come_again(_login_form(wait_s=error.wait_s), error)
        if user.must_change_password:
            return redirect(url_for("accounts.password_page", next=request.form.get("next") or None), code=303)
        return redirect(safe_next(request.form.get("next", HOME)), code=303)

    @blueprint.post("/logout")
    @page
    def log_out() -> Page:
        _, callers = known()
        callers.log_out()
        return redirect(url_for("accounts.login_page", notice="out"), code=303)

    _password_pages(blueprint, known)


def _password_pages(blueprint: Blueprint, known: Known) -> None:
    @blueprint.get("/account/password")
    @page
    def password_page() -> Page:
        own_account_in_person()
        return _password_form()

    @blueprint.post("/account/password")
    @page
    def change_password() -> Page:
        accounts, callers = known()
        user = own_account_in_person()
        chosen = request.form.get("password", "")
        if chosen != request.form.get("again", ""):
            return make_response(_password_form("The two new passwords are not the same."), 422)
        try:
            changed = accounts.change_password(user, request.form.get("former", ""), chosen, request.remote_addr or "")
            callers.log_in(changed)
        except WrongPasswordError:
            return make_response(_password_form("The current password is wrong."), 422)
        except AccountInvalidError as error:
            return make_response(_password_form(_sentence(error.message)), 422)
        except TooManyAttemptsError as error:
            return _come_again(_password_form(_sentence(error.message)), error)
        return redirect(safe_next(request.form.get("next") or url_for("accounts.show_account")), code=303)


def _login_form(problem: str = "", wait_s: int = 0) -> str:
    asked = request.form.get("next") or request.args.get("next", "")
    return render_template(
        "accounts/login.html",
        next=safe_next(asked) if asked else "",
        name=request.form.get("name", "")[:LONGEST_NAME_SHOWN],
        problem=problem,
        wait_s=wait_s,
        logged_out=request.args.get("notice") == "out",
    )


def _password_form(problem: str = "") -> str:
    asked = request.form.get("next") or request.args.get("next", "")
    return render_template(
        "accounts/password.html",
        next=safe_next(asked) if asked else "",
        problem=problem,
        shortest=SHORTEST_PASSWORD,
        longest=LONGEST_PASSWORD,
    )


def _come_again(shown: str, error: TooManyAttemptsError) -> Response:
    return make_response(shown, 429, {"Retry-After": str(error.wait_s)})


def _sentence(message: str) -> str:
    return f"{message[:1].upper()}{message[1:]}."
