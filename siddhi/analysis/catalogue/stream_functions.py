"""The built-in stream functions."""

from __future__ import annotations

from siddhi.language.ast import AttributeType
from siddhi.parameters import BOOL, DOUBLE, STRING, constant, takes, value
from siddhi.registry import Arguments, Attributes, CallError, Declaration, Kind

PRIORITIES = ("TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL", "OFF")
"""Priorities of log lines, the least urgent first; OFF writes nothing."""

_PRIORITY = constant("priority", STRING, f"one of {', '.join(PRIORITIES)}")
_MESSAGE = value("log.message", STRING, "the text before the event")
_WITH_EVENT = constant("is.event.logged", BOOL, "false: write the message alone")
_THETA = value("theta", DOUBLE, "the angle in degrees")
_RHO = value("rho", DOUBLE, "the distance")


def _nothing(_arguments: Arguments) -> Attributes:
    return ()


def _check_priority(arguments: Arguments) -> None:
    texts = [argument for argument in arguments if argument.type is AttributeType.STRING]
    if len(texts) > 1 and str(texts[0].value).upper() not in PRIORITIES:
        raise CallError(f"'{texts[0].value}' is no priority; use {', '.join(PRIORITIES)}", 0)


def _cartesian(arguments: Arguments) -> Attributes:
    names = ("x", "y", "z")[: len(arguments)]
    return tuple((name, AttributeType.DOUBLE) for name in names)


STREAM_FUNCTIONS: tuple[Declaration, ...] = (
    Declaration(
        Kind.STREAM_FUNCTION,
        "log",
        "writes events to the log and passes them on",
        (
            takes(),
            takes(_WITH_EVENT),
            takes(_MESSAGE),
            takes(_MESSAGE, _WITH_EVENT),
            takes(_PRIORITY, _MESSAGE),
            takes(_PRIORITY, _MESSAGE, _WITH_EVENT),
        ),
        appends=_nothing,
        check=_check_priority,
        in_patterns=False,
    ),
    Declaration(
        Kind.STREAM_FUNCTION,
        "pol2Cart",
        "adds the Cartesian coordinates x and y (and z) of polar ones",
        (takes(_THETA, _RHO), takes(_THETA, _RHO, value("z", DOUBLE, "the height"))),
        appends=_cartesian,
    ),
)
