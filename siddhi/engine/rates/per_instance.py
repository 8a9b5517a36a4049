"""Output rate limits in a partition: every instance has its own."""

from __future__ import annotations

from siddhi.engine.arrays import Int64Array
from siddhi.engine.partitions.instances import PerInstance
from siddhi.engine.rates.limiter import Limiter


class LimiterPerInstance(PerInstance, Limiter):
    """A limiter of a query, one copy for each partition instance; group numbers are those of the whole query."""

    def renumber_groups(self, numbers: Int64Array) -> None:
        for copy in self.copies.all():
            assert isinstance(copy, Limiter)  # noqa: S101 - it was made as one
            copy.renumber_groups(numbers)
