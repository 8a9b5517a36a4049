"""Translate lark's parse errors into readable messages."""

from __future__ import annotations

import re

from lark import Token
from lark.exceptions import UnexpectedCharacters, UnexpectedInput, UnexpectedToken

from siddhi.errors import Problem
from siddhi.language.bounds import shortened
from siddhi.language.syntax_hints import UNITS, SyntaxMistake, hint, unclosed_bracket
from siddhi.language.variables import span_between

_EXPRESSION = frozenset(
    ["INT", "LONG", "FLOAT", "DOUBLE", "TRUE", "FALSE", "_NOT", "ID", "QUOTED_ID", "STRING", "LPAR"]
)
_GROUPS: tuple[tuple[str, frozenset[str]], ...] = (
    ("an expression", _EXPRESSION),
    (
        "a time unit (sec, min, hour, …)",
        UNITS,
    ),
    (
        "an operator",
        frozenset(["PLUS", "MINUS", "STAR", "SLASH", "PERCENT", "EQUALITY", "LESS", "GREATER", "AND", "OR", "_IN"]),
    ),
    ("an output (insert into …)", frozenset(["_INSERT", "_DELETE", "_UPDATE", "_RETURN"])),
    ("a name", frozenset({"ID", "QUOTED_ID"})),
)
"""Names for groups of terminals."""

_IMPLIED = {
    "an expression": frozenset({"PLUS", "MINUS", "HASH", "BANG"}),
    "an operator": frozenset({"LESS_EQUAL", "GREATER_EQUAL"}),
}
"""Terminals that are implied by the name of a group."""

_WORDS = {
    "ATTRIBUTE_TYPE": "a type (string, int, long, float, double, bool, object)",
    "$END": "the end of the text",
    "STRING": "a text in quotes",
    "INT": "a whole number",
    "_SCRIPT_TEXT": "the script",
    "LPAR": "'('",
    "RPAR": "')'",
    "LSQB": "'['",
    "RSQB": "']'",
    "LBRACE": "'{'",
    "RBRACE": "'}'",
    "COMMA": "','",
    "SEMICOLON": "';'",
    "DOT": "'.'",
    "COLON": "':'",
    "EQUAL": "'='",
    "AT": "'@'",
    "HASH": "'#'",
    "BANG": "'!'",
    "STAR": "'*'",
    "PLUS": "'+'",
    "MINUS": "'-'",
    "SLASH": "'/'",
    "PERCENT": "'%'",
    "QUESTION_MARK": "'?'",
    "LESS": "'<'",
    "GREATER": "'>'",
    "LESS_EQUAL": "'<='",
    "GREATER_EQUAL": "'>='",
    "EQUALITY": "'=='",
    "__ANON_0": "'...'",
    "__ANON_1": "'->'",
}
_FIRST = ("RPAR", "RSQB", "RBRACE", "SEMICOLON", "$END", "COMMA")
"""Named before all other single terminals, because most often one of these is missing."""

_MOST_WORDS = 8
MOST_READ = 1_000
"""Characters on each side of a mistake that hints inspect; rules search them for words up to their end."""
_TOKEN = re.compile(r"[^\W\d]\w*|\d\w*|&&|\|\||<>|\S")
_QUOTE_HINT = '\'…\' holds no quotes and no line breaks, "…" holds \', and """…""" holds anything'


def problem_of(error: UnexpectedInput, text: str) -> Problem:
    """Return the syntax error as a problem: the text found, the expected alternatives, and often a hint."""
    if isinstance(error, UnexpectedToken) and error.token.type == "$END":
        end = len(text.rstrip())
        span = span_between(text, max(end - 1, 0), end)
        message = f"the text ends too early: {_expected(error)} expected"
        return Problem("syntax-error", message, unclosed_bracket(text, frozenset(_accepted(error))), span)
    start = error.pos_in_stream or 0
    found = _TOKEN.match(text, start)
    word = found[0] if found else text[start : start + 1]
    span = span_between(text, start, start + max(len(word), 1))
    word = shortened(word)
    if word in {"'", '"'} and "STRING" in _accepted(error):
        return Problem("unclosed-text", "this text in quotes does not end", _QUOTE_HINT, span)
    if word == "`":
        return Problem("unclosed-text", "this name in back-quotes does not end", None, span)
    message = f"'{word}' is not allowed here: {_expected(error)} expected"
    accepted = frozenset(_accepted(error))
    keywords = tuple(terminal.lstrip("_").casefold() for terminal in sorted(accepted - _WORDS.keys()))
    before = text[:start].rstrip()
    near, behind = before[-MOST_READ:], text[start : start + MOST_READ]
    mistake = SyntaxMistake(near, behind, word, accepted, keywords, _keyword_before(error), before)
    return Problem("syntax-error", message, hint(mistake), span)


def _keyword_before(error: UnexpectedInput) -> str | None:
    """Return the keyword that the parser has just read, None if it was anything else."""
    parser = getattr(error, "interactive_parser", None)
    read = parser.parser_state.value_stack if parser is not None else []
    if read and isinstance(read[-1], Token) and read[-1].type.lstrip("_").casefold() == read[-1].casefold():
        return str(read[-1]).casefold()
    return None


def _accepted(error: UnexpectedInput) -> set[str]:
    parser = getattr(error, "interactive_parser", None)
    if parser is not None:
        return set(parser.accepts())
    allowed = error.allowed if isinstance(error, UnexpectedCharacters) else getattr(error, "expected", None)
    return set(allowed or ())


def _expected(error: UnexpectedInput) -> str:
    accepted = _accepted(error)
    words: list[str] = []
    for word, group in _GROUPS:
        if group <= accepted:
            words.append(word)
            accepted -= group | _IMPLIED.get(word, frozenset())
    words += [_word(terminal) for terminal in sorted(accepted, key=_rank)]
    if len(words) > _MOST_WORDS:
        words = [*words[: _MOST_WORDS - 1], "more"]
    if not words:
        return "nothing more"
    return f"{', '.join(words[:-1])} or {words[-1]}" if len(words) > 1 else words[0]


def _rank(terminal: str) -> tuple[int, str]:
    if terminal in _FIRST:
        return _FIRST.index(terminal), terminal
    is_keyword = terminal not in _WORDS
    return len(_FIRST) + (0 if is_keyword else 1), terminal


def _word(terminal: str) -> str:
    return _WORDS.get(terminal) or f"'{terminal.lstrip('_').casefold()}'"
