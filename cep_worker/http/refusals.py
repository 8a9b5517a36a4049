"""Rejections by the worker's HTTP interface: status, headers and body."""

from __future__ import annotations

import math
from dataclasses import dataclass

import msgspec
from werkzeug.exceptions import HTTPException

from cep_common.errors import InputError
from cep_worker.failed_events.store import UNAVAILABLE
from cep_worker.formats.rejections import EventsRejectedError
from cep_worker.serving.orphaned_events import UNAVAILABLE as ASIDE_UNAVAILABLE
from cep_worker.serving.orphaned_events import UNKNOWN_ID

STATUS = {
    "unknown-stream": 404,
    "unknown-path": 404,
    "unknown-plan": 404,
    "cross-site": 403,
    "too-large": 413,
    "unsupported-encoding": 415,
    "key-reused": 422,
    "over-limit": 429,
    "too-many-requests": 429,
    "failed": 500,
    "no-room": 429,
    "in-progress": 503,
    "leaving": 503,
    "inactive": 503,
    "starting": 503,
    "registry-unavailable": 503,
    UNAVAILABLE: 503,
    UNKNOWN_ID: 404,
    ASIDE_UNAVAILABLE: 503,
    "cannot-restore": 409,
}
"""HTTP status codes of refusals other than 400."""


class RoomError(InputError):
    """A request's events were not accepted. It can be repeated after `retry_after_s` seconds."""

    def __init__(self, reason_code: str, message: str, retry_after_s: int = 1) -> None:
        super().__init__(reason_code, message)
        self.retry_after_s = retry_after_s


def over_limit(tenant: int, limited_ms: int) -> RoomError:
    """Return the refusal of events beyond a tenant's rate limit."""
    message = f"tenant {tenant} exceeds its limit of events per second; send these again later"
    return RoomError("over-limit", message, math.ceil(limited_ms / 1_000))


def no_room(stream: str) -> RoomError:
    """Return the refusal of events for which no room became free in time."""
    return RoomError("no-room", f"{stream} is busy; send the events again")


@dataclass(frozen=True, slots=True)
class RefusedAnswer:
    """The response to a refused request."""

    status: int
    body: bytes
    headers: tuple[tuple[str, str], ...]


def refused_answer(error: InputError) -> RefusedAnswer:
    """Return the response to a refused request."""
    details = error.details if isinstance(error, EventsRejectedError) else ()
    body = msgspec.json.encode({"code": error.reason_code, "message": error.message, "details": details})
    status = STATUS.get(error.reason_code, 400)
    if status not in (429, 503):
        return RefusedAnswer(status, body, ())
    after = error.retry_after_s if isinstance(error, RoomError) else 1
    return RefusedAnswer(status, body, (("Retry-After", str(after)),))


def http_refusal(error: HTTPException) -> RefusedAnswer:
    """Return the response to a request that matches no route or that the framework refuses."""
    status = error.code or 500
    code = "too-large" if status == 413 else (error.name or "error").lower().replace(" ", "-")
    body = msgspec.json.encode({"code": code, "message": error.description or "", "details": []})
    methods = getattr(error, "valid_methods", None)
    return RefusedAnswer(status, body, (("Allow", ", ".join(methods)),) if methods else ())
