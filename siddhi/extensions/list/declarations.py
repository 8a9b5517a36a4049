"""`list:` functions. Lists are immutable: functions that change one return a new list."""

from __future__ import annotations

from siddhi.extensions.declaring import Result, aggregator, function, stream_function
from siddhi.language.ast import AttributeType
from siddhi.parameters import ANY, BOOL, INT, OBJECT, STRING, constant, takes, value
from siddhi.plugins.extension import Extension
from siddhi.registry import Arguments, CallError, Declaration, Overload

_LIST = value("list", OBJECT)
_OTHER = value("given.list", OBJECT)
_VALUE = value("value", ANY)
_INDEX = value("index", INT)
_DISTINCT = constant("is.distinct", BOOL, "true: every value once")
_OBJECT, _BOOL, _INT = AttributeType.OBJECT, AttributeType.BOOL, AttributeType.INT
ORDERS = ("asc", "desc", "rev")
"""The orders in which a list can be sorted: ascending, descending, or reversed."""


def _check_order(arguments: Arguments) -> None:
    if len(arguments) == 2 and str(arguments[1].value).lower() not in ORDERS:
        raise CallError(f"the order must be one of {', '.join(ORDERS)}", 1)


def _list(name: str, summary: str, result: Result, *overloads: Overload) -> Declaration:
    return function("list", name, summary, result, *overloads)


LIST = Extension(
    "list",
    (
        _list(
            "add",
            "the list with a value more, at its end or at an index",
            _OBJECT,
            takes(_LIST, _VALUE),
            takes(_LIST, _VALUE, _INDEX),
        ),
        _list("addAll", "the list followed by another", _OBJECT, takes(_LIST, _OTHER), takes(_LIST, _OTHER, _DISTINCT)),
        _list("clear", "the list without its values", _OBJECT, takes(_LIST)),
        _list("clone", "the same list", _OBJECT, takes(_LIST)),
        aggregator("list", "collect", "a list of all values", _OBJECT, takes(_VALUE), takes(_VALUE, _DISTINCT)),
        _list("contains", "true when the list has the value", _BOOL, takes(_LIST, _VALUE)),
        _list("containsAll", "true when the list has all values of another", _BOOL, takes(_LIST, _OTHER)),
        _list("containsAny", "true when the list has some value of another", _BOOL, takes(_LIST, _OTHER)),
        _list("create", "a list of values", _OBJECT, takes(), takes(_VALUE, repeats=True)),
        _list("get", "the value at an index; null after the end", _OBJECT, takes(_LIST, _INDEX)),
        _list("indexOf", "the first index of a value, from 0; -1 when it is not there", _INT, takes(_LIST, _VALUE)),
        _list("isEmpty", "true when the list has no value", _BOOL, takes(_LIST)),
        _list("isList", "true when the object is a list", _BOOL, takes(value("object", ANY))),
        _list("lastIndexOf", "the last index of a value, from 0; -1 when it is not there", _INT, takes(_LIST, _VALUE)),
        aggregator("list", "merge", "all lists as one", _OBJECT, takes(_LIST), takes(_LIST, _DISTINCT)),
        _list("remove", "the list without the first such value", _OBJECT, takes(_LIST, _VALUE)),
        _list("removeAll", "the list without the values of another", _OBJECT, takes(_LIST, _OTHER)),
        _list("removeByIndex", "the list without the value at an index", _OBJECT, takes(_LIST, _INDEX)),
        _list("retainAll", "the values of the list that another has too", _OBJECT, takes(_LIST, _OTHER)),
        _list("setValue", "the list with another value at an index", _OBJECT, takes(_LIST, _INDEX, _VALUE)),
        _list("size", "how many values the list has", _INT, takes(_LIST)),
        function(
            "list",
            "sort",
            "the list sorted, or turned round without an order",
            _OBJECT,
            takes(_LIST),
            takes(_LIST, constant("order", STRING, ", ".join(ORDERS))),
            check=_check_order,
        ),
        stream_function(
            "list",
            "tokenize",
            "one event for each value of a list; of several lists the list of their values at an index",
            (("index", _INT), ("value", _OBJECT)),
            takes(_LIST),
            takes(_LIST, _LIST, repeats=True),
            in_patterns=False,
        ),
    ),
    ("siddhi.extensions.list.functions", "siddhi.extensions.list.aggregators"),
)
