"""The registry of endpoints: which process accepts events of which plan. Each registration renews a lease.

Pure: it takes messages and a monotonic time, and returns responses and instructions. A registration is the heartbeat:

    register ──── register ──── register ─ ─ ─ silence ─ ─ ─▶ stale at lease_ms ─ ─ ─▶ forgotten at 4 × lease_ms
                  (renews)                                    (never assigned)
"""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from cep_common.ids import Endpoint, PlanKey
from cep_common.protocol.registry import (
    EndpointAssigned,
    EndpointRegistered,
    Message,
    RegisterEndpoint,
    Rejected,
    RequestEndpoint,
    Role,
)
from cep_manager.control.assignment import Candidate, Promise, choose, live_connections
from cep_manager.control.instructions import Instruction
from cep_manager.log_line import LogLine

FORGET_AFTER_LEASES = 4
"""A silent endpoint is shown as such for this many leases, then it is removed."""


class EndpointRecord(msgspec.Struct, frozen=True):
    """A registered endpoint and what it said last. `warned`: its current silence has been logged."""

    role: Role
    key: PlanKey
    epoch: int
    instance: str
    endpoint: Endpoint
    connections: tuple[str, ...]
    promises: tuple[Promise, ...]
    heard_ms: int
    attempt: int = 0
    warned: bool = False

    def live_connections(self, now_ms: int, lease_ms: int) -> int:
        """Return links that are connected, or were assigned less than a lease ago."""
        return live_connections(self.connections, young(self.promises, now_ms, lease_ms))


Identity = tuple[Role, PlanKey, int, str]


