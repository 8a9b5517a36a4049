"""`#str:tokenize`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from siddhi.engine.operators.functions.rows import RowError
from siddhi.engine.operators.stream_functions.stream_function import STREAM_FUNCTIONS
from siddhi.extensions.java_regex import compile_pattern, split
from siddhi.extensions.tokens import Tokens


@STREAM_FUNCTIONS.register("tokenize", "str")
class StrTokenize(Tokens):
    """The parts of a text between the matches, in order, each once if `distinct`; a null text fails."""

    def width(self) -> int:
        return 1

    def tokens(self, *arguments: Any) -> Iterator[tuple[object, ...]]:
        text, pattern, *distinct = arguments
        if text is None:
            raise RowError("the text given to 'str:tokenize' is null")
        parts = split(compile_pattern(pattern), text)
        for part in dict.fromkeys(parts) if distinct and distinct[0] else parts:
            yield (part,)
