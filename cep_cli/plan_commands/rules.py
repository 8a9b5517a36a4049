"""Rule sets: `cep rules` deploys, compares and removes a folder of plans as one change."""

from __future__ import annotations

import difflib
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from cep_cli.client.options import JSON_OPTION, POLL_S, manager_options
from cep_cli.client.rest import ManagerClient
from cep_cli.errors import FAILED, CommandRefusedError, with_readable_errors
from cep_cli.plan_commands.edit_preview import preview_lines
from cep_cli.plan_commands.plan_text import SET_OPTION
from cep_cli.terminal import printable
from query_plan.plan_names import named_after
from siddhi.language.variables import replace_variables, variables_in

SUFFIX = ".siddhiql"
LARGEST_BYTES = 1_048_576
"""The maximum size of a plan file, as for the watched folder."""
MOST_SHOWN = 50
"""The number of unchanged and of other plans up to which each gets a line."""
MARKS = {"add": "+", "update": "~", "rename": "~", "restart": "~", "activate": "~", "remove": "-", "keep": " "}
DONE = {
    "add": ("added", "to add"),
    "update": ("changed", "to change"),
    "rename": ("renamed", "to rename"),
    "restart": ("restarted", "to restart"),
    "activate": ("kept after all", "to keep after all"),
    "remove": ("removed", "to remove"),
    "keep": ("unchanged", "unchanged"),
}
FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)

NAME_OPTION = click.option("--name", default="", help="The rule set's name; by default the folder's name.")
DRY_RUN_OPTION = click.option("--dry-run", is_flag=True, help="Report what would be done, without changing anything.")


@click.group("rules")
def rules_command() -> None:
    """Deploy, compare and remove a folder of plans as one atomic change."""


@rules_command.command("deploy")
@click.argument("folder", type=FOLDER)
@NAME_OPTION
@DRY_RUN_OPTION
@click.option("--keep", is_flag=True, help="Do not remove plans whose files are gone.")
@click.option(
    "--wait",
    "wait_s",
    type=float,
    default=0,
    help="Wait up to this number of seconds until all plans run, and roll back if one does not. Only then are "
    "plans removed whose files are "
    "gone.",
)
@SET_OPTION
@JSON_OPTION
@manager_options
@with_readable_errors
def deploy_rules_command(
    folder: Path,
    name: str,
    dry_run: bool,
    keep: bool,
    wait_s: float,
    values: dict[str, str],
    as_json: bool,
    client: ManagerClient,
) -> None:
    """Make a rule set equal to the plans in FOLDER: deploy new ones, change different ones, undeploy removed ones.

    Every file FOLDER/**/*.siddhiql is a plan. Only plans that this rule set deployed are changed or removed.
    """
    name, files = name or _name_of(folder), _read(folder, values)
    revision = _revision(folder)
    waits = wait_s > 0 and not dry_run
    former = _deployed(client, name) if waits else []
    report = _ask(client, name, files, revision, as_json, dry_run=dry_run, remove=not keep and not waits)
    if waits:
        problem = _await_all(client, [one["plan"] for one in report["changes"] if one["action"] != "remove"], wait_s)
        if problem:
            _roll_back(client, name, former)
            raise CommandRefusedError(f"rule set {name} was rolled back: {problem}")
        if not keep:
            removed = _ask(client, name, files, revision, as_json, remove=True)
            report = _joined(report, removed)
    _show(report, as_json)


@rules_command.command("diff")
@click.argument("folder", type=FOLDER)
@NAME_OPTION
@click.option("--state", is_flag=True, help="Report for each changed plan which state it would keep (slow).")
@SET_OPTION
@JSON_OPTION
@manager_options
@with_readable_errors
def diff_rules_command(
    folder: Path, name: str, state: bool, values: dict[str, str], as_json: bool, client: ManagerClient
) -> None:
    """Show what `cep rules deploy FOLDER` would change, with a diff."""
    name, files = name or _name_of(folder), _read(folder, values)
    deployed = {one["plan"]: one for one in _deployed(client, name)}
    report = _ask(client, name, files, _revision(folder), as_json, dry_run=True)
    texts = {one["file"]: one["text"] for one in files}
    changed = [one for one in report["changes"] if one["action"] in ("update", "rename")]
    for one in changed:
        before = deployed.get(one["former"] or one["plan"], {"text": "", "file": ""})
        one["diff"] = _diff(before, one["file"], texts[one["file"]])
        if state:
            one["state"] = preview_lines(client.preview_edit(one["former"] or one["plan"], texts[one["file"]]))
    _show(report, as_json)
    if not as_json:
        for one in changed:
            for line in (*one["diff"], *one.get("state", ())):
                click.echo(printable(line))


