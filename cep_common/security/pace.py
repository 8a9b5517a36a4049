"""How many requests a second each client may make. Pure: time is an argument."""

from __future__ import annotations

from cep_common.token_bucket import KeyedTokenBuckets

MOST_CLIENTS = 10_000
"""Addresses for which buckets are kept; the one that was silent longest is forgotten first."""


class RequestPace:
    """Each client has a bucket that holds one second's requests and fills up steadily. One thread at a time uses it."""

    def __init__(self, requests_per_s: int) -> None:
        """At most so many requests a second for each client; 0: any number."""
        self._buckets = (
            KeyedTokenBuckets(requests_per_s, requests_per_s, 1_000, MOST_CLIENTS) if requests_per_s else None
        )

    def __len__(self) -> int:
        """Return how many callers are counted at present."""
        return 0 if self._buckets is None else len(self._buckets)

    def admit(self, client: str, now_ms: int) -> bool:
        """Return whether the client may make a request now, and count it if so."""
        return self._buckets is None or self._buckets.try_take(client, now_ms)
