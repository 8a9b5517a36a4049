"""`cep wal`: orphaned events and results of missing plans, which workers have set aside."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

import click

from cep_cli.client.options import JSON_OPTION, manager_options
from cep_cli.client.rest import ManagerClient
from cep_cli.errors import CommandRefusedError, with_readable_errors
from cep_cli.terminal import printable


@click.group("wal")
def wal_command() -> None:
    """List, restore or discard data of missing plans that workers have set aside.

    Workers keep accepted events in write-ahead logs. When a plan is missing although it was not undeployed, for
    example after the manager's database was lost, they set its data aside and delete it after some days
    (wal.orphan_retention_ms). When the plan is back, its events are processed automatically.
    """


@wal_command.command("list")
@JSON_OPTION
@manager_options
@with_readable_errors
def list_command(as_json: bool, client: ManagerClient) -> None:
    """List data that is set aside, oldest first."""
    answer = client.set_aside()
    if as_json:
        click.echo(json.dumps(answer))
        return
    if not answer["entries"]:
        click.echo("nothing is set aside")
    for entry in answer["entries"]:
        what = f"accepted events of {entry['stream']}" if entry["kind"] == "log" else "undelivered results"
        line = f"{entry['id']}  {entry['plan']}: {entry['events']:,} {what} at {entry['worker']}"
        click.echo(printable(f"{line}, since {_time(entry['since_ms'])}, until {_time(entry['until_ms'])}"))
        click.echo(printable(f"          {entry['reason']}"))
    for silent in answer["silent"]:
        click.echo(f"worker {silent['worker']} did not answer: {silent['problem']}", err=True)


@wal_command.command("restore")
@click.argument("id_", metavar="ID")
@JSON_OPTION
@manager_options
@with_readable_errors
def restore_command(id_: str, as_json: bool, client: ManagerClient) -> None:
    """Submit the events of ID to the plan that has their plan's name now, each once."""
    answer = client.restore_aside(id_)
    events, lost = answer["events"], answer["lost"]
    while answer["left"] and answer["events"]:
        answer = client.restore_aside(id_)
        events, lost = events + answer["events"], lost + answer["lost"]
    if as_json:
        click.echo(json.dumps({**answer, "events": events, "lost": lost}))
    else:
        click.echo(f"{id_}: {events:,} events restored")
        if lost:
            click.echo(f"{lost:,} events could not be read; the log of worker {answer['worker']} says why", err=True)
    if answer["left"]:
        raise CommandRefusedError(f"{answer['left']:,} events of {id_} are left: restore it again")


@wal_command.command("discard")
@click.argument("id_", metavar="ID")
@JSON_OPTION
@manager_options
@with_readable_errors
def discard_command(id_: str, as_json: bool, client: ManagerClient) -> None:
    """Delete the data that is set aside as ID."""
    answer: Any = client.discard_aside(id_)
    click.echo(json.dumps(answer) if as_json else f"{id_}: {answer['events']:,} events discarded")


@wal_command.command("adopt")
@click.argument("worker")
@JSON_OPTION
@manager_options
@with_readable_errors
def adopt_command(worker: str, as_json: bool, client: ManagerClient) -> None:
    """Let WORKER, which serves another system, serve this one.

    It sets data of plans that are missing here aside; nothing is lost.
    """
    answer: Any = client.adopt_worker(worker)
    click.echo(json.dumps(answer) if as_json else f"{worker} joins this system with its next heartbeat")


def _time(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1_000).astimezone().isoformat(" ", "seconds")
