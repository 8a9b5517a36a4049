"""What the streams of random apps look like, and which of them an app has so far."""

from __future__ import annotations

from dataclasses import dataclass, field

from tools.differential.expressions import Ref

Schema = tuple[tuple[str, str], ...]

INPUT: Schema = (
    ("k", "string"),
    ("i", "int"),
    ("l", "long"),
    ("p", "double"),
    ("f", "float"),
    ("b", "bool"),
    ("t", "long"),
)
"""The attributes of the streams that events come in by; `t` is about their time."""

INPUTS = ("S", "T", "U")


def attributes(schema: Schema) -> str:
    """Return the attributes as a definition has them."""
    return ", ".join(f"{name} {type_}" for name, type_ in schema)


def refs(schema: Schema, prefix: str = "") -> list[Ref]:
    """Return the attributes as references, `prefix` in front."""
    return [Ref(f"{prefix}{name}", type_) for name, type_ in schema]


@dataclass(slots=True)
class GeneratedApp:
    """An app in the making: its text as a template (`draw.optional`), and what it has."""

    definitions: list[str] = field(default_factory=list)
    elements: list[str] = field(default_factory=list)
    streams: dict[str, Schema] = field(default_factory=dict)
    """Streams that may be read, inputs among them."""
    listened: list[str] = field(default_factory=list)
    queries: list[str] = field(default_factory=list)
    """The names of queries to listen to."""
    tables: dict[str, Schema] = field(default_factory=dict)
    windows: dict[str, Schema] = field(default_factory=dict)
    aggregations: dict[str, str] = field(default_factory=dict)
    """By name: the group attribute."""
    failing: bool = False
    """Whether some events are meant to fail."""
    kinds: set[str] = field(default_factory=set)
    _count: int = 0

    def name(self, prefix: str) -> str:
        """Return a name that nothing has yet."""
        self._count += 1
        return f"{prefix}{self._count}"

    def template(self) -> str:
        """Return the whole text."""
        return "\n".join([*self.definitions, *self.elements])
