"""How deep an object may nest: whoever walks, writes or reads one goes a step down for each level, and a process has
only so many of these."""

from __future__ import annotations

import itertools
from typing import Any

import msgspec

DEEPEST = 64
"""So many lists and maps may stand within each other, the outermost included."""
TOO_DEEP = f"more than {DEEPEST} lists and maps stand within each other"
_NESTING = frozenset({list, dict, tuple, set, frozenset})


class ObjectError(ValueError):
    """A text that is no object; the message says why."""


class TooDeepError(ObjectError):
    """A text of which the object would nest too deeply."""

    def __init__(self) -> None:
        super().__init__(TOO_DEEP)


def read_object(text: str | bytes) -> object:
    """The object that a JSON text tells. Raises ObjectError when it is none, TooDeepError when it
    nests too deeply."""
    try:
        value: object = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ObjectError(f"not JSON: {error}") from error
    except RecursionError as error:
        raise TooDeepError from error
    opened = text.count("[") + text.count("{") if isinstance(text, str) else text.count(b"[") + text.count(b"{")
    if opened > DEEPEST and nests_too_deeply(value):
        raise TooDeepError
    return value


def nests_too_deeply(value: object) -> bool:
    """True when more than `DEEPEST` lists, maps and sets stand within each other."""
    layer: list[Any] = [value] if type(value) in _NESTING else []
    for _ in range(DEEPEST):
        if not layer:
            return False
        items = itertools.chain.from_iterable(outer.values() if isinstance(outer, dict) else outer for outer in layer)
        # What stands in several places is looked at once: a map that holds another twice, that again, … is no tree.
        layer = list({id(item): item for item in items if type(item) in _NESTING}.values())
    return bool(layer)
