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
