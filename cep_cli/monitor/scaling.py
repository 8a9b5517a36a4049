"""`cep scaling`: automatically scaled stages and their history."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

import click

from cep_cli.client.options import JSON_OPTION, manager_options
from cep_cli.client.rest import ManagerClient
from cep_cli.errors import with_readable_errors

MOST_SHOWN = 20


@click.command("scaling")
@click.argument("plan")
@click.option("--all", "everything", is_flag=True, help="Show all recorded changes.")
@JSON_OPTION
@manager_options
@with_readable_errors
def scaling_command(plan: str, everything: bool, as_json: bool, client: ManagerClient) -> None:
    """Show the stages of PLAN with parallel='auto', their instances, and why these were changed."""
    found = client.scaling(plan)
    if as_json:
        click.echo(json.dumps(found))
        return
    if not found["stages"] and not found["history"]:
        click.echo(f"{plan} has no stages with parallel='auto'")
    for one in found["stages"]:
        click.echo(_stage_line(one))
    shown = found["history"] if everything else found["history"][:MOST_SHOWN]
    for one in shown:
        click.echo(_change_line(one))
    if len(shown) < len(found["history"]):
        click.echo(f"{len(found['history']) - len(shown)} older ones: --all", err=True)


def _stage_line(stage: dict[str, Any]) -> str:
    busiest = "" if stage["busiest"] is None else f", busiest {stage['busiest']:.0%}"
    return (
        f"{stage['stage']}: {stage['instances']} of {stage['least']} to {stage['most']} instances{busiest}, "
        f"{stage['events_per_s']:,.0f} events/s, {stage['waiting']:,} waiting; {stage['decision']}"
    )


def _change_line(change: dict[str, Any]) -> str:
    at = datetime.fromtimestamp(change["at_ms"] / 1_000).astimezone().isoformat(sep=" ", timespec="seconds")
    line = f"  {at}  {change['stage']} {change['instances_before']} → {change['instances_after']}: {change['reason']}"
    return f"{line}; failed: {change['problem']}" if change["problem"] else line
