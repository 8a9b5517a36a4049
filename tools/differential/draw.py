"""Random choices, the same ones for the same seed, and texts with parts that a minimiser may leave out."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Sequence
from typing import TypeVar

T = TypeVar("T")

OPEN, CLOSE = "⟦", "⟧"
_MARKS = re.compile(f"[{OPEN}{CLOSE}]")


class Draw:
    """Seeded random choices."""

    def __init__(self, seed: int | str) -> None:
        self._random = random.Random(seed)  # noqa: S311 - not a secret

    def chance(self, share: float) -> bool:
        """Return True in that share of all calls."""
        return self._random.random() < share

    def one(self, items: Sequence[T]) -> T:
        """Return one of `items`."""
        return self._random.choice(items)

    def weighted(self, items: Sequence[tuple[T, float]]) -> T:
        """Return one of the items, each as often as its weight says."""
        return self._random.choices([item for item, _ in items], [weight for _, weight in items])[0]

    def some(self, items: Sequence[T], least: int, most: int) -> list[T]:
        """Return `least` to `most` different ones of `items`, in random order."""
        most = min(most, len(items))
        return self._random.sample(list(items), self._random.randint(min(least, most), most))

    def number(self, least: int, most: int) -> int:
        """Return a whole number, both ends included."""
        return self._random.randint(least, most)

    def maybe(self, share: float, text: str) -> str:
        """Return `text` as a part that may be left out, in that share of all calls; else nothing."""
        return optional(text) if self.chance(share) else ""


def optional(text: str) -> str:
    """Mark `text` as a part without which the whole still makes sense."""
    return f"{OPEN}{text}{CLOSE}"


def listed(items: Iterable[str]) -> str:
    """Return the items with commas between, of which all but the first may be left out."""
    first, *others = items
    return first + "".join(optional(f", {item}") for item in others)


def plain(template: str) -> str:
    """Return the text of a template without its marks."""
    return _MARKS.sub("", template)


def optional_parts(template: str) -> list[tuple[int, int]]:
    """Return where the parts that may be left out start and end, marks included, outer ones before what they hold."""
    opened: list[int] = []
    parts: list[tuple[int, int]] = []
    for mark in _MARKS.finditer(template):
        if mark.group() == OPEN:
            opened.append(mark.start())
        else:
            parts.append((opened.pop(), mark.end()))
    return sorted(parts)