@rules_command.command("remove")
@click.argument("folder")
@NAME_OPTION
@DRY_RUN_OPTION
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@JSON_OPTION
@manager_options
@with_readable_errors
def remove_rules_command(
    folder: str, name: str, dry_run: bool, yes: bool, as_json: bool, client: ManagerClient
) -> None:
    """Undeploy all plans of the rule set of FOLDER, a folder or its name; the folder need not exist any more."""
    name = name or _name_of(Path(folder))
    count = len(client.rule_set(name)["plans"])
    if not (yes or dry_run):
        click.confirm(f"Undeploy all {count} plans of rule set {name} at {client.url}?", abort=True, err=True)
    try:
        report = client.remove_rules(name, dry_run)
    except CommandRefusedError as error:
        _show_refused(error, as_json)
    _show(report, as_json)


def _name_of(folder: Path) -> str:
    return folder.resolve().name


def _read(folder: Path, values: dict[str, str]) -> list[dict[str, str]]:
    """Return the plans in the folder. Raises UsageError for files that are not text, and for unused values."""
    found, used = [], set()
    for path in sorted(folder.rglob(f"*{SUFFIX}")):
        file = path.relative_to(folder)
        if any(part.startswith(".") for part in file.parts) or not path.is_file():
            continue
        if path.stat().st_size > LARGEST_BYTES:
            raise click.UsageError(f"{path} has {path.stat().st_size:,} bytes; a plan may have {LARGEST_BYTES:,}")
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise click.UsageError(f"{path} is not text in UTF-8: {error.reason} at byte {error.start}") from error
        text = named_after(text, path.stem)
        asked = values.keys() & variables_in(text)
        used |= asked
        found.append({"file": file.as_posix(), "text": replace_variables(text, {one: values[one] for one in asked})})
    if needless := values.keys() - used:
        raise click.UsageError(f"--set {min(needless)}: there is no ${{{min(needless)}}} in any plan of {folder}")
    return found


def _revision(folder: Path) -> str:
    """Return the Git commit that is checked out there, with a mark when files have been changed since.

    Empty without Git.
    """
    try:
        asked = ["git", "-C", str(folder), "describe", "--always", "--dirty", "--abbrev=12"]
        found = subprocess.run(asked, capture_output=True, text=True, check=False, timeout=10)  # noqa: S603 - fixed words
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return found.stdout.strip()[:200] if found.returncode == 0 else ""


def _deployed(client: ManagerClient, name: str) -> list[dict[str, Any]]:
    """Return the plans of the rule set that are deployed now."""
    try:
        plans: list[dict[str, Any]] = client.rule_set(name)["plans"]
    except CommandRefusedError as error:
        if error.status != NOT_FOUND:
            raise
        return []
    return plans


NOT_FOUND = 404


def _ask(
    client: ManagerClient,
    name: str,
    files: list[dict[str, str]],
    revision: str,
    as_json: bool,
    *,
    dry_run: bool = False,
    remove: bool = True,
) -> Any:
    try:
        return client.deploy_rules(name, files, revision, dry_run, remove)
    except CommandRefusedError as error:
        _show_refused(error, as_json)


def _show_refused(error: CommandRefusedError, as_json: bool) -> None:
    """Show the report of a refused change, and exit. Raises the error if it has no report."""
    report = error.details.get("report")
    if report is None:
        raise error
    if as_json:
        click.echo(json.dumps(report))
    else:
        for one in report["problems"]:
            where = one["file"] or one["plan"]
            for line in _problem_lines(where, one):
                click.echo(printable(line), err=True)
        count = len(report["problems"])
        click.echo(f"cep: rule set {report['rule_set']}: nothing was changed, {count} plans have problems", err=True)
    sys.exit(FAILED)


