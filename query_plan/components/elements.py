"""Iterate over analysed queries and partitions."""

from __future__ import annotations

from typing import overload

from siddhi.analysis import model
from siddhi.language import ast


def queries_of(element: model.AnalysedQuery | model.AnalysedPartition) -> tuple[model.AnalysedQuery, ...]:
    """Return the queries of a partition, or the query itself."""
    return element.queries if isinstance(element, model.AnalysedPartition) else (element,)


def sources(query: model.AnalysedQuery) -> tuple[model.SourceInput, ...]:
    """Return every source of `query`, in text order."""
    if isinstance(query.input, model.Join):
        return (query.input.left, query.input.right)
    if isinstance(query.input, model.StateMachine):
        return tuple(slot.input for slot in query.input.slots)
    return (query.input,)


@overload
def syntax_of(element: model.AnalysedQuery) -> ast.Query: ...
@overload
def syntax_of(element: model.AnalysedPartition) -> ast.Partition: ...
def syntax_of(element: model.AnalysedQuery | model.AnalysedPartition) -> ast.ExecutionElement:
    """Return the syntax from which `element` was analysed.

    Raises:
        TypeError: If the element was built by hand without syntax.
    """
    if element.syntax is None:
        raise TypeError(f"{element.name} has no syntax")
    return element.syntax
