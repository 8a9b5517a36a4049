"""The complete transformer: from a parse tree to a syntax tree and a list of problems."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import takewhile

from lark.tree import Meta

from siddhi.errors import Problem
from siddhi.language import ast
from siddhi.language.transform.base import span_of
from siddhi.language.transform.definitions import DefinitionTransformer
from siddhi.language.transform.expressions import ExpressionTransformer
from siddhi.language.transform.inputs import InputTransformer
from siddhi.language.transform.outputs import OutputTransformer

_Statement = ast.Definition | ast.ExecutionElement
_SKIPPED = re.compile(r"(?:\s|--[^\r\n]*|/\*[\s\S]*?\*/)*")


class PlanTransformer(ExpressionTransformer, DefinitionTransformer, InputTransformer, OutputTransformer):
    """Transforms one parse tree of one text."""

    def app(self, meta: Meta, *statements: _Statement) -> ast.App:
        first = statements[0]
        annotations = tuple(takewhile(lambda annotation: annotation.namespace is not None, first.annotations))
        if annotations:
            rest = first.annotations[len(annotations) :]
            start = rest[0].span.start if rest else _next_word(self._text, annotations[-1].span.end)
            statements = (
                replace(first, annotations=rest, span=_beginning_at(self._text, start, first.span)),
                *statements[1:],
            )
        definitions = tuple(s for s in statements if not isinstance(s, ast.Query | ast.Partition))
        elements = tuple(s for s in statements if isinstance(s, ast.Query | ast.Partition))
        self._check_order(statements)
        if not any((annotation.namespace or "").casefold() == "plan" for annotation in annotations):
            self.problems += self.legacy
            if not definitions:
                self._problem("no-definition", "an app needs at least one definition", meta, "define the streams first")
        return ast.App(annotations, definitions, elements, span=span_of(meta))

    def _check_order(self, statements: tuple[_Statement, ...]) -> None:
        executing = False
        for statement in statements:
            if isinstance(statement, ast.Query | ast.Partition):
                executing = True
            elif executing:
                hint = "move it before the first query"
                self.problems.append(
                    Problem("definition-after-query", "definitions come before all queries", hint, statement.span)
                )
            self.problems += [
                Problem(
                    "misplaced-app-annotation",
                    f"'@{annotation.namespace}:{annotation.name}' belongs to the app",
                    "write it before everything else",
                    annotation.span,
                )
                for annotation in statement.annotations
                if annotation.namespace is not None
            ]


def _next_word(text: str, place: int) -> int:
    """Return the start of the next word from `place` on, after white space and comments."""
    found = _SKIPPED.match(text, place)
    return found.end() if found else place


def _beginning_at(text: str, start: int, span: ast.Span) -> ast.Span:
    """Return `span` without the text before `start`."""
    line, column = text.count("\n", 0, start) + 1, start - text.rfind("\n", 0, start)
    return replace(span, line=line, column=column, start=start)
