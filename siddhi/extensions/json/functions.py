"""`json:` functions over the values of a row. A null JSON or path fails, and so does a text that is no JSON."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from siddhi.engine.java_text import parse_floating, parse_integer
from siddhi.extensions.json.path import JsonPath, PathError, json_path
from siddhi.extensions.rows import Nulls, RowError, row_function
from siddhi.nesting import ObjectError, read_object

_MISSING = object()


def parsed(value: object) -> object:
    """The value that a JSON text tells; an object stands for itself. `RowError` for a text that is no object."""
    if not isinstance(value, str):
        return value
    try:
        return read_object(value)
    except ObjectError as error:
        raise RowError(str(error)) from error


def written(value: object) -> str:
    """The JSON text of a value; `RowError` when it has none."""
    try:
        return msgspec.json.encode(value).decode()
    except (TypeError, ValueError) as error:
        raise RowError(f"no JSON: {error}") from error


def compiled(text: str) -> JsonPath:
    """The compiled path; `RowError` when it is none."""
    try:
        return json_path(text)
    except PathError as error:
        raise RowError(str(error)) from error


def plain(value: object) -> str:
    """A text as it is, anything else as JSON."""
    return value if isinstance(value, str) else written(value)


def _at(value: object, text: str) -> object:
    path = compiled(text)
    found = list(path.find(parsed(value)))
    if path.definite:
        return found[0] if found else _MISSING
    return found


def _get(read: Callable[[object], object]) -> Callable[..., object]:
    def get(value: object, text: str) -> object:
        found = _at(value, text)
        return None if found is _MISSING or found is None else read(found)

    return get


def _number(name: str, parse: Callable[[str], float | None]) -> Callable[[object], object]:
    def number(found: object) -> object:
        result = None if isinstance(found, bool) else parse(plain(found))
        if result is None:
            raise RowError(f"{plain(found)} is no {name}")
        return result

    return number


def _bool(found: object) -> object:
    text = plain(found).lower()
    if text not in {"true", "false"}:
        raise RowError(f"{plain(found)} is no bool")
    return text == "true"


def _set_element(value: object, text: str | None, element: object, key: str | None = None) -> object:
    if value is None or text is None:
        raise RowError("the JSON and the path must not be null")
    path = compiled(text)
    if not path.definite:
        raise RowError(f"'{text}' leads to many values")
    steps: list[Any] = [step.key for step in path.steps]
    if key is not None:
        steps.append(key)
    whole = msgspec.json.decode(written(parsed(value)))
    if not steps:
        return element
    parent = whole
    for step in steps[:-1]:
        try:
            parent = parent[step]
        except (KeyError, IndexError, TypeError):
            return whole
    _put(parent, steps[-1], element)
    return whole


def _put(parent: Any, key: Any, element: object) -> None:
    """`parent` has `element` at `key` if it can have something there."""
    if isinstance(parent, list) and isinstance(key, str):
        parent.append({key: element})
        return
    places = range(-len(parent), len(parent)) if isinstance(parent, list) else ()
    if isinstance(parent, dict) or key in places:
        parent[key] = element


row_function("json", "getBool", _get(_bool))
row_function("json", "getDouble", _get(_number("double", parse_floating)))
row_function("json", "getFloat", _get(_number("float", parse_floating)))
row_function("json", "getInt", _get(_number("int", lambda text: parse_integer(text, 32))))
row_function("json", "getLong", _get(_number("long", lambda text: parse_integer(text, 64))))
row_function("json", "getObject", _get(lambda found: found))
row_function("json", "getString", _get(plain))
row_function("json", "isExists", lambda value, text: _at(value, text) not in (_MISSING, []))
row_function("json", "setElement", _set_element, Nulls.PASS)
row_function("json", "toObject", parsed)
row_function("json", "toString", written)
