"""`cep token`: manage the tokens for HTTP access to managers and workers, in the token file on its host."""

from __future__ import annotations

import datetime
import json
from pathlib import Path

import click
import msgspec

from cep_cli.errors import CommandRefusedError, with_readable_errors
from cep_common.clock import SystemClock
from cep_common.security.access import AccessRole
from cep_common.security.tokens import TokenFile

FILE_OPTION = click.option(
    "--file",
    type=click.Path(dir_okay=False, path_type=Path),
    envvar="CEP_TOKENS",
    default=Path("var") / "cep" / "tokens.json",
    show_default=True,
    help="The token file, as configured in security.tokens of managers and workers.",
)


@click.group("token")
def token_command() -> None:
    """Create, list and revoke tokens, with which users and programs authenticate to managers and workers."""


@token_command.command("create")
@click.argument("name")
@click.option(
    "--role", type=click.Choice([role.value for role in AccessRole]), required=True, help="Role of the token."
)
@click.option("--tenant", type=int, help="The only tenant the token is valid for. Default: all.")
@FILE_OPTION
@with_readable_errors
def create_command(name: str, role: str, tenant: int | None, file: Path) -> None:
    """Create a token for NAME and print it once; it is not stored."""
    token = TokenFile(file).create(name, AccessRole(role), tenant, SystemClock().now_ms())
    click.echo(token)
    click.echo(f"{name} is {role}; send the token as CEP_TOKEN or Authorization: Bearer TOKEN", err=True)


@token_command.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@FILE_OPTION
@with_readable_errors
def list_command(as_json: bool, file: Path) -> None:
    """List tokens with their owners and roles."""
    if not file.exists():
        raise CommandRefusedError(f"{file}: no such file; create it with `cep token create`")
    tokens = TokenFile(file).tokens()
    if as_json:
        shown = [{k: v for k, v in msgspec.to_builtins(one).items() if k != "sha256"} for one in tokens]
        click.echo(json.dumps(shown))
        return
    for one in tokens:
        day = datetime.datetime.fromtimestamp(one.created_ms / 1_000, datetime.UTC).date()
        click.echo(f"{one.name:24} {one.role.value:9} {'all tenants' if one.tenant is None else one.tenant!s:12} {day}")


@token_command.command("revoke")
@click.argument("name")
@FILE_OPTION
@with_readable_errors
def revoke_command(name: str, file: Path) -> None:
    """Revoke the token of NAME; managers and workers refuse it from the next request on."""
    TokenFile(file).revoke(name)
    click.echo(f"{name}: revoked", err=True)
