"""How long a peer may be silent before it counts as lost: longer while heartbeats arrive late. Pure.

On a busy host heartbeats are delayed: their sender, or the process that receives them, waits for a processor. A fixed
time-out then declares healthy peers lost. This lease measures the delay, which is the gap between two heartbeats of a
peer beyond the agreed interval. Twice the largest delay of the last minute is added to the configured lease, up to
`LONGEST` times that. A system without delays keeps the configured lease.
"""

from __future__ import annotations

REMEMBER_MS = 60_000
"""A measured delay counts for this long at least, and for twice as long at most."""
LONGEST = 3
"""The lease never grows beyond this multiple of the configured one."""
SAFETY = 2
"""The factor by which the measured delay is added."""
OUTAGE = 2
"""A gap of more configured leases than this is an outage of the peer, not a delay."""
NOTABLE = 0.5
"""The part of the heartbeat interval by which a gap may exceed it and still be normal."""


class AdaptiveLease:
    """A lease for the peers of one process. Times are monotonic milliseconds."""

    def __init__(self, base_ms: int, heartbeat_ms: int) -> None:
        """Start from the configured lease `base_ms`, for peers that send a heartbeat every `heartbeat_ms`."""
        self._base_ms = base_ms
        self._heartbeat_ms = heartbeat_ms
        self._delay_ms = 0
        self._former_delay_ms = 0
        self._since_ms: int | None = None

    def heard(self, gap_ms: int, now_ms: int) -> None:
        """Record the gap between the last two heartbeats of a peer, or between two checks by this process."""
        delay_ms = gap_ms - self._heartbeat_ms
        if delay_ms >= NOTABLE * self._heartbeat_ms and gap_ms <= OUTAGE * self._base_ms:
            self._turn(now_ms)
            self._delay_ms = max(self._delay_ms, delay_ms)

    def ms(self, now_ms: int) -> int:
        """Return for how many milliseconds a peer may be silent now."""
        self._turn(now_ms)
        longest_ms = LONGEST * self._base_ms
        return min(self._base_ms + SAFETY * max(self._delay_ms, self._former_delay_ms), longest_ms)

    def _turn(self, now_ms: int) -> None:
        """Forget delays of the minute before the last one."""
        if self._since_ms is None:
            self._since_ms = now_ms
        elapsed_ms = now_ms - self._since_ms
        if elapsed_ms < REMEMBER_MS:
            return
        self._former_delay_ms = self._delay_ms if elapsed_ms < 2 * REMEMBER_MS else 0
        self._delay_ms = 0
        self._since_ms = now_ms
