"""The first user of a new system."""

from __future__ import annotations

import sys

from cep_manager.accounts.accounts import Accounts
from cep_manager.accounts.administration import FIRST_ADMIN, administration


def welcome_first_admin(accounts: Accounts, address: str) -> None:
    """Create an admin if there is no user yet, and print the password for the first login on standard error.

    The password is shown this once and written to no log. Raises PlanStoreError.
    """
    password = administration(accounts).create_first()
    if password is not None:
        sys.stderr.write(first_login(address, password))
        sys.stderr.flush()


def first_login(address: str, password: str) -> str:
    """Return the message that gives the first admin the password."""
    return (
        "\n"
        f"  There is no user yet. Log in at {address} with\n"
        f"      name      {FIRST_ADMIN}\n"
        f"      password  {password}\n"
        "  This is shown once. You must choose a new password when you log in.\n"
        "\n"
    )
