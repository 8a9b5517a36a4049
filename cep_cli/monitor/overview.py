"""The command `cep overview`: traffic, plans and alerts."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

import click

from cep_cli.client.options import JSON_OPTION, manager_options
from cep_cli.client.rest import ManagerClient
from cep_cli.errors import with_readable_errors
from cep_cli.terminal import printable

CRITICAL = "critical"


@click.command("overview")
@click.option("--check", is_flag=True, help="Exit with code 1 if there is a critical alert; for scripts.")
@JSON_OPTION
@manager_options
@with_readable_errors
def overview_command(check: bool, as_json: bool, client: ManagerClient) -> None:
    """Show traffic, plans and the system at a glance, and alerts, the most severe first."""
    answer = client.overview()
    for line in [json.dumps(answer)] if as_json else [*_at_a_glance(answer), *map(_alert, answer["alerts"])]:
        click.echo(printable(line))
    if not answer["alerts"] and not as_json:
        click.echo("no alerts")
    if check and any(one["severity"] == CRITICAL for one in answer["alerts"]):
        raise click.exceptions.Exit(1)


def _at_a_glance(answer: dict[str, Any]) -> list[str]:
    metrics, system = answer["metrics"], answer["system"]
    latency = "–" if metrics["p99_ms"] is None else f"{metrics['p99_ms']:.1f} ms"
    plans = ", ".join(f"{number} {state}" for state, number in answer["plans"].items()) or "none"
    rates = f"{metrics['received_per_second']:.0f}/s in, {metrics['emitted_per_second']:.0f}/s out"
    lines = [f"events   {rates}, {metrics['waiting_events']} wait, latency p99 {latency}", f"plans    {plans}"]
    if system is not None:
        used = system["slots_total"] - system["slots_free"]
        driver = f"driver {system['driver']}" if not system["driver_missing"] else system["driver_missing"]
        slots = f"{used} of {system['slots_total']} slots used"
        if system.get("stage_hosts"):
            slots += f", {system['stage_hosts']} of them by stage hosts with {system['hosted_plans']} plans"
        lines.append(f"system   {driver}, {slots}, workers: {system['workers']}")
    return lines


def _alert(one: dict[str, Any]) -> str:
    since = (
        "" if one["since_ms"] is None else datetime.fromtimestamp(one["since_ms"] / 1_000).strftime(" since %H:%M:%S")
    )
    return f"{one['severity']:<8} {one['subject']} {one['name']}{since}: {one['what']}\n    {one['advice']}"
