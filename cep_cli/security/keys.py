"""`cep keys`: the keys by which the processes of a system know each other."""

from __future__ import annotations

from pathlib import Path

import click

from cep_cli.errors import with_readable_errors
from cep_common.security.keys import write_keys


@click.command("keys")
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@with_readable_errors
def keys_command(folder: Path) -> None:
    """Make a pair of keys for each role (manager, driver, stage, worker, client) in FOLDER.

    ROLE.key is public, ROLE.key_secret is for the processes of that role alone. Files that are there already are not
    overwritten.
    """
    for path in write_keys(folder):
        click.echo(path)
    click.echo(
        f"name the folder in the configuration of each process (security.keys: {folder.resolve()}); a host needs the "
        "public keys and the secret ones of the roles that run on it, nothing else",
        err=True,
    )
