"""The extension packs that come with the engine."""

from __future__ import annotations

from siddhi.extensions.extension import Extension
from siddhi.extensions.math.declarations import MATH

PACKS: tuple[Extension, ...] = (MATH,)
