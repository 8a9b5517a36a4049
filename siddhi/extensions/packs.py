"""The extension packs that come with the engine."""

from __future__ import annotations

from siddhi.extensions.extension import Extension
from siddhi.extensions.math.declarations import MATH
from siddhi.extensions.str.declarations import STR

PACKS: tuple[Extension, ...] = (MATH, STR)
