"""What a plan would keep of its state if it were replaced: `cep deploy --dry-run`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import click

from cep_cli.rest import ManagerClient
from cep_cli.status_text import held_counts
from query_plan.annotations import read_header
from query_plan.names import element_names
from siddhi.analysis import model
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
    now = analyse(parse(deployed["text"]))
    fates = preview_edit(now, analyse(app))
    names = _names(now)
    held = {(part["kind"], part["name"]): part for part in deployed["status"]["state"]}
    lines = [_told(fate, names.get(fate.part.name, fate.part.name), held) for fate in fates]
    if as_json:
        click.echo(json.dumps({"plan": name, "parts": lines}))
        return
    if not lines:
        click.echo(f"{name} holds no state that an edit could reset")
    for line in lines:
        counts = f" ({line['holds']})" if line["holds"] else ""
        reason = f": {line['reason']}" if line["reason"] else ""
        click.echo(f"{'kept' if line['kept'] else 'RESET':<6}{line['kind']} {line['name']}{counts}{reason}")


def _names(app: model.AnalysedApp) -> dict[str, str]:
    """What queries and partitions without a name are called in the plan, by what they are called in the app."""
    names: dict[str, str] = {}
    for element, name in zip(app.elements, element_names(app), strict=True):
        names[element.name] = name.name
        if isinstance(element, model.AnalysedPartition):
            names |= {query.name: inside for query, inside in zip(element.queries, name.inside, strict=True)}
    return names


def _told(fate: Fate, name: str, held: Mapping[tuple[str, str], Any]) -> dict[str, Any]:
    kind = fate.part.kind.value
    part = held.get((kind, name))
    counts = held_counts(part) if part is not None else ""
    return {"kind": kind, "name": name, "kept": fate.kept, "reason": fate.reason, "holds": counts}
