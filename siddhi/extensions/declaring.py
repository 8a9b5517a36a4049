"""Helpers for declaring extensions; they need neither the engine nor numpy."""

from __future__ import annotations

from collections.abc import Callable

from siddhi.language.ast import AttributeType
from siddhi.registry import Arguments, Attributes, Declaration, Kind, Overload

Result = AttributeType | Callable[[Arguments], AttributeType]
Check = Callable[[Arguments], None]


def function(
    namespace: str, name: str, summary: str, result: Result, *overloads: Overload, check: Check | None = None
) -> Declaration:
    """Declare a scalar function.

    Args:
        namespace: Namespace in calls; extensions may not leave it empty.
        name: Name within the namespace.
        summary: The result of the function in a few words, for editors.
        result: Type of the result, or a rule that derives it from the arguments. A rule may raise CallError.
        overloads: The ways to call it (`siddhi.parameters.takes`); types must match exactly.
        check: Checks the arguments of a call beyond their types, and raises CallError.
    """
    return Declaration(Kind.FUNCTION, name, summary, overloads, namespace, result=_rule(result), check=check)


def aggregator(
    namespace: str, name: str, summary: str, result: Result, *overloads: Overload, check: Check | None = None
) -> Declaration:
    """Declare an aggregator; its first argument may change from event to event.

    The parameters are those of `function`.

    Args:
        namespace: Namespace of the extension.
        name: Name of the aggregator.
        summary: One line for the documentation and the editor.
        result: The type of its value, or a function from the arguments to it.
        *overloads: The forms that a call may have; see `takes`.
        check: Called with the arguments of a call; raises CallError.
    """
    return Declaration(Kind.AGGREGATOR, name, summary, overloads, namespace, result=_rule(result), check=check)


def window(
    namespace: str,
    name: str,
    summary: str,
    *overloads: Overload,
    check: Check | None = None,
    spelling_3x: str | None = None,
) -> Declaration:
    """Declare a window.

    Args:
        namespace: As for `function`.
        name: As for `function`.
        summary: As for `function`.
        overloads: As for `function`.
        check: As for `function`.
        spelling_3x: Its name without a namespace in execution plans of the 3.x dialect.
    """
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
    """Declare a stream function.

    Args:
        namespace: As for `function`.
        name: As for `function`.
        summary: As for `function`.
        appends: Names and types of the attributes that it adds to each event.
        overloads: As for `function`.
        check: As for `function`.
        in_patterns: Whether patterns may use it; their elements take one event after the other.
    """
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
