"""Writes a sync log: bundles are passed on to the instances when the topic has them. Pure except for its topic."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Protocol

from topology.events.bundle import Bundle
from topology.sync_log.records import encode

MOST_BUNDLES = 10_000
"""How many bundles wait for the brokers before a task takes nothing more in."""


class SyncLogOutput(Protocol):
    """The topic as a writer uses it; calls come from the task's thread."""

    def append(self, ticket: int, records: Sequence[bytes]) -> None:
        """Write the records in this order, behind those of earlier calls."""

    def written(self) -> Iterable[tuple[int, int]]:
        """Return the tickets whose records the brokers have since the last call, with the offset of the first one.

        Raises:
            TopologyError: When records cannot be written.
        """

    def forget(self, before: int) -> None:
        """Delete the records before an offset; failing that, they go when the topic's retention ends."""

    def problem(self) -> str:
        """Return why nothing is written now; empty: nothing hinders it."""

    def close(self) -> None:
        """Close the connection; what has not been written may be or not."""


class SyncLogWriter:
    """Writes the bundles of run `run` to `topic` and then emits them without rows, with the offset of their records.

    So what waits for instances is bounded as without a topic: a bundle is settled when all of them have applied it.
    Markers of checkpoints keep their place among the bundles. `number` identifies its records.
    """

    def __init__(
        self, topic: SyncLogOutput, run: tuple[int, int], emit: Callable[[Bundle], None], number: int = 0
    ) -> None:
        self.topic = topic
        self._run, self._number = run, number
        self._emit = emit
        self._waiting: deque[Bundle] = deque()
        self._offsets: dict[int, int] = {}
        self._last = -1
        self._marks: dict[int, int] = {}
        self.rows = 0
        """How many rows wait to be written."""

    def write(self, bundle: Bundle) -> None:
        """Write a bundle, or keep a marker behind what is being written."""
        bundle.hold()
        self._waiting.append(bundle)
        if not bundle.checkpoint:
            self.rows += bundle.rows()
            self.topic.append(bundle.ticket, encode(self._run, bundle, self._number))
        self.pump()

    def pump(self) -> None:
        """Emit what the topic has. Raise TopologyError when it takes nothing more."""
        self._offsets.update(self.topic.written())
        while self._waiting:
            bundle = self._waiting[0]
            if bundle.checkpoint:
                self._marks[bundle.checkpoint] = self._last + 1
            elif bundle.ticket not in self._offsets:
                return
            self._waiting.popleft()
            if not bundle.checkpoint:
                self.rows -= bundle.rows()
                self._last = self._offsets.pop(bundle.ticket)
                self._emit(replace(bundle, batches=(), position=self._last))
            else:
                self._emit(bundle)
            bundle.settle()

    def is_full(self, most_rows: int) -> bool:
        """Return whether more than `most_rows` rows wait, or too many bundles: those without rows only pass time on."""
        return self.rows > most_rows or len(self._waiting) > MOST_BUNDLES

    def is_drained(self) -> bool:
        """Return whether all that was written has been emitted."""
        return not self._waiting

    def complete(self, checkpoint: int) -> None:
        """Delete what all instances had applied before the complete `checkpoint`."""
        before = self._marks.get(checkpoint, 0)
        self._marks = {later: offset for later, offset in self._marks.items() if later > checkpoint}
        if before > 0:
            self.topic.forget(before)

    def abandon(self, checkpoint: int) -> None:
        """Discard `checkpoint`, which will not be completed."""
        self._marks.pop(checkpoint, None)
