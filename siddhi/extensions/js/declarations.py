"""`js:eval`."""

from __future__ import annotations

from siddhi.language.ast import AttributeType
from siddhi.parameters import STRING, constant, takes, value
from siddhi.plugins.extension import Extension
from siddhi.registry import Arguments, CallError, Declaration, Kind

_TYPES = {**{type_.value: type_ for type_ in AttributeType}, "boolean": AttributeType.BOOL}


def _named_type(arguments: Arguments) -> AttributeType:
    name = str(arguments[1].value)
    if name.casefold() not in _TYPES:
        raise CallError(f"'{name}' is not a type", 1, f"use {', '.join(type_.value for type_ in AttributeType)}")
    return _TYPES[name.casefold()]


JS = Extension(
    "js",
    (
        Declaration(
            Kind.FUNCTION,
            "eval",
            "the value of an expression in JavaScript, as a type",
            (
                takes(
                    value("expression", STRING, "the expression; it sees no attributes of the event"),
                    constant("return.type", STRING, "the name of the type"),
                ),
            ),
            "js",
            result=_named_type,
            script_language="javascript",
        ),
    ),
    ("siddhi.extensions.js.functions",),
)
