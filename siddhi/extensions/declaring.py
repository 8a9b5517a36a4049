"""Short words for the declarations of extensions; they need neither the engine nor numpy."""

from __future__ import annotations

from collections.abc import Callable

from siddhi.language.ast import AttributeType
from siddhi.registry import Arguments, Attributes, Declaration, Kind, Overload

Result = AttributeType | Callable[[Arguments], AttributeType]
Check = Callable[[Arguments], None]


def function(
    namespace: str, name: str, summary: str, result: Result, *overloads: Overload, check: Check | None = None
) -> Declaration:
    """Return a scalar function."""
    return Declaration(Kind.FUNCTION, name, summary, overloads, namespace, result=_rule(result), check=check)


def aggregator(
    namespace: str, name: str, summary: str, result: Result, *overloads: Overload, check: Check | None = None
) -> Declaration:
    """Return an aggregator; its first argument may change from event to event."""
    return Declaration(Kind.AGGREGATOR, name, summary, overloads, namespace, result=_rule(result), check=check)


def window(
    namespace: str,
    name: str,
    summary: str,
    *overloads: Overload,
    check: Check | None = None,
    spelling_3x: str | None = None,
) -> Declaration:
    """Return a window."""
    return Declaration(Kind.WINDOW, name, summary, overloads, namespace, check=check, spelling_3x=spelling_3x)


def stream_function(
    namespace: str,
    name: str,
    summary: str,
    appends: Attributes,
    *overloads: Overload,
    check: Check | None = None,
    in_patterns: bool = True,
) -> Declaration:
    """Return a stream function that adds the attributes `appends` to each event."""
    return Declaration(
        Kind.STREAM_FUNCTION,
        name,
        summary,
        overloads,
        namespace,
        appends=lambda _arguments: appends,
        check=check,
        in_patterns=in_patterns,
    )


def _rule(result: Result) -> Callable[[Arguments], AttributeType]:
    return (lambda _arguments: result) if isinstance(result, AttributeType) else result
