"""Iterate over all nodes of an analysed app."""

from __future__ import annotations

from collections.abc import Iterator

from siddhi.structure import field_names


def parts_of(node: object) -> Iterator[object]:
    """Yield `node` and all nodes inside it, parents and earlier siblings first; syntax nodes are left out."""
    waiting = [node]
    while waiting:
        part = waiting.pop()
        yield part
        if isinstance(part, tuple):
            waiting.extend(reversed(part))
        else:
            names = field_names(type(part))
            waiting.extend(getattr(part, name) for name in reversed(names) if name != "syntax")
