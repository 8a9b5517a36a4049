"""`#json:tokenize` and `#json:tokenizeAsObject`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from siddhi.engine.operators.functions.rows import RowError
from siddhi.engine.operators.stream_functions.stream_function import STREAM_FUNCTIONS
from siddhi.extensions.json.functions import at_path, written
from siddhi.extensions.json.path import MISSING
from siddhi.extensions.tokens import Tokens


@STREAM_FUNCTIONS.register("tokenizeAsObject", "json")
class JsonTokenizeAsObject(Tokens):
    """Emits an event for each element of a list at the path, one for an object or text, none for anything else."""

    def width(self) -> int:
        return 1

    def tokens(self, *arguments: Any) -> Iterator[tuple[object, ...]]:
        value, text, *rest = arguments
        if value is None or text is None:
            raise RowError("the JSON and the path must not be null")
        found = at_path(value, text)
        if found is MISSING or found is None or found == []:
            yield from [(None,)] if rest and not rest[0] else []
        elif isinstance(found, list):
            yield from ((self.shown(element),) for element in found)
        elif isinstance(found, dict):
            yield (self.shown(found),)
        elif isinstance(found, str):
            yield (found,)

    def shown(self, element: object) -> object:
        """Return the element in the form of the output attribute."""
        return element


@STREAM_FUNCTIONS.register("tokenize", "json")
class JsonTokenize(JsonTokenizeAsObject):
    """The same as JSON texts."""

    def shown(self, element: object) -> object:
        return written(element)
