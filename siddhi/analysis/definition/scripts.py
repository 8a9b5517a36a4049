"""Functions that an app defines itself."""

from __future__ import annotations

from siddhi.analysis.context import Context
from siddhi.analysis.expression.script_languages import usable_language
from siddhi.analysis.model import AnalysedFunction
from siddhi.language import ast
from siddhi.language.ast import Span
from siddhi.scripts.language import ScriptError


def analyse_function(context: Context, definition: ast.FunctionDefinition) -> AnalysedFunction | None:
    """Return the function; None if its language or its text is invalid."""
    problems = context.problems
    language = usable_language(context.registry, definition.language, definition.span, problems)
    if language is None:
        return None
    try:
        language.compile(definition.body)
    except ScriptError as error:
        message = f"the script of '{definition.id}' is refused: {error}"
        problems.add("wrong-script", message, _line_span(definition, error.line))
        return None
    return AnalysedFunction(definition, language)


def _line_span(definition: ast.FunctionDefinition, number: int) -> Span:
    """Return the span of line `number` of the script.

    For the first line, which begins at the brace, it is the span of the whole definition.
    """
    lines = definition.body.split("\n")
    if not 1 < number <= len(lines):
        return definition.span
    text = lines[number - 1]
    indent = len(text) - len(text.lstrip())
    line = definition.span.end_line - len(lines) + number
    start = definition.span.end - 1 - len(definition.body) + sum(len(before) + 1 for before in lines[: number - 1])
    return Span(line, indent + 1, line, len(text) + 1, start + indent, start + len(text))
