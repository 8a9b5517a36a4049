"""Attribute values as keys of a hash index."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from siddhi.engine.columnar.column import DTYPES
from siddhi.engine.columnar.strings import NULL_CODE, StringPool
from siddhi.engine.jit.arrays import BoolArray, Int64Array
from siddhi.engine.jit.kernels import NO_MASK, kernel_array
from siddhi.engine.operators.expressions.evaluation import Value
from siddhi.language.ast import AttributeType

NULL_BITS = np.iinfo(np.int64).min + 1
"""Represents null in a key of numbers."""
_WHOLE = frozenset({AttributeType.INT, AttributeType.LONG})
_BROKEN = frozenset({AttributeType.FLOAT, AttributeType.DOUBLE})


def comparable(left: AttributeType, right: AttributeType) -> bool:
    """Return whether values of both types are equal exactly where their bits are."""
    return left is right or any(left in family and right in family for family in (_WHOLE, _BROKEN))


def key_rows(
    values: Sequence[Value], types: Sequence[AttributeType], size: int, pool: StringPool
) -> tuple[Int64Array, BoolArray]:
    """Return the keys, (`size`, parts), of rows with these values, and a mask of those that equal nothing.

    A part equals nothing when it is null or NaN. The mask is `NO_MASK` when there are none.
    """
    parts = []
    nulls = NO_MASK
    for value, type_ in zip(values, types, strict=True):
        bits, missing = _bits(value, type_, size, pool)
        parts.append(bits)
        if len(missing):
            nulls = nulls | missing if len(nulls) else missing
    if len(parts) == 1:
        return kernel_array(parts[0]).reshape(size, 1), nulls
    return np.column_stack(parts), nulls


def _bits(value: Value, type_: AttributeType, size: int, pool: StringPool) -> tuple[Int64Array, BoolArray]:
    values, valid = value
    if values.ndim == 0:
        values = np.full(size, values)
    if type_ is AttributeType.OBJECT:
        values, valid = pool.codes(None if one is None else repr(one) for one in values), None
    if type_ is AttributeType.STRING or type_ is AttributeType.OBJECT:
        missing: BoolArray = values == NULL_CODE
        return values, missing if missing.any() else NO_MASK
    if type_ in _BROKEN:
        values = values.astype(np.float64) + 0.0  # both zeros are equal
        nan = np.isnan(values)
        missing = nan if valid is None else nan | ~valid
        bits = values.view(np.int64)
    else:
        bits = values if values.dtype == DTYPES[AttributeType.LONG] else values.astype(np.int64)
        missing = NO_MASK if valid is None else ~valid
    if valid is not None:
        bits = np.where(valid, bits, NULL_BITS)
    return bits, missing if len(missing) and missing.any() else NO_MASK
