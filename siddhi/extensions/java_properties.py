r"""Translate `\p{…}` of Java's regular expressions to ranges for a character class in Python."""

from __future__ import annotations

import functools
import itertools
import re
import sys
import unicodedata
from collections.abc import Iterable

_ASCII = {
    "Lower": "a-z",
    "Upper": "A-Z",
    "ASCII": "\\x00-\\x7f",
    "Alpha": "a-zA-Z",
    "Digit": "0-9",
    "Alnum": "a-zA-Z0-9",
    "Punct": "!-/:-@\\[-`{-~",
    "Graph": "!-~",
    "Print": " -~",
    "Blank": " \\t",
    "Cntrl": "\\x00-\\x1f\\x7f",
    "XDigit": "0-9a-fA-F",
    "Space": " \\t\\n\\x0b\\f\\r",
}
_NAMED = {
    "IsAlphabetic": ("L", "Nl"),
    "IsLetter": ("L",),
    "IsDigit": ("Nd",),
    "IsUppercase": ("Lu",),
    "IsLowercase": ("Ll",),
    "IsPunctuation": ("P",),
    "IsControl": ("Cc",),
    "LC": ("Lu", "Ll", "Lt"),
    "LD": ("L", "Nd"),
    "javaLetter": ("L",),
    "javaDigit": ("Nd",),
    "javaLetterOrDigit": ("L", "Nd"),
    "javaUpperCase": ("Lu",),
    "javaLowerCase": ("Ll",),
}

_PLANES = ((0x40000, 0xEFFFF, "Cn"), (0xF0000, sys.maxunicode, "Co"))
"""The end of the search: almost no letters follow, only characters for private use."""


def property_ranges(name: str, *, negated: bool) -> str | None:
    """Return the inside of a character class for a property, complemented if `negated`.

    Return None for an unknown property.
    """
    plain = name.removeprefix("Is")
    if plain in _ASCII:
        return _without(plain) if negated else _ASCII[plain]
    categories = _NAMED.get(name) or ((plain,) if plain in _categories() else None)
    if categories is None:
        return None
    return _written(run for run in _runs() if run[2].startswith(categories) is not negated)


@functools.cache
def _without(name: str) -> str:
    """Return the ranges of the characters outside one of the ASCII properties."""
    held = re.compile(f"[{_ASCII[name]}]")
    others = ((code, code, "") for code in range(0x80) if held.match(chr(code)) is None)
    return _written((*others, (0x80, sys.maxunicode, "")))


@functools.cache
def _runs() -> tuple[tuple[int, int, str], ...]:
    """Return all characters as runs of one category: first, last, category."""
    runs = []
    start = 0
    for category, run in itertools.groupby(map(unicodedata.category, map(chr, range(_PLANES[0][0])))):
        end = start + sum(1 for _ in run)
        runs.append((start, end - 1, category))
        start = end
    return (*runs, *_PLANES)


@functools.cache
def _categories() -> frozenset[str]:
    """Return all categories of characters and their prefixes: `Lu` and `L`."""
    return frozenset(name for _, _, category in _runs() for name in (category, category[0]))


def _written(runs: Iterable[tuple[int, int, str]]) -> str:
    """Return runs as ranges, merging adjacent ones."""
    ranges: list[tuple[int, int]] = []
    for first, last, _ in runs:
        if ranges and ranges[-1][1] == first - 1:
            ranges[-1] = (ranges[-1][0], last)
        else:
            ranges.append((first, last))
    return "".join(f"\\U{first:08x}-\\U{last:08x}" for first, last in ranges)
