"""Registries of the named parts that plans use: windows, aggregators, functions and stream functions.

Each maps (namespace, name) to an implementation. Importing `siddhi.engine.builtins` fills them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from siddhi.errors import Problem, SiddhiRuntimeError
from siddhi.language import ast

Member = TypeVar("Member")


class Implementations(Generic[Member]):
    """The implementations of one kind, by namespace and name."""

    def __init__(self, kind: str) -> None:
        """Create an empty registry.

        Args:
            kind: The kind of the members, as errors name it, such as "window".
        """
        self.kind = kind
        self._members: dict[tuple[str, str], Member] = {}

    def register(self, name: str, namespace: str = "") -> Callable[[Member], Member]:
        """Return a decorator that makes its subject the member `namespace:name`."""

        def keep(member: Member) -> Member:
            self._members[namespace, name] = member
            return member

        return keep

    def find(self, namespace: str, name: str, syntax: ast.FunctionCall | None = None) -> Member:
        """Return the member of that name.

        Raise `SiddhiRuntimeError` with code `not-supported` and the place of `syntax` if there is none.
        """
        member = self._members.get((namespace, name))
        if member is None:
            full = f"{namespace}:{name}" if namespace else name
            raise not_supported(f"the {self.kind} '{full}'", None if syntax is None else syntax.span)
        return member

    def __iter__(self) -> Iterator[tuple[str, str]]:
        """Return an iterator over (namespace, name) of all members."""
        return iter(self._members)


def not_supported(what: str, span: ast.Span | None) -> SiddhiRuntimeError:
    """Return the error that refuses an app when it is built because the engine lacks `what`."""
    return SiddhiRuntimeError([Problem("not-supported", f"the engine does not support {what} yet", None, span)])
