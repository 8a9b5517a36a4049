"""`json:` functions over the values of a row.

A null JSON or path fails, and so does a text that is not JSON. The result is null if the value at a path cannot be
converted, or if there are several values for a single result.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import msgspec

from siddhi.engine.columnar.java_text import parse_floating, parse_integer
from siddhi.engine.operators.functions.rows import Nulls, RowError, row_function
from siddhi.extensions.json.lenient import read_lenient
from siddhi.extensions.json.path import MISSING, JsonPath, PathError, json_path
from siddhi.nesting import ObjectError, TooDeepError, read_object, write_object


def parsed(value: object) -> object:
    """Return the value of a JSON text, or an object unchanged; raise `RowError` for a text that is not an object."""
    if not isinstance(value, str):
        return value
    try:
        return _read(value)
    except ObjectError as error:
        raise RowError(str(error)) from error


def _read(text: str) -> object:
    """Return the value of a text that is JSON or nearly so; raise ObjectError."""
    try:
        return read_object(text)
    except TooDeepError:
        raise
    except ObjectError:
        return read_lenient(text)


def written(value: object) -> str:
    """Return the JSON text of a value; raise `RowError` if it has none."""
    try:
        return write_object(value).decode()
    except (TypeError, ValueError) as error:
        raise RowError(f"no JSON: {error}") from error


def compiled(text: str) -> JsonPath:
    """Return the compiled path; raise `RowError` for an invalid one."""
    try:
        return json_path(text)
    except PathError as error:
        raise RowError(str(error)) from error


def plain(value: object) -> str:
    """Return a text unchanged, anything else as JSON."""
    return value if isinstance(value, str) else written(value)


def at_path(value: object, text: str) -> object:
    """Return the value at a path, `MISSING` if there is none.

    A path that may lead to many values returns a list of them.
    """
    return compiled(text).read(parsed(value))


def _get(read: Callable[[object], object]) -> Callable[..., object]:
    def get(value: object, text: str) -> object:
        found = at_path(value, text)
        return None if found is MISSING or found is None else read(found)

    return get


def _alone(found: object) -> object:
    """Return the only value of a list; anything else unchanged."""
    return found[0] if isinstance(found, list) and len(found) == 1 else found


def _single(read: Callable[[str], object]) -> Callable[..., object]:
    """Return `read` of the text of the one value at a path; a list with one value counts as that value."""

    def single(found: object) -> object:
        value = _alone(found)
        return None if value is None else read(plain(value))

    return _get(single)


def _bool(text: str) -> object:
    return {"true": True, "false": False}.get(text.lower())


def _set_element(value: object, text: str | None, element: object, *keys: str | None) -> object:
    if value is None or text is None or None in keys:
        raise RowError("the JSON, the path and the key must not be null")
    path = compiled(text)
    whole = msgspec.json.decode(written(parsed(value)))
    found = path.read(whole)
    if isinstance(found, list):
        for target in path.find(whole):
            if not isinstance(target, list):
                break
            target.append(_element(element))
    elif keys and found is not MISSING:
        if not isinstance(found, dict):
            raise RowError(f"there is no object at '{text}'")
        found[keys[0]] = _element(element)
    elif not keys and not path.steps:
        raise RowError("the whole JSON cannot be replaced")
    elif found is not MISSING:
        parent: Any = JsonPath(path.steps[:-1]).read(whole)
        parent[path.steps[-1].key] = element
    return whole


def _element(element: object) -> object:
    """Return the object in a text with a map or a list, with its numbers as doubles."""
    if element is None:
        raise RowError("the element must not be null")
    if not isinstance(element, str):
        return element
    try:
        value = _read(element)
    except ObjectError:
        return element
    return _with_doubles(value) if isinstance(value, dict | list) else element


def _with_doubles(value: object) -> object:
    if isinstance(value, dict):
        return {key: _with_doubles(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_doubles(item) for item in value]
    if not isinstance(value, int) or isinstance(value, bool):
        return value
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _to_object(text: str) -> object:
    """Return the value of a text, null when it has none; raise `RowError` for a text that nests too deeply."""
    try:
        return _read(text)
    except TooDeepError as error:
        raise RowError(str(error)) from error
    except ObjectError:
        return None


def _to_string(value: object, escaped: object = False) -> str:
    return written(written(value)) if escaped else written(value)


row_function("json", "getBool", _single(_bool))
row_function("json", "getDouble", _single(parse_floating))
row_function("json", "getFloat", _single(parse_floating))
row_function("json", "getInt", _single(lambda text: parse_integer(text, 32)))
row_function("json", "getLong", _single(lambda text: parse_integer(text, 64)))
row_function("json", "getObject", _get(_alone))
row_function("json", "getString", _get(plain))
row_function("json", "isExists", lambda value, text: at_path(value, text) is not MISSING)
row_function("json", "setElement", _set_element, Nulls.PASS)
row_function("json", "toObject", _to_object)
row_function("json", "toString", _to_string, Nulls.PASS)
