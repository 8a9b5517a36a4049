"""Asks all workers for the failed events that they keep, and to replay or discard them, over their HTTP interfaces."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec
import requests

from cep_common.ids import PlanKey
from cep_common.messages import RegisterWorker
from cep_common.web_client import WebClient
from cep_manager.errors import NoWorkerError, WorkerFailedError
from cep_manager.kept_errors.model import (
    DiscardedErrors,
    ErrorChoice,
    KeptEntry,
    KeptErrors,
    RefusedEntry,
    ReplayedErrors,
    SilentWorker,
)
from cep_manager.snapshot import Snapshot

TIMEOUT_S = 10.0
MOST_ANSWER_BYTES = 16 * 2**20
AT_ONCE = 8
"""So many workers are asked at the same time."""

T = TypeVar("T")


class _Listed(msgspec.Struct):
    """What a worker keeps of a plan."""

    found: int
    entries: tuple[KeptEntry, ...]


class _Refused(msgspec.Struct):
    id: str
    code: str
    reason: str


class _Replayed(msgspec.Struct):
    """What a worker has replayed."""

    replayed: int
    events: int
    refused: tuple[_Refused, ...]
    under_way: int
    left: int


class _Discarded(msgspec.Struct):
    discarded: int


def live_workers(snapshot: Snapshot) -> tuple[RegisterWorker, ...]:
    """Those that can be asked, by name. Raises NoWorkerError when there are none."""
    live = [one.latest for one in snapshot.workers if one.live(snapshot.now_ms, snapshot.lease_ms)]
    found = sorted((one for one in live if one.http_address), key=lambda one: one.worker)
    if not found:
        raise NoWorkerError("no worker is alive that could be asked for its error store")
    return tuple(found)


@dataclass(frozen=True, slots=True)
class ErrorStores:
    """The error stores of `workers`, as far as they concern the plan `key`. `authorization` is the header of whoever
    asks: each worker judges by itself what they may. Everything raises WorkerFailedError when no worker answers."""

    workers: tuple[RegisterWorker, ...]
    key: PlanKey
    authorization: str

    def listed(self, limit: int) -> KeptErrors:
        """The oldest `limit` entries."""
        answers, silent = self._ask("GET", "/errors", None, _Listed, {"plan": self.key.plan, "limit": str(limit)})
        entries = [
            msgspec.structs.replace(entry, worker=worker) for worker, answer in answers for entry in answer.entries
        ]
        entries.sort(key=lambda entry: entry.time_ms)
        found = sum(answer.found for _, answer in answers)
        return KeptErrors(self.key.plan, self.key.tenant, found, tuple(entries[:limit]), silent)

    def replay(self, choice: ErrorChoice) -> ReplayedErrors:
        """The chosen entries go where they failed once more."""
        answers, silent = self._ask("POST", "/errors/replay", choice, _Replayed)
        told = [answer for _, answer in answers]
        refused = tuple(
            RefusedEntry(one.id, worker, one.code, one.reason) for worker, answer in answers for one in answer.refused
        )
        return ReplayedErrors(
            plan=self.key.plan,
            tenant=self.key.tenant,
            replayed=sum(one.replayed for one in told),
            events=sum(one.events for one in told),
            refused=refused,
            under_way=sum(one.under_way for one in told),
            left=sum(one.left for one in told),
            silent=silent,
        )

    def discard(self, choice: ErrorChoice) -> DiscardedErrors:
        """The chosen entries are gone."""
        answers, silent = self._ask("POST", "/errors/discard", choice, _Discarded)
        return DiscardedErrors(self.key.plan, self.key.tenant, sum(answer.discarded for _, answer in answers), silent)

    def _ask(
        self,
        method: str,
        path: str,
        choice: ErrorChoice | None,
        kind: type[T],
        parameters: dict[str, str] | None = None,
    ) -> tuple[list[tuple[str, T]], tuple[SilentWorker, ...]]:
        """The answers by worker, and who gave none."""
        body = None
        if choice is not None:
            body = msgspec.json.encode({"plan": self.key.plan, **msgspec.to_builtins(choice)})

        def ask(worker: RegisterWorker) -> T | SilentWorker:
            return self._ask_one(worker, method, path, body, kind, parameters or {})

        with ThreadPoolExecutor(min(AT_ONCE, len(self.workers))) as pool:
            answers = list(zip(self.workers, pool.map(ask, self.workers), strict=True))
        silent = tuple(answer for _, answer in answers if isinstance(answer, SilentWorker))
        if len(silent) == len(answers):
            raise WorkerFailedError(_in_words(silent))
        return [(one.worker, answer) for one, answer in answers if not isinstance(answer, SilentWorker)], silent

    def _ask_one(
        self, worker: RegisterWorker, method: str, path: str, body: bytes | None, kind: type[T],
        parameters: dict[str, str],
    ) -> T | SilentWorker:  # fmt: skip
        headers = {"tenant": str(self.key.tenant)}
        if self.authorization:
            headers["Authorization"] = self.authorization
        try:
            with WebClient(MOST_ANSWER_BYTES) as client:
                answer = client.request(
                    method, f"{worker.http_address}{path}", params=parameters, data=body, headers=headers,
                    timeout_s=TIMEOUT_S,
                )  # fmt: skip
            if not answer.ok:
                told: Any = answer.json()
                return SilentWorker(worker.worker, f"{told['message']} [{told['code']}]")
            return msgspec.json.decode(answer.content(), type=kind)
        except (requests.RequestException, ValueError, KeyError, TypeError) as error:
            problem = f"no answer at {worker.http_address}: {type(error).__name__}"
            return SilentWorker(worker.worker, problem)


def _in_words(silent: Iterable[SilentWorker]) -> str:
    return "; ".join(f"{one.worker}: {one.problem}" for one in silent)
