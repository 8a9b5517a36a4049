"""`cep errors`: list, replay or discard failed events."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

import click

from cep_cli.client.options import JSON_OPTION, manager_options
from cep_cli.client.rest import ManagerClient
from cep_cli.errors import CommandRefusedError, with_readable_errors
from cep_cli.terminal import printable

MOST_SHOWN = 100
EVENTS_SHOWN = 3
"""The number of events that are shown of each entry; `--json` has all."""


@click.command("errors")
@click.argument("plan")
@click.option("--replay", "replayed", metavar="ID", multiple=True, help="Replay the entry ID. May be repeated.")
@click.option("--replay-all", is_flag=True, help="Replay all entries of PLAN, oldest first.")
@click.option("--discard", "discarded", metavar="ID", multiple=True, help="Discard the entry ID. May be repeated.")
@click.option("--discard-all", is_flag=True, help="Discard all entries of PLAN.")
@click.option(
    "--limit",
    type=click.IntRange(1, MOST_SHOWN),
    default=20,
    show_default=True,
    help="Maximum number of entries; the oldest come first.",
)
@JSON_OPTION
@manager_options
@with_readable_errors
def errors_command(
    plan: str,
    replayed: tuple[str, ...],
    replay_all: bool,
    discarded: tuple[str, ...],
    discard_all: bool,
    limit: int,
    as_json: bool,
    client: ManagerClient,
) -> None:
    """List, replay or discard failed events of PLAN.

    Events are stored if they fail in queries on streams with @OnError(action='STORE'), or if sinks with
    on.error='STORE' cannot deliver them.
    """
    if sum(map(bool, (replayed, replay_all, discarded, discard_all))) > 1:
        raise click.UsageError("give one of --replay, --replay-all, --discard and --discard-all")
    if replayed or replay_all:
        _replay(client, plan, {"all": True} if replay_all else {"ids": replayed}, as_json)
    elif discarded or discard_all:
        _discard(client, plan, {"all": True} if discard_all else {"ids": discarded}, as_json)
    else:
        _show(client.failed_events(plan, limit), as_json)


def _show(answer: Any, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(answer))
        return
    if not answer["found"]:
        click.echo(f"{answer['plan']}: no failed events are stored")
    for entry in answer["entries"]:
        for line in _entry_lines(entry):
            click.echo(printable(line))
    if answer["found"] > len(answer["entries"]):
        more = answer["found"] - len(answer["entries"])
        click.echo(f"{more} more entries: --limit, or replay or discard these", err=True)
    _tell_silent(answer)


def _replay(client: ManagerClient, plan: str, choice: dict[str, Any], as_json: bool) -> None:
    """Repeat the request while entries are left and each request replays some.

    Raises CommandRefusedError when some stay.
    """
    answer = client.replay_errors(plan, choice)
    replayed, events = answer["replayed"], answer["events"]
    while "all" in choice and answer["left"] and answer["replayed"]:
        answer = client.replay_errors(plan, choice)
        replayed, events = replayed + answer["replayed"], events + answer["events"]
    if as_json:
        click.echo(json.dumps({**answer, "replayed": replayed, "events": events}))
    else:
        click.echo(f"{plan}: {replayed} entries replayed ({events} events)")
        if answer["under_way"]:
            click.echo(f"{answer['under_way']} entries are still being retried by their sinks: see `cep errors {plan}`")
        for refused in answer["refused"]:
            click.echo(printable(f"{refused['id']} stays: {refused['reason']} [{refused['code']}]"), err=True)
        _tell_silent(answer)
    kept = len(answer["refused"]) + answer["left"]
    _miss(plan, choice, replayed + answer["under_way"] + kept)
    if kept or answer["silent"]:
        raise CommandRefusedError(f"not all requested entries of {plan} were replayed")


def _discard(client: ManagerClient, plan: str, choice: dict[str, Any], as_json: bool) -> None:
    answer = client.discard_errors(plan, choice)
    click.echo(json.dumps(answer) if as_json else f"{plan}: {answer['discarded']} entries discarded")
    if not as_json:
        _tell_silent(answer)
    _miss(plan, choice, answer["discarded"])


def _miss(plan: str, choice: dict[str, Any], found: int) -> None:
    """Raise CommandRefusedError when fewer entries were `found` than were named."""
    missing = len(set(choice.get("ids", ()))) - found
    if missing > 0:
        raise CommandRefusedError(f"{missing} of these ids are not entries of {plan}: see `cep errors {plan}`")


def _entry_lines(entry: Any) -> list[str]:
    at = datetime.fromtimestamp(entry["time_ms"] / 1_000).astimezone().isoformat(" ", "seconds")
    where = (
        f"{entry['kind']} {entry['sink']} of {entry['stream']}"
        if entry["kind"] != "stream"
        else f"stream {entry['stream']}"
    )
    query = f", query {entry['query']}" if entry["query"] else ""
    events = entry["events"]
    lines = [f"{entry['id']}  {at}  {where}{query}: {entry['reason']}"]
    lines += [f"  {json.dumps(event, ensure_ascii=False)}" for event in events[:EVENTS_SHOWN]]
    if len(events) > EVENTS_SHOWN:
        lines.append(f"  and {len(events) - EVENTS_SHOWN} more events")
    return lines


def _tell_silent(answer: Any) -> None:
    for silent in answer["silent"]:
        click.echo(f"worker {silent['worker']} did not answer: {silent['problem']}", err=True)
