"""Commands that inspect processes: lists, logs and configurations."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import click

from cep_cli.client.options import JSON_OPTION, manager_options
from cep_cli.client.rest import ManagerClient
from cep_cli.errors import CommandRefusedError, with_readable_errors
from cep_common.protocol.inspection import LEVELS, MOST_RECORDS
from cep_common.writable import one_line

AGAIN_S = 1.0
"""Seconds between reads of a followed log."""

REMEMBERED = 5_000
"""The number of records that are remembered as shown when several logs are followed."""


@click.command("processes")
@JSON_OPTION
@manager_options
@with_readable_errors
def processes_command(as_json: bool, client: ManagerClient) -> None:
    """List all processes: managers, driver, workers and the tasks of topologies."""
    processes = client.processes()
    if as_json:
        click.echo(json.dumps(processes))
        return
    for one in processes:
        state = "" if one["live"] else f"  silent for {one['silent_ms'] / 1_000:.0f} s"
        state += "" if one["readable"] else "  its log cannot be read"
        process = f"  process {one['process_id']}" if one["process_id"] else "  standby"
        click.echo(f"{one['id']}  {one['host']}{process}{state}")


@click.command("logs")
@click.argument("process", required=False)
@click.option(
    "--plan", default="", help="Show the logs of this plan's tasks, and records of other processes that mention it."
)
@click.option("--follow", "-f", is_flag=True, help="Follow new records until Ctrl-C.")
@click.option("--level", type=click.Choice(LEVELS, case_sensitive=False), default="DEBUG", help="Minimum level.")
@click.option("--grep", "contains", default="", help="Only records that contain this text (case-insensitive).")
@click.option(
    "--limit", type=click.IntRange(1, MOST_RECORDS), default=200, show_default=True, help="Maximum number of records."
)
@JSON_OPTION
@manager_options
@with_readable_errors
def logs_command(
    process: str | None,
    plan: str,
    follow: bool,
    level: str,
    contains: str,
    limit: int,
    as_json: bool,
    client: ManagerClient,
) -> None:
    """Print the newest log records of PROCESS, or without one of all processes.

    PROCESS is an id as `cep processes` lists them, or a name that only one process has.
    """
    if process and plan:
        raise click.UsageError("name a process or a plan, not both")
    wanted = {"level": level, "contains": contains, "limit": str(limit)}
    read = _one(client, _id_of(client, process), wanted) if process else _several(client, {**wanted, "plan": plan})
    for records in read:
        for record in records:
            click.echo(json.dumps(record, ensure_ascii=False) if as_json else _line(record))
        if not follow:
            return
        time.sleep(AGAIN_S)


@click.group("config")
def config_command() -> None:
    """Show configurations of processes."""


@config_command.command("show")
@click.argument("process")
@click.option("--changed", is_flag=True, help="Only settings that differ from their defaults.")
@JSON_OPTION
@manager_options
@with_readable_errors
def show_config_command(process: str, changed: bool, as_json: bool, client: ManagerClient) -> None:
    """Print the configuration of PROCESS (an id as `cep processes` lists them, or a name), and where keys were set."""
    answer = client.configuration(_id_of(client, process))
    if answer["problem"]:
        raise CommandRefusedError(f"{answer['process']['id']} {answer['problem']}")
    settings = [one for one in answer["settings"] if not changed or one["origin"] != "default"]
    if as_json:
        click.echo(json.dumps(settings, ensure_ascii=False))
        return
    for one in settings:
        where = one["where"] or one["origin"]
        click.echo(f"{one['key']}: {one['value']}" + ("" if one["origin"] == "default" else f"  # {where}"))


def _one(client: ManagerClient, process: str, wanted: dict[str, str]) -> Iterator[list[Any]]:
    """Yield the newest records of the process, and then repeatedly the new ones."""
    place = ""
    while True:
        try:
            page = client.log(process, **wanted, **({"after": place} if place else {}))
        except CommandRefusedError as error:
            if not place:
                raise
            click.echo(str(error), err=True)
            yield []
            continue
        if page["restarted"]:
            click.echo(f"{process} was started again", err=True)
        if page["lost"]:
            click.echo(f"{page['lost']} records were overwritten before they could be read", err=True)
        place = page["next"]
        yield page["records"]


def _several(client: ManagerClient, wanted: dict[str, str]) -> Iterator[list[Any]]:
    """Yield the newest records of all processes, and then repeatedly the new ones."""
    answer: dict[tuple[Any, ...], None] = {}
    problems: list[str] = []
    while True:
        found = client.search_logs(**wanted)
        before, problems = (
            problems,
            [f"{one['process']['id']} {one['problem']}" for one in found["answers"] if not one["answered"]],
        )
        if problems != before:
            for problem in problems:
                click.echo(problem, err=True)
        fresh = {(one["process"], one["sequence"], one["time_ms"]): one for one in found["records"]}
        new = [one for identity, one in fresh.items() if identity not in answer]
        answer |= dict.fromkeys(fresh)
        for identity in list(answer)[:-REMEMBERED]:
            del answer[identity]
        yield new


def _id_of(client: ManagerClient, process: str) -> str:
    """Return the id of the process with this id or name. Raises CommandRefusedError when there is none, or several."""
    processes = client.processes()
    if any(one["id"] == process for one in processes):
        return process
    found = [one["id"] for one in processes if process in (one["name"], one["kind"])]
    if len(found) == 1:
        return str(found[0])
    known = ", ".join(found or [one["id"] for one in processes])
    raise CommandRefusedError(f"{process} is {'no process' if not found else 'not one process'}; there are: {known}")


def _line(record: dict[str, Any]) -> str:
    moment = datetime.fromtimestamp(record["time_ms"] / 1_000).astimezone()
    who = f"{record['process']} " if "process" in record else ""
    when = f"{moment:%Y-%m-%d %H:%M:%S},{record['time_ms'] % 1_000:03}"
    line = one_line(f"{when} {record['level']} {who}{record['logger']} {record['text']}")
    return "\n".join((line, *(f"  {one_line(one)}" for one in record["traceback"].split("\n") if one)))
