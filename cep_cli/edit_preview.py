"""What a plan would keep of its state if it were replaced: `cep deploy --dry-run`."""

from __future__ import annotations

import json
from typing import Any

import click

from cep_cli.rest import ManagerClient
from cep_cli.status_text import held_counts
from query_plan.annotations import read_header
from siddhi.analysis.analyser import analyse
from siddhi.engine.edit_preview import Fate, preview_edit
from siddhi.language.parser import parse


def show_fates(client: ManagerClient, text: str, renamed: str | None, as_json: bool) -> None:
    """Tell what the deployed plan would keep if `text` took its place, with what it holds now; nothing is deployed.
    Raises SiddhiError for a text that cannot be deployed."""
    app = parse(text)
    written = read_header(app).written_name
    name = renamed or (written.text if written is not None else "")
    found = next((one for one in client.plans() if one["plan"] == name), None)
    if found is None:
        click.echo(f"{name} is not deployed: it would begin with empty state")
        return
    deployed = client.plan(name)
    fates = preview_edit(analyse(parse(deployed["text"])), analyse(app))
    held = {(part["kind"], part["name"]): part for part in deployed["status"]["state"]}
    lines = [_told(fate, held.get((fate.part.kind.value, fate.part.name))) for fate in fates]
    if as_json:
        click.echo(json.dumps({"plan": name, "parts": lines}))
        return
    if not lines:
        click.echo(f"{name} holds no state that an edit could reset")
    for line in lines:
        counts = f" ({line['holds']})" if line["holds"] else ""
        reason = f": {line['reason']}" if line["reason"] else ""
        click.echo(f"{'kept' if line['kept'] else 'RESET':<6}{line['kind']} {line['name']}{counts}{reason}")


def _told(fate: Fate, held: Any) -> dict[str, Any]:
    counts = held_counts(held) if held is not None else ""
    return {
        "kind": fate.part.kind.value, "name": fate.part.name, "kept": fate.kept, "reason": fate.reason, "holds": counts,
    }  # fmt: skip
