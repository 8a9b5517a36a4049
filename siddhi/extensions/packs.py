"""The extension packs that come with the engine."""

from __future__ import annotations

from siddhi.extensions.extension import Extension
from siddhi.extensions.js.declarations import JS
from siddhi.extensions.json.declarations import JSON
from siddhi.extensions.list.declarations import LIST
from siddhi.extensions.map.declarations import MAP
from siddhi.extensions.math.declarations import MATH
from siddhi.extensions.regex.declarations import REGEX
from siddhi.extensions.reorder.declarations import REORDER
from siddhi.extensions.str.declarations import STR
from siddhi.extensions.time.declarations import TIME
from siddhi.extensions.unique.declarations import UNIQUE
from siddhi.extensions.unitconversion.declarations import UNITCONVERSION

PACKS: tuple[Extension, ...] = (MATH, STR, TIME, REGEX, UNITCONVERSION, UNIQUE, JS, JSON, MAP, LIST, REORDER)
