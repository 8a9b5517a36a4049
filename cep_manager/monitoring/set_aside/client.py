"""Asks all workers for what they have set aside, and to restore or discard it, over their HTTP interfaces."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import msgspec

from cep_common.protocol.registry import RegisterWorker
from cep_manager.errors import UnknownAsideError, WorkerFailedError
from cep_manager.monitoring.set_aside.model import AsideEntry, AsideList, DiscardedAside, RestoredAside
from cep_manager.monitoring.worker_calls import WorkerCall, ask_workers

UNKNOWN = "[unknown-id]"
"""With this a worker answers that has nothing of that id."""

T = TypeVar("T")


class _AsideEntries(msgspec.Struct):
    entries: tuple[AsideEntry, ...]


class _Restored(msgspec.Struct):
    events: int
    left: int
    lost: int = 0


class _DiscardedAside(msgspec.Struct):
    events: int


@dataclass(frozen=True, slots=True)
class AsideStores:
    """Data of a tenant that `workers` have set aside.

    `authorization` is the caller's header. Every method raises WorkerFailedError when no worker answers.
    """

    workers: tuple[RegisterWorker, ...]
    tenant: int
    authorization: str

    def listed(self) -> AsideList:
        """Return all of it, oldest first."""
        call = WorkerCall("GET", "/wal", _AsideEntries, self.tenant, self.authorization)
        answers, silent = ask_workers(self.workers, call)
        entries = [
            msgspec.structs.replace(entry, worker=worker) for worker, answer in answers for entry in answer.entries
        ]
        return AsideList(self.tenant, tuple(sorted(entries, key=lambda one: (one.since_ms, one.id))), silent)

    def restore(self, id_: str) -> RestoredAside:
        """Give the events to the stream of their name. Raises UnknownAsideError."""
        worker, done = self._do(id_, "restore", _Restored)
        return RestoredAside(id_, worker, done.events, done.left, done.lost)

    def discard(self, id_: str) -> DiscardedAside:
        """Delete it. Raises UnknownAsideError."""
        worker, done = self._do(id_, "discard", _DiscardedAside)
        return DiscardedAside(id_, worker, done.events)

    def _do(self, id_: str, action: str, kind: type[T]) -> tuple[str, T]:
        call = WorkerCall("POST", f"/wal/{id_}/{action}", kind, self.tenant, self.authorization)
        try:
            answers, silent = ask_workers(self.workers, call)
        except WorkerFailedError as error:
            if error.message.count(UNKNOWN) == len(self.workers):
                raise _unknown(id_) from error
            raise
        if not answers:
            failed = "; ".join(f"{one.worker}: {one.problem}" for one in silent if UNKNOWN not in one.problem)
            raise WorkerFailedError(failed) if failed else _unknown(id_)
        return answers[0]


def _unknown(id_: str) -> UnknownAsideError:
    return UnknownAsideError(f"nothing with the id {id_} is set aside at any worker: see `cep wal list`")
