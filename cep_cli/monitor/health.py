"""Commands that show errors and the status of workers."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

import click

from cep_cli.client.options import JSON_OPTION, manager_options
from cep_cli.client.rest import ManagerClient
from cep_cli.errors import with_readable_errors
from cep_cli.terminal import printable

MOST_ERRORS = 20


@click.command("exceptions")
@click.argument("plan", required=False)
@click.option("--all", "everything", is_flag=True, help=f"Show more than the newest {MOST_ERRORS}.")
@click.option("--traceback", "tracebacks", is_flag=True, help="Show Python's tracebacks as well.")
@JSON_OPTION
@manager_options
@with_readable_errors
def exceptions_command(
    plan: str | None, everything: bool, tracebacks: bool, as_json: bool, client: ManagerClient
) -> None:
    """Show the errors of PLAN, or of all plans, newest first."""
    answer = client.exceptions(plan)
    if as_json:
        click.echo(json.dumps(answer))
        return
    found = answer["errors"]
    shown = found if everything else found[:MOST_ERRORS]
    for error in shown:
        for line in _error_lines(error, tracebacks):
            click.echo(printable(line))
    if not found:
        click.echo("no errors")
    elif len(shown) < len(found):
        click.echo(f"{len(found) - len(shown)} more: --all", err=True)


@click.command("workers")
@JSON_OPTION
@manager_options
@with_readable_errors
def workers_command(as_json: bool, client: ManagerClient) -> None:
    """Show all workers with their throughput, waiting events and errors."""
    answer = client.workers()
    if as_json:
        click.echo(json.dumps(answer))
        return
    for worker in answer["workers"]:
        for line in _worker_lines(worker):
            click.echo(printable(line))
    if not answer["workers"]:
        click.echo("no worker is alive")


def _error_lines(error: Any, tracebacks: bool) -> list[str]:
    newest = error["places"][0]
    where = f"{newest['instance'] or error['component']} {newest['host']}".strip()
    head = f"{_time(error['last_ms'])}  {error['count']:>7} ×  {error['kind']:<7}  {error['plan']}  {error['code']}"
    lines = [f"{head}  {where}".rstrip(), f"    {error['text']}"]
    if tracebacks and error["traceback"]:
        lines += [f"    | {line}" for line in error["traceback"].splitlines()]
    return lines


def _worker_lines(worker: Any) -> list[str]:
    passes = f"in {worker['events_in_per_s']:.0f}/s  out {worker['events_out_per_s']:.0f}/s"
    waits = f"waiting {worker['waiting_events']}  log {_mebibytes(worker['wal_bytes'])}"
    waits += f"  prepared {worker['prepared_results']}"
    process = f"{worker['host']} (process {worker['process_id']})"
    uses = f"memory {_mebibytes(worker['memory_bytes'])}  errors {worker['errors']}"
    lines = [f"{worker['worker']}  {worker['state']}  {process}  {passes}  {waits}  {uses}"]
    for plan in worker["plans"]:
        linked = sum(one["connected"] for one in plan["inflow"])
        publishers = len(plan["publishers"])
        lines.append(f"    {plan['plan']}: {linked} of {len(plan['inflow'])} inflows, {publishers} publishers linked")
        lines += [
            f"        log of {wal['stream']}: {wal['problem']}" for wal in plan["write_ahead_logs"] if wal["problem"]
        ]
    lines += [
        f"    {one['direction']} {one['type']} of {one['stream']}: {one['error']}"
        for one in worker["connectors"]
        if one["error"]
    ]
    return lines


def _mebibytes(octets: int) -> str:
    return f"{octets / 2**20:.1f} MiB"


def _time(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1_000).astimezone().strftime("%Y-%m-%d %H:%M:%S")
