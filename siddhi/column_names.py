"""The columns of record batches: their names inside the engine, on the wire and in files of results.

A batch has a column with the times of its events, one with their kinds, and one for each attribute of the stream.
"""

from __future__ import annotations

from typing import Final

TIMESTAMP: Final = "_timestamp"
"""int64: the time of each event in milliseconds."""
KIND: Final = "_kind"
"""int8: `siddhi.engine.columnar.kinds`; 0 for events outside an app."""

_COLUMNS: Final = {name: f"`{name}`" for name in (TIMESTAMP, KIND)}
_ATTRIBUTES: Final = {column: name for name, column in _COLUMNS.items()}


def internal_name(name: str) -> str:
    """Return the name of a column or stream that the engine adds for itself.

    No attribute, stream or table has such a name: a back-quoted name may contain anything except back-quotes.
    """
    return f"`{name}"


def column_name(attribute: str) -> str:
    """Return the column of `attribute`.

    It has the attribute's name, in back-quotes if every batch has a column of that name already.
    """
    return _COLUMNS.get(attribute, attribute)


def attribute_name(column: str) -> str:
    """Return the attribute of `column`, which is neither the times nor the kinds.

    This is the inverse of `column_name`.
    """
    return _ATTRIBUTES.get(column, column)
