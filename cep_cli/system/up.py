"""`cep up`: run a complete system on this machine until Ctrl-C."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import click

from cep_cli.errors import with_readable_errors
from cep_cli.system.local_system import LocalSystem, Ports

WATCH_S = 0.5


@click.command("up")
@click.option(
    "--folder",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("var") / "cep",
    show_default=True,
    help="Folder for the plan database and the logs.",
)
@click.option("--login", is_flag=True, help="Require users to log in.")
@with_readable_errors
def up_command(folder: Path, login: bool) -> None:
    """Run manager, driver (Spark in local mode) and one worker until Ctrl-C."""
    stopping = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopping.set())
    click.echo("starting manager, driver and worker …", err=True)
    ports = Ports.of(os.environ)
    with LocalSystem(folder, ports, say=lambda text: click.echo(text, err=True), login=login) as system:
        click.echo(f"console        {system.client.url}")
        click.echo(f"events in      {system.worker_http}/events/<stream>, ZeroMQ {system.ingress.url()}")
        click.echo(f"events out     ZeroMQ {system.egress.url()}")
        click.echo(f"logs           {folder}/*.log")
        if allowed := system.allowance():
            click.echo(allowed, err=True)
        click.echo("Ctrl-C stops everything.", err=True)
        while not stopping.wait(WATCH_S):
            system.watch()
        click.echo("stopping …", err=True)
