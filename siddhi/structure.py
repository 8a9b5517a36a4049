"""The fields of data classes, cached by class."""

from __future__ import annotations

from dataclasses import fields, is_dataclass

_NAMES: dict[type, tuple[str, ...]] = {}


def field_names(kind: type) -> tuple[str, ...]:
    """Return the names of the fields of a data class, none for any other type.

    They are cached, as a tree walk needs them at each node.
    """
    names = _NAMES.get(kind)
    if names is None:
        names = _NAMES[kind] = tuple(field.name for field in fields(kind)) if is_dataclass(kind) else ()
    return names
