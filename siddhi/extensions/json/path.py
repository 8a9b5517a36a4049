"""JSON paths.

Supported are `$.a.b`, `$['a']`, `$.a[0]`, `$.a[-1]`, `$.a[0,2]`, `$.a[1:3]`, `$.a[*]`, `$.*`, `$..a` and filters
`$.a[?(@.b > 3)]`.

A path of names and single indexes is definite: it leads to one value or to none. Others lead to a list.
"""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

_STEP = re.compile(
    r"(?P<deep>\.\.)?(?:"
    r"\.?(?P<star>\*|\[\*\])"
    r"|\[(?P<index>-?\d{1,18})\]"
    r"|\[(?P<indexes>-?\d{1,18}(?:\s*,\s*-?\d{1,18})+)\]"
    r"|\[(?P<slice>-?\d{0,18}:-?\d{0,18})\]"
    r"|\[\?\(@(?P<inner>[^\s=!<>)]*)\s*(?:(?P<sign>==|!=|<=|>=|<|>)\s*(?P<literal>[^)]+?)\s*)?\)\]"
    r"|\[(?P<quote>['\"])(?P<quoted>(?:(?!(?P=quote)).)*)(?P=quote)\]"
    r"|\.?(?P<name>[^.\[\]*\s]+))"
)
_SIGNS: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


MISSING = object()
"""The result of a path without a value."""


class PathError(ValueError):
    """A text that is not a JSON path; the message says where."""


@dataclass(frozen=True, slots=True)
class _PathFilter:
    path: JsonPath
    compare: Callable[[Any, Any], bool] | None
    literal: object

    def holds(self, item: object) -> bool:
        found = list(self.path.find(item))
        if self.compare is None or not found:
            return bool(found)
        try:
            return self.compare(found[0], self.literal)
        except TypeError:
            return False


@dataclass(frozen=True, slots=True)
class _Slice:
    """The values of a list from one index up to another; a negative index counts from the end.

    As in Jayway's JsonPath, each index in between is looked up: `[-2:1]` of two values has both, and the first once
    more.
    """

    first: int | None
    end: int | None

    def of(self, items: list[object]) -> list[object]:
        if self.first is None or self.end is None:
            return items[self.first : self.end]
        places = range(max(self.first, -len(items)), min(self.end, len(items)))
        return [items[place] for place in places]


_Key = str | int | tuple[int, ...] | _Slice | _PathFilter | None


@dataclass(frozen=True, slots=True)
class _Step:
    """One step of a path.

    `key` is a name, an index, several of them, a slice, a filter or None for all; `deep` matches at every level
    below.
    """

    key: _Key
    deep: bool = False

    def find(self, value: object) -> Iterator[object]:
        for item in _below(value) if self.deep else (value,):
            yield from self._children(item)

    def _children(self, value: object) -> Iterator[object]:
        if isinstance(self.key, str):
            if isinstance(value, dict) and self.key in value:
                yield value[self.key]
        elif isinstance(self.key, int | tuple):
            indexes = (self.key,) if isinstance(self.key, int) else self.key
            items = value if isinstance(value, list) else []
            yield from (items[index] for index in indexes if -len(items) <= index < len(items))
        elif isinstance(self.key, _Slice):
            yield from self.key.of(value) if isinstance(value, list) else ()
        else:
            children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
            yield from (child for child in children if self.key is None or self.key.holds(child))


def _below(value: object) -> Iterator[object]:
    yield value
    for child in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _below(child)


@dataclass(frozen=True, slots=True)
class JsonPath:
    """A compiled path."""

    steps: tuple[_Step, ...]

    @property
    def definite(self) -> bool:
        return all(isinstance(step.key, str | int) and not step.deep for step in self.steps)

    def find(self, value: object) -> Iterator[object]:
        """Return every value that the path leads to."""
        found = [value]
        for step in self.steps:
            found = [child for item in found for child in step.find(item)]
        return iter(found)

    def read(self, value: object) -> object:
        """Return the value of a definite path, or the list of the values of another path.

        Return `MISSING` when there is none, or when an object on the way to a list lacks the name.
        """
        found = list(self.find(value))
        if self.definite:
            return found[0] if found else MISSING
        for place, step in enumerate(self.steps[:-1]):
            if not isinstance(step.key, str) or step.deep:
                break
            if not list(JsonPath(self.steps[: place + 1]).find(value)):
                return MISSING
        return found


@functools.lru_cache(maxsize=256)
def json_path(text: str) -> JsonPath:
    """Return the compiled path; the leading `$` may be missing. Raise `PathError` for an invalid path."""
    if not text.strip():
        raise PathError("a JSON path cannot be empty")
    text = text.strip()
    place = 1 if text.startswith(("$", "@")) else 0
    steps = []
    while place < len(text):
        match = _STEP.match(text, place)
        if match is None or match.end() == place:
            raise PathError(f"'{text}' is not a JSON path: it is not understood from character {place + 1} on")
        steps.append(_Step(_key(match, text), deep=match["deep"] is not None))
        place = match.end()
    return JsonPath(tuple(steps))


def _key(match: re.Match[str], text: str) -> _Key:
    if match["star"]:
        return None
    if match["index"]:
        return int(match["index"])
    if match["indexes"]:
        return tuple(map(int, match["indexes"].split(",")))
    if match["slice"]:
        first, _, end = match["slice"].partition(":")
        if (not first and not end) or "-" in {first, end}:
            raise PathError(f"'{text}' is not a JSON path: a slice needs a number")
        return _Slice(int(first) if first else None, int(end) if end else None)
    if match["inner"] is not None:
        literal: object = None
        if match["literal"]:
            try:
                literal = msgspec.json.decode(re.sub(r"^'(.*)'$", r'"\1"', match["literal"]))
            except msgspec.DecodeError as error:
                raise PathError(f"'{text}' is not a JSON path: {match['literal']} is not a value") from error
        return _PathFilter(json_path(f"${match['inner']}"), _SIGNS.get(match["sign"] or ""), literal)
    return match["quoted"] if match["quoted"] is not None else match["name"]
