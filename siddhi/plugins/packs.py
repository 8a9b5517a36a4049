"""The extension packs that come with the engine."""

from __future__ import annotations

import functools
from importlib.metadata import EntryPoint

from siddhi.plugins.extension import ENTRY_POINTS, Extension

# Packs are named like the extensions of other packages. Importing them here would make the engine, which loads packs,
# depend on their implementations, which in turn depend on the engine.
_PACKS = (
    "siddhi.extensions.math.declarations:MATH",
    "siddhi.extensions.str.declarations:STR",
    "siddhi.extensions.time.declarations:TIME",
    "siddhi.extensions.regex.declarations:REGEX",
    "siddhi.extensions.unitconversion.declarations:UNITCONVERSION",
    "siddhi.extensions.unique.declarations:UNIQUE",
    "siddhi.extensions.js.declarations:JS",
    "siddhi.extensions.json.declarations:JSON",
    "siddhi.extensions.map.declarations:MAP",
    "siddhi.extensions.list.declarations:LIST",
    "siddhi.extensions.reorder.declarations:REORDER",
)


@functools.cache
def packs() -> tuple[Extension, ...]:
    """Load the declarations of all packs."""
    return tuple(EntryPoint(name, name, ENTRY_POINTS).load() for name in _PACKS)
