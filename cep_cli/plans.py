"""Commands on plans of a running system: deploy, undeploy, plans, status."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from cep_cli.errors import FAILED, RefusedError, with_readable_errors
from cep_cli.rest import ManagerClient
from cep_cli.status_text import plan_line, plan_status
from cep_common.ids import SUPER_TENANT

POLL_S = 0.1


def manager_options(command: Callable[..., None]) -> Callable[..., None]:
    """Adds the options that say which manager and tenant a command speaks to."""
    command = click.option("--tenant", type=int, default=SUPER_TENANT, show_default=True, help="The plans' owner.")(
        command
    )
    return click.option(
        "--manager",
        envvar="CEP_MANAGER_URL",
        default="http://127.0.0.1:9080",
        show_default=True,
        help="The manager's console address.",
    )(command)


JSON_OPTION = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.command("deploy")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--replace", is_flag=True, help="Replace a deployed plan of the same name.")
@click.option("--wait", "wait_s", type=float, default=0, help="Wait up to so many seconds until all is connected.")
@JSON_OPTION
@manager_options
@with_readable_errors
def deploy_command(file: Path, replace: bool, wait_s: float, as_json: bool, manager: str, tenant: int) -> None:
    """Deploy the execution plan in FILE."""
    client = ManagerClient(manager, tenant)
    deployed = client.deploy(file.read_text(encoding="utf-8"), replace)
    if wait_s > 0:
        wait_until_connected(client, deployed["plan"], wait_s)
    click.echo(json.dumps(deployed) if as_json else f"{deployed['topology']}: {deployed['message']}")


@click.command("undeploy")
@click.argument("plan")
@manager_options
@with_readable_errors
def undeploy_command(plan: str, manager: str, tenant: int) -> None:
    """Remove PLAN and end its topology."""
    ManagerClient(manager, tenant).undeploy(plan)
    click.echo(f"{plan}: undeployed", err=True)


@click.command("plans")
@JSON_OPTION
@manager_options
@with_readable_errors
def plans_command(as_json: bool, manager: str, tenant: int) -> None:
    """List the deployed plans with their states."""
    plans = ManagerClient(manager, tenant).plans()
    if as_json:
        click.echo(json.dumps(plans))
        return
    for plan in plans:
        click.echo(plan_line(plan))


@click.command("status")
@click.argument("plan", required=False)
@click.option("--watch", is_flag=True, help="Show the status anew each second until interrupted.")
@JSON_OPTION
@manager_options
@with_readable_errors
def status_command(plan: str | None, watch: bool, as_json: bool, manager: str, tenant: int) -> None:
    """Show the deployment status of PLAN, or of all plans: topology, inflow and outflow connections."""
    client = ManagerClient(manager, tenant)
    while True:
        plans = [client.plan(plan)] if plan else client.plans()
        if watch:
            click.clear()
        click.echo(json.dumps(plans) if as_json else "\n\n".join(map(plan_status, plans)) or "no plan is deployed")
        if not watch:
            break
        time.sleep(1)
    if any(one["status"]["topology"]["state"] == "failed" for one in plans):
        sys.exit(FAILED)


def wait_until_connected(client: ManagerClient, plan: str, wait_s: float) -> Any:
    """The plan's details once it is active and all its connections stand.

    Raises RefusedError when it fails, or is not there in time; the message holds its status.
    """
    deadline = time.monotonic() + wait_s
    while True:
        details = client.plan(plan)
        status = details["status"]
        if status["topology"]["state"] == "active" and status["connected"]:
            return details
        if status["topology"]["state"] == "failed" or time.monotonic() > deadline:
            raise RefusedError(f"{plan} is not active and connected:\n{plan_status(details)}")
        time.sleep(POLL_S)
