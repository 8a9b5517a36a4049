"""The part of the REST API that is about accounts: the own account, users, and the audit log."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import msgspec
from flask import g, request
from msgspec import Meta

from cep_common.security.access import AccessRole, Permission, Principal, is_granted
from cep_manager.accounts.accounts import Accounts
from cep_manager.accounts.administration import Change, administration, new_user_role
from cep_manager.accounts.errors import (
    AccountExistsError,
    AccountInvalidError,
    AccountsOffError,
    LastAdminError,
    NoAccountError,
    TooManyAttemptsError,
    UnknownAccountError,
    WrongPasswordError,
)
from cep_manager.accounts.model import AuditEntry, PersonalToken, Session, User
from cep_manager.web.api.calls import Api, json_body
from cep_manager.web.login.account_callers import session_key
from cep_manager.web.login.auditing import about
from cep_manager.web.login.own_account import own_account, own_account_in_person

MOST_ENTRIES = 1_000

OWN = (AccountsOffError, NoAccountError)


class Caller(msgspec.Struct, frozen=True):
    """Caller of a request, with its permissions; without a name if no login is required.

    `shown` tells by what they are known: a session, a token, or name and password.
    """

    name: str
    role: AccessRole | None
    tenant: int | None
    shown: str
    must_change_password: bool
    permissions: tuple[str, ...]


class ChangePasswordRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The present password and the new one."""

    former: str
    password: str


class CreateTokenRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A personal token: its role has at most its owner's rights, and it expires after a number of days."""

    name: str
    role: AccessRole
    days: int = 90


class CreatedToken(msgspec.Struct, frozen=True):
    """A new token, which cannot be read again later."""

    name: str
    token: str


class TokenList(msgspec.Struct, frozen=True):
    """List your own tokens."""

    tokens: tuple[PersonalToken, ...]


class SessionList(msgspec.Struct, frozen=True):
    """List your own login sessions; `here` is the key of the session that asks, if it is one."""

    here: str
    sessions: tuple[Session, ...]


class UserView(msgspec.Struct, frozen=True):
    """A user as admins see one; times are milliseconds since 1970, 0 is never."""

    name: str
    role: AccessRole
    tenant: int | None
    disabled: bool
    must_change_password: bool
    created_ms: int
    login_ms: int


class UserList(msgspec.Struct, frozen=True):
    """All users by name."""

    users: tuple[UserView, ...]


class CreateUserRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A new user; without a tenant one of all tenants."""

    name: str
    role: AccessRole
    tenant: int | None = None


class GeneratedPassword(msgspec.Struct, frozen=True):
    """The password for the user's next login, at which another one must be chosen. It cannot be read again later."""

    name: str
    password: str


class NumberedEntry(AuditEntry, frozen=True):
    """An entry with its number, which grows."""

    number: int = 0


class AuditList(msgspec.Struct, frozen=True):
    """Entries, newest first."""

    entries: tuple[NumberedEntry, ...]


class AuditQuery(msgspec.Struct, frozen=True):
    """Which entries: those before number `before` if that is not 0, of `who` if that is given."""

    before: Annotated[int, Meta(ge=0, le=2**53)] = 0
    count: Annotated[int, Meta(ge=1, le=MOST_ENTRIES)] = 100
    who: str = ""


def account_routes(api: Api, accounts: Accounts | None) -> None:
    """Return the calls for accounts. They answer 404 if accounts are switched off."""

    def known() -> Accounts:
        if accounts is None or not accounts.config.login:
            raise AccountsOffError("accounts are switched off: set accounts.login: true in the manager's configuration")
        return accounts

    _own_routes(api, known)
    _token_routes(api, known)
    _user_routes(api, known)
    _audit_routes(api, accounts)


def _own_routes(api: Api, known: Callable[[], Accounts]) -> None:
    @api.get("/account", "The caller and its permissions", answers=Caller, of_tenant=False)
    def show_caller() -> Caller:
        principal: Principal | None = g.get("principal")
        user: User | None = g.get("account")
        may = tuple(one.name for one in Permission if principal is None or is_granted(principal, one))
        return Caller(
            name=principal.name if principal else "",
            role=principal.role if principal else None,
            tenant=principal.tenant if principal else None,
            shown=g.get("shown") or "",
            must_change_password=user is not None and user.must_change_password,
            permissions=may,
        )

    @api.post(
        "/account/password",
        "Change your own password; this logs you out everywhere",
        answers={204: None},
        body=json_body(ChangePasswordRequest),
        fails=(*OWN, AccountInvalidError, WrongPasswordError, TooManyAttemptsError),
        of_tenant=False,
    )
    def change_password(body: ChangePasswordRequest) -> None:
        user = own_account_in_person()
        known().change_password(user, body.former, body.password, request.remote_addr or "")

    @api.get("/account/sessions", "List your own login sessions", answers=SessionList, fails=OWN, of_tenant=False)
    def list_sessions() -> SessionList:
        found = known().sessions_of(own_account().name)
        return SessionList(session_key() if g.shown == "session" else "", found)

    @api.delete(
        "/account/sessions/<key>",
        "End one of your login sessions",
        answers={204: None},
        fails=(*OWN, UnknownAccountError),
        of_tenant=False,
    )
    def end_session(key: str) -> None:
        known().end_other_session(own_account_in_person(), key)


