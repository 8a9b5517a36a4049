"""Values of type `object`: JSON of bounded depth.

The engine decodes them when a query uses them, and fails on deeper ones.
"""

from __future__ import annotations

import pyarrow as pa

from siddhi.column_names import attribute_name
from siddhi.nesting import DEEPEST, ObjectError, read_object

WRONG_JSON = f"must be JSON with at most {DEEPEST} nested lists and maps"
WRONG_OBJECT = f"must be object: JSON in base64, at most {DEEPEST} nested lists and maps"


def is_readable(value: bytes) -> bool:
    """Return whether the engine can process the value."""
    try:
        read_object(value)
    except ObjectError:
        return False
    return True


def unreadable_object(batch: pa.RecordBatch) -> tuple[int, str] | None:
    """Row and attribute of the first object that the engine cannot process, or None."""
    for field, column in zip(batch.schema, batch.columns, strict=True):
        if pa.types.is_binary(field.type):
            for row, value in enumerate(column.to_pylist()):
                if value is not None and not is_readable(value):
                    return row, attribute_name(field.name)
    return None
