"""Limit the steps of a script that visit nested values, which may contain the same value many times.

`x = [x, x]` sixty times over is a small list with 2 ** 60 positions. Writing, comparing or hashing it would not end,
and no timer stops a single step. So a step that visits a whole value first counts its positions, visiting each list
once.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable, Iterator
from typing import Any

MOST_PLACES = 16 * 1024 * 1024
"""Maximum number of characters and items of a value that a step visits, counted at each position."""

_HOLDING = (list, tuple, dict, set)


def _held(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        yield from value
        yield from value.values()
    else:
        yield from value


def _size(value: Any, sizes: dict[int, int]) -> int:
    if isinstance(value, str):
        return len(value) + 2
    if isinstance(value, int):
        return value.bit_length() // 3 + 1
    return sizes.get(id(value), 1)


def whole(value: Any) -> Any:
    """Return `value`, if a step may visit all of it.

    Raises:
        ValueError: It has too many places.
    """
    if not isinstance(value, _HOLDING):
        return value
    sizes: dict[int, int] = {}
    waiting: list[tuple[Any, bool]] = [(value, False)]
    while waiting:
        one, counted = waiting.pop()
        if counted:
            size = sizes[id(one)] = 1 + sum(_size(held, sizes) for held in _held(one))
            if size > MOST_PLACES:
                raise ValueError(f"a value may have {MOST_PLACES} characters and items in a script")
        elif id(one) not in sizes:
            sizes[id(one)] = 0  # also ends for a value that contains itself
            waiting.append((one, True))
            waiting += [(held, False) for held in _held(one) if isinstance(held, _HOLDING)]
    return value


def searched(value: Any) -> Any:
    """Return `value`, if a step may search it: searching sets and dicts visits few positions."""
    return value if isinstance(value, dict | set) else whole(value)


def item(owner: Any, key: Any) -> Any:
    """Evaluate `owner[key]`."""
    return owner[whole(key) if isinstance(key, tuple) else key]


class BoundedDict:
    """A dict with a limit on the size of its keys, as they are hashed."""

    def __init__(self, entries: dict[Any, Any]) -> None:
        """Wrap the entries that a script may change.

        Args:
            entries: The entries; they are changed in place.
        """
        self._entries = entries

    def __setitem__(self, key: Any, value: Any) -> None:
        """Set an entry.

        Raises:
            ValueError: The key has too many parts.
        """
        self._entries[whole(key)] = value

    def __delitem__(self, key: Any) -> None:
        """Remove an entry.

        Raises:
            KeyError: The key does not exist.
            ValueError: The key has too many parts.
        """
        del self._entries[whole(key)]


class _Whole(type):
    """Types whose values are created by visiting all of another one; they replace the built-in ones."""

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, cls.__mro__[1])

    def __call__(cls, *values: Any, **named: Any) -> Any:
        made: Callable[..., Any] = cls.__mro__[1]
        if made is not builtins.str:
            values = tuple(value if isinstance(value, dict | set | range) else list(value) for value in values)
        return made(*map(whole, values), **named)


class Text(str, metaclass=_Whole):
    """`str` of a script."""

    __slots__ = ()


class Members(set[Any], metaclass=_Whole):
    """`set` of a script."""

    __slots__ = ()


class Entries(dict[Any, Any], metaclass=_Whole):
    """`dict` of a script."""

    __slots__ = ()


def ordered(values: Iterable[Any], *, key: Any = None, reverse: bool = False) -> list[Any]:
    """Replace `sorted`."""
    return sorted(whole(list(values)), key=key, reverse=reverse)


def least(*values: Any, **named: Any) -> Any:
    """Replace `min`."""
    return min(*_compared(values), **named)


def greatest(*values: Any, **named: Any) -> Any:
    """Replace `max`."""
    return max(*_compared(values), **named)


def _compared(values: tuple[Any, ...]) -> tuple[Any, ...]:
    return (whole(list(values[0])),) if len(values) == 1 else tuple(map(whole, values))


_COMPARING = frozenset({"index", "count", "remove", "sort"})
_HASHING = frozenset({
    "add", "get", "pop", "setdefault", "update", "discard", "remove", "union", "intersection", "difference", "issubset",
    "symmetric_difference", "issuperset", "isdisjoint", "fromkeys", "intersection_update", "difference_update",
    "symmetric_difference_update",
})  # fmt: skip


def method(owner: Any, name: str, found: Any) -> Any:
    """Return the method `found` of a list, tuple, dict or set, with checks of arguments that it compares or hashes."""
    compares = isinstance(owner, list | tuple) and name in _COMPARING
    if not (compares or (isinstance(owner, dict | set) and name in _HASHING)):
        return found

    def call(*values: Any, **named: Any) -> Any:
        if compares:
            whole(owner)
        return found(*map(whole, values), **named)

    return call
