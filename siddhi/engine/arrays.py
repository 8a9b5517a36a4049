"""Names for the numpy arrays that the engine passes around."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Int8Array: TypeAlias = NDArray[np.int8]
Int64Array: TypeAlias = NDArray[np.int64]
FloatArray: TypeAlias = NDArray[np.float64]
BoolArray: TypeAlias = NDArray[np.bool_]
AnyArray: TypeAlias = NDArray[Any]

NO_POSITIONS: Int64Array = np.zeros(0, dtype=np.int64)


def filled(count: int, value: int) -> Int64Array:
    """`count` times `value`: `np.full` without its set-up, which tells in steps of one row."""
    array: Int64Array = np.empty(count, dtype=np.int64)
    array.fill(value)
    return array
