"""Leader election: each manager decides for itself, from the lease in the database and its own clock. Pure.

                 the lease is free, or has not moved for its length
    STANDBY ──────────────────────────────────────────────────────▶ CLAIMING
       ▲ ▲                                   another was quicker        │ claimed, under the next token
       │ └──────────────────────────────────────────────────────────────┤
       │       not confirmed in time, taken by another, or refused      ▼
       ├──────────────────────────────────────────────────────────── PREPARING   (reads the plans)
       │                                                                │
       └───────────────────────────────────────────────────────────  LEADING

No time of day is compared with that of another host. A leader counts its lease from the moment at which it *asked* the
database to confirm it, a standby from the moment at which it *had seen* that confirmation: so the leader's ends first.
A leader whose confirmations come late, as on a busy host, makes its lease longer. A standby that sees no confirmation
probes the leader's port: if its process has ended, there is no need to wait for the end of the lease.
"""

from __future__ import annotations

from enum import Enum

from cep_common.ids import Endpoint
from cep_common.lease import AdaptiveLease
from cep_manager.election.messages import (
    ClaimLease,
    ConfirmLease,
    ElectionTiming,
    GiveBack,
    Instruction,
    Lead,
    Lease,
    LeaseState,
    ManagerAddress,
    ManagerSighting,
    ProbeHolder,
    ReadLease,
    ReadPlans,
    Request,
    Resign,
    own_ms,
)
from cep_manager.log_line import LogLine

FORGET_AFTER_MS = 60_000
"""The time after which a manager that does not update the database is no longer reported."""


class ElectionRole(Enum):
    """The role of a manager."""

    STANDBY = "standby"
    CLAIMING = "claiming"
    PREPARING = "preparing"
    LEADING = "leading"


class ElectionSignal(Enum):
    """The effect of the database's state and the clock on the lease."""

    FREE = "free"
    """It may be claimed."""
    TAKEN = "taken"
    """Another manager has it."""
    OWN = "own"
    """The database has confirmed it to this manager, and there is time left."""
    READY = "ready"
    """The plans were read."""
    OVER = "over"
    """Its time has expired, a write was refused, or the state is unknown."""


MOVES: dict[tuple[ElectionRole, ElectionSignal], ElectionRole] = {
    (ElectionRole.STANDBY, ElectionSignal.FREE): ElectionRole.CLAIMING,
    (ElectionRole.STANDBY, ElectionSignal.TAKEN): ElectionRole.STANDBY,
    (ElectionRole.STANDBY, ElectionSignal.OVER): ElectionRole.STANDBY,
    (ElectionRole.CLAIMING, ElectionSignal.OWN): ElectionRole.PREPARING,
    (ElectionRole.CLAIMING, ElectionSignal.TAKEN): ElectionRole.STANDBY,
    (ElectionRole.CLAIMING, ElectionSignal.OVER): ElectionRole.STANDBY,
    (ElectionRole.PREPARING, ElectionSignal.OWN): ElectionRole.PREPARING,
    (ElectionRole.PREPARING, ElectionSignal.READY): ElectionRole.LEADING,
    (ElectionRole.PREPARING, ElectionSignal.TAKEN): ElectionRole.STANDBY,
    (ElectionRole.PREPARING, ElectionSignal.OVER): ElectionRole.STANDBY,
    (ElectionRole.LEADING, ElectionSignal.OWN): ElectionRole.LEADING,
    (ElectionRole.LEADING, ElectionSignal.TAKEN): ElectionRole.STANDBY,
    (ElectionRole.LEADING, ElectionSignal.OVER): ElectionRole.STANDBY,
}
"""Every legal move; a signal that is not here comes too late for the role, and changes nothing."""

HOLDS_LEASE = frozenset({ElectionRole.PREPARING, ElectionRole.LEADING})


