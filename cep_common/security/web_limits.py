"""How much of an HTTP server one client, or all that are slow, can keep busy. Keys of `security.limits`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, NamedTuple

import msgspec
from msgspec import Meta

Some = Annotated[int, Meta(ge=1)]
Bytes = Annotated[int, Meta(ge=65_536)]


class WebLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Limits of what clients may use.

    There are `connections` at a time in all and `connections_per_address`; `half_open_per_address` of these have sent
    no whole request yet. Further ones replace those that are idle longest. A request's head must be complete after
    `head_s`, its body must come at `body_bytes_per_s` at least and be complete after `body_s`. Bodies that are not
    processed yet take `bodies_bytes` in all and `bodies_bytes_per_address`.
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
    """What is known of a request before its body is read. `length` is None where the request does not say it."""

    method: str
    path: str
    authorization: str
    cookie: str
    length: int | None


class BodyRefusal(NamedTuple):
    """Why a body is not read: the answer's status, and its code and message as the server's other errors have them."""

    status: int
    code: str
    message: str


AdmitBody = Callable[[BodyHead], BodyRefusal | None]
"""Says whether a request's body is read at all. Called by the thread that serves all connections, so it must be quick:
no database, no slow hash."""
