"""`map:` functions. Maps are immutable: functions that change one return a new map."""

from __future__ import annotations

from siddhi.extensions.declaring import Result, aggregator, function, stream_function
from siddhi.language.ast import AttributeType
from siddhi.parameters import ANY, OBJECT, STRING, constant, takes, value
from siddhi.plugins.extension import Extension
from siddhi.registry import Arguments, CallError, Declaration, Overload

_MAP = value("map", OBJECT)
_KEY = value("key", ANY - OBJECT)
_ANY_KEY = value("key", ANY, "an object, too, such as a key that map:tokenize gives")
_VALUE = value("value", ANY)
_OBJECT, _BOOL = AttributeType.OBJECT, AttributeType.BOOL


def _check_pairs(arguments: Arguments) -> None:
    if len(arguments) % 2:
        raise CallError("keys and values must come in pairs", len(arguments) - 1)


def _check_put(arguments: Arguments) -> None:
    _check_pairs(arguments[1:])


def _map(name: str, summary: str, result: Result, *overloads: Overload) -> Declaration:
    return function("map", name, summary, result, *overloads)


MAP = Extension(
    "map",
    (
        _map("clear", "the map without its entries", _OBJECT, takes(_MAP)),
        _map("clone", "the same map", _OBJECT, takes(_MAP)),
        aggregator("map", "collect", "a map of all keys and values", _OBJECT, takes(_KEY, _VALUE)),
        _map(
            "combineByKey",
            "a map of all keys of several maps, each with the list of its values in them",
            _OBJECT,
            takes(_MAP, _MAP),
            takes(_MAP, _MAP, repeats=True),
        ),
        _map("containsKey", "true when the map has the key", _BOOL, takes(_MAP, _KEY)),
        _map("containsValue", "true when the map has the value", _BOOL, takes(_MAP, _VALUE)),
        function(
            "map",
            "create",
            "a map of keys and values",
            _OBJECT,
            takes(),
            takes(_ANY_KEY, _VALUE),
            takes(_ANY_KEY, _VALUE, value("key or value", ANY), repeats=True),
            check=_check_pairs,
        ),
        _map("createFromJSON", "a map from a JSON text", _OBJECT, takes(value("json.string", STRING))),
        _map("createFromXML", "a map from an XML text", _OBJECT, takes(value("xml.string", STRING))),
        _map("get", "the value of a key, or a default", _OBJECT, takes(_MAP, _ANY_KEY), takes(_MAP, _ANY_KEY, _VALUE)),
        _map("isEmpty", "true when the map has no entry", _BOOL, takes(_MAP)),
        _map("isMap", "true when the object is a map", _BOOL, takes(value("object", ANY))),
        _map("keys", "the list of the keys", _OBJECT, takes(_MAP)),
        aggregator("map", "merge", "all maps as one; the latest value of a key counts", _OBJECT, takes(_MAP)),
        function(
            "map",
            "put",
            "the map with more keys and values",
            _OBJECT,
            takes(_MAP, _ANY_KEY, _VALUE),
            takes(_MAP, _ANY_KEY, _VALUE, value("key or value", ANY), repeats=True),
            check=_check_put,
        ),
        _map("putAll", "the map with the entries of another", _OBJECT, takes(_MAP, value("from.map", OBJECT))),
        _map("putIfAbsent", "the map with a value for a key that has none", _OBJECT, takes(_MAP, _KEY, _VALUE)),
        _map("remove", "the map without a key", _OBJECT, takes(_MAP, _ANY_KEY)),
        _map("replace", "the map with another value for a key that it has", _OBJECT, takes(_MAP, _KEY, _VALUE)),
        _map(
            "replaceAll",
            "the map with the values of another for the keys that both have",
            _OBJECT,
            takes(_MAP, value("from.map", OBJECT)),
        ),
        _map("size", "how many entries the map has", AttributeType.INT, takes(_MAP)),
        _map("toJSON", "the map as JSON text", AttributeType.STRING, takes(_MAP)),
        _map(
            "toXML",
            "the map as XML text, within an element if its name is given",
            AttributeType.STRING,
            takes(_MAP),
            takes(_MAP, constant("root.element.name", STRING)),
        ),
        stream_function(
            "map",
            "tokenize",
            "one event for each entry of a map; of several maps the list of their values for a key",
            (("key", _OBJECT), ("value", _OBJECT)),
            takes(_MAP),
            takes(_MAP, _MAP, repeats=True),
            in_patterns=False,
        ),
        _map("values", "the list of the values", _OBJECT, takes(_MAP)),
    ),
    ("siddhi.extensions.map.functions", "siddhi.extensions.map.aggregators"),
)
