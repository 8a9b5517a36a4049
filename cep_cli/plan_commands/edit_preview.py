"""`cep deploy --dry-run`: preview which state a plan would keep if it were replaced."""

from __future__ import annotations

import json
from typing import Any

import click

from cep_cli.client.rest import ManagerClient
from cep_cli.monitor.status_text import held_counts
from query_plan.annotations import read_header
from siddhi.language.parser import parse

FATES = {
    "mapped": "would continue in their new form",
    "failed": "would become failed events",
    "kept": "would continue as they are",
}


def show_preview(client: ManagerClient, text: str, renamed: str | None, as_json: bool) -> None:
    """Show which state the deployed plan would keep if `text` replaced it, without deploying anything.

    Raises SiddhiError for a text that cannot be read, CommandRefusedError for one that cannot be deployed.
    """
    written = read_header(parse(text)).written_name
    name = renamed or (written.text if written is not None else "")
    if not any(one["plan"] == name for one in client.plans()):
        click.echo(f"{name} is not deployed: it would start with empty state")
        return
    preview = client.preview_edit(name, text)
    if as_json:
        click.echo(json.dumps(preview))
        return
    if not preview["parts"] and not preview["note"]:
        click.echo(f"{name} holds no state that an edit could reset")
    for line in preview_lines(preview):
        click.echo(line)


def preview_lines(preview: dict[str, Any]) -> list[str]:
    """Return the lines of a preview for users."""
    note = [preview["note"]] if preview["note"] else []
    return [*map(_part, preview["parts"]), *map(_stream, preview["streams"]), *note]


def _part(part: dict[str, Any]) -> str:
    counts = f" ({held_counts(part['held'])})" if part["held"] is not None else ""
    reason = f": {part['reason']}" if part["reason"] else ""
    return f"{'kept' if part['kept'] else 'RESET':<6}{part['kind']} {part['name']}{counts}{reason}"


def _stream(stream: dict[str, Any]) -> str:
    reason = f" ({stream['reason']})" if stream["reason"] else ""
    return f"stream {stream['stream']}: {stream['waiting_events']:,} waiting events {FATES[stream['fate']]}{reason}"