class Election:
    """One manager's part in the election. Not thread-safe; all times are of one monotonic clock."""

    def __init__(self, me: ManagerAddress, pace: ElectionTiming, *, of_two_nodes: bool = False) -> None:
        """`of_two_nodes`: the transaction of a claim records that no other manager may claim the lease afterwards."""
        self._me = me
        self._pace = pace
        self._of_two_nodes = of_two_nodes
        self.role = ElectionRole.STANDBY
        self.token = 0
        self.lease: Lease | None = None
        self.sights: dict[Endpoint, ManagerSighting] = {}
        self.problem = ""
        self._delays = AdaptiveLease(pace.lease_ms, pace.heartbeat_ms)
        self._confirmed_ms: int | None = None
        self._gone: tuple[int, int] | None = None
        self._until_ms = 0
        self._asked: tuple[Request, int] | None = None
        self._plans_read: int | None = None
        """`changes` of the lease before the plans were read last."""
        self._plans_wanted: int | None = None
        self._due_ms = 0
        self._moved_ms = 0
        self._complained = False
        self._left = False
        self.contested = True
        """Another manager may claim the lease when it is over; of two nodes, only one that has every event."""
        self._asked_contested = False
        """The last request for the lease was made when another manager could claim it."""

    def leads(self, now_ms: int) -> bool:
        """Return whether this manager may act as the leader: it holds the lease, which has not run out."""
        return self.role is ElectionRole.LEADING and now_ms < self._until_ms

    def leader(self, now_ms: int) -> ManagerAddress | None:
        """Return the leader as far as this manager knows; None if no leader is known."""
        # Not from the database: between the end of its lease and the next answer the lease there still names this
        # manager.
        if self.role is ElectionRole.LEADING:
            return self._me if self.leads(now_ms) else None
        lease = self.lease
        if lease is None or lease.holder is None or self._is_mine(lease):
            return None
        # By this manager's own clock: if the lease has not been renewed for its whole duration, its holder may have
        # ended.
        return lease.holder if now_ms - self._moved_ms < lease.lease_ms else None

    def is_settled(self, now_ms: int) -> bool:
        """Return whether it is clear whether this manager leads."""
        return self.leads(now_ms) or self.leader(now_ms) is not None

    def wait_ms(self, now_ms: int) -> int:
        """Return after how long `tick` must be called if nothing else happens before."""
        if self._left:
            return self._pace.poll_ms
        until = [self._due_ms] if self._asked is None else []
        if self.role in HOLDS_LEASE:
            until.append(self._until_ms)
        return max(0, min(until, default=now_ms + self._pace.poll_ms) - now_ms)

    def tick(self, now_ms: int) -> list[Instruction]:
        """Return the instructions that are due; call it before anything is done as a leader."""
        instructions: list[Instruction] = []
        # Before anything is asked: an answer that arrives after the end must find a manager that has already resigned.
        if self.role in HOLDS_LEASE and now_ms >= self._until_ms:
            reason = self.problem or "the database has not answered"
            instructions += self._move(ElectionSignal.OVER, f"the lease was not confirmed in time: {reason}")
        # One request at a time, because an answer must be attributable to the time of its request. At once if another
        # manager may claim it from now on, because it would otherwise wait for the end of the long lease.
        is_long = self.role in HOLDS_LEASE and self.contested and not self._asked_contested
        if self._asked is None and (is_long or now_ms >= self._due_ms) and not self._left:
            instructions += self._ask(now_ms)
        return instructions

    def heard(self, seen: LeaseState, now_ms: int) -> list[Instruction]:
        """Take the database's answer to the request in flight."""
        if self._asked is None or self._left:
            return []
        request, asked_ms = self._asked
        self._asked = None
        instructions = self._note(seen, now_ms)
        lease, before = seen.lease, self.lease
        first = before is None
        moved = before is None or (before.token, before.beat) != (lease.token, lease.beat)
        self.lease, self.problem = lease, seen.barred
        # Only a change proves that the holder is alive; reading the same token and beat again says nothing.
        if moved:
            self._moved_ms = now_ms
        self._due_ms = now_ms + self._pace.poll_ms
        signal = self._read(seen, request, asked_ms, now_ms, first)
        reason = (
            f"{_name(lease.holder)} leads under token {lease.token}"
            if signal is ElectionSignal.TAKEN
            else "it was late"
        )
        if signal is ElectionSignal.OWN:
            self.token = lease.token
            self._note_confirmation(request, now_ms)
            # From the time of asking, not of the answer: a standby sees the confirmation at the earliest after it was
            # asked for, so its count always ends later.
            self._until_ms = asked_ms + own_ms(lease.lease_ms)
            self._due_ms = asked_ms + self._pace.heartbeat_ms
        elif signal is ElectionSignal.TAKEN:
            # An earlier claim may have succeeded without an answer: then there is no other holder to wait for.
            wait_ms = 0 if self._is_mine(lease) else lease.lease_ms
            self._due_ms = min(self._due_ms, max(now_ms, self._moved_ms + wait_ms))
            # A standby keeps the plans compiled, so that it leads soon after it has claimed the lease.
            if self._plans_wanted != lease.changes:
                instructions.append(self._read_plans(0, lease))
            # The holder has missed a confirmation. A refused connection proves that its process has ended, so that the
            # rest of the lease need not be waited for.
            if now_ms - self._moved_ms >= self._pace.heartbeat_ms and lease.holder is not None:
                instructions.append(ProbeHolder(lease.token, lease.beat, lease.holder.control))
        # Ask at the usual pace, else a barred manager would claim a free lease in a tight loop.
        if seen.barred:
            self._due_ms = now_ms + self._pace.poll_ms
        instructions += self._move(signal, reason)
        # At once rather than with the next tick: the lease is free, and every tick without a leader delays the plans.
        if self.role is ElectionRole.CLAIMING:
            instructions += self._ask(now_ms)
        return instructions

    def tenure(self, now_ms: int) -> tuple[int, int]:
        """Return the token under which this manager leads and the monotonic time until which it does.

        Zeros: it does not lead.
        """
        return (self.token, self._until_ms) if self.leads(now_ms) else (0, 0)

    def failed(self, reason: str, now_ms: int) -> list[Instruction]:
        """Note that the database did not answer; whether it carried out the request is not known."""
        if self._asked is None or self._left:
            return []
        self._asked = None
        # A leader has little time: it asks again soon.
        holds = self.role in HOLDS_LEASE
        self._due_ms = now_ms + (self._pace.heartbeat_ms // 4 if holds else self._pace.poll_ms)
        instructions: list[Instruction] = []
        if not self.problem:
            instructions.append(LogLine("warning", f"lease cannot be read reason={reason!r}"))
        self.problem = reason
        # A holder keeps its role until its own count of the lease ends: the database may answer again before.
        return instructions if holds else [*instructions, *self._move(ElectionSignal.OVER, reason)]

    def holder_gone(self, token: int, beat: int, now_ms: int) -> list[Instruction]:
        """Claim the lease early: a probe has shown that its holder's process has ended.

        `token` and `beat` are those of the probe; the claim fails if the lease has moved since.
        """
        lease = self.lease
        # The lease may have moved while the probe was under way; then the probed process is not its holder any longer.
        if self.role is not ElectionRole.STANDBY or lease is None or (lease.token, lease.beat) != (token, beat):
            return []
        if self._gone == (token, beat):
            return []
        self._gone = token, beat
        self._due_ms = now_ms
        return [LogLine("warning", f"the manager that led has ended control={_name(lease.holder)} token={token}")]

    def peer_gone(self, now_ms: int) -> list[Instruction]:
        """Claim the lease early: of two managers, the other one has been seen to have ended."""
        lease = self.lease
        if lease is None or lease.holder is None or self._is_mine(lease):
            return []
        return self.holder_gone(lease.token, lease.beat, now_ms)

    def claim_free(self, token: int, beat: int, now_ms: int) -> list[Instruction]:
        """Claim the lease now: it has been seen to be free, last held under `token` and confirmed `beat` times."""
        if self.role is not ElectionRole.STANDBY or self._asked is not None or self._left:
            return []  # a request is under way, whose answer will say so, too
        self._move(ElectionSignal.FREE, "")
        return self._claim(token, beat, now_ms)

    def leave(self) -> list[Instruction]:
        """Give the lease back if it is held, and take no further part: another manager is to lead."""
        if self._left:
            return []
        self._left = True
        held = self.role in HOLDS_LEASE
        self.role = ElectionRole.STANDBY
        note = LogLine("info", f"gave the lease back token={self.token}")
        return [Resign(self.token), GiveBack(self.token), note] if held else []

    def prepared(self, token: int, changes: int, now_ms: int) -> list[Instruction]:
        """Note that the plans were read, as `ReadPlans` said."""
        self._plans_read = changes
        # Reading plans may have taken longer than the lease, or belong to an earlier term.
        if token != self.token or now_ms >= self._until_ms:
            return []
        return self._move(ElectionSignal.READY, "")

    def refused(self, token: int, reason: str) -> list[Instruction]:
        """Resign, since an action under `token` was refused or failed permanently."""
        return self._move(ElectionSignal.OVER, reason) if token == self.token else []

    def _ask(self, now_ms: int) -> list[Instruction]:
        request: Request
        lease = self.lease
        if self.role in HOLDS_LEASE:
            request = ConfirmLease(self.token, self._length_ms(now_ms), self._departed(now_ms))
            self._asked_contested = self.contested
            # It may succeed without an answer, and be shorter than what was confirmed before.
            self._until_ms = min(self._until_ms, now_ms + own_ms(request.lease_ms))
        elif lease is not None and (self.role is ElectionRole.CLAIMING or self._may_claim(lease, now_ms)):
            # The claim fails if beat or token have moved since they were last seen.
            self._move(ElectionSignal.FREE, "")
            return self._claim(lease.token, lease.beat, now_ms)
        else:
            request = ReadLease()
        self._asked = (request, now_ms)
        return [request]

    def _claim(self, token: int, beat: int, now_ms: int) -> list[Instruction]:
        # No other node may claim this lease, so none waits for it to expire: it may outlast a slow database.
        length_ms = self._pace.alone_ms if self._of_two_nodes else self._length_ms(now_ms)
        request = ClaimLease(token, beat, length_ms)
        self._asked_contested = self.contested and not self._of_two_nodes
        self._asked = (request, now_ms)
        return [request]

    def _read_plans(self, token: int, lease: Lease) -> ReadPlans:
        self._plans_wanted = lease.changes
        return ReadPlans(token, lease.changes)

    def _length_ms(self, now_ms: int) -> int:
        # The other one of two nodes may have every event and yet be without a manager, which is starting.
        absent = not self._of_two_nodes and all(control == self._me.control for control in self.sights)
        alone = absent or not self.contested
        return self._pace.alone_ms if alone else self._delays.ms(now_ms)

    def _note_confirmation(self, request: Request, now_ms: int) -> None:
        """Learn from the time between two confirmations how late they come."""
        if isinstance(request, ConfirmLease) and self._confirmed_ms is not None:
            self._delays.heard(now_ms - self._confirmed_ms, now_ms)
        self._confirmed_ms = now_ms

    def _may_claim(self, lease: Lease, now_ms: int) -> bool:
        gone = self._gone == (lease.token, lease.beat)
        return gone or self._is_mine(lease) or now_ms - self._moved_ms >= lease.lease_ms

    def _read(self, seen: LeaseState, request: Request, asked_ms: int, now_ms: int, first: bool) -> ElectionSignal:
        """Interpret the lease as read from the database."""
        lease = seen.lease
        if isinstance(request, ReadLease):
            # The former holder of this very address has ended: only one process can listen on it.
            successor = first and lease.holder is not None and lease.holder.control == self._me.control
            free = lease.holder is None or self._is_mine(lease) or successor
            return ElectionSignal.FREE if free else ElectionSignal.TAKEN
        # Token or beat had moved: another manager has claimed the lease, or the holder has confirmed it after all.
        if not seen.done:
            return ElectionSignal.TAKEN
        # A confirmation that took longer than the lease is worthless: a standby may have claimed meanwhile.
        return ElectionSignal.OWN if now_ms < asked_ms + own_ms(lease.lease_ms) else ElectionSignal.OVER

    def _move(self, signal: ElectionSignal, reason: str) -> list[Instruction]:
        before, after = self.role, MOVES.get((self.role, signal))
        if after is None:
            return []
        self.role = after
        if before in HOLDS_LEASE and after is ElectionRole.STANDBY:
            # The own lease is over then at the latest, so this manager may claim it again like any other.
            self._due_ms = min(self._due_ms, self._until_ms)
            note = LogLine("warning", f"resigned token={self.token} reason={reason!r}")
            return [Resign(self.token), note]
        if (before, after) == (ElectionRole.CLAIMING, ElectionRole.PREPARING) and self.lease is not None:
            # Every write of plans counts `changes` up: what a standby has read ahead is then what there is now.
            if self._plans_read == self.lease.changes:
                return self._move(ElectionSignal.READY, "")
            return [self._read_plans(self.token, self.lease)]
        if (before, after) == (ElectionRole.PREPARING, ElectionRole.LEADING):
            return [LogLine("info", f"leads token={self.token}"), Lead(self.token)]
        return []

    def _note(self, seen: LeaseState, now_ms: int) -> list[Instruction]:
        """Update the list of managers; a silent one stays listed for a while."""
        before = self.sights
        # Rebuilt from each answer: managers that the leader has removed from the database disappear.
        self.sights = {}
        for manager, beat in seen.managers:
            known = before.get(manager.control)
            # Liveness is a beat that has moved, by this manager's clock; times of other hosts are never compared.
            same = known is not None and (known.manager.instance, known.beat) == (manager.instance, beat)
            heard_ms = known.heard_ms if known is not None and same else now_ms
            self.sights[manager.control] = ManagerSighting(manager, beat, heard_ms)
        if not seen.namesake or self.lease is None or self._complained:
            return []
        self._complained = True
        advice = "give each manager its own (advertised_host, control.port)"
        return [LogLine("error", f"another manager has this one's address control={_name(self._me)} advice={advice!r}")]

    def _is_mine(self, lease: Lease) -> bool:
        return lease.holder is not None and lease.holder.instance == self._me.instance

    def _departed(self, now_ms: int) -> tuple[tuple[ManagerAddress, int], ...]:
        sights = self.sights.values()
        return tuple((one.manager, one.beat) for one in sights if now_ms - one.heard_ms >= FORGET_AFTER_MS)


def _name(manager: ManagerAddress | None) -> str:
    return f"{manager.control.host}:{manager.control.port}" if manager is not None else "no manager"
