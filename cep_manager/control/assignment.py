"""Chooses the endpoint that a requester connects to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from cep_common.ids import Endpoint


class Promise(msgspec.Struct, frozen=True):
    """An endpoint was assigned to `requester` for `stream` at `given_ms`; the link may not be open yet."""

    requester: str
    stream: str
    given_ms: int


class Candidate(msgspec.Struct, frozen=True):
    """An endpoint that can be assigned.

    `connections` are the links that its last heartbeat named, `promises` the assignments made since that are younger
    than a lease. `silent_ms` is the time since that heartbeat.
    """

    instance: str
    endpoint: Endpoint
    connections: tuple[str, ...]
    promises: tuple[Promise, ...]
    silent_ms: int


class EndpointChoice(msgspec.Struct, frozen=True):
    """The choice: `chosen` is None if no endpoint is available; `ignored` are silent endpoints."""

    chosen: Candidate | None
    ignored: tuple[Candidate, ...]


def choose(candidates: Iterable[Candidate], host: str, lease_ms: int, former: str = "") -> EndpointChoice:
    """Choose among the endpoints that are not silent for a lease; prefer the instance `former` if it exists."""
    candidates = tuple(candidates)
    ignored = tuple(candidate for candidate in candidates if candidate.silent_ms >= lease_ms)
    healthy = [candidate for candidate in candidates if candidate.silent_ms < lease_ms]
    same = [candidate for candidate in healthy if candidate.instance == former]
    near = same or [candidate for candidate in healthy if candidate.endpoint.host == host]
    chosen = min(near or healthy, key=_order, default=None)
    return EndpointChoice(chosen, ignored)


def live_connections(connections: Sequence[str], promises: Iterable[Promise]) -> int:
    """Return the number of links that an endpoint has or is about to get.

    A link is named after its requester: `requester`, or `requester/stream` when it carries one stream only. A promise
    that already shows up as a connection is counted once.
    """
    expected: dict[str, int] = {}
    for promise in promises:
        expected[promise.requester] = expected.get(promise.requester, 0) + 1
    missing = 0
    for requester, count in expected.items():
        seen = sum(name == requester or name.startswith(f"{requester}/") for name in connections)
        missing += max(0, count - seen)
    return len(connections) + missing


def _order(candidate: Candidate) -> tuple[int, str, Endpoint]:
    return live_connections(candidate.connections, candidate.promises), candidate.instance, candidate.endpoint
