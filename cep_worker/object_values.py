"""Values of type `object` are JSON: the engine reads them when a query asks for them, and cannot go on otherwise."""

from __future__ import annotations

import msgspec
import pyarrow as pa

WRONG_OBJECT = "must be object: JSON in base64"


def is_json(value: bytes) -> bool:
    """True when the engine can read the value."""
    try:
        msgspec.json.decode(value)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True


def unreadable_object(batch: pa.RecordBatch) -> tuple[int, str] | None:
    """Row and attribute of the first object that is not JSON, or None."""
    for field, column in zip(batch.schema, batch.columns, strict=True):
        if pa.types.is_binary(field.type):
            for row, value in enumerate(column.to_pylist()):
                if value is not None and not is_json(value):
                    return row, field.name
    return None
