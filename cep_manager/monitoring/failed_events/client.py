"""Asks all workers for the failed events that they keep, and to replay or discard them, over their HTTP interfaces."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import msgspec

from cep_common.ids import PlanKey
from cep_common.protocol.registry import RegisterWorker
from cep_manager.monitoring.failed_events.model import (
    DiscardedEvents,
    FailedEventList,
    FailedEventSelection,
    FailedEventView,
    RefusedEntry,
    ReplayedEvents,
)
from cep_manager.monitoring.worker_calls import SilentWorker, WorkerCall, ask_workers

T = TypeVar("T")


class _KeptFailedEvents(msgspec.Struct):
    """The failed events that a worker keeps of a plan."""

    found: int
    entries: tuple[FailedEventView, ...]


class _Refused(msgspec.Struct):
    id: str
    code: str
    reason: str


class _Replayed(msgspec.Struct):
    """The result of replaying failed events at one worker."""

    replayed: int
    events: int
    refused: tuple[_Refused, ...]
    under_way: int
    left: int


class _DiscardedFailedEvents(msgspec.Struct):
    discarded: int


@dataclass(frozen=True, slots=True)
class FailedEventStores:
    """The error stores of `workers` for the plan `key`.

    `authorization` is the caller's header: each worker itself checks the caller's rights. Every method raises
    WorkerFailedError when no worker answers.
    """

    workers: tuple[RegisterWorker, ...]
    key: PlanKey
    authorization: str

    def listed(self, limit: int) -> FailedEventList:
        """Return the oldest `limit` entries."""
        answers, silent = self._ask("GET", "/errors", None, _KeptFailedEvents, {**self._plan(), "limit": str(limit)})
        entries = [
            msgspec.structs.replace(entry, worker=worker) for worker, answer in answers for entry in answer.entries
        ]
        entries.sort(key=lambda entry: entry.time_ms)
        found = sum(answer.found for _, answer in answers)
        return FailedEventList(self.key.plan, self.key.tenant, found, tuple(entries[:limit]), silent)

    def replay(self, choice: FailedEventSelection) -> ReplayedEvents:
        """Send the chosen entries again to where they failed."""
        answers, silent = self._ask("POST", "/errors/replay", choice, _Replayed)
        results = [answer for _, answer in answers]
        refused = tuple(
            RefusedEntry(one.id, worker, one.code, one.reason) for worker, answer in answers for one in answer.refused
        )
        return ReplayedEvents(
            plan=self.key.plan,
            tenant=self.key.tenant,
            replayed=sum(one.replayed for one in results),
            events=sum(one.events for one in results),
            refused=refused,
            under_way=sum(one.under_way for one in results),
            left=sum(one.left for one in results),
            silent=silent,
        )

    def discard(self, choice: FailedEventSelection) -> DiscardedEvents:
        """Delete the chosen entries."""
        answers, silent = self._ask("POST", "/errors/discard", choice, _DiscardedFailedEvents)
        return DiscardedEvents(self.key.plan, self.key.tenant, sum(answer.discarded for _, answer in answers), silent)

    def _plan(self) -> dict[str, str]:
        """Return the parameters that name the plan to workers: its name, and its id if that differs."""
        return {"plan": self.key.plan, "id": self.key.id} if self.key.id else {"plan": self.key.plan}

    def _ask(
        self,
        method: str,
        path: str,
        choice: FailedEventSelection | None,
        kind: type[T],
        parameters: dict[str, str] | None = None,
    ) -> tuple[list[tuple[str, T]], tuple[SilentWorker, ...]]:
        """Return the responses by worker, and the workers without a response."""
        body = None
        if choice is not None:
            body = msgspec.json.encode({**self._plan(), **msgspec.to_builtins(choice)})
        call = WorkerCall(method, path, kind, self.key.tenant, self.authorization, body, parameters or {})
        return ask_workers(self.workers, call)
