"""A task's part in checkpoints.

Markers are aligned in front of each instance, states are collected, and completed checkpoints are reported to
receivers. `begin`, `complete` and `abandon` may be called by any thread; the rest belongs to the task's loop.
"""

from __future__ import annotations

import queue
from collections.abc import Collection, Iterable, Mapping
from typing import Literal

from topology.checkpoint.alignment import Aligned, Aligner, Step
from topology.events.bundle import Bundle
from topology.model import Topology
from topology.stages.contract import StageInstance
from topology.stages.kinds.processor import Processor
from topology.stages.kinds.publisher import Publisher
from topology.stages.kinds.receiver import Receiver
from topology.stages.state.partial_checkpoint import PartialCheckpoint, TakenPart
from topology.sync_log.task_logs import TaskLogs

Order = Literal["begin", "end", "complete", "abandon"]
_Orders = queue.SimpleQueue[tuple[Order, int, int]]


class Checkpointing:
    """`instances` are the task's, by name; those without producers (receivers, triggers) begin the markers."""

    def __init__(self, topology: Topology, instances: Mapping[str, StageInstance], logs: TaskLogs) -> None:
        self.taken: queue.SimpleQueue[TakenPart] = queue.SimpleQueue()
        """The task's finished parts."""
        self.ending = False
        """Whether the last marker has been sent, so that the task no longer accepts events or fires timers."""
        self._instances = instances
        self._aligners = {name: Aligner.of(producers) for name, producers in _producers(topology, instances).items()}
        self._sources = [name for name, aligner in self._aligners.items() if not aligner.producers]
        marked = [one for one in instances.values() if isinstance(one, Receiver | Processor | Publisher)]
        self._marked: list[Receiver | Processor | Publisher | TaskLogs] = [*marked, logs]
        self._publishers = [instance for instance in instances.values() if isinstance(instance, Publisher)]
        self._processors = [one for one in instances.values() if isinstance(one, Processor) and one.stores]
        # Workers whose logs are not told what the last checkpoint holds send it again to the next run, which would take
        # it twice if it begins without state.
        settles = bool(self._processors) or any(isinstance(one, Receiver) for one in instances.values())
        self._part = PartialCheckpoint(tuple(instances), settles=settles)
        self._complete = 0
        self.settled = 0
        """What checkpoints up to this one hold is settled; read by other threads.

        Changes of stored tables are in their databases, and workers know which events they need not send again.
        """
        self._orders: _Orders = queue.SimpleQueue()
        self.changes = 1
        """Counts possible changes of state: processed bundles and fired timers."""
        self._began: dict[int, int] = {}
        """The value of `changes` at the markers of pending checkpoints."""
        self._retained: dict[int, int] = {}
        """The value of `changes` at the markers of retained checkpoints."""
        self._oldest = 0
        """The value of `changes` at the oldest retained checkpoint."""

    @property
    def idle(self) -> bool:
        """Return whether every retained checkpoint contains the whole present state. Any thread may call this."""
        # Every one, since logs of accepted events reach back to the oldest: a full log accepts no event that could lead
        # to the next checkpoint.
        return self._oldest == self.changes

    def begin(self, checkpoint: int, *, final: bool = False) -> None:
        """Let receivers and triggers send the marker of `checkpoint`. No events are accepted after a `final` one."""
        self._orders.put(("end" if final else "begin", checkpoint, 0))

    def complete(self, checkpoint: int, oldest: int = 0) -> None:
        """Notify the instances that `checkpoint` is complete, and which one is the `oldest` retained.

        Receivers report to workers what these hold, publishers learn which results are final, and processors which
        changes of stored tables are.
        """
        self._orders.put(("complete", checkpoint, oldest))

    def abandon(self, checkpoint: int) -> None:
        """Release what `checkpoint` holds back."""
        self._orders.put(("abandon", checkpoint, 0))

    def obey(self, *, works: bool, now_ms: int) -> None:
        """Follow orders since the last turn. A task that is not running refuses checkpoints."""
        while not self._orders.empty():
            order, checkpoint, oldest = self._orders.get()
            if order in ("begin", "end") and works and not self.ending:
                # Before the markers are sent: later changes are not in this checkpoint.
                self._began[checkpoint] = self.changes
                for name in self._sources:
                    self._mark(name, checkpoint, now_ms)
                self.ending = order == "end"
            elif order in ("begin", "end"):
                # Answered with an error rather than not at all, so that the driver need not wait until the checkpoint
                # times out.
                self.taken.put(TakenPart(checkpoint, {}, error="the task is on standby, transfers its state, or ends"))
            elif order == "complete":
                # The count at its markers, not the present one: events since then are in no checkpoint yet.
                self._retained[checkpoint] = self._began.pop(checkpoint, 0)
                # if the store does not know the oldest one, the newest is used
                oldest_known = oldest or checkpoint
                self._retained = {one: count for one, count in self._retained.items() if one >= oldest_known}
                self._oldest = self._retained.get(oldest_known, 0)
                self._began = {later: count for later, count in self._began.items() if later > checkpoint}
                self._complete = max(self._complete, checkpoint)
                for instance in self._marked:
                    if isinstance(instance, Receiver):
                        instance.complete(checkpoint, oldest)
                    else:
                        instance.complete(checkpoint)
            else:
                for instance in self._marked:
                    instance.abandon(checkpoint)
                self._part.abandon(checkpoint)
                # Producers may wait behind markers that will never come; their bundles continue now.
                for name, aligner in self._aligners.items():
                    self._follow(name, aligner.abandon(checkpoint), now_ms)

    def deliver(self, target: str, bundle: Bundle, now_ms: int) -> None:
        """Deliver `bundle` to instance `target`, or hold it back for a marker."""
        # Also outside checkpoints: the first marker may be in any bundle.
        aligner = self._aligners[target]
        steps = aligner.push(bundle)
        self._follow(target, steps, now_ms)
        if aligner.is_waiting():
            self._part.waits(target, now_ms)

    def note_flushed(self) -> None:
        """Mark publishers whose results have reached their workers as complete."""
        # A publisher's part is complete only when its worker has the results: a checkpoint that forgets the events must
        # not lose what came of them.
        for publisher in self._publishers:
            for checkpoint in publisher.flushed:
                self._done(checkpoint, publisher.name)
            publisher.flushed.clear()

    def note_settled(self) -> None:
        """Mark complete checkpoints as settled once the changes of stored tables have gone to the databases."""
        if self.settled < self._complete and all(processor.is_drained() for processor in self._processors):
            self.settled = self._complete

    def _follow(self, target: str, steps: Iterable[Step], now_ms: int) -> None:
        for step in steps:
            if isinstance(step, Aligned):
                self._mark(target, step.checkpoint, now_ms)
            else:
                self._instances[target].on_bundle(step, now_ms)

    def _mark(self, name: str, checkpoint: int, now_ms: int) -> None:
        instance = self._instances[name]
        self._part.snapshot_taken(checkpoint, name, instance.mark(checkpoint), now_ms)
        # Publishers are done later, see `note_flushed`.
        if not isinstance(instance, Publisher):
            self._done(checkpoint, name)

    def _done(self, checkpoint: int, name: str) -> None:
        part = self._part.done(checkpoint, name)
        if part is not None:
            self.taken.put(part)


def _producers(topology: Topology, instances: Collection[str]) -> dict[str, tuple[str, ...]]:
    """Return, for each instance, the names of the instances that send bundles to it."""
    return {name: topology.producers(topology.component(name.rpartition("#")[0])) for name in instances}
