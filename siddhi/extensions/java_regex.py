r"""Regular expressions written in Java's dialect, run by `re`.

Both dialects agree on nearly all that plans use. What is written differently is translated: named groups, `\Q…\E`,
`\z`, `\Z`, `\h`, `\v`, `\R`, codes such as `\x{1F600}` and the classes `\p{Alpha}`, `\p{Lu}` and their like. `.`
excludes all of Java's line ends and `$` matches before them; `\d`, `\w` and `\s` mean ASCII, `\b` the ends of words
in any language, as in Java (before version 19). Refused are intersections of classes (`&&`), classes within classes,
`\G`, `\X` and scripts (`\p{IsGreek}`); lookbehind must be of fixed length, and flags such as `(?i)` must be at the
start or around a group.
"""

from __future__ import annotations

import functools
import re
import sys

from siddhi.extensions.java_properties import property_ranges

_LINE_ENDS = "\\n\\x0b\\f\\r\\x85\\u2028\\u2029"
_BLANKS = " \\t\\xa0\\u1680\\u180e\\u2000-\\u200a\\u202f\\u205f\\u3000"
_DOT = "[^\\n\\r\\x85\\u2028\\u2029]"
_END = "(?:(?=(?:\\r\\n|[\\r\\x85\\u2028\\u2029])?\\Z)|(?<!\\r)(?=\\n\\Z))"
"""The end of the text, possibly followed by a line end."""
_SIMPLE = {"z": "\\Z", "Z": _END, "R": f"(?:\\r\\n|[{_LINE_ENDS}])", "e": "\\x1b", "b": "(?u:\\b)", "B": "(?u:\\B)"}
_SPREAD = {"h": _BLANKS, "H": _BLANKS, "v": _LINE_ENDS, "V": _LINE_ENDS}
"""The translation of `\\h` and `\\v`; capitals match all other characters."""
_CODED = re.compile(r"\\(?:0([0-3]?[0-7]{1,2})|x\{([0-9a-fA-F]{1,6})\}|c(.))", re.DOTALL)
_FLAGS = re.compile(r"\(\?([a-zA-Z]+)[):-]")
_REFERENCE = re.compile(r"\$(\d+)|\$\{([a-zA-Z][a-zA-Z0-9]*)\}|\\(.)|([$\\])", re.DOTALL)


class PatternError(ValueError):
    """A text that is not a regular expression, or one that cannot be translated, with the reason."""


@functools.lru_cache(maxsize=512)
def compile_pattern(pattern: str) -> re.Pattern[str]:
    """Return the compiled form of a Java pattern; raise `PatternError` for an invalid one."""
    try:
        return re.compile(_translated(pattern), re.ASCII)
    except (re.error, OverflowError, RecursionError) as error:
        raise PatternError(f"'{pattern}' is not a regular expression: {error}") from error


def split(pattern: re.Pattern[str], text: str) -> list[str]:
    """Return `text` split at each match as Java's split does.

    There are no empty texts at the end, and none before an empty match at the start.
    """
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
    """Return `replacement` with `$1` and `${name}` filled in.

    Raise `PatternError` for a reference to an unknown group.
    """

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
    """Return the text of the group whose number the leading digits form, followed by the other digits.

    As many digits count as give an existing group, at least one.
    """
    end = 1
    while end < len(digits) and int(digits[: end + 1]) <= match.re.groups:
        end += 1
    return (match[int(digits[:end])] or "") + digits[end:]


def _translated(pattern: str) -> str:
    """Return the pattern in Python's dialect. A bracket at the start of a class does not end it."""
    flags = set("".join(_FLAGS.findall(pattern)))
    signs = {".": "." if "s" in flags else _DOT, "$": "$" if "m" in flags else _END}
    parts: list[str] = []
    place, in_class, first = 0, False, 0
    while place < len(pattern):
        character = pattern[place]
        if character == "\\":
            written, place = _escape(pattern, place, in_class=in_class)
            parts.append(written)
            continue
        if in_class:
            if character == "[" or pattern.startswith("&&", place):
                raise PatternError(f"'{pattern}' combines classes, which is not supported")
            in_class = character != "]" or place == first
            parts.append(character)
        elif pattern.startswith("(?<", place) and pattern[place + 3 : place + 4] not in {"=", "!"}:
            parts.append("(?P<")
            place += 2
        else:
            in_class = character == "["
            first = place + (2 if pattern.startswith("[^", place) else 1)
            parts.append(signs.get(character, character))
        place += 1
    return "".join(parts)


def _escape(pattern: str, place: int, *, in_class: bool) -> tuple[str, int]:
    """Return the translation of the escape at `place`, and the position after it."""
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
    coded = _CODED.match(pattern, place)
    if coded:
        if coded[2] and int(coded[2], 16) > sys.maxunicode:
            raise PatternError(f"'{pattern}' has '{coded[0]}', and there is no such character")
        return re.escape(_coded(*coded.groups())), coded.end()
    if code in {"G", "X", "N", "E"} or (in_class and code in {"H", "V", "R", "Z"}):
        where = " in a class" if in_class else ""
        raise PatternError(f"'{pattern}' has '\\{code}'{where}, which is not supported")
    if code in _SPREAD:
        spread = _SPREAD[code]
        return (spread if in_class else f"[{'^' if code.isupper() else ''}{spread}]"), place + 2
    return f"\\{code}" if in_class and code in {"b", "B"} else _SIMPLE.get(code, f"\\{code}"), place + 2


def _coded(octal: str | None, hexadecimal: str | None, control: str | None) -> str:
    """Return the character of a code."""
    if octal:
        return chr(int(octal, 8))
    if hexadecimal:
        return chr(int(hexadecimal, 16))
    return chr(ord(control or "@") ^ 64)


def _property(pattern: str, place: int, *, negated: bool, in_class: bool) -> tuple[str, int]:
    braced = pattern[place + 2 : place + 3] == "{"
    end = pattern.find("}", place) if braced else place + 2
    name = pattern[place + 3 : end] if braced else pattern[place + 2 : place + 3]
    ranges = property_ranges(name, negated=negated and in_class)
    if ranges is None:
        raise PatternError(f"'{pattern}' has '\\{'P' if negated else 'p'}{{{name}}}', which is not supported")
    return (ranges if in_class else f"[{'^' if negated else ''}{ranges}]"), end + 1
