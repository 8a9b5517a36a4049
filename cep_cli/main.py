"""The `cep` command and its verbs. Exit codes: 0 done, 1 failed, 2 usage or configuration, 3 peer unreachable."""

from __future__ import annotations

import click

from cep_cli.demo import demo_command
from cep_cli.events import listen_command, send_command
from cep_cli.language import query_plan_command, simulate_command, validate_command
from cep_cli.plans import deploy_command, plans_command, status_command, undeploy_command
from cep_cli.processes import driver_command, manager_command, worker_command
from cep_cli.up import up_command


@click.group()
def main() -> None:
    """Complex event processing in SiddhiQL on Apache Spark."""


for command in (
    up_command,
    demo_command,
    manager_command,
    driver_command,
    worker_command,
    deploy_command,
    undeploy_command,
    plans_command,
    status_command,
    validate_command,
    query_plan_command,
    send_command,
    listen_command,
    simulate_command,
):
    main.add_command(command)
