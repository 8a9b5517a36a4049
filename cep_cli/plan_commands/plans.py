"""Commands that deploy, change and show plans of a running system."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import click

from cep_cli.client.options import JSON_OPTION, POLL_S, manager_options
from cep_cli.client.rest import ManagerClient
from cep_cli.errors import FAILED, CommandRefusedError, with_readable_errors
from cep_cli.monitor.status_text import child_app, managers_status, plan_line, plan_status
from cep_cli.plan_commands.edit_preview import show_preview
from cep_cli.plan_commands.plan_text import PLAN_FILE, SET_OPTION, read_plan
from cep_cli.terminal import printable
from query_plan.plan_names import named_after

DRAIN_S = 60.0
"""How long `cep undeploy` waits for a plan to process accepted events, which continues in the background."""
SHOWN_EVERY_S = 2.0


FROM_OPTION = click.option(
    "--from",
    "savepoint",
    metavar="SAVEPOINT",
    default="",
    help="Start from this savepoint, or from empty state with `none`.",
)


WAIT_OPTION = click.option(
    "--wait", "wait_s", type=float, default=0, help="Wait up to this number of seconds until everything is connected."
)


@click.command("deploy")
@click.argument("file", type=PLAN_FILE)
@click.option(
    "--replace", is_flag=True, help="Replace the deployed plan of the same name, which runs until the new one does."
)
@click.option("--rename", "renamed", metavar="OLD", help="Rename plan OLD to the name in FILE, then replace it.")
@click.option("--dry-run", is_flag=True, help="Report which state the plan would keep, without deploying.")
@SET_OPTION
@FROM_OPTION
@WAIT_OPTION
@JSON_OPTION
@manager_options
@with_readable_errors
def deploy_command(
    file: Path,
    replace: bool,
    renamed: str | None,
    dry_run: bool,
    values: dict[str, str],
    savepoint: str,
    wait_s: float,
    as_json: bool,
    client: ManagerClient,
) -> None:
    """Deploy the execution plan in FILE."""
    text = named_after(read_plan(file, values), file.stem)
    if dry_run:
        show_preview(client, text, renamed, as_json)
        return
    outcome = client.deploy_renamed(renamed, text, savepoint) if renamed else client.deploy(text, replace, savepoint)
    _tell(client, outcome, wait_s, as_json)


@click.command("undeploy")
@click.argument("plan")
@click.option("--drain", "discard", flag_value="", default=True, help="Process the accepted events first (default).")
@click.option("--discard", "discard", flag_value="yes", help="Drop accepted events that are not processed yet.")
@click.option(
    "--wait",
    "wait_s",
    type=float,
    default=DRAIN_S,
    show_default=True,
    help="Wait up to this number of seconds until the plan is removed.",
)
@JSON_OPTION
@manager_options
@with_readable_errors
def undeploy_command(plan: str, discard: str, wait_s: float, as_json: bool, client: ManagerClient) -> None:
    """Remove PLAN and its checkpoints, and end its topology.

    Its savepoints are kept. It stops accepting events, and is removed once accepted events are processed and their
    results delivered.
    """
    done = client.undeploy(plan, bool(discard))
    if done["draining"]:
        if not as_json and (done["waiting_events"] or done["waiting_results"]):
            click.echo(f"{plan}: {done['message']}", err=True)
        done |= {"draining": not _wait_until_gone(client, plan, wait_s)}
    if as_json:
        click.echo(json.dumps(done))
    elif done["draining"]:
        click.echo(
            f"{plan}: is still being undeployed; it is removed when no events wait, see cep status {plan}", err=True
        )
    else:
        events, results = done["discarded_events"], done["discarded_results"]
        dropped = f"; {events:,} accepted events were dropped" if events else ""
        dropped += (
            f"; {results:,} undelivered results are dropped unless sinks take them within 30 s" if results else ""
        )
        click.echo(f"{plan}: undeployed{dropped}", err=True)


def _wait_until_gone(client: ManagerClient, plan: str, wait_s: float) -> bool:
    """Show what the plan waits for whenever this changes, and return whether it was removed in time."""
    deadline = time.monotonic() + wait_s
    shown = ""
    next_ms = 0.0
    while plan in (reasons := {one["plan"]: one["status"]["topology"]["undeploying"] for one in client.plans()}):
        if not reasons[plan]:  # it was deployed or activated again
            raise CommandRefusedError(f"{plan} was deployed again, or activated, while it was being undeployed")
        if reasons[plan] != shown and time.monotonic() >= next_ms:
            shown, next_ms = reasons[plan], time.monotonic() + SHOWN_EVERY_S
            click.echo(f"{plan}: {shown}", err=True)
        if time.monotonic() >= deadline:
            return False
        time.sleep(POLL_S)
    return True


@click.command("activate")
@click.argument("plan")
@JSON_OPTION
@manager_options
@with_readable_errors
def activate_command(plan: str, as_json: bool, client: ManagerClient) -> None:
    """Let workers accept events for PLAN again."""
    _tell(client, client.act(plan, "activate"), 0, as_json)


@click.command("deactivate")
@click.argument("plan")
@JSON_OPTION
@manager_options
@with_readable_errors
def deactivate_command(plan: str, as_json: bool, client: ManagerClient) -> None:
    """Let workers refuse events for PLAN; its state is kept."""
    _tell(client, client.act(plan, "deactivate"), 0, as_json)


@click.command("trace")
@click.argument("plan")
@click.argument("switch", type=click.Choice(["on", "off"]))
@JSON_OPTION
@manager_options
@with_readable_errors
def trace_command(plan: str, switch: str, as_json: bool, client: ManagerClient) -> None:
    """Start or stop writing the events of PLAN to the workers' logs, without a restart."""
    _tell(client, client.act(plan, "trace", on=switch == "on"), 0, as_json)


