"""`cep keys` and `cep client-key`: create the keys of a system's processes and of clients."""

from __future__ import annotations

from pathlib import Path

import click

from cep_cli.errors import with_readable_errors
from cep_common.security.client_keys import FOLDER, new_client_key
from cep_common.security.keys import write_client_key, write_keys


@click.command("keys")
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@with_readable_errors
def keys_command(folder: Path) -> None:
    """Create a key pair for each role (manager, driver, stage, worker, client) in FOLDER.

    ROLE.key is public, ROLE.key_secret is only for processes of that role. Existing files are not overwritten.
    """
    for path in write_keys(folder):
        click.echo(path)
    click.echo(
        f"name the folder in the configuration of each process (security.keys: {folder.resolve()}); a host needs the "
        "public keys and the secret ones of the roles that run on it, nothing else",
        err=True,
    )


@click.command("client-key")
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@click.argument("name")
@click.option("--tenant", type=int, required=True, help="The only tenant whose streams the client may use.")
@click.option("--send", multiple=True, metavar="STREAM", help="A stream to send to, or a pattern ('Storms/*').")
@click.option("--listen", multiple=True, metavar="STREAM", help="A stream to listen to, or a pattern.")
@click.option("--to", type=click.Path(file_okay=False, path_type=Path), help="Folder to write the client's files to.")
@with_readable_errors
def client_key_command(
    folder: Path, name: str, tenant: int, send: tuple[str, ...], listen: tuple[str, ...], to: Path | None
) -> None:
    """Create a key for the client NAME that permits only some streams of one tenant.

    FOLDER is the folder of the workers' keys (security.keys); workers accept the key at once. To revoke it, remove
    FOLDER/clients/NAME.key.
    """
    key, secret = new_client_key(name, tenant, send, listen)
    handed = to or Path(f"{name}-keys")
    for path in write_client_key(folder, handed, key, secret):
        click.echo(path)
    click.echo(
        f"give {handed} to the client (cep send --keys, cep listen --keys), and {folder / FOLDER / name}.key to every "
        "host with a worker",
        err=True,
    )
