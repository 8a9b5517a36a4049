"""`cep query`: query the tables, named windows and aggregations of a running plan."""

from __future__ import annotations

import json

import click

from cep_cli.client.options import JSON_OPTION, manager_options
from cep_cli.client.rest import ManagerClient
from cep_cli.errors import with_readable_errors
from cep_cli.plan_commands.plan_text import is_text
from cep_cli.terminal import printable
from cep_common.protocol.inspection import MOST_ROWS


@click.command("query")
@click.argument("plan")
@click.argument("query")
@click.option(
    "--limit", type=click.IntRange(1, MOST_ROWS), default=100, show_default=True, help="Maximum number of rows."
)
@JSON_OPTION
@manager_options
@with_readable_errors
def query_command(plan: str, query: str, limit: int, as_json: bool, client: ManagerClient) -> None:
    """Query tables, named windows or aggregations of the running PLAN; print one JSON object per line.

    QUERY is an on-demand query that reads one of them, such as "from Limits on most > 100 select symbol, most".
    """
    if not is_text(query):
        raise click.UsageError("QUERY is not text in UTF-8")
    answer = client.query(plan, query, limit)
    if as_json:
        click.echo(json.dumps(answer))
        return
    names = [column["name"] for column in answer["columns"]]
    for row in answer["rows"]:
        click.echo(printable(json.dumps(dict(zip(names, row, strict=True)), ensure_ascii=False)))
    if answer["found"] > len(answer["rows"]):
        click.echo(
            f"{answer['found'] - len(answer['rows'])} more: --limit, or `limit` and `offset` in the query", err=True
        )
