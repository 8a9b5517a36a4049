"""How long an aggregation keeps its buckets."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from siddhi.analysis.model import AnalysedRetention
from siddhi.engine.jit.arrays import Int64Array
from siddhi.engine.operators.base.operator import NEVER


class Retention:
    """Every `interval_ms`, buckets that start more than the `kept_ms` of their level ago are purged.

    `kept_ms` int64, one for each level, `NEVER` for a level that keeps everything; `enabled` False: nothing is ever
    purged.
    """

    def __init__(self, kept_ms: Sequence[int], interval_ms: int, *, enabled: bool) -> None:
        self.kept_ms: Int64Array = np.array(kept_ms, dtype=np.int64)
        self.interval_ms = interval_ms
        self.enabled = enabled and bool((self.kept_ms != NEVER).any())

    def first_outdated_ms(self, oldest: Int64Array) -> int | None:
        """Return the first time at which the oldest bucket may be purged, None for never.

        `oldest` has the oldest bucket of each level, `NEVER` for none.
        """
        limited = (self.kept_ms != NEVER) & (oldest != NEVER)
        if not self.enabled or not limited.any():
            return None
        return int((oldest[limited] + self.kept_ms[limited]).min()) + 1

    def kept_from_ms(self, now_ms: int) -> Int64Array:
        """Return the earliest start of a bucket that each level keeps at `now_ms`."""
        lowest = np.iinfo(np.int64).min
        limited = self.kept_ms != NEVER
        return np.where(limited, now_ms - np.where(limited, self.kept_ms, 0), lowest)


def retention_of(analysed: AnalysedRetention) -> Retention:
    """Return the retention that the aggregation's definition asks for."""
    kept = [NEVER if kept_ms is None else kept_ms for kept_ms in analysed.kept_ms]
    return Retention(kept, analysed.interval_ms, enabled=analysed.enabled)
