"""`cep node`: run one of two nodes, show both, and switch over."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cep_cli.client.options import manager_options
from cep_cli.client.rest import ManagerClient
from cep_cli.errors import with_readable_errors
from cep_common.clock import SystemClock
from cep_common.errors import ConfigError
from cep_common.nodes.config import ManagerNode

if TYPE_CHECKING:
    from cep_manager.persistence.node_store import NodeStore

IDLE_MS = 5_000
CONFIG = click.option(
    "--config",
    required=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The node's configuration file.",
)


@click.group("node", invoke_without_command=True)
@click.option(
    "--config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Configuration file of the node (node.yaml).",
)
@click.pass_context
@with_readable_errors
def node_command(context: click.Context, config: Path | None) -> None:
    """Run one of two nodes that replicate accepted events (docs/high-availability.md)."""
    if context.invoked_subcommand is not None:
        return
    if config is None:
        raise click.UsageError("specify the node's configuration file: cep node --config node.yaml")
    from cep_cli.node.config import read_node_config  # noqa: PLC0415 - status needs none of it
    from cep_cli.node.processes import Node  # noqa: PLC0415

    node = Node(read_node_config(config), click.echo)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: node.stopping.set())
    console = f"http://{node.config.host}:{node.config.ports.console}"
    click.echo(f"node {node.config.name} of group {node.config.cluster.group_id} starts; console at {console}")
    node.run()


@node_command.command("status")
@manager_options
@with_readable_errors
def status_command(client: ManagerClient) -> None:
    """Show both nodes: roles, synchronisation and lag."""
    nodes = client.nodes()
    if not nodes:
        raise click.ClickException("no nodes: this manager was not started with `cep node`")
    for node in nodes:
        click.echo(f"{node['name']:16} {node['role']:8} {_synced(node)}  {node['http_address']}")
        if node["protection"] and node["role"] == "active":
            lag = f"lag {node['lag_ms']} ms, {node['lag_bytes']} bytes"
            lose = f", {node['could_lose']} acknowledged batches could be lost now" if node["could_lose"] else ""
            reason = f": {node['reason']}" if node["reason"] else ""
            click.echo(f"{'':16} {node['protection'].upper()}{reason}; {lag}{lose}")


def _synced(node: dict[str, Any]) -> str:
    when = datetime.fromtimestamp(node["changed_ms"] / 1_000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    return f"{'has every accepted event' if node['in_sync'] else 'LACKS accepted events'} since {when}"


@node_command.command("switch")
@manager_options
@with_readable_errors
def switch_command(client: ManagerClient) -> None:
    """Switch over to the other node in order."""
    click.echo(f"{client.switch_nodes()['name']} takes over")


@node_command.command("restart")
@click.argument("name", required=False)
@click.option("--all", "everything", is_flag=True, help="Both nodes, one after the other.")
@manager_options
@with_readable_errors
def restart_command(client: ManagerClient, name: str | None, everything: bool) -> None:
    """Restart the node NAME, or both with --all, without losing accepted events."""
    if (name is None) == (not everything):
        raise click.UsageError("specify a node, or use --all")
    if name is None:
        client.restart_nodes()
        click.echo("the passive node restarts first, then the active one hands over")
    else:
        click.echo(f"{client.order_node(name, 'restart')['name']} restarts")


@node_command.command("shutdown")
@click.argument("name")
@manager_options
@with_readable_errors
def shutdown_command(client: ManagerClient, name: str) -> None:
    """Shut down the node NAME until it is started on its host."""
    click.echo(f"{client.order_node(name, 'shutdown')['name']} is shut down")


@node_command.command("promote")
@CONFIG
@click.option("--accept-loss", is_flag=True, required=True, help="Accept that acknowledged events are lost.")
@with_readable_errors
def promote_command(config: Path, accept_loss: bool) -> None:
    """Let this node become active although it lacks accepted events, because the other one is permanently lost."""
    if not accept_loss:
        raise click.UsageError("the node lacks acknowledged events: use --accept-loss to accept that they are lost")
    with _store(config) as store:
        store.accept_loss(SystemClock().now_ms())
        click.echo(f"{store.name} may become active; the events that it lacks are lost")


@node_command.command("remove")
@CONFIG
@click.argument("name")
@with_readable_errors
def remove_command(config: Path, name: str) -> None:
    """Remove the node NAME, so that another one can replace it."""
    with _store(config) as store:
        if name == store.name or not store.remove(name):
            raise ConfigError(f"no other node is named {name}")
        click.echo(f"{name} is forgotten")


@contextmanager
def _store(path: Path) -> Iterator[NodeStore]:
    from cep_cli.node.config import read_node_config  # noqa: PLC0415 - most commands need no database
    from cep_manager.config import DatabaseConfig  # noqa: PLC0415
    from cep_manager.persistence.database import Database  # noqa: PLC0415
    from cep_manager.persistence.node_store import NodeStore  # noqa: PLC0415

    config = read_node_config(path)
    database = Database(DatabaseConfig(config.database()), IDLE_MS)
    try:
        yield NodeStore(database, ManagerNode(name=config.name, group=config.cluster.group_id), "")
    finally:
        database.close()


@node_command.command("demo")
@with_readable_errors
def demo_command() -> None:
    """Start two nodes on this machine, kill the active one, and check all counts."""
    from cep_cli.node.demo import run_demo  # noqa: PLC0415

    run_demo(click.echo)
