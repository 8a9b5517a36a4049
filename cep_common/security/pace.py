"""How many requests a second each client may make: a bucket for each address. Pure: time is an argument."""

from __future__ import annotations

from collections import OrderedDict

MOST_CLIENTS = 10_000
"""Of so many addresses buckets are kept; the one that was silent longest is forgotten first."""


class RequestPace:
    """Each client has a bucket that holds one second's requests and fills up steadily. One thread at a time uses it."""

    def __init__(self, requests_per_s: int) -> None:
        """At most so many requests a second for each client; 0: any number."""
        self._per_s = requests_per_s
        self._buckets: OrderedDict[str, tuple[float, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._buckets)

    def admit(self, client: str, now_ms: int) -> bool:
        """Return whether the client may make a request now, and count it if so."""
        if self._per_s == 0:
            return True
        left, filled_ms = self._buckets.pop(client, (float(self._per_s), now_ms))
        left = min(float(self._per_s), left + max(0, now_ms - filled_ms) * self._per_s / 1_000)
        admitted = left >= 1
        self._buckets[client] = (left - 1 if admitted else left, now_ms)
        if len(self._buckets) > MOST_CLIENTS:
            self._buckets.popitem(last=False)
        return admitted