class EndpointRegistry:
    """All endpoints of all plans. Callers check epochs; see `ControlPlane`."""

    def __init__(self, heartbeat_ms: int, lease_ms: int) -> None:
        self._heartbeat_ms = heartbeat_ms
        self.lease_ms = lease_ms
        self._plans: dict[PlanKey, dict[Identity, EndpointRecord]] = {}
        """All endpoints, by plan: most look-ups are for one of a thousand plans."""
        self._at: dict[Endpoint, Identity] = {}
        """The identity of each endpoint."""

    def records(self) -> tuple[EndpointRecord, ...]:
        """Return all endpoints, in no particular order."""
        return tuple(record for of_plan in self._plans.values() for record in of_plan.values())

    def register(self, message: RegisterEndpoint, now_ms: int) -> EndpointRegistered:
        """Register the endpoint or renew its lease. An instance has one endpoint, an endpoint one instance."""
        identity = (message.role, message.key, message.epoch, message.instance)
        known = self._of(message.key).get(identity)
        same = known is not None and known.endpoint == message.endpoint
        promises = young(known.promises, now_ms, self.lease_ms) if known is not None and same else ()
        # An instance at a new endpoint, or an endpoint with a new instance, is another process: promises made to the
        # old one are void.
        if not same:
            if known is not None:
                self._drop(identity)
            other = self._at.get(message.endpoint)
            if other is not None:
                self._drop(other)
            self._at[message.endpoint] = identity
        self._plans.setdefault(message.key, {})[identity] = EndpointRecord(
            role=message.role,
            key=message.key,
            epoch=message.epoch,
            instance=message.instance,
            endpoint=message.endpoint,
            connections=message.connections,
            promises=promises,
            heard_ms=now_ms,
            attempt=message.attempt,
        )
        return EndpointRegistered(heartbeat_ms=self._heartbeat_ms, lease_ms=self.lease_ms)

    def assign(self, message: RequestEndpoint, now_ms: int) -> tuple[Message, list[Instruction]]:
        """Return an endpoint for the requester, or a refusal `no-endpoint`.

        An endpoint left out as stale is warned of once each time that it falls silent.
        """
        # Before the choice, so that the requester's own earlier promise does not count as load.
        self._take_back(message)
        mine = self._of(message.key)
        identities = [
            one for one in sorted(mine, key=lambda one: one[3]) if (one[0], one[2]) == (message.role, message.epoch)
        ]
        candidates = [self._candidate(mine[identity], now_ms) for identity in identities]
        choice = choose(candidates, message.host, self.lease_ms, message.former)
        notes = self._warn_of(message, choice.ignored)
        if choice.chosen is None:
            return _no_endpoint(message), notes
        identity = (message.role, message.key, message.epoch, choice.chosen.instance)
        record = mine[identity]
        # Counted as load at once: many requesters ask within one heartbeat of the endpoint, which would all get the
        # same one otherwise.
        promise = Promise(requester=message.requester, stream=message.stream, given_ms=now_ms)
        promises = (*young(record.promises, now_ms, self.lease_ms), promise)
        mine[identity] = msgspec.structs.replace(record, promises=promises)
        return EndpointAssigned(record.endpoint, record.instance, record.attempt), notes

    def expire(self, now_ms: int) -> list[Instruction]:
        """Remove endpoints that have been silent for several leases."""
        limit_ms = FORGET_AFTER_LEASES * self.lease_ms
        gone = {
            identity: record
            for of_plan in self._plans.values()
            for identity, record in of_plan.items()
            if now_ms - record.heard_ms >= limit_ms
        }
        notes: list[Instruction] = []
        for identity, record in sorted(gone.items(), key=lambda one: one[0]):
            self._drop(identity)
            silence = f"silent_ms={now_ms - record.heard_ms}"
            notes.append(LogLine("info", f"endpoint forgotten {_describe(record.key, record)} {silence}"))
        return notes

    def keep_epochs(self, key: PlanKey, epochs: Collection[int]) -> None:
        """Remove the plan's endpoints of all epochs except `epochs`."""
        for identity in [one for one in self._of(key) if one[2] not in epochs]:
            self._drop(identity)

    def renew_receivers(self, key: PlanKey, epoch: int, now_ms: int) -> int:
        """Renew the leases of the plan's receivers of `epoch`, which are as they were registered; return how many."""
        mine = self._of(key)
        known = [one for one in mine.items() if one[1].role == "receiver" and one[1].epoch == epoch]
        for identity, record in known:
            mine[identity] = msgspec.structs.replace(record, heard_ms=now_ms, warned=False)
        return len(known)

    def renew_worker(self, key: PlanKey, epoch: int, worker: str, connections: tuple[str, ...], now_ms: int) -> bool:
        """Renew the lease of a worker's endpoint for the plan; return whether it is known, with these connections."""
        mine = self._of(key)
        identity: Identity = ("worker", key, epoch, worker)
        record = mine.get(identity)
        if record is None or record.connections != connections:
            return False
        mine[identity] = msgspec.structs.replace(record, heard_ms=now_ms, warned=False)
        return True

    def receivers(self, key: PlanKey, epoch: int) -> int:
        """Return the number of known receivers that the plan has registered under `epoch`."""
        return sum((one[0], one[2]) == ("receiver", epoch) for one in self._of(key))

    def serves(self, worker: str, key: PlanKey, epoch: int) -> bool:
        """Return whether the worker has registered for the plan's results of `epoch`."""
        return ("worker", key, epoch, worker) in self._of(key)

    def forget_receivers(self, key: PlanKey, epoch: int) -> None:
        """Remove the plan's receivers of `epoch`; its workers stay."""
        for identity in [one for one in self._of(key) if (one[0], one[2]) == ("receiver", epoch)]:
            self._drop(identity)

    def _candidate(self, record: EndpointRecord, now_ms: int) -> Candidate:
        return Candidate(
            instance=record.instance,
            endpoint=record.endpoint,
            connections=record.connections,
            promises=young(record.promises, now_ms, self.lease_ms),
            silent_ms=now_ms - record.heard_ms,
        )

    def _take_back(self, message: RequestEndpoint) -> None:
        """Withdraw the requester's earlier assignment, since a repeated request means that it is not used."""
        mine = self._of(message.key)
        for identity, record in mine.items():
            if record.role != message.role:
                continue
            kept = tuple(
                promise
                for promise in record.promises
                if (promise.requester, promise.stream) != (message.requester, message.stream)
            )
            if len(kept) != len(record.promises):
                mine[identity] = msgspec.structs.replace(record, promises=kept)

    def _of(self, key: PlanKey) -> dict[Identity, EndpointRecord]:
        return self._plans.get(key, {})

    def _drop(self, identity: Identity) -> None:
        key = identity[1]
        record = self._plans[key].pop(identity)
        if self._at.get(record.endpoint) == identity:
            del self._at[record.endpoint]
        if not self._plans[key]:
            del self._plans[key]

    def _warn_of(self, message: RequestEndpoint, ignored: tuple[Candidate, ...]) -> list[Instruction]:
        notes: list[Instruction] = []
        mine = self._of(message.key)
        for candidate in ignored:
            identity = (message.role, message.key, message.epoch, candidate.instance)
            record = mine[identity]
            if not record.warned:
                mine[identity] = msgspec.structs.replace(record, warned=True)
                where = f"{_describe(message.key, candidate)} role={message.role}"
                notes.append(LogLine("warning", f"stale endpoint ignored {where} silent_ms={candidate.silent_ms}"))
        return notes


def young(promises: tuple[Promise, ...], now_ms: int, lease_ms: int) -> tuple[Promise, ...]:
    """Return the promises given less than a lease ago."""
    return tuple(promise for promise in promises if now_ms - promise.given_ms < lease_ms)


def _describe(key: PlanKey, what: Candidate | EndpointRecord) -> str:
    return f"plan={key.topology()} instance={what.instance} endpoint={what.endpoint.host}:{what.endpoint.port}"


def _no_endpoint(message: RequestEndpoint) -> Rejected:
    stream = f", stream {message.stream}" if message.stream else ""
    wanted = "receiver stage" if message.role == "receiver" else "worker"
    reason = f"no live {wanted} is registered for {message.key.topology()}{stream}; ask again"
    return Rejected(code="no-endpoint", reason=reason)
