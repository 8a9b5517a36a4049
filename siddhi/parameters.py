"""Helpers for declaring the parameters of calls."""

from __future__ import annotations

from siddhi.language.ast import AttributeType
from siddhi.registry import Overload, Parameter

INT = frozenset({AttributeType.INT})
LONG = frozenset({AttributeType.LONG})
DOUBLE = frozenset({AttributeType.DOUBLE})
BOOL = frozenset({AttributeType.BOOL})
STRING = frozenset({AttributeType.STRING})
OBJECT = frozenset({AttributeType.OBJECT})
TIME = frozenset({AttributeType.INT, AttributeType.LONG})
NUMERIC = frozenset({AttributeType.INT, AttributeType.LONG, AttributeType.FLOAT, AttributeType.DOUBLE})
ANY = frozenset(AttributeType)


def constant(name: str, types: frozenset[AttributeType], description: str = "") -> Parameter:
    """Return a parameter that takes a constant only.

    Args:
        name: Name of the parameter in the documentation and in errors.
        types: The types that it takes.
        description: One line for the documentation and the editor.
    """
    return Parameter(name, types, description, constant=True)


def value(name: str, types: frozenset[AttributeType], description: str = "") -> Parameter:
    """Return a parameter that takes any expression of one of `types`.

    Args:
        name: Name of the parameter in the documentation and in errors.
        types: The types that it takes.
        description: One line for the documentation and the editor.
    """
    return Parameter(name, types, description)


def attribute(name: str, types: frozenset[AttributeType], description: str = "") -> Parameter:
    """Return a parameter that takes a plain attribute of the input only.

    Args:
        name: Name of the parameter in the documentation and in errors.
        types: The types that it takes.
        description: One line for the documentation and the editor.
    """
    return Parameter(name, types, description, attribute=True)


def takes(*parameters: Parameter, repeats: bool = False, only_3x: bool = False) -> Overload:
    """Return an overload with these parameters; with `repeats` the last one may be repeated any number of times.

    Args:
        *parameters: The parameters, in order.
        repeats: The last parameter may be repeated.
        only_3x: The overload exists in execution plans (Siddhi 3.x) only.
    """
    return Overload(parameters, repeats, only_3x)
