"""Read and write objects as JSON, and limit their nesting.

Walking, writing or reading an object takes a stack frame for each level, and the stack of a process is limited.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import msgspec

DEEPEST = 64
"""The maximum number of nested lists and maps, including the outermost."""
TOO_DEEP = f"more than {DEEPEST} nested lists and maps"
_NESTING = frozenset({list, dict, tuple, set, frozenset})


class ObjectError(ValueError):
    """A text that is not an object, with the reason."""


class TooDeepError(ObjectError):
    """A text whose object nests too deeply."""

    def __init__(self) -> None:
        """Create the error."""
        super().__init__(TOO_DEEP)


def read_object(text: str | bytes) -> object:
    """Return the object of a JSON text.

    Raise ObjectError when the text is not JSON, TooDeepError when it nests too deeply.
    """
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


def write_object(value: object) -> bytes:
    """Return the JSON text of an object.

    Keys of maps that are null or a bool are written as texts, as in Java, and an unpaired surrogate as `?`. Raise
    TypeError for a value that is not an object.
    """
    try:
        return msgspec.json.encode(value)
    except (TypeError, UnicodeEncodeError):
        return msgspec.json.encode(_as_json(value))


def write_objects(values: Iterable[object]) -> list[bytes | None]:
    """Return the JSON text of each object as `write_object` does, None for null."""
    encode = msgspec.json.encode
    kept = list(values)
    try:
        return [None if value is None else encode(value) for value in kept]
    except (TypeError, UnicodeEncodeError):
        return [None if value is None else write_object(value) for value in kept]


def _as_json(value: object) -> object:
    if isinstance(value, dict):
        return {_as_key(key): _as_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_as_json(item) for item in value]
    return whole_text(value) if isinstance(value, str) else value


def _as_key(key: object) -> object:
    if key is None or isinstance(key, bool):
        return str(msgspec.json.encode(key), "utf-8")
    return whole_text(key) if isinstance(key, str) else key


def whole_text(text: str) -> str:
    """Return the text with pairs of surrogates combined, and `?` for unpaired ones."""
    joined = text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
    return joined.encode("utf-8", "replace").decode()


def nests_too_deeply(value: object) -> bool:
    """Return whether lists, maps and sets nest more than `DEEPEST` levels deep."""
    if type(value) not in _NESTING or _NESTING.isdisjoint(map(type, _items(value))):
        return False  # most objects are flat
    layer: list[Any] = [value]
    for _ in range(DEEPEST):
        if not layer:
            return False
        items = itertools.chain.from_iterable(map(_items, layer))
        # Shared values are visited once: otherwise maps that contain another map twice, and so on, take exponential
        # time.
        layer = list({id(item): item for item in items if type(item) in _NESTING}.values())
    return bool(layer)


def any_nests_too_deeply(values: Iterable[object]) -> bool:
    """Return whether one of the values nests too deeply, as in `nests_too_deeply`."""
    nesting = [value for value in values if type(value) in _NESTING]
    return any(map(nests_too_deeply, nesting))


def _items(outer: Any) -> Iterable[Any]:
    return outer.values() if isinstance(outer, dict) else outer
