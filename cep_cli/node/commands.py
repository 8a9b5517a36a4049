"""`cep node`: run one of two nodes, show both, and switch between them."""

from __future__ import annotations

import signal
from pathlib import Path

import click

from cep_cli.errors import with_readable_errors


@click.group("node", invoke_without_command=True)
@click.option(
    "--config", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="The node's file, node.yaml."
)
@click.pass_context
@with_readable_errors
def node_command(context: click.Context, config: Path | None) -> None:
    """Run one of two nodes that keep each other's accepted events (docs/high-availability.md)."""
    if context.invoked_subcommand is not None:
        return
    if config is None:
        raise click.UsageError("name the node's file: cep node --config node.yaml")
    from cep_cli.node.config import read_node_config  # noqa: PLC0415 - status needs none of it
    from cep_cli.node.processes import Node  # noqa: PLC0415

    node = Node(read_node_config(config), click.echo)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: node.stopping.set())
    console = f"http://{node.config.host}:{node.config.ports.console}"
    click.echo(f"node {node.config.name} of group {node.config.cluster.group_id} starts; console at {console}")
    node.run()


@node_command.command("demo")
@with_readable_errors
def demo_command() -> None:
    """Start two nodes on this machine, kill the active one, and compare every count."""
    from cep_cli.node.demo import run_demo  # noqa: PLC0415

    run_demo(click.echo)