@click.command("statistics")
@click.argument("plan")
@click.argument("level", type=click.Choice(["off", "basic", "detail"]))
@JSON_OPTION
@manager_options
@with_readable_errors
def statistics_command(plan: str, level: str, as_json: bool, client: ManagerClient) -> None:
    """Set the statistics level of PLAN: nothing, events and latencies, or also each query's; without a restart."""
    _tell(client, client.act(plan, "statistics-level", level=level), 0, as_json)


@click.command("release")
@click.argument("plan")
@click.argument("streams", nargs=-1)
@JSON_OPTION
@manager_options
@with_readable_errors
def release_command(plan: str, streams: tuple[str, ...], as_json: bool, client: ManagerClient) -> None:
    """Let the event time of PLAN advance without the first events of STREAMS (default: of all awaited streams)."""
    _tell(client, client.act(plan, "release", streams=streams), 0, as_json)


@click.command("restart")
@click.argument("plan")
@FROM_OPTION
@WAIT_OPTION
@JSON_OPTION
@manager_options
@with_readable_errors
def restart_command(plan: str, savepoint: str, wait_s: float, as_json: bool, client: ManagerClient) -> None:
    """Restart the topology of PLAN with its present state."""
    _tell(client, client.restart(plan, savepoint), wait_s, as_json)


@click.command("rebalance")
@click.argument("plan")
@click.option("--workers", type=click.IntRange(1), help="New number of topology workers (Spark tasks).")
@click.option(
    "--host",
    type=click.Choice(["shared", "own"]),
    help="Move the plan into a stage host shared with other plans, or into Spark tasks of its own.",
)
@WAIT_OPTION
@JSON_OPTION
@manager_options
@with_readable_errors
def rebalance_command(
    plan: str, workers: int | None, host: str | None, wait_s: float, as_json: bool, client: ManagerClient
) -> None:
    """Run PLAN in another number of topology workers, or move it. It keeps running until the new topology does."""
    if workers is None and host is None:
        raise click.UsageError("specify --workers, --host or both")
    asked = {"workers": workers, "host": host}
    _tell(client, client.act(plan, "rebalance", **{name: one for name, one in asked.items() if one}), wait_s, as_json)


@click.command("rename")
@click.argument("plan")
@click.argument("name")
@WAIT_OPTION
@JSON_OPTION
@manager_options
@with_readable_errors
def rename_command(plan: str, name: str, wait_s: float, as_json: bool, client: ManagerClient) -> None:
    """Rename PLAN to NAME, without a restart; its state and waiting events are kept."""
    _tell(client, client.act(plan, "rename", name=name), wait_s, as_json)


