"""Requests with an `Idempotency-Key`: a repeated request gets the same answer, and its events are not accepted again.

in memory   the newest `most` keys of the last `keep_ms`, with the responses
in the log  the newest keys of each stream, with its events: they survive restarts and takeovers
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass
from hashlib import blake2b

from cep_common.errors import InputError
from cep_worker.http.refusals import RoomError
from cep_worker.storage.records import KEYED, SOURCE_BYTES, BatchOrigin

LONGEST_KEY = 255


@dataclass(slots=True)
class _KeyedRequest:
    body: bytes
    """A digest of the request."""
    until_ms: int
    events: int | None = None
    """The number of accepted events, or None while it is not known."""


@dataclass(frozen=True, slots=True)
class RequestKey:
    """The key of one request to one stream."""

    name: bytes
    body: bytes

    def origin(self) -> BatchOrigin:
        """Return the origin by which the log identifies the request.

        The log remembers keys longer than the responses are kept, and without bodies. So the origin depends on the
        body,
        too: events of a reused key must not be dropped as those of the first request.
        """
        return BatchOrigin(blake2b(self.name + self.body, digest_size=SOURCE_BYTES).digest(), KEYED)


def request_key(key: str, stream: str, tenant: int, body: bytes) -> RequestKey:
    """Return the key of a request with that body.

    Raises:
        InputError: the key is empty or too long.
    """
    key = key.strip()
    if not 0 < len(key) <= LONGEST_KEY:
        raise InputError("bad-key", f"Idempotency-Key must have 1 to {LONGEST_KEY} characters")
    name = blake2b(f"{tenant}\n{stream}\n{key}".encode(), digest_size=SOURCE_BYTES).digest()
    return RequestKey(name, blake2b(body, digest_size=SOURCE_BYTES).digest())


class AnsweredRequests:
    """The responses to the newest requests with a key. Thread-safe."""

    def __init__(self, most: int, keep_ms: int) -> None:
        self._most = most
        self._keep_ms = keep_ms
        self._known: OrderedDict[bytes, _KeyedRequest] = OrderedDict()
        self._lock = threading.Lock()

    def begin(self, key: RequestKey, now_ms: int) -> int | None:
        """Begin a request, or return the number of events if it was answered before.

        After None, call `done` or `failed`.

        Raises:
            InputError: `key-reused`, the key was used with another body.
            RoomError: `in-progress`, a request with the key is being processed.
        """
        with self._lock:
            known = self._known.get(key.name)
            if known is None or (known.events is not None and known.until_ms <= now_ms):
                self._known.pop(key.name, None)
                self._known[key.name] = _KeyedRequest(key.body, now_ms + self._keep_ms)
                self._forget(now_ms)
                return None
            if known.body != key.body:
                raise InputError("key-reused", "a request with this Idempotency-Key had another body; use a new key")
            if known.events is None:
                raise RoomError("in-progress", "a request with this Idempotency-Key is being processed; try again")
            return known.events

    def done(self, key: RequestKey, events: int) -> None:
        """Remember that the request was accepted."""
        with self._lock:
            known = self._known.get(key.name)
            if known is not None:
                known.events = events

    def failed(self, key: RequestKey) -> None:
        """Forget a rejected request, so that it can be repeated."""
        with self._lock:
            known = self._known.get(key.name)
            if known is not None and known.events is None:
                del self._known[key.name]

    def _forget(self, now_ms: int) -> None:
        while self._known:
            name, oldest = next(iter(self._known.items()))
            if len(self._known) <= self._most and oldest.until_ms > now_ms:
                return
            del self._known[name]
