"""A rate limit of requests for each client. Pure: time is an argument."""

from __future__ import annotations

from cep_common.token_bucket import KeyedTokenBuckets

MOST_CLIENTS = 10_000
"""The maximum number of addresses with buckets; the least recently used one is forgotten first."""


class RequestPace:
    """Limits the requests of each client by a token bucket of one second's requests. Not thread-safe."""

    def __init__(self, requests_per_s: int) -> None:
        """Allow each client this many requests a second; 0: any number."""
        self._buckets = (
            KeyedTokenBuckets(requests_per_s, requests_per_s, 1_000, MOST_CLIENTS) if requests_per_s else None
        )

    def __len__(self) -> int:
        """Return the number of clients with a bucket."""
        return 0 if self._buckets is None else len(self._buckets)

    def admit(self, client: str, now_ms: int) -> bool:
        """Return whether the client may send a request now, and count it if so."""
        return self._buckets is None or self._buckets.try_take(client, now_ms)