def _tell(client: ManagerClient, outcome: Any, wait_s: float, as_json: bool) -> None:
    """Show the outcome of a command, after waiting for it if a time-out is given.

    Raises CommandRefusedError when the command failed.
    """
    if wait_s > 0:
        topology = wait_until_connected(client, outcome["plan"], wait_s)["status"]["topology"]
        if outcome["changed"] and topology["change_error"]:
            raise CommandRefusedError(
                f"{outcome['plan']} was not changed and runs as before: {topology['change_error']}"
            )
    click.echo(json.dumps(outcome) if as_json else f"{outcome['topology']}: {outcome['message']}")


@click.command("plans")
@JSON_OPTION
@manager_options
@with_readable_errors
def plans_command(as_json: bool, client: ManagerClient) -> None:
    """List the deployed plans with their states."""
    plans = client.plans()
    if as_json:
        click.echo(json.dumps(plans))
        return
    for plan in plans:
        click.echo(plan_line(plan))


@click.command("status")
@click.argument("plan", required=False)
@click.option("--watch", is_flag=True, help="Refresh the status each second until interrupted.")
@click.option("--apps", is_flag=True, help="Show child apps instead: parent, child, node, streams, topics and rates.")
@click.option("--texts", is_flag=True, help="With --apps: also the SiddhiQL that each child app runs.")
@JSON_OPTION
@manager_options
@with_readable_errors
def status_command(
    plan: str | None, watch: bool, apps: bool, texts: bool, as_json: bool, client: ManagerClient
) -> None:
    """Show the deployment status of PLAN, or of all plans: topology, inflow and outflow connections.

    Without PLAN it also shows critical alerts of workers and managers; `cep overview` has the others.
    """
    failed = False
    while True:
        if apps:
            _show_child_apps(client, plan, texts=texts, as_json=as_json, clear=watch)
        else:
            failed = _show_status(client, plan, as_json=as_json, clear=watch)
        if not watch:
            break
        time.sleep(1)
    if failed:
        sys.exit(FAILED)


def _show_child_apps(client: ManagerClient, plan: str | None, *, texts: bool, as_json: bool, clear: bool) -> None:
    names = [plan] if plan else [one["plan"] for one in client.plans()]
    found = [one for name in names for one in client.child_apps(name)]
    if clear:
        click.clear()
    lines = (printable(child_app(one, texts)) for one in found)
    click.echo(json.dumps(found) if as_json else "\n".join(lines) or "no plan is deployed")


def _show_status(client: ManagerClient, plan: str | None, *, as_json: bool, clear: bool) -> bool:
    """Show the status of the plan, or of all; return whether one has failed."""
    plans = [client.plan(plan)] if plan else client.plans()
    managers = [] if plan or as_json else client.managers()
    critical = [] if plan or as_json else client.critical_alerts()
    if clear:
        click.clear()
    if len(managers) > 1:
        click.echo(f"{managers_status(managers)}\n")
    click.echo(json.dumps(plans) if as_json else "\n\n".join(map(plan_status, plans)) or "no plan is deployed")
    for one in critical:
        click.echo(printable(f"\n{one['subject']} {one['name']}: {one['what']}\n    {one['advice']}"))
    return any(one["status"]["topology"]["state"] == "failed" for one in plans)


def wait_until_connected(client: ManagerClient, plan: str, wait_s: float) -> Any:
    """Wait until the plan is active (inactive, if it is deactivated) and fully connected; return its details.

    Raises CommandRefusedError with its status when it fails or is not connected in time.
    """
    deadline = time.monotonic() + wait_s
    while True:
        details = client.plan(plan)
        status = details["status"]
        if status["topology"]["state"] in ("active", "degraded", "inactive") and status["connected"]:
            return details
        if status["topology"]["state"] == "failed" or time.monotonic() > deadline:
            raise CommandRefusedError(f"{plan} is not active and connected:\n{plan_status(details)}")
        time.sleep(POLL_S)
