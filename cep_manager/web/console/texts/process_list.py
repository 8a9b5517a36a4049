"""The list of processes from which pages about one of them are chosen. Pure."""

from __future__ import annotations

from itertools import groupby

import msgspec

from cep_manager.monitoring.logs.model import Process
from cep_manager.web.console.texts.formats import duration


class ProcessRow(msgspec.Struct, frozen=True):
    """A process to choose: `facts` say more of it, `tone` and `state` how it is; `words` are found by a search."""

    id: str
    kind: str
    label: str
    facts: str
    tone: str
    state: str
    words: str


class HostProcesses(msgspec.Struct, frozen=True):
    """The processes of one host."""

    host: str
    rows: tuple[ProcessRow, ...]


ORDER = ("manager", "driver", "worker", "task")


def by_host(processes: tuple[Process, ...]) -> tuple[HostProcesses, ...]:
    """Return the processes by their hosts; on each managers first, tasks last."""
    ordered = sorted(processes, key=lambda one: (one.host, ORDER.index(one.kind), one.name, one.epoch))
    return tuple(
        HostProcesses(host, tuple(_row(one) for one in group)) for host, group in groupby(ordered, lambda one: one.host)
    )


def plans_of(processes: tuple[Process, ...], tenant: int) -> tuple[str, ...]:
    """Return the tenant's plans that have tasks."""
    return tuple(sorted({one.plan for one in processes if one.kind == "task" and one.tenant == tenant}))


def _row(process: Process) -> ProcessRow:
    facts = [f"process {process.process_id}"] if process.process_id else ["standby"]
    if process.kind == "task":
        facts.append(f"epoch {process.epoch}")
        facts.append(", ".join(process.instances))
    tone, state = ("good", "lives")
    if not process.live:
        tone, state = "bad", f"silent for {duration(process.silent_ms)}"
    elif not process.readable:
        tone, state = "idle", "cannot be read"
    words = " ".join((process.id, process.kind, process.name, process.host, *facts)).lower()
    return ProcessRow(
        process.id, process.kind, process.name, " · ".join(one for one in facts if one), tone, state, words
    )
