"""Output rate limits in a partition: every instance has its own."""

from __future__ import annotations

import numpy as np

from per_row.limiter import Limiter
from siddhi.engine.columnar.batch import EventBatch
from siddhi.engine.jit.arrays import Int64Array
from siddhi.engine.operators.base.per_instance import PerInstance, came_together


class LimiterPerInstance(PerInstance, Limiter):
    """A limiter of a query, one copy for each partition instance; group numbers are those of the whole query."""

    def open(self, instances: Int64Array, clocks: Int64Array) -> None:
        """Open these instances at `clocks`, from which limiters with ticks count."""
        if not self.template.timed:
            return
        for instance, clock in zip(instances.tolist(), clocks.tolist(), strict=True):
            self.get(instance, clock)
            self.note_deadline(instance)

    def takes_runs(self, batch: EventBatch) -> bool:
        """Return whether the limiter takes runs: rows that were selected one by one have no chunks."""
        return came_together(batch)

    def groups_in_use(self) -> Int64Array:
        used = [copy.groups_in_use() for copy in self.by_id.values() if isinstance(copy, Limiter)]
        return np.concatenate([np.zeros(0, dtype=np.int64), *used])

    def renumber_groups(self, numbers: Int64Array) -> None:
        for copy in self.all():
            assert isinstance(copy, Limiter)
            copy.renumber_groups(numbers)
