"""User administration by admins and by operators at the command line, and creation of the first user."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from cep_common.clock import Clock
from cep_common.security.access import AccessRole
from cep_manager.accounts.accounts import Accounts
from cep_manager.accounts.errors import AccountInvalidError
from cep_manager.accounts.model import User, checked_name, checked_password, checked_tenant
from cep_manager.accounts.passwords import Passwords, random_password
from cep_manager.accounts.user_store import UserStore

FIRST_ADMIN = "admin"

PEOPLE = (AccessRole.VIEWER, AccessRole.OPERATOR, AccessRole.EDITOR, AccessRole.ADMIN)
"""Roles for human users. Senders are programs and use tokens."""


def new_user_role(role: AccessRole) -> AccessRole:
    """Return the role, when a person can have it. Raises AccountInvalidError."""
    if role not in PEOPLE:
        known = ", ".join(one.value for one in PEOPLE)
        raise AccountInvalidError(
            f"a user's role is one of {known}; {role.value} is a role of programs, which use a token"
        )
    return role


class Change(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The changes to a user; omitted fields stay unchanged."""

    role: AccessRole | msgspec.UnsetType = msgspec.UNSET
    tenant: int | msgspec.UnsetType | None = msgspec.UNSET
    disabled: bool | msgspec.UnsetType = msgspec.UNSET


class Administration:
    """Creates and changes users. All methods raise PlanStoreError when the database cannot be used."""

    def __init__(
        self, users: UserStore, passwords: Passwords, clock: Clock, changed: Callable[[], None] = lambda: None
    ) -> None:
        """Prepare the administration of `users`; `changed` is called after every change of a user."""
        self._users = users
        self._changed = changed
        self._passwords = passwords
        self._clock = clock

    def create(self, name: str, role: AccessRole, tenant: int | None, password: str = "") -> str:
        """Create a user, who must choose a new password at the first login.

        Returns the password for that login: `password`, or a random one if it is empty. Raises AccountInvalidError,
        AccountExistsError.
        """
        checked_name(name)
        checked_tenant(tenant)
        first = checked_password(password, name) if password else random_password()
        self._users.add(self._user(name, role, tenant, first))
        return first

    def create_first(self) -> str | None:
        """Create an admin when there is no user, and return the password for the first login.

        Else None.
        """
        if self._users.users():
            return None
        password = random_password()
        return password if self._users.add_first(self._user(FIRST_ADMIN, AccessRole.ADMIN, None, password)) else None

    def reset_password(self, name: str) -> str:
        """Log the user out everywhere and return a password for the next login, at which a new one must be chosen.

        Does not disable the user. Raises UnknownAccountError.
        """
        password = random_password()
        values = {"password_hash": self._passwords.hash(password), "must_change_password": True, "disabled": False}
        self._users.change(name, values, end_sessions=True)
        self._changed()
        return password

    def change(self, name: str, change: Change) -> User:
        """Change the user; a disabled user is logged out everywhere.

        Raises UnknownAccountError, LastAdminError, AccountInvalidError.
        """
        values: dict[str, Any] = {
            field: value for field, value in msgspec.structs.asdict(change).items() if value is not msgspec.UNSET
        }
        if isinstance(change.role, AccessRole):
            values["role"] = new_user_role(change.role).value
        if isinstance(change.tenant, int):
            checked_tenant(change.tenant)
        user = self._users.change(name, values, end_sessions=change.disabled is True)
        self._changed()
        return user

    def remove(self, name: str) -> None:
        """Remove the user with all sessions and tokens. Raises UnknownAccountError, LastAdminError."""
        self._users.remove(name)
        self._changed()

    def _user(self, name: str, role: AccessRole, tenant: int | None, password: str) -> User:
        return User(
            name=name,
            password_hash=self._passwords.hash(password),
            role=role,
            tenant=tenant,
            disabled=False,
            must_change_password=True,
            created_ms=self._clock.now_ms(),
            login_ms=0,
        )


def administration(accounts: Accounts) -> Administration:
    """Return the administration of the users in `accounts`."""
    return Administration(accounts.users, accounts.passwords, accounts.clock, accounts.forget_seen)
