"""Random windows."""

from __future__ import annotations

from tools.differential.draw import Draw

SPANS = ("100", "200", "300 milliseconds", "500", "1 sec", "2 sec", "50")
LENGTHS = ("1", "2", "3", "4", "5")

_PLAIN = ("length", "lengthBatch", "time", "timeBatch", "timeLength", "externalTime", "externalTimeBatch")
_OTHERS = ("session", "batch", "sort", "delay", "expression", "expressionBatch", "frequent", "lossyFrequent")
_TESTS = (
    "count() <= 3",
    "last.t - first.t < 300",
    "sum(i) < 12",
    "last.k == first.k",
    "max(i) - min(i) < 5",
    "distinctCount(k) < 3",
    "avg(p) < 4.0 or count() < 2",
)
_ARGUMENTS = {
    "length": ("{length}",),
    "lengthBatch": (*["{length}"] * 5, "{length}, true"),
    "time": ("{span}",),
    "delay": ("{span}",),
    "timeBatch": (*["{span}"] * 3, "{span}, 0", "{span}, 130", "{span}, true"),
    "timeLength": ("{span}, {length}",),
    "externalTime": ("t, {span}",),
    "externalTimeBatch": (
        *["t, {span}"] * 2,
        "t, {span}, 0",
        "t, {span}, 0, 300",
        "t, {span}, t",
        "t, {span}, 0, 300, true",
    ),
    "session": tuple(
        f"{gap}{more}" for gap in ("100 milliseconds", "1 sec") for more in ("", ", k", ", k, 100 milliseconds")
    ),
    "batch": ("", "", "2"),
    "sort": tuple(f"{{length}}, {by}" for by in ("i", "p", "i, 'desc'", "k, 'asc', i, 'desc'", "l, 'desc'")),
    "frequent": ("1, k", "2, k", "3, k"),
    "lossyFrequent": ("0.3, 0.1, k", "0.5, 0.2, k"),
    "expression": tuple(f'"{test}"' for test in _TESTS),
    "expressionBatch": tuple(f'"{test}"{more}' for test in _TESTS for more in ("", "", ", true", ", false, true")),
}
_UNIQUE = ("length", "time", "timeBatch", "lengthBatch", "ever", "first", "firstLengthBatch")


def window(draw: Draw, *, joined: bool = False, unique: bool = False) -> str:
    """Return a window over a stream with the attributes of the inputs, without `#window.`.

    Args:
        draw: The source of random choices.
        joined: Whether the window is for the side of a join.
        unique: Whether to include windows that Siddhi has only in an extension that is not released for comparison.
    """
    if unique and draw.chance(0.1):
        return _unique(draw)
    kind = draw.one(_PLAIN) if draw.chance(0.85 if joined else 0.7) else draw.one(_OTHERS)
    return _window(draw, kind)


def named_window(draw: Draw) -> str:
    """Return a window that may be defined by name."""
    return _window(draw, draw.one(_PLAIN) if draw.chance(0.75) else draw.one(_OTHERS))


def _window(draw: Draw, kind: str) -> str:
    """Return a call of that window."""
    return f"{kind}({draw.one(_ARGUMENTS[kind]).format(span=draw.one(SPANS), length=draw.one(LENGTHS))})"


def _unique(draw: Draw) -> str:
    span, length = draw.one(SPANS), draw.one(LENGTHS)
    kind = draw.one(_UNIQUE)
    arguments = {
        "time": f"k, {span}",
        "timeBatch": f"k, {span}",
        "ever": "k",
        "first": "k",
    }.get(kind, f"k, {length}")
    return f"unique:{kind}({arguments})"
