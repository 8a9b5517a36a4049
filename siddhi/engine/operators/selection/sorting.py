"""`order by` inside chunks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from siddhi.analysis import model
from siddhi.engine.columnar.batch import EventBatch
from siddhi.engine.columnar.column import Column
from siddhi.engine.columnar.java_order import hash_ranks, object_hash
from siddhi.engine.jit.arrays import AnyArray, Int64Array
from siddhi.language.ast import AttributeType


def sort_positions(batch: EventBatch, keys: Sequence[model.SortKey]) -> Int64Array:
    """Return the rows' positions with each run of one kind inside a chunk sorted by `keys`.

    The sort is stable, with nulls last in either direction.
    """
    changes = np.ones(batch.size, dtype=np.bool_)
    chunks = batch.chunk_ids()
    changes[1:] = chunks[1:] != chunks[:-1]
    if not batch.only_current:
        changes[1:] |= batch.kinds[1:] != batch.kinds[:-1]
    lines: list[AnyArray] = []
    for key in reversed(keys):
        column = batch.columns[key.name]
        ranks, valid = _ranks(column), column.valid
        if valid is not None:
            ranks = np.where(valid, ranks, 0)  # the order of nulls is that in which they came
        lines.append(~ranks if key.descending else ranks)
        if valid is not None:
            lines.append(~valid)
    lines.append(np.cumsum(changes))
    return np.lexsort(lines)


def _ranks(column: Column) -> Int64Array:
    """Return whole numbers in the order of the column's values; that of a null is arbitrary.

    Objects are sorted by their hash codes, as in Siddhi.
    """
    values = column.values
    if column.type is AttributeType.STRING:
        distinct, inverse = np.unique(values, return_inverse=True)
        texts = [(column.pool.text(code) or "").encode("utf-16-be", "surrogatepass") for code in distinct.tolist()]
        places = np.empty(len(texts), dtype=np.int64)
        places[sorted(range(len(texts)), key=texts.__getitem__)] = np.arange(len(texts))
        return places[inverse]
    if column.type is AttributeType.OBJECT:
        return np.array(hash_ranks([object_hash(value) for value in values]), dtype=np.int64)
    if column.type is AttributeType.FLOAT or column.type is AttributeType.DOUBLE:
        return _as_java_compares(values)
    return values.astype(np.int64)


def _as_java_compares(numbers: AnyArray) -> Int64Array:
    """Return integers that sort like Java's `Double.compareTo`.

    -0.0 is below 0.0, NaN is above all and equal to itself.
    """
    wide = np.where(np.isnan(numbers), np.nan, numbers.astype(np.float64))
    bits = wide.view(np.int64)
    turned: Int64Array = np.where(bits < 0, bits ^ np.iinfo(np.int64).max, bits)
    return turned
