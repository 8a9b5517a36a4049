"""Sends events that a user entered, or a file of them, to a worker's HTTP interface."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote

import requests

from cep_common.protocol.registry import RegisterWorker
from cep_common.security.tokens import bearer
from cep_common.web.client import WebClient
from cep_manager.errors import NoWorkerError, WorkerFailedError, WorkerRejectedEventsError
from cep_manager.events.model import SentEvents

TIMEOUT_S = 10.0
MOST_ANSWER_BYTES = 2**20
TAKEN = "application/json"


def own_authorization(token_file: str) -> str:
    """Return the header with which a manager sends events for users that only the manager knows.

    Empty where no `token_file` is named. Raises WorkerFailedError when it cannot be read.
    """
    if not token_file:
        return ""
    try:
        token = Path(token_file).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise WorkerFailedError(f"accounts.worker_token: {token_file} cannot be read: {error}") from error
    return bearer(token).get("Authorization", "")


def send_events(
    workers: tuple[RegisterWorker, ...], stream: str, tenant: int, body: bytes, kind: str, authorization: str
) -> SentEvents:
    """Send the events in `body`, of the media type `kind`, to the first of `workers` that takes events by HTTP.

    `authorization` is the caller's header: the worker itself checks the caller's rights. Raises NoWorkerError,
    WorkerFailedError when the worker does not answer, WorkerRejectedEventsError with its reasons when it refuses.
    """
    worker = next((one for one in workers if one.http_address), None)
    if worker is None:
        raise NoWorkerError(f"no worker accepts events of {stream} over HTTP")
    headers = {"Content-Type": kind or TAKEN, "tenant": str(tenant)}
    if authorization:
        headers["Authorization"] = authorization
    url = f"{worker.http_address}/events/{quote(stream, safe='/:')}"
    try:
        with WebClient(MOST_ANSWER_BYTES) as client:
            answer = client.request("POST", url, data=body, headers=headers, timeout_s=TIMEOUT_S)
        result: Any = answer.json()
    except requests.RequestException as error:
        raise WorkerFailedError(
            f"{worker.worker} at {worker.http_address} does not answer: {type(error).__name__}"
        ) from error
    try:
        if not answer.ok:
            raise WorkerRejectedEventsError(result["message"], result["code"], result["details"])
        return SentEvents(stream, int(result["accepted"]), worker.worker)
    except (KeyError, TypeError, ValueError) as error:  # another server, or a proxy in front of the worker
        raise WorkerFailedError(
            f"{worker.worker} at {worker.http_address} answered {answer.status} in a form that is not a worker's"
        ) from error
