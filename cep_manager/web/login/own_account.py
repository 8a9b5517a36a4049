"""What callers may ask about themselves."""

from __future__ import annotations

from flask import g

from cep_manager.accounts.errors import NoAccountError
from cep_manager.accounts.model import User


def own_account() -> User:
    """Return the user of the current request.

    Raises NoAccountError for callers with a token of the file.
    """
    user: User | None = g.get("account")
    if user is None:
        raise NoAccountError("a token of security.tokens has no account of its own: log in as a user")
    return user


def own_account_in_person() -> User:
    """Return the same for what a token must not do: one that was made for little cannot make itself more.

    Raises NoAccountError.
    """
    user = own_account()
    if g.shown == "token":
        raise NoAccountError(
            "a token cannot change its user's password, tokens and sessions: authenticate with name and password"
        )
    return user
