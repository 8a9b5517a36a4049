"""`cep login` and `cep logout`: get and revoke a personal token, which the other commands use."""

from __future__ import annotations

import os
import socket
import sys

import click

from cep_cli.client.credentials import Credential, Credentials
from cep_cli.client.rest import ManagerClient
from cep_cli.errors import CommandRefusedError, with_readable_errors
from cep_common.clock import SystemClock

MANAGER_OPTION = click.option(
    "--manager",
    envvar="CEP_MANAGER_URL",
    default="http://127.0.0.1:9080",
    show_default=True,
    help="Manager URL, or several separated by commas.",
)
LONGEST_NAME = 64
UNKNOWN_TOKEN = (401, 404)
"""Statuses with which a manager refuses an expired token, or any token after accounts were switched off."""


@click.command("login")
@click.argument("name", required=False)
@click.option("--days", type=click.IntRange(1, 366), default=30, show_default=True, help="How long the token is valid.")
@MANAGER_OPTION
@with_readable_errors
def login_command(name: str | None, days: int, manager: str) -> None:
    """Log in as NAME: store a personal token in ~/.config/cep, which the other commands send."""
    user = name or click.prompt("Name", err=True)
    password = _password("Password")
    client = ManagerClient(manager, basic=(user, password))
    account = client.account()
    if account["must_change_password"]:
        chosen = _password("This password was given to you; choose another one", repeated=True)
        client.change_password(password, chosen)
        client = ManagerClient(client.url, basic=(user, chosen))
    # the time first, since the end of the name may be cut
    called = f"cep login {SystemClock().now_ms()} on {socket.gethostname()}"[:LONGEST_NAME]
    token = client.make_token(called, account["role"], days)
    Credentials.of_user(os.environ).keep(manager, Credential(account["name"], called, token))
    click.echo(f"logged in at {client.url} as {account['name']} ({account['role']}) for {days} days", err=True)


def _password(question: str, *, repeated: bool = False) -> str:
    """Read a password from the terminal without echo, or from the next line of standard input."""
    if sys.stdin.isatty():
        return str(click.prompt(question, hide_input=True, confirmation_prompt=repeated, err=True))
    click.echo(f"{question}: ", nl=False, err=True)
    line = sys.stdin.readline()
    click.echo(err=True)
    if not line:
        raise CommandRefusedError(f"{question}: standard input has ended; type the answer, or send it as a line")
    return line.rstrip("\r\n")


@click.command("logout")
@MANAGER_OPTION
@with_readable_errors
def logout_command(manager: str) -> None:
    """Revoke and delete the token of `cep login`. It is kept if the manager cannot revoke it."""
    credentials = Credentials.of_user(os.environ)
    kept = credentials.of(manager)
    if kept is None:
        raise CommandRefusedError(f"you are not logged in at {manager}")
    try:
        ManagerClient(manager, token=kept.token).revoke_token(kept.name)
    except CommandRefusedError as error:
        if error.status not in UNKNOWN_TOKEN:
            raise
    credentials.forget(manager)
    click.echo(f"logged out at {manager}", err=True)
