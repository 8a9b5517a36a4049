"""The selection of a query and its target."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from siddhi.analysis.model.expressions import AttributeValue, EventReference, OutputValue, TypedExpression
from siddhi.analysis.model.inputs import QueryInput
from siddhi.analysis.model.schema import Schema
from siddhi.language import ast
from siddhi.language.ast import AttributeType, EventType


@dataclass(frozen=True, slots=True)
class OutputExpression:
    """An expression of `select` with its name."""

    name: str
    expression: TypedExpression
    type: AttributeType


@dataclass(frozen=True, slots=True)
class SortKey:
    """`value` is the output attribute `name` or, in joins and patterns, an input attribute that is not selected."""

    name: str
    descending: bool
    value: OutputValue | AttributeValue | None = None


@dataclass(frozen=True, slots=True)
class AnalysedSelection:
    """The typed selection of a query.

    `star` is set when only `*` was written. `having` reads `OutputValue`s (in join and state queries also inputs) and
    may contain aggregates of its own. A key of `group_by` is an attribute, or the whole event of a pattern or a join,
    followed by the attributes that the query reads of it.
    """

    attributes: tuple[OutputExpression, ...]
    group_by: tuple[AttributeValue | EventReference, ...] = ()
    having: TypedExpression | None = None
    order_by: tuple[SortKey, ...] = ()
    limit: int | None = None
    offset: int | None = None
    star: bool = False
    aggregates: bool = False
    """Whether the attributes or `having` contain an aggregate."""


class TargetKind(Enum):
    """The target of a query's output."""

    STREAM = "stream"
    INNER_STREAM = "inner stream"
    TABLE = "table"
    WINDOW = "window"
    RETURN = "return"


@dataclass(frozen=True, slots=True)
class Assignment:
    """`table attribute = value`, over `OutputValue`s and `TableValue`s."""

    attribute: str
    value: TypedExpression


@dataclass(frozen=True, slots=True)
class AnalysedOutput:
    """`action` is `insert`, `delete`, `update` or `update or insert`; `events` are the kinds that reach the target."""

    action: str
    target: str
    kind: TargetKind
    events: EventType
    schema: Schema
    on: TypedExpression | None = None
    assignments: tuple[Assignment, ...] = ()


@dataclass(frozen=True, slots=True)
class AnalysedQuery:
    """An analysed query, ready for the planner.

    `name` is its `@info(name)` or `query_<n>`; `position` is its place among all queries of the app, from 0.
    `output.schema` is that of its selection.
    """

    name: str
    position: int
    input: QueryInput
    selection: AnalysedSelection
    output: AnalysedOutput
    rate: ast.Rate | None
    syntax: ast.Query = field(compare=False, repr=False)
