"""Maintenance of a running app between two steps.

Partitions drop keys that have been idle, and the string pool drops strings that are not in use.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from siddhi.engine.columnar.batch import EventBatch
from siddhi.engine.columnar.string_compaction import StringCompaction
from siddhi.engine.fast_path.path import StreamPath
from siddhi.engine.jit.arrays import Int64Array, filled
from siddhi.engine.operators.base.operator import NEVER
from siddhi.engine.operators.partitions.place import PartitionPlace
from siddhi.engine.scheduling.steps import StepRunner

Roots = Mapping[str, list[EventBatch]]
"""The events of a step by stream."""


class Maintenance:
    """Runs an app's steps, and splits them where a partition has to purge keys.

    So purges do not depend on how events were divided into batches. A purge runs after the timers and before the events
    of its time.
    """

    def __init__(self, steps: StepRunner, places: Sequence[PartitionPlace], compaction: StringCompaction) -> None:
        self._steps = steps
        self._compaction = compaction
        self._purging = [place for place in places if place.instances.purge is not None]

    def next_deadline_ms(self) -> int | None:
        """Return the time of the earliest timer or purge, or None."""
        due = self._steps.next_deadline_ms()
        if not self._purging:
            return due
        first = min(NEVER if due is None else due, self._next_purge_ms(None))
        return None if first == NEVER else first

    def fast_path(self, stream: str) -> StreamPath | None:
        """Return the fast path as `StepRunner.fast_path` does.

        There is none if a partition purges keys over time.
        """
        return None if self._purging else self._steps.fast_path(stream)

    def run_batch(self, key: str, batch: EventBatch, clocks: Int64Array, floor: int, shown: int) -> None:
        """Run a batch as `StepRunner.run_batch` does."""
        if self._purging:
            self.run({key: [batch]}, clocks, floor, shown)
            return
        self._steps.run_batch(key, batch, clocks, floor, shown)
        self._compaction.run_if_due()

    def run(self, roots: Roots, clocks: Int64Array, floor: int, shown: int) -> None:
        """Run a step as `StepRunner.run` does."""
        while self._purging and (due := self._next_purge_ms(int(clocks[0]) if roots else None)) <= int(clocks[-1]):
            before = int(np.searchsorted(clocks, due))
            if before:
                early, roots = _cut(roots, before)
                self._steps.run(early, clocks[:before], floor, shown)
                floor, clocks = int(clocks[before - 1]), clocks[before:]
            self._steps.run({}, filled(1, due), floor, shown)
            floor = max(floor, due)
            for place in self._purging:
                if place.next_purge_ms() <= due:
                    place.purge(due)
        self._steps.run(roots, clocks, floor, shown)
        self._compaction.run_if_due()

    def _next_purge_ms(self, opening_clock: int | None) -> int:
        return min(place.next_purge_ms(opening_clock) for place in self._purging)


def _cut(roots: Roots, before: int) -> tuple[Roots, Roots]:
    """Return the rows of the first `before` root chunks, and the rest as a separate step."""
    early: dict[str, list[EventBatch]] = {}
    late: dict[str, list[EventBatch]] = {}
    for key, batches in roots.items():
        for batch in batches:
            place = int(np.searchsorted(batch.orders, 2 * before))
            rest = batch.slice(place, batch.size)
            early.setdefault(key, []).append(batch.slice(0, place))
            late.setdefault(key, []).append(rest.with_orders(rest.orders - 2 * before))
    return early, late