def _problem_lines(where: str, problem: dict[str, Any]) -> Iterator[str]:
    if not problem["problems"]:
        yield f"{where}: {problem['message']} [{problem['code']}]"
    for one in problem["problems"]:
        yield f"{where}:{one['line']}:{one['column']}: {one['message']} [{one['code']}]"
        if one["hint"]:
            yield f"    hint: {one['hint']}"


def _await_all(client: ManagerClient, plans: list[str], wait_s: float) -> str:
    """Return why not all plans are running in time; empty if they are."""
    deadline = time.monotonic() + wait_s
    while True:
        found = {one["plan"]: one["status"]["topology"] for one in client.plans()}
        waiting = []
        for plan in plans:
            topology = found.get(plan)
            if topology is None:
                return f"{plan} was undeployed"
            if topology["state"] == "failed" or topology["change_error"]:
                return f"{plan}: {topology['change_error'] or topology['reason']}"
            if topology["change"] or topology["state"] not in ("active", "degraded", "inactive"):
                waiting.append(plan)
        if not waiting:
            return ""
        if time.monotonic() >= deadline:
            more = f" and {len(waiting) - 1} more do" if len(waiting) > 1 else " does"
            return f"{waiting[0]}{more} not run after {wait_s:g} s: {found[waiting[0]]['reason']}"
        time.sleep(max(POLL_S, len(found) / 1_000))


def _roll_back(client: ManagerClient, name: str, former: list[dict[str, Any]]) -> None:
    """Restore the rule set's former plans."""
    if former:
        files = [{"file": one["file"], "text": one["text"]} for one in former]
        client.deploy_rules(name, files, former[0]["revision"])
    else:
        client.remove_rules(name, dry_run=False)


def _joined(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    """Return the report of a change that was made in two steps."""
    removed = [one for one in second["changes"] if one["action"] == "remove"]
    changes = sorted([*first["changes"], *removed], key=lambda one: str(one["plan"]))
    return {**first, "changes": changes, "counts": {**first["counts"], "remove": len(removed)}}


def _show(report: dict[str, Any], as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(report))
        return
    shown = [one for one in report["changes"] if one["action"] != "keep"]
    for one in shown[:MOST_SHOWN]:
        former = f" (was {one['former']})" if one["former"] else ""
        file = f" {one['file']}" if one["file"] else ""
        message = _would(one) if report["dry_run"] else one["message"]
        click.echo(printable(f"{MARKS[one['action']]} {one['plan']}{former}{file}: {message}"))
    if len(shown) > MOST_SHOWN:
        click.echo(f"… and {len(shown) - MOST_SHOWN} more (--json lists all)")
    tense = 1 if report["dry_run"] else 0
    counts = ", ".join(
        f"{report['counts'][action]} {words[tense]}" for action, words in DONE.items() if _tells(report, action)
    )
    revision = f" at {report['revision']}" if report["revision"] else ""
    suffix = " (nothing was changed)" if report["dry_run"] else ""
    click.echo(f"rule set {report['rule_set']}{revision}: {counts or 'no plan'}{suffix}")
    waiting = [one for one in report["changes"] if one["waiting_events"] or one["waiting_results"]]
    if waiting:
        events = sum(one["waiting_events"] for one in waiting)
        results = sum(one["waiting_results"] for one in waiting)
        click.echo(
            f"{len(waiting)} of the removed plans still process {events:,} accepted events and {results:,} results; "
            "they are removed afterwards"
        )


def _would(change: dict[str, Any]) -> str:
    """Return the change of a plan in the words of a dry run."""
    words = {
        "add": "would be deployed",
        "update": "would be updated",
        "rename": f"would be renamed from {change['former']}",
        "restart": "would be restarted",
        "activate": "is being undeployed, and would be kept",
        "remove": "would be undeployed after accepted events are processed",
    }
    state = change["message"].rpartition("; ")[2] if change["action"] in ("update", "restart") else ""
    return words[change["action"]] + (f"; {state}" if state else "")


def _tells(report: dict[str, Any], action: str) -> bool:
    return bool(report["counts"][action]) or action in ("add", "update", "remove", "keep")


def _diff(before: dict[str, Any], file: str, text: str) -> list[str]:
    names = (f"deployed/{before['file']}", file)
    lines = difflib.unified_diff(before["text"].splitlines(), text.splitlines(), *names, lineterm="", n=2)
    return list(lines)
