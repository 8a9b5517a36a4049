"""The command `cep operations`: show long actions, or wait for one."""

from __future__ import annotations

import json
import time
from datetime import datetime
from typing import Any

import click

from cep_cli.client.options import JSON_OPTION, POLL_S, manager_options
from cep_cli.client.rest import ManagerClient
from cep_cli.errors import CommandRefusedError, with_readable_errors

ENDED = ("succeeded", "failed", "superseded")


@click.command("operations")
@click.argument("operation", required=False)
@click.option("--wait", "wait_s", type=float, default=0, help="Wait up to this number of seconds for OPERATION to end.")
@JSON_OPTION
@manager_options
@with_readable_errors
def operations_command(operation: str | None, wait_s: float, as_json: bool, client: ManagerClient) -> None:
    """Show the progress of the newest deployments, changes and savepoints, or of OPERATION."""
    if operation is None:
        found = client.operations()
        click.echo(json.dumps(found) if as_json else "\n".join(map(_line, found)) or "nothing was deployed")
        return
    answer = client.operation(operation)
    deadline = time.monotonic() + wait_s
    while answer["state"] not in ENDED and time.monotonic() < deadline:
        time.sleep(POLL_S)
        answer = client.operation(operation)
    click.echo(json.dumps(answer) if as_json else _line(answer))
    if answer["state"] == "failed":
        raise CommandRefusedError(f"{answer['plan']}: {answer['error']['message']}")
    if wait_s > 0 and answer["state"] not in ENDED:
        raise CommandRefusedError(f"{answer['plan']}: not ended within {wait_s:.0f} s")


def _line(answer: dict[str, Any]) -> str:
    begun = datetime.fromtimestamp(answer["begun_ms"] / 1_000).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    what = f"{answer['kind']} of {answer['plan']}"
    return f"{begun}  {answer['state']:<10}  {what}: {answer['progress']}  ({answer['operation']})"
