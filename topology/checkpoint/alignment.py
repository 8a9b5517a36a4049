"""Alignment of checkpoint markers.

An instance's snapshot holds everything that each of its producers sent before its marker, and nothing that came
after. Pure.

    producer a ──1──2──M──3──▶ ┐
    producer b ──7──────8──M─▶ ┴─▶ 1 7 2 8 │ snapshot, marker continues │ 3
                                           └ 3 was held back until b's marker had come
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from dataclasses import dataclass, field

from topology.events.bundle import Bundle


@dataclass(frozen=True, slots=True)
class Aligned:
    """The markers of `checkpoint` have arrived from all producers, which is the time of the snapshot."""

    checkpoint: int


Step = Bundle | Aligned
"""The next action of the instance: process a bundle, or take its snapshot."""


@dataclass(slots=True)
class Aligner:
    """Aligns the markers of one instance that has producers.

    A marker is settled here. Bundles that wait are not, so they count against the windows of the tasks that sent
    their events.
    """

    producers: frozenset[str]
    _checkpoint: int = 0
    """The checkpoint whose markers are awaited; 0: none."""
    _past: int = 0
    """Markers up to this checkpoint are ignored."""
    _marked: set[str] = field(default_factory=set)
    _held: deque[Bundle] = field(default_factory=deque)

    @classmethod
    def of(cls, producers: Collection[str]) -> Aligner:
        """Return an aligner for `producers`, the names of all instances from which bundles come."""
        return cls(frozenset(producers))

    def push(self, bundle: Bundle) -> list[Step]:
        """Return what to do now that `bundle` has arrived, in order."""
        # the common case, between checkpoints
        if not bundle.checkpoint and not self._marked:
            return [bundle]
        steps: list[Step] = []
        self._push(bundle, steps)
        return steps

    def abandon(self, checkpoint: int) -> list[Step]:
        """Stop waiting for markers of `checkpoint` and earlier ones, and release the bundles that they held back."""
        steps: list[Step] = []
        if checkpoint > self._past:
            # Remembered, so that late markers of the abandoned checkpoint do not start another alignment.
            self._past = checkpoint
            if self._marked and self._checkpoint <= checkpoint:
                self._release(steps)
        return steps

    def is_waiting(self) -> bool:
        """Return whether some markers have arrived and others have not."""
        return bool(self._marked)

    def _push(self, bundle: Bundle, steps: list[Step]) -> None:
        # It was sent after its producer's marker and so belongs to the next checkpoint; markers too, which keep their
        # order.
        if bundle.source in self._marked:
            self._held.append(bundle)
        elif bundle.checkpoint:
            self._mark(bundle, steps)
        else:
            steps.append(bundle)

    def _mark(self, marker: Bundle, steps: list[Step]) -> None:
        if self._marked and marker.checkpoint > self._checkpoint:
            self._past = self._checkpoint  # this producer has skipped its marker
            self._release(steps)
            self._push(marker, steps)
            return
        # Settled here, since markers go no further: the snapshot, not the bundle, carries them on.
        marker.settle()
        if marker.checkpoint <= self._past:
            return
        self._checkpoint = marker.checkpoint
        self._marked.add(marker.source)
        if self._marked == self.producers:
            self._past = marker.checkpoint
            steps.append(Aligned(marker.checkpoint))
            self._release(steps)

    def _release(self, steps: list[Step]) -> None:
        held, self._held = self._held, deque()
        # Before they are pushed again, or they would be held back once more.
        self._marked.clear()
        # They may contain the next marker of a fast producer, so they are handled like new ones.
        for bundle in held:
            self._push(bundle, steps)
