"""`cep user`: manage users of the console and the REST API.

The commands access the managers' database directly, so that a locked-out operator can regain access.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
import msgspec

from cep_cli.client.options import CONFIG_OPTION
from cep_cli.errors import with_readable_errors
from cep_common.clock import SystemClock
from cep_common.configuration.loading import load_config
from cep_common.security.access import AccessRole
from cep_manager.accounts.accounts import Accounts
from cep_manager.accounts.administration import PEOPLE, Administration, Change, administration
from cep_manager.config import ManagerConfig
from cep_manager.persistence.database import Database


@click.group("user")
def user_command() -> None:
    """Create, list and change users in the managers' database (database.url of the manager's configuration)."""


@user_command.command("create")
@click.argument("name")
@click.option("--role", type=click.Choice([role.value for role in PEOPLE]), required=True, help="Role of the user.")
@click.option("--tenant", type=int, help="The only tenant the user may act for. Default: all.")
@CONFIG_OPTION
@with_readable_errors
def create_command(name: str, role: str, tenant: int | None, config: Path | None) -> None:
    """Create the user NAME and print the password for the first login, at which a new one must be chosen."""
    with _administration(config) as users:
        click.echo(users.create(name, AccessRole(role), tenant))
    click.echo(f"{name} is {role} and must choose a new password at the first login", err=True)


@user_command.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@CONFIG_OPTION
@with_readable_errors
def list_command(as_json: bool, config: Path | None) -> None:
    """List users with their roles."""
    with _accounts(config) as accounts:
        users = accounts.users.users()
    if as_json:
        shown = [{k: v for k, v in msgspec.to_builtins(one).items() if k != "password_hash"} for one in users]
        click.echo(json.dumps(shown))
        return
    for one in users:
        state = "disabled" if one.disabled else "must choose a password" if one.must_change_password else "active"
        tenant = "all tenants" if one.tenant is None else f"tenant {one.tenant}"
        click.echo(f"{one.name:24} {one.role.value:9} {tenant:14} {state}")


@user_command.command("reset-password")
@click.argument("name")
@CONFIG_OPTION
@with_readable_errors
def reset_command(name: str, config: Path | None) -> None:
    """Print a new password of NAME for one login. A disabled user is enabled again."""
    with _administration(config) as users:
        click.echo(users.reset_password(name))
    click.echo(f"{name} was logged out everywhere and must choose a new password at the next login", err=True)


@user_command.command("disable")
@click.argument("name")
@CONFIG_OPTION
@with_readable_errors
def disable_command(name: str, config: Path | None) -> None:
    """Disable NAME and end all sessions; `reset-password` enables the user again."""
    with _administration(config) as users:
        users.change(name, Change(disabled=True))
    click.echo(f"{name}: disabled", err=True)


@contextmanager
def _accounts(path: Path | None) -> Iterator[Accounts]:
    default = Path("conf") / "manager.yaml"
    chosen = path or (default if default.exists() else None)
    config = load_config(ManagerConfig, chosen, "manager", os.environ)
    database = Database(config.database, config.election.lease_ms)
    try:
        yield Accounts(database, config.accounts, SystemClock())
    finally:
        database.close()


@contextmanager
def _administration(path: Path | None) -> Iterator[Administration]:
    with _accounts(path) as accounts:
        yield administration(accounts)
