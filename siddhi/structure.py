"""What data classes consist of, looked up once for each."""

from __future__ import annotations

from dataclasses import fields, is_dataclass

_NAMES: dict[type, tuple[str, ...]] = {}


def field_names(kind: type) -> tuple[str, ...]:
    """Return the names of the fields of a data class, none for any other type.

    They are cached, as a walk through a tree asks for them at each node.
    """
    names = _NAMES.get(kind)
    if names is None:
        names = _NAMES[kind] = tuple(field.name for field in fields(kind)) if is_dataclass(kind) else ()
    return names
