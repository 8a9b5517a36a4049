"""`list:` functions over the values of a row, and `#list:tokenize`.

A row fails when an argument that should be a list is not one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import zip_longest
from operator import itemgetter
from typing import Any

from siddhi.engine.operators.functions.rows import Nulls, OfAll, RowError, row_function
from siddhi.engine.operators.stream_functions.stream_function import STREAM_FUNCTIONS
from siddhi.extensions.tokens import Tokens

List = list[Any]
_NO_LIST = "a list was expected"


def checked(value: object) -> List:
    """Return the list unchanged; raise `RowError` for anything else."""
    if not isinstance(value, list):
        raise RowError(_NO_LIST)
    return value


def same(one: object, other: object) -> bool:
    """Return whether two values of lists are equal as in Java; in Python 1, 1.0 and true are equal."""
    if type(one) is not type(other):
        return False
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return one == other


def place_of(items: List, item: object) -> int:
    """Return the index of the first value equal to `item`; -1 when there is none."""
    try:
        place = items.index(item)
        while not same(items[place], item):
            place = items.index(item, place + 1)
    except ValueError:
        return -1
    return place


def holds(items: List, item: object) -> bool:
    """Return whether the list has a value equal to `item`."""
    return place_of(items, item) >= 0


def _place(items: List, index: object, end: int) -> int:
    if not isinstance(index, int) or not 0 <= index < end:
        raise RowError(f"the list of {len(items)} values has no index {index}")
    return index


def _add(items: List, item: object, *index: object) -> List:
    place = _place(items, index[0], len(items) + 1) if index else len(items)
    return [*items[:place], item, *items[place:]]


def _add_all(items: List, other: object, distinct: object = False) -> List:
    if not distinct:
        return items + checked(other)
    return items + [item for item in checked(other) if not holds(items, item)]


def _get(items: List, index: object) -> object:
    return items[index] if isinstance(index, int) and 0 <= index < len(items) else None


def _remove(items: List, item: object) -> List:
    place = place_of(items, item)
    return items if place < 0 else items[:place] + items[place + 1 :]


def _remove_at(items: List, index: object) -> List:
    place = _place(items, index, len(items))
    return items[:place] + items[place + 1 :]


def _set(items: List, index: object, item: object) -> List:
    place = _place(items, index, len(items))
    return [*items[:place], item, *items[place + 1 :]]


def _last_index(items: List, item: object) -> int:
    place = place_of(items[::-1], item)
    return len(items) - 1 - place if place >= 0 else -1


def _sort(items: List, order: str = "rev") -> List:
    if order.lower() == "rev" or not items:
        return items[::-1]
    if isinstance(items[0], bool) or not isinstance(items[0], str | int | float):
        raise RowError("only lists of texts and numbers can be sorted")
    try:
        ordered = sorted(items, key=_caseless if isinstance(items[0], str) else None)
    except (TypeError, AttributeError) as error:
        raise RowError("the values of the list cannot be compared") from error
    return ordered[::-1] if order.lower() == "desc" else ordered


def _caseless(text: str) -> str:
    return text.upper().lower()


def _on_list(compute: Callable[..., object]) -> Callable[..., object]:
    def guarded(first: object, *more: object) -> object:
        if not isinstance(first, list):
            raise RowError(_NO_LIST)
        return compute(first, *more)

    return guarded


_FUNCTIONS: dict[str, Callable[..., object]] = {
    "add": _add,
    "addAll": _add_all,
    "clear": lambda _: [],
    "clone": list,
    "contains": holds,
    "containsAll": lambda items, other: all(holds(items, item) for item in checked(other)),
    "containsAny": lambda items, other: any(holds(items, item) for item in checked(other)),
    "get": _get,
    "indexOf": place_of,
    "isEmpty": lambda items: not items,
    "lastIndexOf": _last_index,
    "remove": _remove,
    "removeAll": lambda items, other: [item for item in items if not holds(checked(other), item)],
    "removeByIndex": _remove_at,
    "retainAll": lambda items, other: [item for item in items if holds(checked(other), item)],
    "setValue": _set,
    "size": len,
    "sort": _sort,
}


def _are_lists(items: list[Any]) -> bool:
    return _LIST.issuperset(map(type, items))


def _create_all(*columns: list[object]) -> list[List]:
    if len(columns) == 1:
        return [[] if item is None else [item] for item in columns[0]]
    return list(map(list, zip(*columns, strict=True)))


def _get_all(lists: list[Any], indexes: list[Any]) -> list[object] | None:
    """Return the values of all lists at an index, if it is the same for all rows."""
    index = indexes[0] if indexes else None
    if type(index) is not int or indexes.count(index) < len(indexes) or not _are_lists(lists):
        return None
    return list(map(itemgetter(index), lists)) if 0 <= index < min(map(len, lists)) else None


_LIST = frozenset({list})
_OF_ALL: dict[str, OfAll] = {
    "get": _get_all,
    "isEmpty": lambda lists: [not one for one in lists] if _are_lists(lists) else None,
    "size": lambda lists: list(map(len, lists)) if _are_lists(lists) else None,
}
_BRIEF = frozenset({"add", "get", "isEmpty", "removeByIndex", "setValue", "size"})
for _name, _compute in _FUNCTIONS.items():
    row_function("list", _name, _on_list(_compute), Nulls.PASS, brief=_name in _BRIEF, of_all=_OF_ALL.get(_name))
row_function(
    "list",
    "create",
    lambda *items: [] if items == (None,) else list(items),
    Nulls.PASS,
    brief=True,
    of_all=_create_all,
)
row_function("list", "isList", lambda value: isinstance(value, list), Nulls.PASS)


@STREAM_FUNCTIONS.register("tokenize", "list")
class ListTokenize(Tokens):
    """The values of a list, in order, with their indexes from 0.

    For several lists, a list of their values at each index, with null after the end of a shorter one.
    """

    together = True

    def width(self) -> int:
        return 2

    def tokens(self, *arguments: Any) -> Iterator[tuple[object, ...]]:
        lists = [checked(argument) for argument in arguments]
        yield from enumerate(lists[0] if len(lists) == 1 else map(list, zip_longest(*lists)))
