"""The progress of one task's instances in a checkpoint. Pure: times are arguments."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from topology.stages.contract import Parts


@dataclass(frozen=True, slots=True)
class TakenPart:
    """The task's part of `checkpoint`.

    It holds the state of every instance that has one, and the longest time that an instance waited for markers.
    `error` says why there is none; `settles` that the task has something to pass on once the checkpoint is
    complete: changes of stored tables to databases, or to workers which events they need not keep.
    """

    checkpoint: int
    states: Mapping[str, Parts]
    alignment_ms: int = 0
    error: str = ""
    settles: bool = False


@dataclass(slots=True)
class PartialCheckpoint:
    """Collects the states of a task's `instances`, for one checkpoint at a time.

    A later checkpoint replaces an unfinished earlier one. `settles` is passed on to its parts.
    """

    instances: Collection[str]
    settles: bool = False
    checkpoint: int = 0
    _states: dict[str, Parts] = field(default_factory=dict)
    _outstanding: set[str] = field(default_factory=set)
    _waiting_since_ms: dict[str, int] = field(default_factory=dict)
    _alignment_ms: int = 0

    def waits(self, instance: str, now_ms: int) -> None:
        """Record that `instance` holds back bundles of some producers from now on."""
        self._waiting_since_ms.setdefault(instance, now_ms)

    def snapshot_taken(self, checkpoint: int, instance: str, state: Parts, now_ms: int) -> None:
        """Add the state of `instance` for `checkpoint`."""
        self._begin(checkpoint)
        if checkpoint == self.checkpoint and state:
            self._states[instance] = state
        since_ms = self._waiting_since_ms.pop(instance, now_ms)
        self._alignment_ms = max(self._alignment_ms, now_ms - since_ms)

    def done(self, checkpoint: int, instance: str) -> TakenPart | None:
        """Record that `instance` has completed its part of `checkpoint`; return the task's part when all are."""
        self._begin(checkpoint)
        if checkpoint != self.checkpoint or instance not in self._outstanding:
            return None
        self._outstanding.discard(instance)
        if self._outstanding:
            return None
        states, self._states = self._states, {}
        return TakenPart(checkpoint, states, self._alignment_ms, settles=self.settles)

    def abandon(self, checkpoint: int) -> None:
        """Stop all work for `checkpoint`."""
        self._waiting_since_ms.clear()
        if checkpoint == self.checkpoint:
            self._states, self._outstanding = {}, set()

    def _begin(self, checkpoint: int) -> None:
        if checkpoint > self.checkpoint:
            self.checkpoint, self._alignment_ms = checkpoint, 0
            self._states, self._outstanding = {}, set(self.instances)
