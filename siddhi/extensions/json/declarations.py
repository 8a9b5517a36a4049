"""`json:` functions."""

from __future__ import annotations

from siddhi.extensions.declaring import Check, Result, aggregator, function, stream_function
from siddhi.extensions.json.path import PathError, json_path
from siddhi.language.ast import AttributeType
from siddhi.parameters import ANY, BOOL, OBJECT, STRING, constant, takes, value
from siddhi.plugins.extension import Extension
from siddhi.registry import Arguments, CallError, Declaration

_JSON = value("json", STRING | OBJECT, "a JSON text or an object")
_PATH = value("path", STRING, "a JSON path such as $.order.items[0]")
_AT = takes(_JSON, _PATH)


def _check_path(arguments: Arguments) -> None:
    text = arguments[1].value
    if isinstance(text, str):
        try:
            json_path(text)
        except PathError as error:
            raise CallError(str(error), 1) from error


def _json(name: str, summary: str, result: Result, *, check: Check | None = _check_path) -> Declaration:
    return function("json", name, summary, result, _AT, check=check)


_GROUPED = (
    takes(_JSON),
    takes(_JSON, constant("distinct", BOOL, "true: every element once")),
    takes(_JSON, constant("enclosing.element", STRING, "the name of an object around the array")),
    takes(_JSON, constant("enclosing.element", STRING), constant("distinct", BOOL)),
)
_TOKENIZED = (_AT, takes(_JSON, _PATH, constant("fail.on.missing.attribute", BOOL, "false: null without a value")))

JSON = Extension(
    "json",
    (
        _json("getBool", "the bool at a path; false without one", AttributeType.BOOL),
        _json("getDouble", "the number at a path as double; null without a value", AttributeType.DOUBLE),
        _json("getFloat", "the number at a path as float; null without a value", AttributeType.FLOAT),
        _json("getInt", "the number at a path as int; null without a value", AttributeType.INT),
        _json("getLong", "the number at a path as long; null without a value", AttributeType.LONG),
        _json(
            "getObject",
            "what is at a path, or the only value of the list there, as an object; null without a value",
            AttributeType.OBJECT,
        ),
        _json("getString", "what is at a path, as text; null without a value", AttributeType.STRING),
        aggregator("json", "group", "all values as a JSON array", AttributeType.STRING, *_GROUPED),
        aggregator("json", "groupAsObject", "all values as a list", AttributeType.OBJECT, *_GROUPED),
        _json("isExists", "true if there is a value at a path", AttributeType.BOOL),
        function(
            "json",
            "setElement",
            "the JSON with another value at a path, a value more in the list there or under a key of the object there",
            AttributeType.OBJECT,
            takes(_JSON, _PATH, value("json.element", ANY)),
            takes(_JSON, _PATH, value("json.element", ANY), value("key", STRING)),
            check=_check_path,
        ),
        function("json", "toObject", "a JSON text as an object", AttributeType.OBJECT, takes(value("json", STRING))),
        function(
            "json",
            "toString",
            "an object as JSON text, or that text as a JSON text in quotes",
            AttributeType.STRING,
            takes(_JSON),
            takes(_JSON, value("allow.escape", BOOL, "true: as a text in quotes")),
        ),
        stream_function(
            "json",
            "tokenize",
            "one event for each value at a path, as text",
            (("jsonElement", AttributeType.STRING),),
            *_TOKENIZED,
            check=_check_path,
            in_patterns=False,
        ),
        stream_function(
            "json",
            "tokenizeAsObject",
            "one event for each value at a path, as an object",
            (("jsonElement", AttributeType.OBJECT),),
            *_TOKENIZED,
            check=_check_path,
            in_patterns=False,
        ),
    ),
    ("siddhi.extensions.json.functions", "siddhi.extensions.json.group", "siddhi.extensions.json.tokenize"),
)
