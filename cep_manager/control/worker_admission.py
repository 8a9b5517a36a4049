"""Decides which worker may use a name: one folder, one process, one system at a time. Pure.

another system's database       answered, does nothing for us         (alert)
another folder, first one lives refused                               (alert)
a copy of the folder            refused when both are heard           (alert)
another folder, first one gone  admitted; what the first one had stays known as away (alert)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from cep_common.protocol.registry import RegisterWorker, Rejected
from cep_manager.control.members import ClusterMember, brings_back, has_left, waiting_events

MOST_KNOWN = 16
"""The number of former processes of a name that are remembered."""
SHOWN_LEASES = 4
"""For how many leases a refused worker stays listed after it was last heard."""

StrangerKind = Literal["other-system", "name-taken", "copied", "other-folder"]


class Stranger(msgspec.Struct, frozen=True):
    """A worker that is not, or should not be, the one of its name.

    `host` and `process_id` are those of the worker that has the name. With `other-folder`, `events` wait in the folder
    of the one that had the name before.
    """

    kind: StrangerKind
    report: RegisterWorker
    heard_ms: int
    host: str = ""
    process_id: int = 0
    events: int = 0


class _NameHolder(msgspec.Struct, frozen=True):
    """The process that has a name, and the one before it, which may turn out to be alive."""

    instance: str
    since_ms: int
    former: str = ""
    banned: tuple[str, ...] = ()


class WorkerAdmission:
    """Judges registrations of workers. `system` is the identity of the managers' database."""

    def __init__(self, system: str) -> None:
        self._system = system
        self._adopted: set[str] = set()
        self._known: dict[str, _NameHolder] = {}
        self._strangers: dict[tuple[str, str], Stranger] = {}

    def is_foreign(self, message: RegisterWorker, now_ms: int) -> bool:
        """Return whether the worker serves another system: it is not a worker of ours."""
        foreign = bool(message.system and self._system and message.system != self._system)
        if foreign:
            self._note(Stranger("other-system", message, now_ms))
        else:
            self._adopted.discard(message.worker)
            self._forget(message.worker, "other-system")
        return foreign

    def adopt(self, worker: str) -> None:
        """Let a worker that serves another system join this one, as an operator ordered."""
        self._adopted.add(worker)

    def is_adopted(self, worker: str) -> bool:
        """Return whether the worker must be instructed to join this system."""
        return worker in self._adopted

    def refuse(
        self, message: RegisterWorker, holder: ClusterMember[RegisterWorker] | None, now_ms: int, lease_ms: int
    ) -> Rejected | None:
        """Return the refusal of a worker whose name belongs to the live `holder`; None if it is admitted."""
        if holder is not None and _of_other_folder(holder.latest, message):
            self._note(_stranger("name-taken", message, holder.latest, now_ms))
            return _name_taken(message, holder.latest)
        known = self._known.get(message.worker)
        if known is None or not message.instance:
            self._known[message.worker] = _NameHolder(message.instance, now_ms)
            return None
        if message.instance == known.instance:
            return None
        new = now_ms - known.since_ms < lease_ms
        if holder is not None and message.instance in (*known.banned, *(() if new else (known.former,))):
            self._note(_stranger("copied", message, holder.latest, now_ms))
            return _copied(message, holder.latest)
        if message.instance == known.former and new:
            # The one that seemed to have ended lives: its successor has a copy of its folder.
            banned = (*known.banned, known.instance)
            self._known[message.worker] = _NameHolder(message.instance, now_ms, banned=banned[-MOST_KNOWN:])
            return None
        banned = (*known.banned, known.former) if known.former else known.banned
        self._known[message.worker] = _NameHolder(message.instance, now_ms, known.instance, banned[-MOST_KNOWN:])
        return None

    def returned(self, message: RegisterWorker, away: Mapping[str, ClusterMember[RegisterWorker]], now_ms: int) -> None:
        """Note that an admitted worker had another identity before, which is reported while it is `away`."""
        former = away.get(message.worker)
        if former is not None and not brings_back(message, former.latest):
            events = sum(waiting_events(report) for report in former.latest.plans if has_left(report))
            found = _stranger("other-folder", message, former.latest, now_ms)
            self._note(msgspec.structs.replace(found, events=events))
        else:
            self._forget(message.worker, "other-folder")

    def strangers(self, now_ms: int, lease_ms: int) -> tuple[Stranger, ...]:
        """Return the recently heard workers that were not admitted."""
        gone = [name for name, one in self._strangers.items() if now_ms - one.heard_ms >= SHOWN_LEASES * lease_ms]
        for name in gone:
            del self._strangers[name]
        return tuple(self._strangers[name] for name in sorted(self._strangers))

    def _note(self, stranger: Stranger) -> None:
        self._strangers[stranger.report.worker, stranger.kind] = stranger

    def _forget(self, worker: str, kind: StrangerKind) -> None:
        self._strangers.pop((worker, kind), None)


def _of_other_folder(one: RegisterWorker, other: RegisterWorker) -> bool:
    return bool(one.identity and other.identity and one.identity != other.identity)


def _stranger(kind: StrangerKind, message: RegisterWorker, other: RegisterWorker, now_ms: int) -> Stranger:
    return Stranger(kind, message, now_ms, other.host, other.process_id)


def _name_taken(message: RegisterWorker, holder: RegisterWorker) -> Rejected:
    return Rejected(
        code="worker-exists",
        reason=f"a worker named {message.worker} is alive on {holder.host} (process {holder.process_id}), and its "
        f"folder is another one than that of process {message.process_id} on {message.host}: give each worker a name "
        "of its own (name in its configuration)",
    )


def _copied(message: RegisterWorker, holder: RegisterWorker) -> Rejected:
    return Rejected(
        code="worker-exists",
        reason=f"the worker {message.worker} runs on {holder.host} (process {holder.process_id}), and process "
        f"{message.process_id} on {message.host} has a copy of its folder: stop one of them; a worker that is to run "
        "beside it needs a name and a folder (wal.path) of its own",
    )
