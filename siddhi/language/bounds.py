"""Limits on the size of a text.

The time and memory that parsing and all later steps take grow with the length of the text.
"""

from __future__ import annotations

import itertools
import re

from lark import Token

from siddhi.errors import Problem, SiddhiParseError
from siddhi.language.ast import Span
from siddhi.language.variables import span_between

MOST_CHARACTERS = 2**24
MOST_WORDS = 20_000
"""The limit for a text from a client, unless more is configured: about 1,300 queries."""
LONGEST_NUMBER = 64
"""The maximum number of digits of a number; no type has more than 40."""
LONGEST_SHOWN = 64
"""The maximum number of characters of a word that a message repeats."""

_NUMBERS = frozenset({"INT", "LONG", "FLOAT", "DOUBLE"})
_WORD = re.compile(r'"""[\s\S]*?"""|"[^"\n]*+"|\'[^\'\n]*+\'|`[^`]*+`|--[^\n]*+|/\*[\s\S]*?(?:\*/|\Z)|\w++|[^\w\s]')
"""An approximation of the grammar's tokens. It runs in linear time: an unclosed token is visited once."""
_FUNCTION = re.compile(r"\bfunction\b", re.IGNORECASE)
_BRACE = re.compile(r"[{}]")


def check_length(text: str) -> None:
    """Raise SiddhiParseError for a text that is too long to parse in bounded time."""
    if len(text) > MOST_CHARACTERS:
        raise _too_long(text, MOST_CHARACTERS, f"{MOST_CHARACTERS:,} characters")


def check_words(text: str, most_words: int = MOST_WORDS) -> None:
    """Raise SiddhiParseError for a text with more than `most_words` names, numbers, strings, signs and comments.

    A query has about fifteen of them. The words of a text that exceeds the length limit are not counted.
    """
    check_length(text)
    if len(text) > most_words:
        beyond = next(itertools.islice(_WORD.finditer(text), most_words, None), None)
        # Braces of a script are tokens, even in what looks like a comment.
        if beyond is None and _FUNCTION.search(text):
            beyond = next(itertools.islice(_BRACE.finditer(text), most_words, None), None)
        if beyond is not None:
            raise _too_long(text, beyond.start(), f"{most_words:,} words and signs")


def long_number(token: Token) -> Problem | None:
    """Return the problem of a number with too many digits."""
    if token.type not in _NUMBERS or len(token) <= LONGEST_NUMBER:
        return None
    span = Span(
        token.line or 0, token.column or 0, token.end_line or 0, token.end_column or 0,
        token.start_pos or 0, token.end_pos or 0,
    )  # fmt: skip
    message = f"this number has {len(token):,} digits; at most {LONGEST_NUMBER} are read"
    return Problem("number-too-long", message, "no type holds as large a number", span)


def shortened(word: str) -> str:
    """Return `word`, truncated if it is too long for a message."""
    return word if len(word) <= LONGEST_SHOWN else f"{word[:LONGEST_SHOWN]}…"


def _too_long(text: str, place: int, bound: str) -> SiddhiParseError:
    span = span_between(text, place, place + 1)
    return SiddhiParseError(Problem("too-long", f"the text has more than {bound}", "split it into several plans", span))
