"""Names and types of attributes."""

from __future__ import annotations

from dataclasses import dataclass

from siddhi.language.ast import AttributeType


@dataclass(frozen=True, slots=True)
class Schema:
    """Attribute names and types of a stream, table, window or aggregation, in definition order."""

    id: str
    attributes: tuple[tuple[str, AttributeType], ...]

    def names(self) -> tuple[str, ...]:
        """Return the names of the attributes, in order."""
        return tuple(name for name, _ in self.attributes)

    def type_of(self, name: str) -> AttributeType:
        """Return the type of attribute `name`; KeyError when there is none."""
        return dict(self.attributes)[name]

    def __contains__(self, name: object) -> bool:
        """Return whether there is an attribute `name`."""
        return any(name == attribute for attribute, _ in self.attributes)
