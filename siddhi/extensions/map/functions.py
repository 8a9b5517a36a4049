"""`map:` functions over the values of a row, and `#map:tokenize`.

A row fails when an argument that should be a map is not one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from siddhi.engine.operators.functions.rows import Nulls, OfAll, RowError, row_function
from siddhi.engine.operators.stream_functions.stream_function import STREAM_FUNCTIONS
from siddhi.extensions.json.functions import parsed, written
from siddhi.extensions.list.functions import holds
from siddhi.extensions.map.xml_texts import from_xml, to_xml
from siddhi.extensions.tokens import Tokens

Map = dict[Any, object]
_NO_MAP = "a map was expected"
_NO_KEYS = frozenset({dict, list, set})
_NO_KEY = "a map, list or set cannot be a key"


def checked(value: object) -> Map:
    """Return the map unchanged; raise `RowError` for anything else."""
    if not isinstance(value, dict):
        raise RowError(_NO_MAP)
    return value


def _key(key: object) -> object:
    """Return the key unchanged; raise `RowError` for an invalid one."""
    if isinstance(key, dict | list | set):
        raise RowError(_NO_KEY)
    return key


def _pairs(items: tuple[object, ...]) -> Map:
    keys = items[::2]
    if not _NO_KEYS.isdisjoint(map(type, keys)):
        raise RowError(_NO_KEY)
    return dict(zip(keys, items[1::2], strict=True))


def _combined(*maps: object) -> Map:
    """Return all keys of the maps, each with the list of its values, null for maps without it."""
    given = [checked(one) for one in maps]
    return {key: [one.get(key) for one in given] for key in dict.fromkeys(key for one in given for key in one)}


def _from_json(text: str) -> Map:
    return checked(parsed(text))


def _on_map(compute: Callable[..., object]) -> Callable[..., object]:
    def guarded(first: object, *more: object) -> object:
        if not isinstance(first, dict):
            raise RowError(_NO_MAP)
        return compute(first, *more)

    return guarded


def _replace_all(first: Map, second: object) -> Map:
    return first | {key: item for key, item in checked(second).items() if key in first}


_FUNCTIONS: dict[str, Callable[..., object]] = {
    "clear": lambda _: {},
    "clone": dict,
    "combineByKey": _combined,
    "containsKey": lambda first, key: key in first,
    "containsValue": lambda first, item: holds(list(first.values()), item),
    "get": lambda first, key, default=None: first.get(_key(key), default),
    "isEmpty": lambda first: not first,
    "keys": list,
    "put": lambda first, *items: first | _pairs(items),
    "putAll": lambda first, second: first | checked(second),
    "putIfAbsent": lambda first, key, item: first if first.get(key) is not None else first | {key: item},
    "remove": lambda first, key: {known: item for known, item in first.items() if known != key},
    "replace": lambda first, key, item: first | {key: item} if key in first else first,
    "replaceAll": _replace_all,
    "size": len,
    "toJSON": written,
    "toXML": to_xml,
    "values": lambda first: list(first.values()),
}


def _are_maps(items: list[Any]) -> bool:
    return _MAP.issuperset(map(type, items))


def _create_all(*columns: list[Any]) -> list[Map] | None:
    if not all(_NO_KEYS.isdisjoint(map(type, keys)) for keys in columns[::2]):
        return None
    if len(columns) == 2:
        return [{key: item} for key, item in zip(*columns, strict=True)]
    return [dict(zip(row[::2], row[1::2], strict=True)) for row in zip(*columns, strict=True)]


def _get_all(maps: list[Any], keys: list[Any], *defaults: list[object]) -> list[object] | None:
    if not _are_maps(maps) or not _NO_KEYS.isdisjoint(map(type, keys)):
        return None
    return list(map(dict.get, maps, keys, *defaults))


_MAP = frozenset({dict})
_OF_ALL: dict[str, OfAll] = {
    "get": _get_all,
    "isEmpty": lambda maps: [not one for one in maps] if _are_maps(maps) else None,
    "size": lambda maps: list(map(len, maps)) if _are_maps(maps) else None,
}
_BRIEF = frozenset({"containsKey", "get", "isEmpty", "put", "putIfAbsent", "size"})
for _name, _compute in _FUNCTIONS.items():
    row_function("map", _name, _on_map(_compute), Nulls.PASS, brief=_name in _BRIEF, of_all=_OF_ALL.get(_name))
row_function("map", "create", lambda *items: _pairs(items), Nulls.PASS, brief=True, of_all=_create_all)
row_function("map", "createFromJSON", _from_json)
row_function("map", "createFromXML", from_xml)
row_function("map", "isMap", lambda value: isinstance(value, dict), Nulls.PASS, brief=True)


@STREAM_FUNCTIONS.register("tokenize", "map")
class MapTokenize(Tokens):
    """The entries of a map, in order; of several maps a list of their values for each key, null where it is missing."""

    together = True

    def width(self) -> int:
        return 2

    def tokens(self, *arguments: Any) -> Iterator[tuple[object, ...]]:
        yield from (checked(arguments[0]) if len(arguments) == 1 else _combined(*arguments)).items()
