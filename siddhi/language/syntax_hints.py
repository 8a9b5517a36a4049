"""Hints for syntax errors: the probable intention."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from siddhi.errors import did_you_mean

UNITS = frozenset(["YEAR", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND", "MILLISECOND"])
_TYPES = ("string", "int", "long", "float", "double", "bool", "object")
_OTHER_TYPES = {
    **dict.fromkeys(("varchar", "text", "char", "uuid"), "string"),
    **dict.fromkeys(("integer", "short", "byte", "smallint"), "int"),
    **dict.fromkeys(("bigint", "date", "time", "datetime", "timestamp"), "long"),
    **dict.fromkeys(("number", "numeric", "decimal", "real"), "double"),
    "boolean": "bool",
}
_SECTION_WORDS = frozenset(["select", "insert", "from", "having", "group", "order", "output", "within", "on", "as"])
_WORDS = {
    "&&": "write `and`",
    "||": "write `or`",
    "=": "compare with `==`",
    "between": "write `a >= x and a <= y`",
    "like": "there is no `like`; use a string function",
    "contains": "write `str:contains(text, part)`",
    "case": "write `ifThenElse(condition, a, b)`",
    "when": "write `ifThenElse(condition, a, b)`",
    "groupby": "write `group by`",
    "orderby": "write `order by`",
    "where": "filters are written in brackets: `from S[condition]`",
    "within": "`within` follows a pattern or the condition of a join, before `select`",
}
_SHORTEST_SIMILAR = 3
_OPENING = {")": "(", "]": "[", "}": "{"}
_CLOSING = {"(": ("RPAR", ")"), "[": ("RSQB", "]"), "{": ("RBRACE", "}")}
_SKIPPED = re.compile(r'"""[\s\S]*?"""|\'[^\'"\n]*+\'|"[^"\n]*+"|`[^`]*+`|--[^\n]*+|/\*[\s\S]*?(?:\*/|\Z)|[()\[\]{}]')


@dataclass(frozen=True, slots=True)
class SyntaxMistake:
    """A word that is not valid between the text `before` it and the text from it on, `behind`.

    `accepted`: the terminals that are valid here, `keywords` those of them that are words. `keyword`: the keyword
    before the word, if the parser read it as one. `before` and `behind` are truncated if they are long; `whole_before`
    is not.
    """

    before: str
    behind: str
    word: str
    accepted: frozenset[str]
    keywords: tuple[str, ...]
    keyword: str | None
    whole_before: str


def hint(mistake: SyntaxMistake) -> str | None:
    """Return the first hint that fits, or None."""
    return next((setting_for for rule in _RULES if (setting_for := rule(mistake)) is not None), None)


def unclosed_bracket(text: str, accepted: frozenset[str]) -> str | None:
    """Return the bracket of `text` that is still open, if its closing bracket is valid at the end."""
    opened = _open_brackets(text)
    if not opened or _CLOSING[opened[-1][0]][0] not in accepted:
        return None
    bracket, place = opened[-1]
    line, column = text.count("\n", 0, place) + 1, place - text.rfind("\n", 0, place)
    return f"the '{bracket}' in line {line}, column {column} has no '{_CLOSING[bracket][1]}'"


def _open_brackets(text: str) -> list[tuple[str, int]]:
    """Return the unclosed brackets of `text`, with their positions."""
    opened: list[tuple[str, int]] = []
    for found in _SKIPPED.finditer(text):
        bracket = found[0]
        if bracket in _CLOSING:
            opened.append((bracket, found.start()))
        elif bracket in _OPENING and opened:
            opened.pop()
    return opened


def _of_word(mistake: SyntaxMistake) -> str | None:
    folded = mistake.word.casefold()
    if folded == "not" and mistake.before.casefold().endswith(" is"):
        return "write `not (x is null)`"
    if mistake.before.endswith("<") and folded == ">":
        return "write `!=`"
    if folded in {"select", "insert"} and "_FROM" in mistake.accepted:
        return "a query begins with `from`, as in `from S select … insert into …`"
    if folded == "select" and "_JOIN" in mistake.accepted:
        return "only the inputs of joins and the events of patterns have other names: leave `as …` out"
    if folded in {"create", "declare"} and "_DEFINE" in mistake.accepted:
        return "definitions begin with `define`"
    if folded == "define" and "_FROM" in mistake.accepted:
        return "definitions come before all queries and partitions"
    if folded == "outer" and "_JOIN" in mistake.accepted:
        return "write `left outer join`, `right outer join` or `full outer join`"
    if folded == "by" and mistake.keyword == "partition":
        return "write `partition with (attribute of Stream)`"
    return _WORDS.get(folded)


def _of_siddhi_2(mistake: SyntaxMistake) -> str | None:
    events = re.search(r"\b(all|current|expired)$", mistake.before, re.IGNORECASE)
    if events and re.match(r"-events\b", mistake.behind, re.IGNORECASE):
        return f"write `{events[1]} events`"
    events = re.match(r"for\s+(all|current|expired)[\s-]events\b", mistake.behind, re.IGNORECASE)
    if events:
        return f"write `insert {events[1]} events into …`"
    if re.search(r"#transform$", mistake.before, re.IGNORECASE) and mistake.word == ".":
        return "a stream function is called without a window: write `#name(…)`"
    if re.search(r"\btable\s+\S+\s*\([^()]*\)$", mistake.before) and re.match(r"from\s*\(", mistake.behind):
        return "a table's source precedes its definition: `@From(…) define table …`"
    if not mistake.before and mistake.word == "<":
        return "of XML only the text in <queryExpressions> is SiddhiQL: write it after the definitions of its streams"
    inserts = re.search(r"\binsert\s+into\s+\S+$", mistake.before, re.IGNORECASE)
    if inserts and re.match(r"[\w.]+\s*(?:,|\(|as\b)", mistake.behind, re.IGNORECASE):
        return "`select` comes first: `select … insert into …`"
    return None


def _of_template(mistake: SyntaxMistake) -> str | None:
    place = re.match(r"\$(\w+)", mistake.behind)
    if place is None:
        return None
    return f"replace the template's `{place[0]}` with its value; a variable is written `${{{place[1]}}}`"


def _of_arrow(mistake: SyntaxMistake) -> str | None:
    if re.match(r"=>|-\s+>", mistake.behind):
        return "write `->`"
    if mistake.behind.startswith("->") and "COMMA" in mistake.accepted:
        return "a sequence has `,` between all its events, a pattern `->`"
    return None


def _of_sign(mistake: SyntaxMistake) -> str | None:
    if mistake.before.endswith(("-", "+")) and re.match(r"[A-Za-z_(]", mistake.behind):
        return "only a number can carry a sign: write `0 - x`"
    return None


def _of_quotes(mistake: SyntaxMistake) -> str | None:
    if mistake.word == "'" and mistake.before.endswith("'"):
        return "'…' holds no quotes: write \"it's\""
    if mistake.word in {"'", '"'} and "ID" in mistake.accepted and "STRING" not in mistake.accepted:
        return "names are written without quotes"
    time = re.match(r"(['\"])\s*(\d+ [A-Za-z][\w ]*)\1", mistake.behind)
    if time and "STRING" not in mistake.accepted:
        return f"a time is written without quotes: {time[2]}"
    bare = re.search(r"\(\s*(\w+)$", mistake.before)
    if bare and mistake.word in {")", ","} and "EQUAL" in mistake.accepted:
        return f"texts are written in quotes: '{bare[1]}'"
    named = re.match(r"[A-Za-z_][\w.]*", mistake.behind)
    if named and "STRING" in mistake.accepted and "ID" not in mistake.accepted:
        return f"texts are written in quotes: '{named[0]}'"
    return None


def _of_name(mistake: SyntaxMistake) -> str | None:
    if mistake.word[0].isdigit() and "ID" in mistake.accepted and "INT" not in mistake.accepted:
        return f"a name begins with a letter, or is written in back-quotes: `{mistake.word}`"
    written = re.search(r"\b(?:into|stream|table)\s+([\w-]+)$", mistake.before, re.IGNORECASE)
    rest = re.match(r"-[\w-]*", mistake.behind)
    if written and rest and mistake.accepted.isdisjoint({"MINUS", "__ANON_1"}):
        return f"such a name is written in back-quotes: `{written[1]}{rest[0]}`"
    return None


def _of_day(mistake: SyntaxMistake) -> str | None:
    begun = re.search(r"\d*d?$", mistake.before, re.IGNORECASE)
    written = re.fullmatch(r"(\d+)(days?)", f"{begun[0] if begun else ''}{mistake.word}", re.IGNORECASE)
    return f"write `{written[1]} {written[2]}`: `{written[1]}d` is a number" if written else None


def _of_star(mistake: SyntaxMistake) -> str | None:
    if mistake.word == "," and re.search(r"\bselect\s*\*$", mistake.before, re.IGNORECASE):
        return "write `*` alone; to add more, name all attributes"
    return None


def _of_window(mistake: SyntaxMistake) -> str | None:
    if re.search(r"\bdefine\s+window\s+\S+\s*\([^()]*\)$", mistake.before, re.IGNORECASE):
        return "name its window, as in `define window W (a int) length(10)`"
    return None


def _of_keyword(mistake: SyntaxMistake) -> str | None:
    if mistake.keyword == "insert" and "_INTO" in mistake.accepted:
        return f"write `insert into {mistake.word}`"
    return None


def _of_similar(mistake: SyntaxMistake) -> str | None:
    folded = mistake.word.casefold()
    types = _TYPES if "ATTRIBUTE_TYPE" in mistake.accepted else ()
    if types and folded in _OTHER_TYPES:
        return f"use {_OTHER_TYPES[folded]}"
    if folded in _SECTION_WORDS or len(folded) < _SHORTEST_SIMILAR:
        return None
    return did_you_mean(mistake.word, (*mistake.keywords, *types))


def _of_time(mistake: SyntaxMistake) -> str | None:
    if mistake.accepted >= UNITS and "PLUS" not in mistake.accepted and mistake.before[-1:].isdigit():
        return "a time needs a unit, as in 5 sec"
    return None


def _of_brackets(mistake: SyntaxMistake) -> str | None:
    folded = mistake.word.casefold()
    opening = _OPENING.get(folded)
    if opening is not None and all(bracket != opening for bracket, _ in _open_brackets(mistake.whole_before)):
        return f"there is no matching '{opening}'"
    if opening is not None or folded == ";" or folded in _SECTION_WORDS:
        return unclosed_bracket(mistake.whole_before, mistake.accepted)
    return None


def _of_lost_keyword(mistake: SyntaxMistake) -> str | None:
    previous = re.search(r"([A-Za-z_]+)$", mistake.before)
    if mistake.keyword is None and previous and previous[1].casefold() in _SECTION_WORDS:
        return f"'{previous[1]}' was taken as a name here: something is missing before it"
    return None


def _of_semicolon(mistake: SyntaxMistake) -> str | None:
    if "SEMICOLON" in mistake.accepted and mistake.word.casefold() in {"from", "define", "partition", "@"}:
        return "a ';' is missing before it"
    return None


def _of_outputs(mistake: SyntaxMistake) -> str | None:
    selects = re.search(r"\bselect\b[^;]*$", mistake.before, re.IGNORECASE)
    if selects and mistake.accepted >= {"COMMA", "_AS", "_INSERT"} and re.match(r"[A-Za-z_]\w*$", mistake.word):
        return "write `,` between two outputs, and `as` before a new name"
    return None


_RULES: tuple[Callable[[SyntaxMistake], str | None], ...] = (
    _of_arrow,
    _of_siddhi_2,
    _of_template,
    _of_word,
    _of_sign,
    _of_quotes,
    _of_day,
    _of_name,
    _of_star,
    _of_window,
    _of_keyword,
    _of_lost_keyword,
    _of_similar,
    _of_time,
    _of_brackets,
    _of_semicolon,
    _of_outputs,
)
