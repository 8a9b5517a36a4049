"""Requests of an election to the database and to its process, and their answers."""

from __future__ import annotations

import msgspec

from cep_common.ids import Endpoint
from cep_manager.log_line import LogLine

MARGIN_PARTS = 10
"""A leader resigns this part of its lease before the end: clocks of hosts may run so much faster or slower."""


class ElectionTiming(msgspec.Struct, frozen=True):
    """How often a leader renews its lease and a standby checks it, and the duration of the lease.

    It lasts `lease_ms`, but `alone_ms` if no other manager may claim it: then none waits for it to expire, so it may
    outlast a slow disk.
    """

    heartbeat_ms: int
    poll_ms: int
    lease_ms: int
    alone_ms: int


def own_ms(lease_ms: int) -> int:
    """Return how long a leader relies on a lease of this length, counted from its request."""
    return lease_ms - lease_ms // MARGIN_PARTS


class ManagerAddress(msgspec.Struct, frozen=True):
    """A manager process.

    `instance` is unique to the process, `control` and `http_address` are its addresses, `insight` is where other
    managers read its log (None: nowhere, or not known).
    """

    instance: str
    control: Endpoint
    http_address: str
    insight: Endpoint | None = None


class Lease(msgspec.Struct, frozen=True):
    """The lease as it is in the database.

    `token` grows with every change of leader, `beat` with every confirmation since, `changes` with every write of
    plans. `holder` is None after a release, and before the first claim. `since_ms` is the time of day, by its holder's
    clock, of the claim, for display.
    """

    token: int
    holder: ManagerAddress | None
    beat: int
    lease_ms: int
    since_ms: int
    changes: int


class LeaderChange(msgspec.Struct, frozen=True):
    """`leader` took the lease over under `token` at the time of day `at_ms` without that `former` had given it back."""

    at_ms: int
    token: int
    former: Endpoint
    leader: Endpoint


class LeaseState(msgspec.Struct, frozen=True):
    """The state found in the database: the lease, and every manager with the number of times that it has been there.

    `done`: the requested claim or confirmation has just succeeded. `namesake` is the process that had signed in at this
    manager's address before; empty: none, or this one.
    """

    lease: Lease
    done: bool = False
    managers: tuple[tuple[ManagerAddress, int], ...] = ()
    namesake: str = ""
    barred: str = ""
    """Why this manager must not take the lease, though it is free: its node lacks acknowledged events."""


class ReadLease(msgspec.Struct, frozen=True):
    """Sign in and read the lease. Answer each such request with `heard` or `failed`."""


class ClaimLease(msgspec.Struct, frozen=True):
    """Take the lease for `lease_ms` under the next token, unless token or beat have moved; then as `ReadLease`."""

    token: int
    beat: int
    lease_ms: int


class ConfirmLease(msgspec.Struct, frozen=True):
    """Count the beat of the lease up, and let it last for `lease_ms` from now on, if it is still held under `token`.

    Remove managers that have ended; then as `ReadLease`.
    """

    token: int
    lease_ms: int
    gone: tuple[tuple[ManagerAddress, int], ...] = ()


class ProbeHolder(msgspec.Struct, frozen=True):
    """Find out whether the holder of the lease still listens at `control`; if not, call `holder_gone`."""

    token: int
    beat: int
    control: Endpoint


class ReadPlans(msgspec.Struct, frozen=True):
    """Read all plans, then call `prepared` with both values.

    `changes` is that of the lease as seen before. A `token` of 0 means that this manager does not hold the lease.
    """

    token: int
    changes: int


class Lead(msgspec.Struct, frozen=True):
    """Do a leader's work from now on, under `token`."""

    token: int


class Resign(msgspec.Struct, frozen=True):
    """Stop all work of a leader."""

    token: int


class GiveBack(msgspec.Struct, frozen=True):
    """Release the lease that is held under `token`."""

    token: int


Request = ReadLease | ClaimLease | ConfirmLease


Instruction = Request | ProbeHolder | ReadPlans | Lead | Resign | GiveBack | LogLine


class ManagerSighting(msgspec.Struct, frozen=True):
    """Another manager, or this one: when it was last known to be in the database (monotonic)."""

    manager: ManagerAddress
    beat: int
    heard_ms: int
