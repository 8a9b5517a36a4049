"""Rules of the system, broken on purpose: a simulator that finds nothing with one of these can find nothing at all."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import Any
from unittest import mock

import msgspec

from cep_common.errors import DecodeError
from cep_common.protocol.checkpoints import ReportPart
from cep_common.protocol.registry import CheckpointSpan
from cep_manager.control.assignment import Candidate, EndpointChoice, choose
from cep_manager.control.registry import EndpointRegistry
from cep_manager.election.election import Election, ElectionRole
from cep_worker.mirror.protection import Instruction, Protection, Release, State
from cep_worker.outflows.transactional_log.commit_decisions import Attempt, CommitDecision, commit_decision
from topology.checkpoint.alignment import Aligner, Step
from topology.checkpoint.coordination.archive import Archive, RunStart
from topology.checkpoint.coordination.coordinator import Coordinator
from topology.checkpoint.coordination.runs import Opening, RunId
from topology.driver.fencing import OrderFence
from topology.events.bundle import Bundle
from topology.links.positions import Positions
from topology.stages.kinds.publisher import Publisher
from topology.stages.kinds.receiver import Receiver
from topology.stages.tasks.task import Task
from topology.sync_log.reader import SyncLogReader
from topology.sync_log.records import decode_record

Broken = Callable[[], AbstractContextManager[Any]]


def _replaced(owner: object, name: str, instead: object) -> Broken:
    return lambda: mock.patch.object(owner, name, instead)


def _patched(what: str, instead: object) -> Broken:
    return lambda: mock.patch(what, instead)


def _acts_after_its_lease(self: Election, now_ms: int) -> bool:
    return self.role is ElectionRole.LEADING


@contextmanager
def _leader_that_never_ends() -> Iterator[None]:
    """Neither is the lease looked at before an act, nor is its end noticed."""
    tick = Election.tick

    def without_end(self: Election, now_ms: int) -> Any:
        self._until_ms = max(self._until_ms, now_ms + 1) if self.role is ElectionRole.LEADING else self._until_ms
        return tick(self, now_ms)

    with ExitStack() as broken:
        broken.enter_context(mock.patch.object(Election, "leads", _acts_after_its_lease))
        broken.enter_context(mock.patch.object(Election, "tick", without_end))
        yield


def _follows_anybody(self: OrderFence, token: int) -> bool:
    return True


def _gives_stale_ones(candidates: Any, host: str, lease_ms: int, former: str = "") -> EndpointChoice:
    return choose(candidates, host, 10 * lease_ms, former)


def _sends_far_away(candidates: Any, host: str, lease_ms: int, former: str = "") -> EndpointChoice:
    return choose(candidates, "nowhere", lease_ms, former)


def _counts_no_promises(candidate: Candidate) -> Any:
    return len(candidate.connections), candidate.instance, candidate.endpoint


def _keeps_promises(self: EndpointRegistry, message: object) -> None:
    """Who asks again counts twice."""


def _works_on(self: Task) -> bool:
    return self._opened and self._order != "stand-by"


def _secures_before_completion(self: Receiver, checkpoint: int) -> Any:
    self._positions.mark(checkpoint)
    self._emit(Bundle.marker(self.name, checkpoint))
    state = self.snapshot()
    self.complete(checkpoint)
    return state


@contextmanager
def _completes_without_a_part() -> Iterator[None]:
    """The first task that reports speaks for all."""
    report = Coordinator.report

    def for_all(self: Coordinator, message: ReportPart, now_ms: int) -> Any:
        instructions = report(self, message, now_ms)
        run = self.runs.get((message.key, message.epoch))
        for task in range(run.tasks if run is not None else 0):
            other = ReportPart(message.key, message.epoch, message.attempt, task, message.checkpoint)
            instructions = instructions or report(self, other, now_ms)
        return instructions

    with mock.patch.object(Coordinator, "report", for_all):
        yield


def _holds_nothing_back(self: Aligner, bundle: Bundle, steps: list[Step]) -> None:
    if bundle.checkpoint:
        self._mark(bundle, steps)
    else:
        steps.append(bundle)


@contextmanager
def _takes_again() -> Iterator[None]:
    """Senders start over with each link, and what came before is taken once more."""
    take = Positions.take

    def take_all(self: Positions, channel: str, log: str, position: int) -> bool:
        take(self, channel, log, position)
        return True

    with ExitStack() as broken:
        broken.enter_context(mock.patch.object(Positions, "take", take_all))
        broken.enter_context(mock.patch.object(Receiver, "_resume", return_value=0))
        yield


def _releases_at_once(attempt: Attempt, checkpoint: int | None, spans: Sequence[CheckpointSpan]) -> CommitDecision:
    found = commit_decision(attempt, checkpoint, spans)
    return CommitDecision.RELEASE if found is CommitDecision.WAIT and checkpoint is not None else found


@contextmanager
def _any_worker_follows() -> Iterator[None]:
    """A publisher turns to another worker though the former one may have results that no checkpoint holds."""
    assign = Publisher.assign

    def forgetful(self: Publisher, *arguments: Any) -> None:
        self._standing = self._given
        assign(self, *arguments)

    with mock.patch.object(Publisher, "assign", forgetful):
        yield


def _any_epoch_will_do(*_: object) -> int:
    return 0


@contextmanager
def _numbers_again() -> Iterator[None]:
    """Numbers are given out again from the checkpoint on which an attempt begins."""
    open_run = Archive.open_run

    def from_there(self: Archive, run: RunId, restore: str, restore_epoch: int = 0) -> RunStart:
        found = open_run(self, run, restore, restore_epoch)
        before = found.opening
        return RunStart(Opening(before.spans, found.number, before.reserved), found.reference, found.number)

    with mock.patch.object(Archive, "open_run", from_there):
        yield


@dataclass(frozen=True, slots=True)
class BrokenRule:
    """A way to break a rule, which `simulator` finds out in one of `seeds`; `first` is one that does, or where one is
    soon: each that does not takes half a second."""

    simulator: str
    way: Broken
    first: int = 0
    within: int = 100

    @property
    def seeds(self) -> range:
        """Those among which one shows it."""
        return range(self.first, self.first + self.within)


def _reads_every_run(self: SyncLogReader, offset: int, body: bytes) -> None:
    with suppress(DecodeError):
        record = msgspec.structs.replace(decode_record(body), run=self._run)
        _takes_record(self, offset, msgspec.msgpack.encode(record))


_takes_record = SyncLogReader._take


def _goes_alone_at_once(self: Protection, reason: str, now_ms: int) -> list[Instruction]:
    self._move(State.ALONE, reason, now_ms)
    return [Release()]


def _trusts_any_batch(self: Protection, began_ms: int, now_ms: int) -> list[Instruction]:
    """A batch that was collected while events were acknowledged alone counts as everything."""
    if self.state not in (State.CATCHING_UP, State.JOINING):
        return []
    self._move(State.CONFIRMING, "", now_ms)
    return [self._record(in_sync=True)]


BROKEN_RULES = {
    "records of runs that were replaced count": BrokenRule(
        "sync-log", _replaced(SyncLogReader, "_take", _reads_every_run)
    ),
    "a node acknowledges alone before that is recorded": BrokenRule(
        "nodes", _replaced(Protection, "_leave", _goes_alone_at_once)
    ),
    "a passive node is in sync though events were acknowledged without it": BrokenRule(
        "nodes", _replaced(Protection, "applied", _trusts_any_batch), first=490
    ),
    "a leader acts after its lease": BrokenRule("election", _leader_that_never_ends),
    "the driver follows former leaders": BrokenRule("election", _replaced(OrderFence, "admits", _follows_anybody)),
    "stale endpoints are assigned": BrokenRule(
        "assignment", _patched("cep_manager.control.registry.choose", _gives_stale_ones)
    ),
    "the host of who asks does not matter": BrokenRule(
        "assignment", _patched("cep_manager.control.registry.choose", _sends_far_away)
    ),
    "promises do not count": BrokenRule(
        "assignment", _patched("cep_manager.control.assignment._order", _counts_no_promises)
    ),
    "promises are never taken back": BrokenRule(
        "assignment", _replaced(EndpointRegistry, "_take_back", _keeps_promises)
    ),
    "a task that pauses accepts events": BrokenRule("hand-over", _replaced(Task, "_works", _works_on)),
    "what a checkpoint may hold is secured before it is complete": BrokenRule(
        "delivery", _replaced(Receiver, "mark", _secures_before_completion)
    ),
    "a checkpoint is complete though a part is missing": BrokenRule("delivery", _completes_without_a_part),
    "nothing is held back behind a marker": BrokenRule(
        "delivery", _replaced(Aligner, "_push", _holds_nothing_back), first=59
    ),
    "what came before is taken again": BrokenRule("delivery", _takes_again),
    "results are released before their checkpoint": BrokenRule(
        "delivery",
        _patched("cep_worker.outflows.transactional_log.prepared_results.commit_decision", _releases_at_once),
    ),
    "another worker gets what follows results without a marker": BrokenRule(
        "delivery", _any_worker_follows, first=399, within=300
    ),
    "numbers of checkpoints are used again": BrokenRule("delivery", _numbers_again),
    "epochs that a replaced database gave out are given out again": BrokenRule(
        "older-copy", _patched("cep_manager.control.deployment.deployments.least_epoch", _any_epoch_will_do), first=100
    ),
}
"""By what is broken."""
