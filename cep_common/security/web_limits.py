"""Limits of the resources of an HTTP server that clients can occupy. Keys of `security.limits`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, NamedTuple

import msgspec
from msgspec import Meta

Some = Annotated[int, Meta(ge=1)]
Bytes = Annotated[int, Meta(ge=65_536)]


class WebLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Configure the limits of what clients may use.

    There are at most `connections` in all and `connections_per_address`; `half_open_per_address` of these may not have
    sent a complete request yet. Further ones replace those that have been idle longest. A request's head must be
    complete after `head_s`; its body must arrive at `body_bytes_per_s` at least and be complete after `body_s`. Bodies
    that are not processed yet may take `bodies_bytes` in all and `bodies_bytes_per_address`.
    """

    connections: Some = 16_384
    connections_per_address: Some = 12_288
    half_open_per_address: Some = 10_240
    head_s: Some = 10
    body_bytes_per_s: Some = 16_384
    body_s: Some = 120
    bodies_bytes: Bytes = 536_870_912
    bodies_bytes_per_address: Bytes = 134_217_728


class BodyHead(NamedTuple):
    """The head of a request, before its body is read. `length` is None if the request does not say it."""

    method: str
    path: str
    authorization: str
    cookie: str
    length: int | None


class BodyRefusal(NamedTuple):
    """Why a body is not read: status, code and message of the error response."""

    status: int
    code: str
    message: str


AdmitBody = Callable[[BodyHead], BodyRefusal | None]
"""Decides whether a request's body is read. Called by the thread that serves all connections, so it must not block:
no database, no slow hash."""
