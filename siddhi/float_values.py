"""Convert floats to doubles with the same shortest text.

A `float` has 32 bits. Widened to 64 bits it shows digits that it never had: 0.1 becomes 0.10000000149011612. Code that
writes floats uses the double with the shortest text that reads back as the same float.
"""

from __future__ import annotations

import pyarrow as pa


def written(column: pa.Array) -> pa.Array:
    """Return `column` with floats as doubles of the shortest text; columns of other types as they are."""
    if not pa.types.is_float32(column.type):
        return column
    return column.cast(pa.string()).cast(pa.float64())


def written_batch(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return `batch` with every column as `written` returns it."""
    if not any(pa.types.is_float32(type_) for type_ in batch.schema.types):
        return batch
    return pa.RecordBatch.from_arrays([written(column) for column in batch.columns], names=batch.schema.names)


def written_list(items: list[object]) -> list[object]:
    """Return floats among Python values, which are widened, as doubles of the shortest text."""
    widened = pa.array([item if isinstance(item, float) else None for item in items], pa.float64())
    floats = written(widened.cast(pa.float32(), safe=False)).to_pylist()
    return [floats[place] if isinstance(item, float) else item for place, item in enumerate(items)]
