"""Regular expressions written in Java's dialect, run by `re`.

Both dialects agree on nearly all that plans use. What is written differently is translated: named groups, `\\Q…\\E`,
`\\z`, `\\Z`, `\\h`, `\\R` and the classes `\\p{Alpha}`, `\\p{L}` and their like; `\\d`, `\\w`, `\\s` and `\\b` mean
ASCII, as in Java. Refused are intersections of classes (`&&`), classes within classes, `\\G`, `\\X` and other
`\\p{…}`; lookbehind must be of fixed length, and flags such as `(?i)` stand at the start or around a group.
"""

from __future__ import annotations

import functools
import re

_CLASSES = {
    "Lower": "a-z",
    "Upper": "A-Z",
    "ASCII": "\\x00-\\x7f",
    "Alpha": "a-zA-Z",
    "Digit": "0-9",
    "Alnum": "a-zA-Z0-9",
    "Punct": "!-/:-@\\[-`{-~",
    "Graph": "!-~",
    "Print": " -~",
    "Blank": " \\t",
    "Cntrl": "\\x00-\\x1f\\x7f",
    "XDigit": "0-9a-fA-F",
    "Space": " \\t\\n\\x0b\\f\\r",
}
_LETTERS = {"L", "IsL", "IsAlphabetic", "IsLetter"}
_ANY_LETTER = "[^\\W\\d_]"
_SIMPLE = {"z": "\\Z", "Z": "(?=\\n?\\Z)", "R": "(?:\\r\\n|[\\n\\x0b\\f\\r\\x85\\u2028\\u2029])", "e": "\\x1b"}
_BLANKS = " \\t\\xa0\\u1680\\u180e\\u2000-\\u200a\\u202f\\u205f\\u3000"
_REFERENCE = re.compile(r"\$(\d+)|\$\{([a-zA-Z][a-zA-Z0-9]*)\}|\\(.)|([$\\])", re.DOTALL)


class PatternError(ValueError):
    """A text that is no regular expression, or one that cannot be translated; the message says why."""


@functools.lru_cache(maxsize=512)
def compile_pattern(pattern: str) -> re.Pattern[str]:
    """The compiled form of a Java pattern; `PatternError` when there is none."""
    try:
        return re.compile(_translated(pattern), re.ASCII)
    except (re.error, OverflowError, RecursionError) as error:
        raise PatternError(f"'{pattern}' is no regular expression: {error}") from error


def split(pattern: re.Pattern[str], text: str) -> list[str]:
    """`text` cut at each match as Java's split does: no empty texts at the end, none before an empty match at the
    start."""
    parts, start = [], 0
    for match in pattern.finditer(text):
        if match.end() == 0:
            continue
        parts.append(text[start : match.start()])
        start = match.end()
    if not parts:
        return [text]
    parts.append(text[start:])
    while parts and not parts[-1]:
        parts.pop()
    return parts


def expand(match: re.Match[str], replacement: str) -> str:
    """`replacement` with `$1` and `${name}` filled in; `PatternError` for a reference to no group."""

    def filled(reference: re.Match[str]) -> str:
        number, name, escaped, stray = reference.groups()
        if stray:
            raise PatternError(f"'{replacement}' has a lone '{stray}'")
        if escaped is not None:
            return str(escaped)
        try:
            return (match[name] or "") if name else _numbered(match, number)
        except IndexError:
            raise PatternError(f"'{replacement}' names a group that the pattern does not have") from None

    return _REFERENCE.sub(filled, replacement)


def _numbered(match: re.Match[str], digits: str) -> str:
    """The group that as many of the digits as there is a group for stand for, at least one of them; the others stand
    for themselves."""
    end = 1
    while end < len(digits) and int(digits[: end + 1]) <= match.re.groups:
        end += 1
    return (match[int(digits[:end])] or "") + digits[end:]


def _translated(pattern: str) -> str:
    parts: list[str] = []
    place, in_class = 0, False
    while place < len(pattern):
        character = pattern[place]
        if character == "\\":
            written, place = _escape(pattern, place, in_class=in_class)
            parts.append(written)
            continue
        if in_class:
            if character == "[" or pattern.startswith("&&", place):
                raise PatternError(f"'{pattern}' combines classes, which is not supported")
            in_class = character != "]" or pattern[place - 1] == "[" or pattern[place - 2 : place] == "[^"
        elif character == "[":
            in_class = True
        elif pattern.startswith("(?<", place) and pattern[place + 3 : place + 4] not in {"=", "!"}:
            parts.append("(?P<")
            place += 3
            continue
        parts.append(character)
        place += 1
    return "".join(parts)


def _escape(pattern: str, place: int, *, in_class: bool) -> tuple[str, int]:
    """The translation of the escape at `place`, and the place behind it."""
    code = pattern[place + 1 : place + 2]
    if code == "Q":
        end = pattern.find("\\E", place)
        end = len(pattern) if end < 0 else end
        return re.escape(pattern[place + 2 : end]), end + 2
    if code in {"p", "P"}:
        return _property(pattern, place, negated=code == "P", in_class=in_class)
    if code == "k":
        end = pattern.find(">", place)
        return f"(?P={pattern[place + 3 : end]})", end + 1
    if code in {"G", "X", "N", "E"}:
        raise PatternError(f"'{pattern}' has '\\{code}', which is not supported")
    if code in {"h", "H"}:
        if in_class and code == "H":
            raise PatternError(f"'{pattern}' has '\\H' in a class, which is not supported")
        blanks = _BLANKS if in_class else f"[{'^' if code == 'H' else ''}{_BLANKS}]"
        return blanks, place + 2
    return _SIMPLE.get(code, f"\\{code}"), place + 2


def _property(pattern: str, place: int, *, negated: bool, in_class: bool) -> tuple[str, int]:
    braced = pattern[place + 2 : place + 3] == "{"
    end = pattern.find("}", place) if braced else place + 2
    name = pattern[place + 3 : end] if braced else pattern[place + 2 : place + 3]
    ranges = _CLASSES.get(name.removeprefix("Is"))
    if ranges is not None and not (in_class and negated):
        return (ranges if in_class else f"[{'^' if negated else ''}{ranges}]"), end + 1
    if name in _LETTERS and not in_class:
        return ("(?u:[\\W\\d_])" if negated else f"(?u:{_ANY_LETTER})"), end + 1
    raise PatternError(f"'{pattern}' has '\\{'P' if negated else 'p'}{{{name}}}', which is not supported here")
