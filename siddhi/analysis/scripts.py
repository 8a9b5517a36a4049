"""Functions that an app defines itself."""

from __future__ import annotations

from functools import partial

from siddhi.analysis.context import Context
from siddhi.analysis.model import AnalysedFunction
from siddhi.errors import did_you_mean
from siddhi.language import ast
from siddhi.language.ast import Span
from siddhi.scripts.language import ENGINES, ScriptError


def analyse_function(context: Context, definition: ast.FunctionDefinition) -> AnalysedFunction | None:
    """The function; None when its language or its text is refused."""
    name, problems, registry = definition.language.casefold(), context.problems, context.registry
    language = registry.script_language(name)
    if language is None:
        known = registry.script_languages()
        engine = f"`{ENGINES[name]}` brings it" if name in ENGINES else "an extension can add a language"
        hint = did_you_mean(name, known) or f"known here: {', '.join(known) or 'none'}; {engine}"
        message = f"functions cannot be written in '{definition.language}': no engine for it is installed"
        problems.add("unknown-script-language", message, definition.span, hint)
        return None
    if not registry.scripts.allows(name):
        message = f"functions in '{definition.language}' are switched off here"
        hint = f"{registry.scripts.way_out(name)} allows them, and trusts whoever deploys plans with its machines"
        problems.add("script-language-off", message, definition.span, hint)
        return None
    try:
        language.compile(definition.body)
    except ScriptError as error:
        message = f"the script of '{definition.id}' is refused: {error}"
        problems.add("wrong-script", message, _line_span(definition, error.line))
        return None
    return AnalysedFunction(definition, partial(language.compile, definition.body))


def _line_span(definition: ast.FunctionDefinition, number: int) -> Span:
    """Where line `number` of the script stands; the whole definition for its first line, which the brace begins."""
    lines = definition.body.split("\n")
    if not 1 < number <= len(lines):
        return definition.span
    text = lines[number - 1]
    indent = len(text) - len(text.lstrip())
    line = definition.span.end_line - len(lines) + number
    start = definition.span.end - 1 - len(definition.body) + sum(len(before) + 1 for before in lines[: number - 1])
    return Span(line, indent + 1, line, len(text) + 1, start + indent, start + len(text))
