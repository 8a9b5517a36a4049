"""Source text in lines of coloured pieces. Pure; the text itself is never changed."""

from __future__ import annotations

import re
from collections.abc import Iterator

Piece = tuple[str, str]
"""The class of a piece (empty for plain text) and its text."""

_SIDDHI = re.compile(
    r"""
    (?P<comment>--[^\n]*|/\*.*?(?:\*/|\Z))
  | (?P<string>\"\"\".*?(?:\"\"\"|\Z)|'[^'\n]*'?|"[^"\n]*"?)
  | (?P<annotation>@[A-Za-z_][\w:]*)
  | (?P<number>\b\d+(?:\.\d+)?[a-zA-Z]?\b)
  | (?P<keyword>\b(?:define|stream|table|window|trigger|function|aggregation|from|select|insert|into|group|by|having
        |order|limit|offset|as|and|or|not|in|is|null|every|within|for|of|partition|with|begin|end|join|left|right|full
        |outer|inner|on|unidirectional|output|first|last|all|events|current|expired|snapshot|delete|update|set|return
        |aggregate|at|true|false)\b)
  | (?P<type>\b(?:string|int|long|float|double|bool|object)\b)
    """,
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)

_XML = re.compile(
    r"""
    (?P<comment><!--.*?-->|<\?.*?\?>)
  | (?P<keyword></?[A-Za-z][\w-]*|/?>)
  | (?P<annotation>\b[A-Za-z][\w-]*(?==["']))
  | (?P<string>(?<==)"[^"]*"|(?<==)'[^']*')
    """,
    re.VERBOSE | re.DOTALL,
)


def siddhi_lines(text: str) -> list[list[Piece]]:
    """Return a plan's text, line by line."""
    return _lines(_pieces(_SIDDHI, text))


def xml_lines(text: str) -> list[list[Piece]]:
    """Return a query plan's XML, line by line."""
    return _lines(_pieces(_XML, text))


def _pieces(pattern: re.Pattern[str], text: str) -> Iterator[Piece]:
    position = 0
    for match in pattern.finditer(text):
        if match.start() > position:
            yield "", text[position : match.start()]
        yield match.lastgroup or "", match.group()
        position = match.end()
    if position < len(text):
        yield "", text[position:]


def _lines(pieces: Iterator[Piece]) -> list[list[Piece]]:
    lines: list[list[Piece]] = [[]]
    for kind, text in pieces:
        first, *others = text.split("\n")
        lines[-1].append((kind, first))
        lines.extend([(kind, other)] for other in others)
    return [[piece for piece in line if piece[1]] for line in lines]
