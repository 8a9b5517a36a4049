"""What lark says of a text that is no SiddhiQL, in words for people."""

from __future__ import annotations

import re

from lark import Token
from lark.exceptions import UnexpectedCharacters, UnexpectedInput, UnexpectedToken

from siddhi.errors import Problem
from siddhi.language.variables import span_between

_GROUPS: tuple[tuple[str, frozenset[str]], ...] = (
    (
        "an expression",
        frozenset({"INT", "LONG", "FLOAT", "DOUBLE", "TRUE", "FALSE", "_NOT", "ID", "QUOTED_ID", "STRING", "LPAR"}),
    ),
    (
        "a time unit (sec, min, hour, …)",
        frozenset({"YEAR", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND", "MILLISECOND"}),
    ),
    (
        "an operator",
        frozenset(
            {
                "PLUS",
                "MINUS",
                "STAR",
                "SLASH",
                "PERCENT",
                "EQUALITY",
                "LESS",
                "GREATER",
                "LESS_EQUAL",
                "GREATER_EQUAL",
                "AND",
                "OR",
                "_IN",
            }
        ),
    ),
    ("a name", frozenset({"ID", "QUOTED_ID"})),
)
_WITH_EXPRESSION = frozenset({"PLUS", "MINUS", "HASH", "BANG"})
_WORDS = {
    "ATTRIBUTE_TYPE": "a type (string, int, long, float, double, bool, object)",
    "$END": "the end of the text",
    "STRING": "a text in quotes",
    "INT": "a whole number",
    "_SCRIPT_TEXT": "the script",
}
_LIMIT = 8
_TOKEN = re.compile(r"[A-Za-z_0-9]+|&&|\|\||<>|\S")
_KEYWORD_HINTS = {
    "&&": "write `and`",
    "||": "write `or`",
    "<>": "write `!=`",
    "=": "compare with `==`",
    "between": "write `a >= x and a <= y`",
    "like": "there is no `like`; use a string function",
    "case": "write `ifThenElse(condition, a, b)`",
    "where": "filters stand in brackets: `from S[condition]`",
}


def problem_of(error: UnexpectedInput, text: str) -> Problem:
    """The syntax error as a problem: what stands there, what could have stood there, and often why."""
    if isinstance(error, UnexpectedToken) and error.token.type == "$END":
        end = len(text.rstrip())
        return Problem(
            "syntax-error",
            f"the text ends too early: {_expected(error)} expected",
            None,
            span_between(text, max(end - 1, 0), end),
        )
    start = error.pos_in_stream or 0
    found = _TOKEN.match(text, start)
    word = found[0] if found else text[start : start + 1]
    span = span_between(text, start, start + max(len(word), 1))
    if word in {"'", '"'}:
        return Problem("unclosed-text", "this text in quotes does not end", _QUOTE_HINT, span)
    if word == "`":
        return Problem("unclosed-text", "this name in back-quotes does not end", None, span)
    return Problem(
        "syntax-error", f"'{word}' cannot stand here: {_expected(error)} expected", _hint(error, text, word), span
    )


_QUOTE_HINT = '\'…\' holds no quotes and no line breaks, "…" holds \', and """…""" holds anything'


def _hint(error: UnexpectedInput, text: str, word: str) -> str | None:
    before = text[: error.pos_in_stream or 0].rstrip()
    if word.casefold() == "not" and before.casefold().endswith("is"):
        return "write `not (x is null)`"
    if word == "=" and "=" in _accepted(error):
        return None
    if word.casefold() in _KEYWORD_HINTS:
        return _KEYWORD_HINTS[word.casefold()]
    if before.endswith(("-", "+")) and re.match(r"[A-Za-z_(]", word):
        return "only a number can carry a sign: write `0 - x`"
    previous = re.search(r"([A-Za-z_]+)$", before)
    if previous is not None and previous[1].casefold() in _SECTION_WORDS:
        return f"'{previous[1]}' was taken as a name here: something is missing in front of it"
    return None


_SECTION_WORDS = frozenset({"select", "insert", "from", "having", "group", "order", "output", "within", "on", "as"})


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
            accepted -= group | (_WITH_EXPRESSION if word == "an expression" else set())
    words += sorted(_word(terminal, error) for terminal in accepted)
    if len(words) > _LIMIT:
        words = [*words[:_LIMIT], "…"]
    return " or ".join(filter(None, (", ".join(words[:-1]), words[-1]))) if words else "nothing more"


def _word(terminal: str, error: UnexpectedInput) -> str:
    if terminal in _WORDS:
        return _WORDS[terminal]
    return f"'{_SYMBOLS.get(terminal) or terminal.lstrip('_').casefold()}'"


_SYMBOLS = {
    "LPAR": "(",
    "RPAR": ")",
    "LSQB": "[",
    "RSQB": "]",
    "LBRACE": "{",
    "RBRACE": "}",
    "COMMA": ",",
    "SEMICOLON": ";",
    "DOT": ".",
    "COLON": ":",
    "EQUAL": "=",
    "AT": "@",
    "HASH": "#",
    "BANG": "!",
    "STAR": "*",
    "PLUS": "+",
    "MINUS": "-",
    "SLASH": "/",
    "PERCENT": "%",
    "QUESTION_MARK": "?",
    "LESS": "<",
    "GREATER": ">",
    "LESS_EQUAL": "<=",
    "GREATER_EQUAL": ">=",
    "EQUALITY": "==",
    "__ANON_0": "...",
    "__ANON_1": "->",
}


def terminal_of(token: Token) -> str:
    return token.type
