"""Iterates over everything inside a part of an analysed app."""

from __future__ import annotations

from collections.abc import Iterator

from siddhi.structure import field_names


def parts_of(node: object) -> Iterator[object]:
    """Yield `node` and every part of it, outer ones and former ones first, without the syntax that it came from."""
    waiting = [node]
    while waiting:
        part = waiting.pop()
        yield part
        if isinstance(part, tuple):
            waiting.extend(reversed(part))
        else:
            names = field_names(type(part))
            waiting.extend(getattr(part, name) for name in reversed(names) if name != "syntax")
