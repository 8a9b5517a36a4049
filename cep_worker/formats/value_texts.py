"""Values as text in Java's format, which `text_columns` can parse.

An object is its JSON in base64.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from siddhi.column_names import column_name
from siddhi.engine.columnar.java_text import floating_text, floating_texts


def value_text(kind: str, value: Any) -> str:
    """Return the text of a value of type `kind`; `null` for null."""
    if value is None:
        return "null"
    match kind:
        case "string":
            return str(value)
        case "bool":
            return "true" if value else "false"
        case "float" | "double":
            return floating_text(value, single=kind == "float")
        case "object":
            return base64.b64encode(value).decode()
    return str(value)


def text_column(kind: str, column: pa.Array) -> list[str | None]:
    """Return the text of each value; None for null."""
    texts: list[str | None]
    if kind in ("string", "bool", "int", "long"):  # Arrow's format is Java's
        texts = column.cast(pa.string()).to_pylist()
    elif kind in ("float", "double"):
        valid = column.is_valid().to_numpy(zero_copy_only=False) if column.null_count else None
        values = column.fill_null(0.0) if column.null_count else column
        texts = floating_texts(values.to_numpy(zero_copy_only=False), valid).to_pylist()
    else:
        texts = [None if value is None else value_text(kind, value) for value in column.to_pylist()]
    return texts


def text_rows(attributes: Sequence[tuple[str, str]], batch: pa.RecordBatch) -> list[tuple[str | None, ...]]:
    """Return the texts of each event of `batch`, in the order of `attributes`."""
    columns = [text_column(kind, batch.column(column_name(name))) for name, kind in attributes]
    return list(zip(*columns, strict=True))