def _token_routes(api: Api, known: Callable[[], Accounts]) -> None:
    @api.get("/account/tokens", "List your own tokens", answers=TokenList, fails=OWN, of_tenant=False)
    def list_tokens() -> TokenList:
        return TokenList(known().users.tokens(own_account().name))

    @api.post(
        "/account/tokens",
        "Create a personal token",
        answers={201: CreatedToken},
        body=json_body(CreateTokenRequest),
        fails=(*OWN, AccountInvalidError, AccountExistsError, WrongPasswordError),
        of_tenant=False,
    )
    def create_token(body: CreateTokenRequest) -> CreatedToken:
        about(body.name)
        token = known().create_token(own_account_in_person(), body.name, body.role, body.days)
        return CreatedToken(body.name.strip(), token)

    @api.delete(
        "/account/tokens/<name>",
        "Revoke a personal token; a token can revoke itself",
        answers={204: None},
        fails=(*OWN, UnknownAccountError),
        of_tenant=False,
    )
    def revoke_token(name: str) -> None:
        user = own_account() if g.get("token") == name else own_account_in_person()
        known().revoke_token(user, name)


def _user_routes(api: Api, known: Callable[[], Accounts]) -> None:
    @api.get("/users", "All users", answers=UserList, fails=(AccountsOffError,), of_tenant=False)
    def list_users() -> UserList:
        return UserList(tuple(_view(user) for user in known().users.users()))

    @api.post(
        "/users",
        "Create a user, with a password for the first login",
        answers={201: GeneratedPassword},
        body=json_body(CreateUserRequest),
        fails=(AccountsOffError, AccountInvalidError, AccountExistsError),
        of_tenant=False,
    )
    def create_user(body: CreateUserRequest) -> GeneratedPassword:
        about(body.name)
        users = administration(known())
        return GeneratedPassword(body.name, users.create(body.name, new_user_role(body.role), body.tenant))

    @api.call(
        "PATCH",
        "/users/<name>",
        "Change a user's role or tenant, or disable the user; fields missing from the body stay unchanged",
        answers=UserView,
        body=json_body(Change),
        fails=(AccountsOffError, AccountInvalidError, UnknownAccountError, LastAdminError),
        of_tenant=False,
    )
    def change_user(name: str, body: Change) -> UserView:
        return _view(administration(known()).change(name, body))

    @api.post(
        "/users/<name>/reset-password",
        "Give the user a new password for one login, and log the user out everywhere",
        answers=GeneratedPassword,
        fails=(AccountsOffError, UnknownAccountError),
        of_tenant=False,
    )
    def reset_password(name: str) -> GeneratedPassword:
        return GeneratedPassword(name, administration(known()).reset_password(name))

    @api.delete(
        "/users/<name>",
        "Delete the user, with all sessions and tokens",
        answers={204: None},
        fails=(AccountsOffError, UnknownAccountError, LastAdminError),
        of_tenant=False,
    )
    def delete_user(name: str) -> None:
        administration(known()).remove(name)


def _audit_routes(api: Api, accounts: Accounts | None) -> None:
    @api.get(
        "/audit", "Audit log: changes with their users, and all logins", answers=AuditList, query=AuditQuery,
        fails=(AccountsOffError,), of_tenant=False,
    )  # fmt: skip
    def show_audit(query: AuditQuery) -> AuditList:
        if accounts is None:
            raise AccountsOffError("this manager keeps no audit log")
        found = accounts.audit.entries(query.before, query.count, query.who)
        return AuditList(
            tuple(NumberedEntry(**msgspec.structs.asdict(entry), number=number) for number, entry in found)
        )


def _view(user: User) -> UserView:
    return UserView(**{name: getattr(user, name) for name in UserView.__struct_fields__})
