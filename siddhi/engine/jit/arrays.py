"""Type aliases for the engine's numpy arrays."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Int8Array: TypeAlias = NDArray[np.int8]
Int64Array: TypeAlias = NDArray[np.int64]
FloatArray: TypeAlias = NDArray[np.float64]
BoolArray: TypeAlias = NDArray[np.bool_]
AnyArray: TypeAlias = NDArray[Any]

INT64: np.dtype[np.int64] = np.dtype(np.int64)
FLOAT64: np.dtype[np.float64] = np.dtype(np.float64)
BOOL: np.dtype[np.bool_] = np.dtype(np.bool_)
"""numpy accepts dtypes faster than the types from which they are made, which is noticeable in steps of one row."""
NO_POSITIONS: Int64Array = np.zeros(0, dtype=np.int64)


def filled(count: int, value: int) -> Int64Array:
    """Return an array of `count` times `value`, faster than `np.full` for small arrays."""
    array: Int64Array = np.empty(count, INT64)
    array.fill(value)
    return array
