"""What lark says of a text that is no SiddhiQL, in words for people."""

from __future__ import annotations

import re

from lark.exceptions import UnexpectedCharacters, UnexpectedInput, UnexpectedToken

from siddhi.errors import Problem, did_you_mean
from siddhi.language.variables import span_between

_EXPRESSION = frozenset(
    ["INT", "LONG", "FLOAT", "DOUBLE", "TRUE", "FALSE", "_NOT", "ID", "QUOTED_ID", "STRING", "LPAR"]
)
_GROUPS: tuple[tuple[str, frozenset[str]], ...] = (
    ("an expression", _EXPRESSION),
    (
        "a time unit (sec, min, hour, …)",
        frozenset(["YEAR", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND", "MILLISECOND"]),
    ),
    (
        "an operator",
        frozenset(["PLUS", "MINUS", "STAR", "SLASH", "PERCENT", "EQUALITY", "LESS", "GREATER", "AND", "OR", "_IN"]),
    ),
    ("an output (insert into …)", frozenset(["_INSERT", "_DELETE", "_UPDATE", "_RETURN"])),
    ("a name", frozenset({"ID", "QUOTED_ID"})),
)
"""Words for terminals that come together."""

_IMPLIED = {
    "an expression": frozenset({"PLUS", "MINUS", "HASH", "BANG"}),
    "an operator": frozenset({"LESS_EQUAL", "GREATER_EQUAL"}),
}
"""What goes without saying when the group is named."""

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
"""Said before all other single terminals: most often one of these is missing."""

_MOST_WORDS = 8
_TOKEN = re.compile(r"[^\W\d]\w*|\d\w*|&&|\|\||<>|\S")
_QUOTE_HINT = '\'…\' holds no quotes and no line breaks, "…" holds \', and """…""" holds anything'
_HINTS = {
    "&&": "write `and`",
    "||": "write `or`",
    "=": "compare with `==`",
    "between": "write `a >= x and a <= y`",
    "like": "there is no `like`; use a string function",
    "case": "write `ifThenElse(condition, a, b)`",
    "when": "write `ifThenElse(condition, a, b)`",
    "where": "filters stand in brackets: `from S[condition]`",
}
_SECTION_WORDS = frozenset(["select", "insert", "from", "having", "group", "order", "output", "within", "on", "as"])


def problem_of(error: UnexpectedInput, text: str) -> Problem:
    """The syntax error as a problem: what stands there, what could have stood there, and often why."""
    if isinstance(error, UnexpectedToken) and error.token.type == "$END":
        end = len(text.rstrip())
        span = span_between(text, max(end - 1, 0), end)
        return Problem("syntax-error", f"the text ends too early: {_expected(error)} expected", None, span)
    start = error.pos_in_stream or 0
    found = _TOKEN.match(text, start)
    word = found[0] if found else text[start : start + 1]
    span = span_between(text, start, start + max(len(word), 1))
    if word in {"'", '"'} and "STRING" in _accepted(error):
        return Problem("unclosed-text", "this text in quotes does not end", _QUOTE_HINT, span)
    if word == "`":
        return Problem("unclosed-text", "this name in back-quotes does not end", None, span)
    message = f"'{word}' cannot stand here: {_expected(error)} expected"
    keywords = (terminal.lstrip("_").casefold() for terminal in _accepted(error) if terminal not in _WORDS)
    hint = _hint(text[:start], text[start:], word) or did_you_mean(word, keywords)
    return Problem("syntax-error", message, hint, span)


def _hint(before: str, behind: str, word: str) -> str | None:
    before = before.rstrip()
    folded = word.casefold()
    if folded == "not" and before.casefold().endswith(" is"):
        return "write `not (x is null)`"
    if before.endswith("<") and folded == ">":
        return "write `!=`"
    if folded in _HINTS:
        return _HINTS[folded]
    if before.endswith(("-", "+")) and re.match(r"[A-Za-z_(]", behind):
        return "only a number can carry a sign: write `0 - x`"
    previous = re.search(r"([A-Za-z_]+)$", before)
    if previous is not None and previous[1].casefold() in _SECTION_WORDS and re.match(r"\w", word):
        return f"'{previous[1]}' was taken as a name here: something is missing in front of it"
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
