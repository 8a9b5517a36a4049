"""Data types of accounts. Times are milliseconds since 1970."""

from __future__ import annotations

import re

import msgspec

from cep_common.ids import parse_tenant
from cep_common.security.access import GRANTS, AccessRole, Principal
from cep_manager.accounts.errors import AccountInvalidError

USER_NAME = re.compile(r"[a-z0-9][a-z0-9._@-]{0,63}")
USER_NAME_WORDS = "1 to 64 characters: lower-case letters a-z, digits, and . _ @ - after the first"

SHORTEST_PASSWORD, LONGEST_PASSWORD = 12, 256
LONGEST_TOKEN_NAME = 64
LONGEST_TOKEN_DAYS = 366


class User(msgspec.Struct, frozen=True):
    """A person with a password. With a `tenant` they may act for that tenant only."""

    name: str
    password_hash: str
    role: AccessRole
    tenant: int | None
    disabled: bool
    must_change_password: bool
    created_ms: int
    login_ms: int

    def principal(self) -> Principal:
        """Return a principal with the rights of the user's role."""
        return Principal(self.name, self.role, self.tenant)


class Session(msgspec.Struct, frozen=True):
    """A browser in which a user is logged in. `key` identifies it and grants no access."""

    key: str
    user: str
    created_ms: int
    used_ms: int
    address: str
    agent: str


class PersonalToken(msgspec.Struct, frozen=True):
    """A token by which programs act for a user, with at most the user's own rights."""

    user: str
    name: str
    role: AccessRole
    created_ms: int
    expires_ms: int
    used_ms: int

    def principal(self, user: User) -> Principal:
        """Return a principal with the user's current rights, reduced to those of the token."""
        role = self.role if is_within(self.role, user.role) else user.role
        return Principal(user.name, role, user.tenant)


class AuditEntry(msgspec.Struct, frozen=True):
    """A call as recorded in the audit log.

    `who` called, authenticated by `shown` (`session`, `token`, `password`, or empty), with origin, subject and HTTP
    status; `times` times between `at_ms` and `last_ms`.
    """

    at_ms: int
    last_ms: int
    times: int
    who: str
    shown: str
    address: str
    call: str
    target: str
    status: int


def is_within(role: AccessRole, other: AccessRole) -> bool:
    """Return whether `role` is granted nothing that `other` is not."""
    return GRANTS[role] <= GRANTS[other]


def checked_name(name: str) -> str:
    """Return the user's name in its stored form. Raises AccountInvalidError."""
    if not USER_NAME.fullmatch(name):
        raise AccountInvalidError(f"a user's name has {USER_NAME_WORDS}")
    return name


def checked_password(password: str, user: str) -> str:
    """Return a password that is good enough for `user`. Raises AccountInvalidError with the reason."""
    if len(password) < SHORTEST_PASSWORD:
        raise AccountInvalidError(f"a password has at least {SHORTEST_PASSWORD} characters; several words are fine")
    if len(password) > LONGEST_PASSWORD:
        raise AccountInvalidError(f"a password has at most {LONGEST_PASSWORD} characters")
    if password.casefold().strip() == user or len(set(password)) < 4:
        raise AccountInvalidError("that password is too easy to guess; choose another one")
    return password


def checked_token_name(name: str) -> str:
    """Return the name of a token in its stored form. Raises AccountInvalidError."""
    name = name.strip()
    if not name or len(name) > LONGEST_TOKEN_NAME or not name.isprintable():
        raise AccountInvalidError(f"a token's name has 1 to {LONGEST_TOKEN_NAME} characters that can be printed")
    return name


def checked_tenant(tenant: int | None) -> int | None:
    """Return the tenant in its stored form; None means all tenants. Raises AccountInvalidError."""
    try:
        return None if tenant is None else parse_tenant(str(tenant))
    except ValueError as error:
        raise AccountInvalidError(str(error)) from error
