"""Common parts of the transformer: positions, names and the list of problems."""

from __future__ import annotations

import re
from typing import Any

from lark import Token, Tree
from lark.tree import Meta

from siddhi.errors import Problem, SiddhiParseError
from siddhi.language.ast import NOWHERE, Span
from siddhi.language.bounds import long_number
from siddhi.language.literals import KEYWORDS, name_value

_ODD = re.compile(r"""[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff"\\]""")
"""Characters that a name in back-quotes must not contain. Siddhi allows only letters, digits and `_` there."""


class TransformerBase:
    """The base of transformers, whose methods are named after grammar rules and get the rule's position and children.

    Problems that the grammar does not detect (such as a number that is too large) are added to `problems`; `legacy` has
    the constructs that only execution plans of the 3.x dialect may use.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self.problems: list[Problem] = []
        self.legacy: list[Problem] = []

    def transform(self, tree: Tree[Token]) -> Any:
        """Return the result of the root's method for the tree.

        Children are transformed before their parents, without recursion. Raise SiddhiParseError for numbers that are
        too long.
        """
        waiting: list[Tree[Token] | Token] = [tree]
        too_long: list[Problem] = []
        parents_first: list[Tree[Token] | Token] = []
        while waiting:
            part = waiting.pop()
            parents_first.append(part)
            if isinstance(part, Tree):
                waiting.extend(part.children)
            elif isinstance(part, Token) and (problem := long_number(part)) is not None:
                too_long.append(problem)
        if too_long:
            raise SiddhiParseError(too_long)
        done: list[Any] = []
        for part in reversed(parents_first):
            if isinstance(part, Tree):
                first = len(done) - len(part.children)
                children = done[first:]
                del done[first:]
                done.append(getattr(self, part.data)(part.meta, *children))
            else:
                done.append(part)
        return done[0]

    def name(self, meta: Meta, token: Token) -> str:
        name = name_value(str(token))
        odd = _ODD.search(name)
        if odd is not None:
            message = f"a name contains {odd.group()!a}, which is not allowed"
            hint = 'leave out control characters, line ends, `"` and `\\`: JSON, files and pages could not show them'
            self._problem("name-characters", message, meta, hint)
        return name

    def identifier(self, meta: Meta, token: Token) -> str:
        if token.casefold() in KEYWORDS:
            message = f"'{token}' is a keyword, which cannot be a name here"
            self._problem("keyword-as-name", message, meta, f"write it in back-quotes: `{token}`")
        return self.name(meta, token)

    def _problem(self, code: str, message: str, meta: Meta, hint: str | None = None) -> None:
        self.problems.append(Problem(code, message, hint, span_of(meta)))


def span_of(meta: Meta) -> Span:
    """Return the position of a rule's text; `NOWHERE` for a rule that matched nothing."""
    if meta.empty:
        return NOWHERE
    return Span(meta.line, meta.column, meta.end_line, meta.end_column, meta.start_pos, meta.end_pos)
