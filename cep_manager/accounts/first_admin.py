"""The first user of a new system."""

from __future__ import annotations

import sys

from cep_manager.accounts.accounts import Accounts
from cep_manager.accounts.administration import FIRST_ADMIN, administration


def welcome_first_admin(accounts: Accounts, address: str) -> None:
    """Where there was no user there is an admin, whose password for the first login stands on standard error: this
    once, and in no log. Raises StoreError."""
    password = administration(accounts).create_first()
    if password is not None:
        sys.stderr.write(first_login(address, password))
        sys.stderr.flush()


def first_login(address: str, password: str) -> str:
    """Return what the first admin is told."""
    return (
        "\n"
        f"  There is no user yet. Log in at {address} with\n"
        f"      name      {FIRST_ADMIN}\n"
        f"      password  {password}\n"
        "  This is shown once. You choose a password of your own then.\n"
        "\n"
    )
