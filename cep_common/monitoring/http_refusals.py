"""Counters of the requests and connections that the web servers of this process have refused, by reason."""

from __future__ import annotations

import threading
from collections.abc import Iterator

from prometheus_client.core import Metric

from cep_common.monitoring.metric_families import counter

REASONS = (
    "bad-request", "no-room", "not-authenticated", "not-authorised", "too-large", "too-many-requests",
    "unknown-expectation", "unknown-host", "connection-replaced", "too-many-connections", "too-slow",
)  # fmt: skip
"""Codes of the responses; the last three are of connections that were closed without a response."""


class RefusalCounter:
    """Count refusals by reason. Thread-safe."""

    def __init__(self) -> None:
        """Create a counter without refusals."""
        self._counts = dict.fromkeys(REASONS, 0)
        self._lock = threading.Lock()

    def note(self, reason: str) -> None:
        """Count a refused request or connection."""
        with self._lock:
            self._counts[reason] = self._counts.get(reason, 0) + 1

    def counts(self) -> dict[str, int]:
        """Return the number of refusals by reason since the process started."""
        with self._lock:
            return dict(self._counts)


REFUSALS = RefusalCounter()
"""Counts for all web servers of the process."""


def refusal_metrics() -> Iterator[Metric]:
    """Yield the refusals of the process as a metric."""
    yield counter(
        "cep_http_refused_requests_total",
        "Requests and connections that the web servers of the process have refused",
        ("reason",),
        (((reason,), count) for reason, count in REFUSALS.counts().items()),
    )
