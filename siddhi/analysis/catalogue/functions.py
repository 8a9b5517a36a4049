"""The built-in scalar functions."""

from __future__ import annotations

from collections.abc import Callable

from siddhi.errors import did_you_mean
from siddhi.language.ast import AttributeType
from siddhi.parameters import ANY, BOOL, NUMERIC, OBJECT, STRING, constant, takes, value
from siddhi.registry import Arguments, CallError, Declaration, Kind, Overload

_VALUE = value("value", ANY)
_TYPE_NAME = constant("to", STRING, "the name of the type")


def _gives(result: AttributeType) -> Callable[[Arguments], AttributeType]:
    return lambda _arguments: result


def _one_type(arguments: Arguments) -> AttributeType:
    for position, argument in enumerate(arguments):
        if argument.type is not arguments[0].type:
            raise CallError(
                f"all arguments must have one type, but {arguments[0].type.value} and {argument.type.value} are given",
                position,
                "convert one of them: convert(…, 'double')",
            )
    return arguments[0].type


def _branch_type(arguments: Arguments) -> AttributeType:
    return _one_type(arguments[1:])


def _named_type(arguments: Arguments) -> AttributeType:
    name = str(arguments[1].value)
    types = [type_.value for type_ in AttributeType if type_ is not AttributeType.OBJECT]
    if name.casefold() not in types:
        raise CallError(f"'{name}' is not a type", 1, did_you_mean(name, types) or f"use {', '.join(types)}")
    return AttributeType(name.casefold())


def _convertible_type(arguments: Arguments) -> AttributeType:
    result = _named_type(arguments)
    if arguments[0].type is AttributeType.OBJECT and result is not AttributeType.STRING:
        raise CallError("an object can only be converted to string", 1)
    return result


def _check_event(arguments: Arguments) -> None:
    if arguments and not arguments[0].event:
        raise CallError("the argument must be an event of the pattern or join, such as e1", 0)


def _function(
    name: str,
    summary: str,
    result: Callable[[Arguments], AttributeType],
    *overloads: Overload,
    check: Callable[[Arguments], None] | None = None,
) -> Declaration:
    return Declaration(Kind.FUNCTION, name, summary, overloads, result=result, check=check)


FUNCTIONS: tuple[Declaration, ...] = (
    _function(
        "cast",
        "the value as another type: numbers are widened or truncated; an event with any other value fails",
        _named_type,
        takes(_VALUE, _TYPE_NAME),
    ),
    _function("convert", "the value converted; null where it cannot be", _convertible_type, takes(_VALUE, _TYPE_NAME)),
    _function("coalesce", "the first argument that is not null", _one_type, takes(_VALUE, repeats=True)),
    _function(
        "default",
        "the value, or a constant where it is null",
        _one_type,
        takes(_VALUE, constant("default", ANY, "the replacement for null")),
    ),
    _function(
        "ifThenElse",
        "the second argument if the condition is true, else the third",
        _branch_type,
        takes(value("condition", BOOL, "null is false"), value("then", ANY), value("else", ANY)),
    ),
    *(
        _function(f"instanceOf{type_name}", summary, _gives(AttributeType.BOOL), takes(_VALUE))
        for type_name, summary in (
            ("Boolean", "true when the value is a bool"),
            ("Double", "true when the value is a double"),
            ("Float", "true when the value is a float"),
            ("Integer", "true when the value is an int"),
            ("Long", "true when the value is a long"),
            ("String", "true when the value is a string"),
        )
    ),
    _function(
        "maximum",
        "the greatest argument that is not null, but never below 0",
        _one_type,
        takes(value("value", NUMERIC), repeats=True),
    ),
    _function(
        "minimum", "the least argument that is not null", _one_type, takes(value("value", NUMERIC), repeats=True)
    ),
    _function("UUID", "a new random identifier", _gives(AttributeType.STRING), takes()),
    _function("currentTimeMillis", "the app's clock in milliseconds", _gives(AttributeType.LONG), takes()),
    _function(
        "eventTimestamp",
        "the event's timestamp in milliseconds",
        _gives(AttributeType.LONG),
        takes(),
        takes(value("event", OBJECT, "an event of a pattern, such as e1 or e1[0], or of a join")),
        check=_check_event,
    ),
    _function("createSet", "a set of one value", _gives(AttributeType.OBJECT), takes(value("value", ANY - OBJECT))),
    _function("sizeOfSet", "how many values a set has", _gives(AttributeType.INT), takes(value("set", OBJECT))),
)
