"""The registry of endpoints: who takes events of which plan, under a lease that each registration renews.

Pure: messages and a monotonic time go in, answers and instructions come out. A registration is the heartbeat:

    register ──── register ──── register ─ ─ ─ silence ─ ─ ─▶ stale at lease_ms ─ ─ ─▶ forgotten at 4 × lease_ms
                  (renews)                                    (never assigned)
"""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from cep_common.ids import Endpoint, PlanKey
from cep_common.messages import (
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
    """A registered endpoint and what it said last. `warned` says that its present silence has been logged."""

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
        """Links that stand or were promised less than a lease ago."""
        return live_connections(self.connections, young(self.promises, now_ms, lease_ms))


Identity = tuple[Role, PlanKey, int, str]


class Registry:
    """All endpoints of all plans. Epochs are checked by whoever knows the plans; see `ControlPlane`."""

    def __init__(self, heartbeat_ms: int, lease_ms: int) -> None:
        self._heartbeat_ms = heartbeat_ms
        self.lease_ms = lease_ms
        self._endpoints: dict[Identity, EndpointRecord] = {}

    def records(self) -> tuple[EndpointRecord, ...]:
        """Every endpoint that is not forgotten, in order of role, plan, epoch and instance."""
        return tuple(self._endpoints[identity] for identity in sorted(self._endpoints))

    def register(self, message: RegisterEndpoint, now_ms: int) -> EndpointRegistered:
        """The endpoint is known and its lease runs anew. An instance has one endpoint, an endpoint one instance."""
        identity = (message.role, message.key, message.epoch, message.instance)
        known = self._endpoints.get(identity)
        same = known is not None and known.endpoint == message.endpoint
        promises = young(known.promises, now_ms, self.lease_ms) if known is not None and same else ()
        if not same:
            self._drop_others_at(message.endpoint)
        self._endpoints[identity] = EndpointRecord(
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
        """An endpoint for the requester, or a refusal `no-endpoint`. An endpoint left out as stale is warned of once
        each time that it falls silent."""
        self._take_back(message)
        identities = [
            identity
            for identity in sorted(self._endpoints)
            if identity[:3] == (message.role, message.key, message.epoch)
        ]
        candidates = [self._candidate(self._endpoints[identity], now_ms) for identity in identities]
        choice = choose(candidates, message.host, self.lease_ms, message.former)
        notes = self._warn_of(message, choice.ignored)
        if choice.chosen is None:
            return _no_endpoint(message), notes
        identity = (message.role, message.key, message.epoch, choice.chosen.instance)
        record = self._endpoints[identity]
        promise = Promise(requester=message.requester, stream=message.stream, given_ms=now_ms)
        promises = (*young(record.promises, now_ms, self.lease_ms), promise)
        self._endpoints[identity] = msgspec.structs.replace(record, promises=promises)
        return EndpointAssigned(record.endpoint, record.instance, record.attempt), notes

    def expire(self, now_ms: int) -> list[Instruction]:
        """Endpoints that were silent for several leases are gone."""
        limit_ms = FORGET_AFTER_LEASES * self.lease_ms
        gone = [identity for identity, record in self._endpoints.items() if now_ms - record.heard_ms >= limit_ms]
        notes: list[Instruction] = []
        for identity in sorted(gone):
            record = self._endpoints.pop(identity)
            silence = f"silent_ms={now_ms - record.heard_ms}"
            notes.append(LogLine("info", f"endpoint forgotten {_describe(record.key, record)} {silence}"))
        return notes

    def keep_epochs(self, key: PlanKey, epochs: Collection[int]) -> None:
        """The plan has endpoints of `epochs` only."""
        for identity in [one for one in self._endpoints if one[1] == key and one[2] not in epochs]:
            del self._endpoints[identity]

    def receivers(self, key: PlanKey, epoch: int) -> int:
        """How many receivers of the plan have registered under `epoch` and are not forgotten."""
        return sum(identity[:3] == ("receiver", key, epoch) for identity in self._endpoints)

    def forget_receivers(self, key: PlanKey, epoch: int) -> None:
        """The plan's receivers of `epoch` are gone; its workers stay."""
        for identity in [one for one in self._endpoints if one[:3] == ("receiver", key, epoch)]:
            del self._endpoints[identity]

    def _candidate(self, record: EndpointRecord, now_ms: int) -> Candidate:
        return Candidate(
            instance=record.instance,
            endpoint=record.endpoint,
            connections=record.connections,
            promises=young(record.promises, now_ms, self.lease_ms),
            silent_ms=now_ms - record.heard_ms,
        )

    def _take_back(self, message: RequestEndpoint) -> None:
        """Who asks again does not use what it was given before."""
        for identity, record in self._endpoints.items():
            if record.role != message.role or record.key != message.key:
                continue
            kept = tuple(
                promise
                for promise in record.promises
                if (promise.requester, promise.stream) != (message.requester, message.stream)
            )
            if len(kept) != len(record.promises):
                self._endpoints[identity] = msgspec.structs.replace(record, promises=kept)

    def _drop_others_at(self, endpoint: Endpoint) -> None:
        for identity, record in list(self._endpoints.items()):
            if record.endpoint == endpoint:
                del self._endpoints[identity]

    def _warn_of(self, message: RequestEndpoint, ignored: tuple[Candidate, ...]) -> list[Instruction]:
        notes: list[Instruction] = []
        for candidate in ignored:
            identity = (message.role, message.key, message.epoch, candidate.instance)
            record = self._endpoints[identity]
            if not record.warned:
                self._endpoints[identity] = msgspec.structs.replace(record, warned=True)
                where = f"{_describe(message.key, candidate)} role={message.role}"
                notes.append(LogLine("warning", f"stale endpoint ignored {where} silent_ms={candidate.silent_ms}"))
        return notes


def young(promises: tuple[Promise, ...], now_ms: int, lease_ms: int) -> tuple[Promise, ...]:
    """The promises given less than a lease ago."""
    return tuple(promise for promise in promises if now_ms - promise.given_ms < lease_ms)


def _describe(key: PlanKey, what: Candidate | EndpointRecord) -> str:
    return f"plan={key.topology()} instance={what.instance} endpoint={what.endpoint.host}:{what.endpoint.port}"


def _no_endpoint(message: RequestEndpoint) -> Rejected:
    stream = f", stream {message.stream}" if message.stream else ""
    wanted = "receiver stage" if message.role == "receiver" else "worker"
    reason = f"no live {wanted} is registered for {message.key.topology()}{stream}; ask again"
    return Rejected(code="no-endpoint", reason=reason)
