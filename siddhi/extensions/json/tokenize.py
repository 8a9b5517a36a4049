"""`#json:tokenize` and `#json:tokenizeAsObject`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from siddhi.engine.stream_functions.stream_function import STREAM_FUNCTIONS
from siddhi.extensions.json.functions import compiled, parsed, plain
from siddhi.extensions.rows import RowError
from siddhi.extensions.tokens import Tokens


@STREAM_FUNCTIONS.register("tokenizeAsObject", "json")
class TokenizeAsObject(Tokens):
    """A list at the path gives an event for each of its elements, anything else one event."""

    def width(self) -> int:
        return 1

    def tokens(self, *arguments: Any) -> Iterator[tuple[object, ...]]:
        value, text, *rest = arguments
        if value is None or text is None:
            raise RowError("the JSON and the path must not be null")
        found = list(compiled(text).find(parsed(value)))
        if not found and rest and not rest[0]:
            yield (None,)
        elif not found:
            raise RowError(f"there is nothing at '{text}'")
        for item in found:
            for element in item if isinstance(item, list) else [item]:
                yield (self.shown(element),)

    def shown(self, element: object) -> object:
        """The element as the attribute has it."""
        return element


@STREAM_FUNCTIONS.register("tokenize", "json")
class Tokenize(TokenizeAsObject):
    """The same as texts."""

    def shown(self, element: object) -> object:
        return None if element is None else plain(element)
