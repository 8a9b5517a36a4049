"""The rate limit of each tenant, in events per second. The manager sets it and may change it at any time."""

from __future__ import annotations

from collections.abc import Iterable

from cep_common.protocol.registry import TenantLimit
from cep_common.token_bucket import TokenBucket


class RateLimit:
    """A budget of events that grows with time.

    Whole batches are accepted while any budget is left, so it may become negative: the next batch then waits longer,
    and the average rate is kept. The burst size is one second's events.
    """

    def __init__(self) -> None:
        """Create an unlimited rate limit; `set` sets the rate."""
        self.events_per_s = 0
        self.taken_events = 0
        self._bucket: TokenBucket | None = None

    def set(self, events_per_s: int, now_ms: int) -> None:
        """Set the limit of events per second; 0: unlimited."""
        self.events_per_s = events_per_s
        if not events_per_s:
            self._bucket = None
        elif self._bucket is None:
            self._bucket = TokenBucket.per_second(events_per_s, now_ms)
        else:
            self._bucket.change_rate(events_per_s, now_ms)

    def refill(self, now_ms: int) -> None:
        """Add the budget of the time that has passed."""
        if self._bucket is not None:
            self._bucket.refill(now_ms)

    def has_room(self) -> bool:
        """Return whether another batch may be accepted."""
        return self._bucket is None or self._bucket.in_credit()

    def wait_ms(self) -> int:
        """Return the milliseconds from the last refill until another batch may be accepted."""
        return 0 if self._bucket is None else self._bucket.debt_ms()

    def take(self, events: int) -> None:
        """Count accepted events."""
        self.taken_events += events
        if self._bucket is not None:
            self._bucket.take(events)


class TenantLimits:
    """The rate limit of every tenant that was requested; a limit object stays the same while its rate changes.

    Not thread-safe unless stated otherwise.
    """

    def __init__(self) -> None:
        self._limits: dict[int, RateLimit] = {}
        self._ordered: dict[int, int] = {}

    def of(self, tenant: int, now_ms: int) -> RateLimit:
        """Return the tenant's limit."""
        limit = self._limits.get(tenant)
        if limit is None:
            limit = self._limits[tenant] = RateLimit()
            limit.set(self._ordered.get(tenant, 0), now_ms)
        return limit

    def wait_ms(self, tenant: int) -> int:
        """Return how long the tenant must wait before it may send more. Any thread may call this."""
        limit = self._limits.get(tenant)
        return limit.wait_ms() if limit is not None else 0

    def events_per_s(self, tenant: int) -> int:
        """Return the tenant's limit of events per second; 0: unlimited. Any thread may call this."""
        limit = self._limits.get(tenant)
        return limit.events_per_s if limit is not None else 0

    def taken(self) -> tuple[tuple[int, int], ...]:
        """Return the number of accepted events of each tenant."""
        return tuple((tenant, limit.taken_events) for tenant, limit in self._limits.items())

    def apply(self, limits: Iterable[TenantLimit], now_ms: int) -> None:
        """Replace all limits; other tenants are unlimited."""
        self._ordered = {one.tenant: one.events_per_s for one in limits}
        for tenant, limit in self._limits.items():
            limit.set(self._ordered.get(tenant, 0), now_ms)

    def refill(self, now_ms: int) -> None:
        """Refill every budget."""
        for limit in self._limits.values():
            limit.refill(now_ms)
