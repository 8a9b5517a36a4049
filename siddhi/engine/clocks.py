"""The app's clock at each event."""

from __future__ import annotations

import numpy as np

from siddhi.engine.arrays import Int64Array, filled
from siddhi.engine.kernels import kernel

_ODD_ORDERS: Int64Array = np.arange(1, 2 * 8_192, 2)


@kernel
def _ascend(stamps, floor):  # type: ignore[no-untyped-def]
    """True when no time lies before the one in front of it, or before `floor`."""
    for row in range(len(stamps)):
        if stamps[row] < floor:
            return False
        floor = stamps[row]
    return True


def event_clocks(stamps: Int64Array, clock: int) -> Int64Array:
    """The clock at each event when event time `stamps` drives it and it stood at `clock`: it never goes back.

    The array is `stamps` itself when these ascend, as they mostly do.
    """
    if len(stamps) == 1:
        return stamps if int(stamps[0]) >= clock else filled(1, clock)
    if _ascend(stamps, clock):
        return stamps
    clocks: Int64Array = np.maximum(stamps, clock)
    return np.maximum.accumulate(clocks)


def root_orders(count: int) -> Int64Array:
    """The orders of `count` root chunks, one row each (`siddhi.engine.operator`)."""
    return _ODD_ORDERS[:count] if count <= len(_ODD_ORDERS) else np.arange(1, 2 * count, 2)
