"""The pages on which admins make and change users."""

from __future__ import annotations

from collections.abc import Callable

from flask import Blueprint, make_response, redirect, render_template, request, url_for

from cep_common.ids import parse_tenant
from cep_manager.accounts.accounts import Accounts
from cep_manager.accounts.administration import PEOPLE, Change, administration, new_user_role
from cep_manager.accounts.errors import (
    AccountExistsError,
    AccountInvalidError,
    LastAdminError,
    UnknownAccountError,
)
from cep_manager.accounts.model import User
from cep_manager.web.account_pages.account import read_role
from cep_manager.web.console.page import Page, page
from cep_manager.web.login.auditing import about

NOTICES = {
    "changed": "{user} was changed.",
    "disabled": "{user} was disabled and logged out everywhere.",
    "enabled": "{user} may log in again.",
    "deleted": "{user} was deleted, with all sessions and tokens.",
}


def user_pages(blueprint: Blueprint, known: Callable[[], Accounts]) -> None:
    """Add the pages. `known` raises AccountsOffError if accounts are switched off."""
    _list_pages(blueprint, known)
    _change_pages(blueprint, known)


def read_tenant_of_user(written: str) -> int | None:
    """Return the tenant that is `written`; nothing is all tenants. Raises AccountInvalidError."""
    if not written.strip():
        return None
    try:
        return parse_tenant(written.strip())
    except ValueError as error:
        raise AccountInvalidError(str(error)) from error


def _list_pages(blueprint: Blueprint, known: Callable[[], Accounts]) -> None:
    @blueprint.get("/users")
    @page
    def list_users() -> Page:
        return _users_page(known())

    @blueprint.post("/users")
    @page
    def create_user() -> Page:
        accounts = known()
        name = request.form.get("name", "").strip().lower()
        about(name)
        try:
            role = new_user_role(read_role(request.form.get("role", "")))
            tenant = read_tenant_of_user(request.form.get("tenant", ""))
            password = administration(accounts).create(name, role, tenant)
        except (AccountInvalidError, AccountExistsError) as error:
            return make_response(_users_page(accounts, problem=error.message), 422)
        return make_response(_users_page(accounts, password=password, of=name), 201)


def _change_pages(blueprint: Blueprint, known: Callable[[], Accounts]) -> None:
    @blueprint.get("/users/<name>")
    @page
    def show_user(name: str) -> Page:
        return _user_page(known(), name)

    @blueprint.post("/users/<name>")
    @page
    def change_user(name: str) -> Page:
        accounts = known()
        try:
            role = new_user_role(read_role(request.form.get("role", "")))
            tenant = read_tenant_of_user(request.form.get("tenant", ""))
            administration(accounts).change(name, Change(role=role, tenant=tenant))
        except (AccountInvalidError, LastAdminError) as error:
            return make_response(_user_page(accounts, name, problem=error.message), 422)
        return redirect(url_for("accounts.show_user", name=name, notice="changed"), code=303)

    @blueprint.post("/users/<name>/<any(enable, disable):action>")
    @page
    def switch_user(name: str, action: str) -> Page:
        accounts = known()
        try:
            administration(accounts).change(name, Change(disabled=action == "disable"))
        except LastAdminError as error:
            return make_response(_user_page(accounts, name, problem=error.message), 409)
        return redirect(url_for("accounts.show_user", name=name, notice=f"{action}d"), code=303)

    @blueprint.post("/users/<name>/reset-password")
    @page
    def reset_password(name: str) -> Page:
        accounts = known()
        return _user_page(accounts, name, password=administration(accounts).reset_password(name))

    @blueprint.post("/users/<name>/delete")
    @page
    def delete_user(name: str) -> Page:
        accounts = known()
        try:
            administration(accounts).remove(name)
        except LastAdminError as error:
            return make_response(_user_page(accounts, name, problem=error.message), 409)
        return redirect(url_for("accounts.list_users", notice="deleted", user=name), code=303)


def _users_page(accounts: Accounts, problem: str = "", password: str = "", of: str = "") -> str:
    return render_template(
        "accounts/users.html",
        users=accounts.users.users(),
        roles=[role.value for role in PEOPLE],
        problem=problem,
        password=password,
        of=of,
        written=request.form,
        notice=_notice(request.args.get("user", "")),
    )


def _user_page(accounts: Accounts, name: str, problem: str = "", password: str = "") -> str:
    user: User | None = accounts.users.find(name)
    if user is None:
        raise UnknownAccountError(f"there is no user named {name}")
    return render_template(
        "accounts/user.html",
        one=user,
        tokens=accounts.users.tokens(name),
        sessions=accounts.sessions_of(name),
        roles=[role.value for role in PEOPLE],
        problem=problem,
        password=password,
        notice=_notice(name),
    )


def _notice(user: str) -> str:
    return NOTICES.get(request.args.get("notice", ""), "").format(user=user)
