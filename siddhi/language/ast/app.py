"""The whole plan: aggregations, partitions and the app; and on-demand queries."""

from __future__ import annotations

from dataclasses import dataclass

from siddhi.language.ast.definitions import (
    Annotation,
    FunctionDefinition,
    StreamDefinition,
    TableDefinition,
    TriggerDefinition,
    WindowDefinition,
)
from siddhi.language.ast.expressions import Attribute, Expression
from siddhi.language.ast.inputs import SingleInput
from siddhi.language.ast.queries import Output, Query, Selection
from siddhi.spans import Span, span_field


@dataclass(frozen=True, slots=True)
class AggregationDefinition:
    """An incremental aggregation as written in the text.

    `durations` are canonical singular names (`sec` … `year`) as written. With `range` they are the first and the
    last.
    """

    id: str
    source: SingleInput
    selection: Selection
    by: Attribute | None
    durations: tuple[str, ...]
    range: bool
    annotations: tuple[Annotation, ...] = ()
    span: Span = span_field()


Definition = (
    StreamDefinition
    | TableDefinition
    | WindowDefinition
    | TriggerDefinition
    | FunctionDefinition
    | AggregationDefinition
)


@dataclass(frozen=True, slots=True)
class ValuePartition:
    """A partition key that is the value of an expression."""

    expression: Expression
    stream: str
    span: Span = span_field()


@dataclass(frozen=True, slots=True)
class RangePartition:
    """`condition as 'label' or … of stream`."""

    ranges: tuple[tuple[Expression, str], ...]
    stream: str
    span: Span = span_field()


@dataclass(frozen=True, slots=True)
class Partition:
    """`partition with (…) begin … end`."""

    keys: tuple[ValuePartition | RangePartition, ...]
    queries: tuple[Query, ...]
    annotations: tuple[Annotation, ...] = ()
    span: Span = span_field()


ExecutionElement = Query | Partition


@dataclass(frozen=True, slots=True)
class App:
    """A whole execution plan in text order."""

    annotations: tuple[Annotation, ...] = ()
    definitions: tuple[Definition, ...] = ()
    elements: tuple[ExecutionElement, ...] = ()
    span: Span = span_field()


@dataclass(frozen=True, slots=True)
class OnDemandQuery:
    """An on-demand query to tables, windows and aggregations; `source` None for `select … insert into T`."""

    source: str | None
    output: Output | None
    selection: Selection | None = None
    alias: str | None = None
    on: Expression | None = None
    within: tuple[Expression, ...] = ()
    per: Expression | None = None
    span: Span = span_field()
