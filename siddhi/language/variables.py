"""`${NAME}` in a text, replaced before it is parsed."""

from __future__ import annotations

import re
from collections.abc import Mapping

from siddhi.errors import Problem, SiddhiParseError, first_problems
from siddhi.language.ast import Span

_VARIABLE = re.compile(r"\$\{(\w+)\}")


def substitute_variables(text: str, variables: Mapping[str, str]) -> str:
    """Return `text` with every `${NAME}` replaced by its value; raise SiddhiParseError with all that have none.

    Positions from then on refer to the returned text.
    """
    problems = [
        Problem(
            "unknown-variable",
            f"variable '{match[1]}' has no value",
            f"write the value in place of {match[0]}, or give it with the text: cep deploy … --set {match[1]}=VALUE",
            span_between(text, match.start(), match.end()),
        )
        for match in _VARIABLE.finditer(text)
        if match[1] not in variables
    ]
    if problems:
        raise SiddhiParseError(first_problems(problems))
    return replace_variables(text, variables)


def variables_in(text: str) -> set[str]:
    """Return the names of all variables of `text`."""
    return {match[1] for match in _VARIABLE.finditer(text)}


def replace_variables(text: str, variables: Mapping[str, str]) -> str:
    """Return `text` with every `${NAME}` that has a value replaced."""
    return _VARIABLE.sub(lambda match: variables.get(match[1], match[0]), text)


def span_between(text: str, start: int, end: int) -> Span:
    """Return the span of `text[start:end]`."""

    def place(offset: int) -> tuple[int, int]:
        return text.count("\n", 0, offset) + 1, offset - (text.rfind("\n", 0, offset) + 1) + 1

    (line, column), (end_line, end_column) = place(start), place(end)
    return Span(line, column, end_line, end_column, start, end)
