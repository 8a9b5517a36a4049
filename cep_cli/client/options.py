"""Options that commands share."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import click

from cep_cli.client.credentials import Credentials
from cep_cli.client.rest import ManagerClient
from cep_cli.errors import with_readable_errors
from cep_common.ids import SUPER_TENANT

POLL_S = 0.1


def manager_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options for the manager, the tenant and the token of a command.

    The command gets a `client` with these.
    """

    @click.option(
        "--manager",
        envvar="CEP_MANAGER_URL",
        default="http://127.0.0.1:9080",
        show_default=True,
        help="Manager URL, or several separated by commas.",
    )
    @click.option("--tenant", type=int, default=SUPER_TENANT, show_default=True, help="Tenant that owns the plans.")
    @click.option(
        "--token", envvar="CEP_TOKEN", default="", help="Access token. Default: the token stored by `cep login`."
    )
    @wraps(command)
    @with_readable_errors
    def with_client(manager: str, tenant: int, token: str, **options: Any) -> None:
        if not token:
            kept = Credentials.of_user(os.environ).of(manager)
            token = kept.token if kept is not None else ""
        command(client=ManagerClient(manager, tenant, token), **options)

    return with_client


JSON_OPTION = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


CONFIG_OPTION = click.option(
    "--config",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Configuration file (YAML). Default: conf/<process>.yaml if it exists.",
)
