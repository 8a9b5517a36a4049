"""Rules on the form of queries that the grammar does not check, for more specific messages."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from siddhi.errors import Problem
from siddhi.language import ast


def check_definition(definition: ast.Definition) -> Iterator[Problem]:
    """Yield the problems in the form of a definition."""
    if isinstance(definition, ast.StreamDefinition | ast.TableDefinition | ast.WindowDefinition):
        seen: set[str] = set()
        for attribute in definition.attributes:
            if attribute.name in seen:
                yield Problem(
                    "duplicate-attribute", f"attribute '{attribute.name}' is defined twice", None, attribute.span
                )
            seen.add(attribute.name)
    if isinstance(definition, ast.TriggerDefinition | ast.FunctionDefinition):
        for annotation in definition.annotations:
            message = f"'{definition.id}' is a trigger or function, which takes no annotations"
            yield Problem("annotation-not-here", message, None, annotation.span)
    if isinstance(definition, ast.AggregationDefinition):
        selection = definition.selection
        if selection.having or selection.order_by or selection.limit or selection.offset:
            yield Problem(
                "aggregation-clause", "an aggregation has select and group by only", None, definition.selection.span
            )


def check_query(query: ast.Query) -> Iterator[Problem]:
    """Yield the problems in the form of a query's input."""
    source = query.input
    if isinstance(source, ast.StateInput):
        yield from _check_state(source)
    elif isinstance(source, ast.AnonymousInput):
        yield from check_query(source.query)
    elif isinstance(source, ast.JoinInput):
        for side in (source.left, source.right):
            for before, handler in zip(side.handlers, side.handlers[1:], strict=False):
                if isinstance(before, ast.WindowHandler) and not isinstance(handler, ast.WindowHandler):
                    yield Problem(
                        "handler-after-window",
                        "in a join nothing may follow the window",
                        "move it before the window, or into a separate query",
                        handler.span,
                    )


def _check_state(state: ast.StateInput) -> Iterator[Problem]:
    yield from _check_element(state.element, every=False)
    elements = state.element.elements if isinstance(state.element, ast.NextElement) else (state.element,)
    if state.sequence:
        for element in elements[1:]:
            if isinstance(element, ast.EveryElement):
                yield Problem(
                    "every-in-sequence", "in a sequence only the first element may have every", None, element.span
                )
        begin = elements[0]
        first = begin.element if isinstance(begin, ast.EveryElement) else begin
        silence = _holds_silence(first) and len(elements) > 1 and not any(map(_holds_silence, elements[1:]))
        if isinstance(begin, ast.EveryElement) and isinstance(first, ast.NextElement) and not silence:
            yield Problem("every-in-sequence", "in a sequence every precedes one element", None, begin.span)
        if len(elements) > 1 and isinstance(first, ast.AbsentElement) and isinstance(elements[-1], ast.AbsentElement):
            yield Problem(
                "absent-at-both-ends",
                "a sequence may begin or end with a `not`, but not both",
                "write a pattern, with `->`",
                elements[-1].span,
            )
    flat = list(_flat(state.element))
    for before, element in itertools.pairwise(flat):
        if isinstance(before, ast.AbsentElement) and isinstance(element, ast.AbsentElement):
            yield Problem("absent-in-a-row", "two `not` elements may not follow each other", None, element.span)


def _check_element(element: ast.StateElement, *, every: bool) -> Iterator[Problem]:
    if isinstance(element, ast.NextElement):
        for part in element.elements:
            yield from _check_element(part, every=every)
    elif isinstance(element, ast.EveryElement):
        if every:
            yield Problem("nested-every", "every is not allowed inside every", None, element.span)
        yield from _check_element(element.element, every=not _holds_silence(element.element))
    elif isinstance(element, ast.LogicalElement):
        yield from _check_logical(element)
    elif isinstance(element, ast.AbsentElement):
        if element.waiting is None:
            yield Problem(
                "absent-without-time",
                "`not` needs a time unless it is beside `and`",
                "add `for <time>`, as in `not S for 5 sec`",
                element.span,
            )
        yield from _check_handlers(element.input)
    else:
        yield from _check_handlers(element.input)


def _check_logical(element: ast.LogicalElement) -> Iterator[Problem]:
    sides = (element.left, element.right)
    for side, other in (sides, sides[::-1]):
        yield from _check_handlers(side.input)
        if isinstance(side, ast.StreamElement):
            if side.minimum is not None:
                yield Problem(
                    "counted-logical", f"an operand of `{element.operator}` cannot be counted", None, side.span
                )
        elif side.waiting is None and (element.operator == "or" or isinstance(other, ast.AbsentElement)):
            yield Problem(
                "absent-without-time",
                "`not` without a time needs `and` and an event on the other side",
                "add `for <time>`, as in `not S for 5 sec`",
                side.span,
            )


def _check_handlers(source: ast.SingleInput) -> Iterator[Problem]:
    for handler in source.handlers:
        if isinstance(handler, ast.WindowHandler):
            yield Problem(
                "window-in-pattern",
                "a pattern's element cannot have a window",
                "put the window into a separate query and read its output",
                handler.span,
            )


def _holds_silence(element: ast.StateElement) -> bool:
    """Return whether `element` contains a `not` without an event in the same step, at any depth."""
    return any(isinstance(part, ast.AbsentElement) for part in _flat(element))


def _flat(element: ast.StateElement) -> Iterator[ast.StateElement]:
    if isinstance(element, ast.NextElement):
        for part in element.elements:
            yield from _flat(part)
    elif isinstance(element, ast.EveryElement):
        yield from _flat(element.element)
    else:
        yield element
