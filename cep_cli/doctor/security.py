"""`cep doctor security`: check a running system by the checklist of docs/security.md."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from sqlalchemy import make_url
from sqlalchemy.exc import ArgumentError

from cep_cli.client.options import JSON_OPTION, manager_options
from cep_cli.client.rest import ManagerClient
from cep_cli.doctor.checks import Facts, ProcessFacts, SecurityFinding, findings_of
from cep_cli.doctor.sockets import PROC, listening_sockets
from cep_cli.errors import FAILED, CommandRefusedError, with_readable_errors
from cep_cli.terminal import printable
from cep_common.security.keys import public_file
from cep_common.security.roles import Role

_PRIVATE = (
    "security.tokens", "security.certificate_key", "log.folder", "wal.path", "results.path", "errors.path", "secrets",
    "stages.secrets", "accounts.worker_token",
)  # fmt: skip
"""Settings with files and folders that must be private to one user."""


@click.command("security")
@JSON_OPTION
@manager_options
@with_readable_errors
def security_command(as_json: bool, client: ManagerClient) -> None:
    """Check a running system by the checklist of docs/security.md. Exits with 1 on a critical finding.

    Needs a token of an admin. Only sockets and files of this host are checked.
    """
    found = findings_of(gather(client))
    if as_json:
        click.echo(json.dumps([asdict(one) for one in found]))
    else:
        for line in _lines(found):
            click.echo(printable(line))
    if any(one.weight == "critical" for one in found):
        raise SystemExit(FAILED)


def gather(client: ManagerClient) -> Facts:
    """Gather facts from the manager and this host."""
    processes = [_process(client, one) for one in client.processes() if one["live"]]
    modes = {str(path): mode for process in processes for path in _private(process) for mode in _mode(path)}
    plans = {one["plan"]: str(client.plan(one["plan"])["text"]) for one in client.plans()}
    return Facts(processes, plans, modes, tuple(_new_users(client)), tuple(_unbounded(processes)))


def _process(client: ManagerClient, process: Mapping[str, Any]) -> ProcessFacts:
    settings: dict[str, Any] = {}
    unseen = ""
    try:
        answer = client.configuration(process["id"])
        settings = {one["key"]: _value(one["value"]) for one in answer["settings"]}
        unseen = answer.get("problem", "")
    except CommandRefusedError as error:
        unseen = error.message
    process_id = process["process_id"]
    if not process_id or not (PROC / str(process_id) / "fd").exists():
        return ProcessFacts(process["id"], process["kind"], settings, (), unseen or "it runs on another host")
    try:
        os.listdir(PROC / str(process_id) / "fd")
    except OSError:
        return ProcessFacts(process["id"], process["kind"], settings, (), unseen or "it belongs to another user")
    return ProcessFacts(process["id"], process["kind"], settings, listening_sockets([process_id]), unseen)


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _private(process: ProcessFacts) -> Iterator[Path]:
    for key in _PRIVATE:
        if (text := process.text(key)) and "://" not in text:
            yield Path(text)
    if keys := process.text("security.keys"):
        yield from Path(keys).glob("**/*_secret")
    with suppress(ArgumentError, ValueError):
        url = make_url(process.text("database.url") or "none://")
        if url.get_backend_name() == "sqlite" and url.database:
            yield from (Path(f"{url.database}{suffix}") for suffix in ("", "-wal", "-shm"))


def _unbounded(processes: Sequence[ProcessFacts]) -> Iterator[str]:
    """Yield the public keys of the role client in the folders of workers."""
    for folder in {one.text("security.keys") for one in processes if one.kind == "worker"} - {""}:
        file = public_file(Path(folder), Role.CLIENT)
        if file.exists():
            yield str(file)


def _mode(path: Path) -> Sequence[int]:
    with suppress(OSError):
        return [path.stat().st_mode]
    return []


def _new_users(client: ManagerClient) -> Iterator[str]:
    with suppress(CommandRefusedError):
        for user in client.users():
            if user.get("must_change_password") and not user.get("disabled"):
                yield str(user["name"])


def _lines(found: Sequence[SecurityFinding]) -> Iterator[str]:
    for one in found:
        yield f"{one.weight:<8}  {one.where}: {one.problem}"
        yield f"          {one.remedy}"
    critical = sum(one.weight == "critical" for one in found)
    yield f"{critical} critical, {len(found) - critical} warnings" if found else "nothing was found"
