"""Commands on the checkpoints and savepoints of plans."""

from __future__ import annotations

import json
import time
from datetime import datetime
from typing import Any

import click

from cep_cli.client.options import JSON_OPTION, manager_options
from cep_cli.client.rest import ManagerClient
from cep_cli.errors import CommandRefusedError, with_readable_errors

POLL_S = 0.2
SAVEPOINT_WITHIN_S = 120.0
DELETED_WITHIN_S = 10.0
MOST_SHOWN = 10


@click.command("savepoint")
@click.argument("plan")
@click.option(
    "--name",
    default="",
    help="Name of the savepoint; an existing savepoint of that name is replaced. Default: the current time.",
)
@click.option(
    "--within",
    "within_s",
    type=float,
    default=SAVEPOINT_WITHIN_S,
    show_default=True,
    help="Wait up to this number of seconds until it is complete.",
)
@JSON_OPTION
@manager_options
@with_readable_errors
def savepoint_command(plan: str, name: str, within_s: float, as_json: bool, client: ManagerClient) -> None:
    """Take a savepoint of PLAN, which is kept until it is deleted; the plan keeps running."""
    before = {one["name"]: one for one in client.savepoints(plan)}
    name = client.take_savepoint(plan, name)["name"]
    deadline = time.monotonic() + within_s
    while True:
        found = next((one for one in client.savepoints(plan) if one["name"] == name), None)
        if found is not None and found != before.get(name) and found["state"] != "taking":
            break
        if time.monotonic() > deadline:
            raise CommandRefusedError(f"savepoint {name} of {plan} was not complete within {within_s:.0f} s")
        time.sleep(POLL_S)
    if found["state"] == "failed":
        raise CommandRefusedError(f"savepoint {name} of {plan} failed: {found['error']}")
    if name in before:
        click.echo(f"it replaced an earlier savepoint {name}", err=True)
    click.echo(json.dumps(found) if as_json else f"{plan}: savepoint {_savepoint_line(found)}")


@click.command("savepoints")
@click.argument("plan")
@click.option("--delete", "deleted", metavar="NAME", help="Delete savepoint NAME.")
@JSON_OPTION
@manager_options
@with_readable_errors
def savepoints_command(plan: str, deleted: str | None, as_json: bool, client: ManagerClient) -> None:
    """List the savepoints of PLAN, or delete one. The plan need not be deployed."""
    if deleted is not None:
        _delete(client, plan, deleted)
        return
    found = client.savepoints(plan)
    click.echo(json.dumps(found) if as_json else "\n".join(map(_savepoint_line, found)) or f"{plan} has no savepoints")


@click.command("checkpoints")
@click.argument("plan")
@click.option("--clear", is_flag=True, help="Remove all checkpoints of PLAN except its savepoints.")
@click.option("--all", "everything", is_flag=True, help="Show all checkpoints that the manager has.")
@JSON_OPTION
@manager_options
@with_readable_errors
def checkpoints_command(plan: str, clear: bool, everything: bool, as_json: bool, client: ManagerClient) -> None:
    """Show the newest checkpoints of PLAN with their sizes and durations."""
    if clear:
        click.echo(f"{plan}: {client.clear_checkpoints(plan)['message']}", err=True)
        return
    found = client.checkpoints(plan)
    if as_json:
        click.echo(json.dumps(found))
        return
    begun = f"from checkpoint {found['begun_from']}" if found["begun_from"] else "without state"
    click.echo(f"{plan}: epoch {found['epoch']}, restarted {found['attempt']} times, started {begun}")
    if found["kept_savepoint"]:
        click.echo(f"another plan of this name had checkpoints: the newest is savepoint {found['kept_savepoint']}")
    shown = found["checkpoints"] if everything else found["checkpoints"][-MOST_SHOWN:]
    for one in shown:
        click.echo(_checkpoint_line(one))
    if len(shown) < len(found["checkpoints"]):
        click.echo(f"{len(found['checkpoints']) - len(shown)} older ones: --all", err=True)


def _delete(client: ManagerClient, plan: str, name: str) -> None:
    client.delete_savepoint(plan, name)
    deadline = time.monotonic() + DELETED_WITHIN_S
    while time.monotonic() < deadline:
        found = next((one for one in client.savepoints(plan) if one["name"] == name), None)
        if found is None:
            click.echo(f"{plan}: savepoint {name} was deleted", err=True)
            return
        if found["state"] == "stored" and found["error"]:
            raise CommandRefusedError(f"savepoint {name} of {plan}: {found['error']}")
        time.sleep(POLL_S)
    click.echo(f"{plan}: savepoint {name} is being deleted", err=True)


def _savepoint_line(one: Any) -> str:
    if one["state"] == "stored":
        if not one["taken_ms"]:
            return f"{one['name']}  {one['unreadable']}"
        taken = f"{one['name']}  {_time(one['taken_ms'])}  checkpoint {one['checkpoint']}  {_size(one['size_bytes'])}"
        return f"{taken}  {one['unreadable']}".rstrip()
    return f"{one['name']}  {one['state']}  {one['error']}".rstrip()


def _checkpoint_line(one: Any) -> str:
    what = f"{one['checkpoint']:>8}  {_time(one['began_ms'])}  {one['state']:<9}  {one['duration_ms']:>6} ms"
    if one["state"] in ("failed", "abandoned"):
        return f"{what}  {one['error']}"
    sizes = f"{_size(one['size_bytes'])}, {_size(one['stored_bytes'])} of it new"
    name = f"  savepoint {one['name']}" if one["name"] else ""
    return f"{what}  {sizes}  alignment {one['alignment_ms']} ms{name}"


def _time(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1_000).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def _size(size_bytes: int) -> str:
    size = float(size_bytes)
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"
