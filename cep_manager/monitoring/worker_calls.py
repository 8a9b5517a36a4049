"""Asks workers something over their HTTP interfaces, all of them at the same time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import msgspec
import requests

from cep_common.protocol.registry import RegisterWorker
from cep_common.web.client import WebClient
from cep_manager.control.snapshot import ClusterSnapshot
from cep_manager.errors import NoWorkerError, WorkerFailedError

TIMEOUT_S = 10.0
MOST_ANSWER_BYTES = 16 * 2**20
AT_ONCE = 8
"""The number of workers that are queried at the same time."""

T = TypeVar("T")


def live_workers(snapshot: ClusterSnapshot, wanted: str) -> tuple[RegisterWorker, ...]:
    """Return the live workers that offer what is `wanted`, by name. Raises NoWorkerError when there are none."""
    live = [one.latest for one in snapshot.workers if one.live(snapshot.now_ms, snapshot.lease_ms)]
    found = sorted((one for one in live if one.http_address), key=lambda one: one.worker)
    if not found:
        raise NoWorkerError(f"no worker is alive that could be asked for {wanted}")
    return tuple(found)


@dataclass(frozen=True, slots=True)
class WorkerCall(Generic[T]):
    """A request for a tenant, answered with a `kind`.

    `authorization` is the caller's header: each worker itself checks the caller's rights.
    """

    method: str
    path: str
    kind: type[T]
    tenant: int
    authorization: str
    body: bytes | None = None
    parameters: Mapping[str, str] = field(default_factory=dict)


def ask_workers(
    workers: tuple[RegisterWorker, ...], call: WorkerCall[T]
) -> tuple[list[tuple[str, T]], tuple[SilentWorker, ...]]:
    """Return the responses by worker, and the workers without one. Raises WorkerFailedError if there is no response."""
    with ThreadPoolExecutor(min(AT_ONCE, len(workers))) as pool:
        answers = list(zip(workers, pool.map(lambda worker: _ask_one(worker, call), workers), strict=True))
    silent = tuple(answer for _, answer in answers if isinstance(answer, SilentWorker))
    if len(silent) == len(answers):
        raise WorkerFailedError(_in_words(silent))
    return [(one.worker, answer) for one, answer in answers if not isinstance(answer, SilentWorker)], silent


def _ask_one(worker: RegisterWorker, call: WorkerCall[T]) -> T | SilentWorker:
    headers = {"tenant": str(call.tenant)}
    if call.authorization:
        headers["Authorization"] = call.authorization
    try:
        with WebClient(MOST_ANSWER_BYTES) as client:
            answer = client.request(
                call.method, f"{worker.http_address}{call.path}", params=dict(call.parameters), data=call.body,
                headers=headers, timeout_s=TIMEOUT_S,
            )  # fmt: skip
        if not answer.ok:
            content: Any = answer.json()
            return SilentWorker(worker.worker, f"{content['message']} [{content['code']}]")
        return msgspec.json.decode(answer.content(), type=call.kind)
    except (requests.RequestException, ValueError, KeyError, TypeError) as error:
        problem = f"no answer at {worker.http_address}: {type(error).__name__}"
        return SilentWorker(worker.worker, problem)


def _in_words(silent: Iterable[SilentWorker]) -> str:
    return "; ".join(f"{one.worker}: {one.problem}" for one in silent)


class SilentWorker(msgspec.Struct, frozen=True):
    """A worker that did not execute the request, and the reason."""

    worker: str
    problem: str
