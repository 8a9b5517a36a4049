"""The app's clock at each event."""

from __future__ import annotations

import numpy as np

from siddhi.engine.arrays import Int64Array, filled
from siddhi.engine.bits import address_of
from siddhi.engine.kernels import state_kernel
from siddhi.engine.memory import fetch, word_at

_LINE = 8
_AHEAD = 256
"""So many times ahead memory is asked for, a line of the processor's cache at a time."""
_ODD_ORDERS: Int64Array = np.arange(1, 2 * 8_192, 2)
_ONE_ORDER = _ODD_ORDERS[:1]


@state_kernel
def _ascend(stamps_at, count, floor):  # type: ignore[no-untyped-def]
    """True when none of `count` times lies before the one in front of it, or before `floor`.

    The address is taken, as an array that is not to be written to takes a microsecond longer to hand over.
    """
    for block in range(0, count, _LINE):
        fetch(stamps_at + 8 * (block + _AHEAD))
        for row in range(block, min(block + _LINE, count)):
            stamp = np.int64(word_at(stamps_at + 8 * row))
            if stamp < floor:
                return False
            floor = stamp
    return True


def event_clocks(stamps: Int64Array, clock: int) -> Int64Array:
    """The clock at each event when event time `stamps` drives it and it stood at `clock`: it never goes back.

    The array is `stamps` itself when these ascend, as they mostly do.
    """
    if len(stamps) == 1:
        return stamps if stamps.item() >= clock else filled(1, clock)
    if _ascend(address_of(stamps), len(stamps), clock):
        return stamps
    clocks: Int64Array = np.maximum(stamps, clock)
    return np.maximum.accumulate(clocks)


def root_orders(count: int) -> Int64Array:
    """The orders of `count` root chunks, one row each (`siddhi.engine.operator`)."""
    if count == 1:
        return _ONE_ORDER
    return _ODD_ORDERS[:count] if count <= len(_ODD_ORDERS) else np.arange(1, 2 * count, 2)
