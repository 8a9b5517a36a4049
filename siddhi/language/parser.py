"""Parse text to a syntax tree.

Every function here raises `SiddhiParseError`, with all problems, and nothing else, for any text.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import cast

from lark import Lark
from lark.exceptions import UnexpectedInput

from siddhi.errors import Problem, SiddhiParseError, first_problems
from siddhi.language import ast
from siddhi.language.bounds import check_length
from siddhi.language.brackets import MISPLACED_BRACKETS
from siddhi.language.shape import check_definition, check_query
from siddhi.language.syntax_errors import problem_of
from siddhi.language.transform.app import PlanTransformer
from siddhi.language.variables import substitute_variables
from siddhi.structure import field_names

MAXIMUM_DEPTH = 200
"""Maximum nesting of syntax; more than any plan needs, and few enough for any stack."""

_STARTS = [
    "app",
    "single_definition",
    "single_stream_definition",
    "single_query",
    "single_expression",
    "single_time",
    "on_demand_query",
]


def parse(text: str, variables: Mapping[str, str] | None = None) -> ast.App:
    """Return the app in `text`, after replacing `${NAME}` from `variables`.

    Positions refer to the text after that replacement (`substitute_variables`).

    Args:
        text: What to parse.
        variables: Values for `${NAME}`.
    """
    return cast("ast.App", _parse(substitute_variables(text, variables or {}), "app"))


def parse_definition(text: str) -> ast.Definition:
    """Return the single definition in `text`, with its annotations.

    Args:
        text: What to parse.
    """
    return cast("ast.Definition", _parse(text, "single_definition"))


def parse_stream_definition(text: str) -> ast.StreamDefinition:
    """Return the single stream definition in `text`, with its annotations.

    Args:
        text: What to parse.
    """
    return cast("ast.StreamDefinition", _parse(text, "single_stream_definition"))


def parse_query(text: str) -> ast.Query:
    """Return the single query in `text`, with its annotations.

    Args:
        text: What to parse.
    """
    return cast("ast.Query", _parse(text, "single_query"))


def parse_expression(text: str) -> ast.Expression:
    """Return the expression in `text`.

    Args:
        text: What to parse.
    """
    return cast("ast.Expression", _parse(text, "single_expression"))


def parse_time(text: str) -> ast.TimeConstant:
    """Return the time in `text`, such as `1 min 30 sec`.

    Args:
        text: What to parse.
    """
    return cast("ast.TimeConstant", _parse(text, "single_time"))


def parse_on_demand_query(text: str) -> ast.OnDemandQuery:
    """Return the on-demand query in `text`.

    Args:
        text: What to parse.
    """
    return cast("ast.OnDemandQuery", _parse(text, "on_demand_query"))


@cache
def _lark() -> Lark:
    grammar = files("siddhi.language").joinpath("grammar.lark").read_text(encoding="utf-8")
    tables = _tables_on_disk()
    return Lark(
        grammar, parser="lalr", start=_STARTS, propagate_positions=True, maybe_placeholders=True, cache=tables or False
    )


def _tables_on_disk() -> str | None:
    """Return the path where lark caches the parser's tables, None if this process may not write there.

    The tables take a second to build. They are beside Python's own compiled files, so that only users who may write the
    code may write the tables.
    """
    folder = Path(__file__).with_name("__pycache__")
    file = folder / f"grammar.{sys.implementation.cache_tag}.lark"
    with suppress(OSError):
        folder.mkdir(exist_ok=True)
    return str(file) if file.is_file() or os.access(folder, os.W_OK) else None


def _parse(text: str, start: str) -> object:
    check_length(text)
    lark = _lark()
    try:
        tree = lark.parse(text, start=start)
    except UnexpectedInput as error:
        raise SiddhiParseError(problem_of(error, text)) from None
    transformer = PlanTransformer(text)
    node = transformer.transform(tree)
    _check_depth(node)
    problems = [*transformer.problems, *_shape_problems(node)]
    if problems:
        # If there are other problems, the brackets may be valid.
        raise SiddhiParseError(first_problems([one for one in problems if one.code != MISPLACED_BRACKETS] or problems))
    return node


def _shape_problems(node: object) -> Iterator[Problem]:
    if isinstance(node, ast.App):
        for part in (*node.definitions, *node.elements):
            yield from _shape_problems(part)
    elif isinstance(node, ast.Partition):
        for query in node.queries:
            yield from check_query(query)
    elif isinstance(node, ast.Query):
        yield from check_query(node)
    elif isinstance(node, ast.Definition):
        yield from check_definition(node)


def _check_depth(root: object) -> None:
    """Reject trees that are too deep for recursive functions (printing, comparing, analysing)."""
    waiting: list[tuple[object, int, ast.Span]] = [(root, 0, ast.NOWHERE)]
    while waiting:
        node, depth, span = waiting.pop()
        if isinstance(node, tuple):
            waiting.extend((part, depth, span) for part in node)
        elif (names := field_names(type(node))) and not isinstance(node, ast.Span):
            span = getattr(node, "span", span)
            if depth > MAXIMUM_DEPTH:
                hint = "split it, or group a long chain of operators with parentheses"
                message = f"more than {MAXIMUM_DEPTH} levels are nested here"
                raise SiddhiParseError(Problem("too-deep", message, hint, span))
            waiting.extend((getattr(node, name), depth + 1, span) for name in names)
