"""Arrow types of attribute types, for transport outside the engine."""

from __future__ import annotations

import pyarrow as pa

from siddhi.language.ast import AttributeType

ARROW_TYPES: dict[AttributeType, pa.DataType] = {
    AttributeType.STRING: pa.utf8(),
    AttributeType.INT: pa.int32(),
    AttributeType.LONG: pa.int64(),
    AttributeType.FLOAT: pa.float32(),
    AttributeType.DOUBLE: pa.float64(),
    AttributeType.BOOL: pa.bool_(),
    AttributeType.OBJECT: pa.binary(),
}
"""An object is sent as its JSON text; a set becomes an array."""
ARROW_TYPES_BY_NAME: dict[str, pa.DataType] = {type_.value: arrow_type for type_, arrow_type in ARROW_TYPES.items()}
"""The same types by their names in SiddhiQL and in wire messages."""
