"""Errors about accounts."""

from __future__ import annotations

from cep_manager.errors import ManagerError


class AccountInvalidError(ManagerError):
    """A name, password, role or time that an account cannot have; the message lists the options."""

    code = "account-invalid"


class AccountExistsError(ManagerError):
    """A user or token with that name already exists."""

    code = "account-exists"


class UnknownAccountError(ManagerError):
    """The user, token or session does not exist."""

    code = "unknown-account"


class LastAdminError(ManagerError):
    """The change would leave the system without an admin."""

    code = "last-admin"


class AccountsOffError(ManagerError):
    """Accounts are switched off at this manager."""

    code = "accounts-off"


class NoAccountError(ManagerError):
    """The caller has no account: they used a token of the token file, which has no password."""

    code = "no-account"


class TooManyAttemptsError(ManagerError):
    """Too many attempts to log in; the next one is allowed after `wait_ms`."""

    code = "too-many-attempts"

    def __init__(self, wait_ms: int) -> None:
        self.wait_s = max(1, -(-wait_ms // 1_000))
        super().__init__(f"too many attempts to log in; try again in {self.wait_s} s", {"wait_s": self.wait_s})


class WrongPasswordError(ManagerError):
    """The name and password do not match, or no longer match."""

    code = "wrong-password"
