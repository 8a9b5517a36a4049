"""Queries: selection, output, and the query as a whole."""

from __future__ import annotations

from dataclasses import dataclass

from siddhi.language.ast.definitions import Annotation, EventType
from siddhi.language.ast.expressions import Attribute, Expression, TimeConstant
from siddhi.language.ast.inputs import Handler, JoinInput, SingleInput, StateInput
from siddhi.spans import Span, span_field


@dataclass(frozen=True, slots=True)
class OutputAttribute:
    """`expression as name`; `name` None is a bare attribute that keeps its name."""

    expression: Expression
    name: str | None = None
    span: Span = span_field()


@dataclass(frozen=True, slots=True)
class OrderBy:
    """An attribute of `order by`."""

    attribute: Attribute
    descending: bool = False
    span: Span = span_field()


@dataclass(frozen=True, slots=True)
class Selection:
    """`attributes` None is `select *`."""

    attributes: tuple[OutputAttribute, ...] | None = None
    group_by: tuple[Attribute, ...] = ()
    having: Expression | None = None
    order_by: tuple[OrderBy, ...] = ()
    limit: Expression | None = None
    offset: Expression | None = None
    span: Span = span_field()


@dataclass(frozen=True, slots=True)
class EventRate:
    """`output all|first|last every N events`."""

    kind: str
    events: int
    span: Span = span_field()


@dataclass(frozen=True, slots=True)
class TimeRate:
    """`output all|first|last every T`."""

    kind: str
    time: TimeConstant
    span: Span = span_field()


@dataclass(frozen=True, slots=True)
class SnapshotRate:
    """`output snapshot every T`."""

    time: TimeConstant
    span: Span = span_field()


Rate = EventRate | TimeRate | SnapshotRate


@dataclass(frozen=True, slots=True)
class SetAssignment:
    """An assignment of `set`."""

    attribute: Attribute
    value: Expression
    span: Span = span_field()


@dataclass(frozen=True, slots=True)
class InsertInto:
    """`events` None means that no event type was written; `raw` is the 3.x form `all raw events`."""

    target: str
    events: EventType | None = None
    inner: bool = False
    fault: bool = False
    raw: bool = False
    span: Span = span_field()


@dataclass(frozen=True, slots=True)
class Delete:
    """`delete … on …`."""

    target: str
    on: Expression | None = None
    events: EventType | None = None
    span: Span = span_field()


@dataclass(frozen=True, slots=True)
class Update:
    """`update T`, or `update or insert into T` with `insert` True (3.x: `insert overwrite T`)."""

    target: str
    on: Expression | None
    assignments: tuple[SetAssignment, ...] = ()
    events: EventType | None = None
    insert: bool = False
    span: Span = span_field()


@dataclass(frozen=True, slots=True)
class Return:
    """`return`, in on-demand queries."""

    events: EventType | None = None
    span: Span = span_field()


Output = InsertInto | Delete | Update | Return


@dataclass(frozen=True, slots=True)
class AnonymousInput:
    """`from (from … return)`: parsed, refused by analysis as in Siddhi."""

    query: Query
    handlers: tuple[Handler, ...] = ()
    span: Span = span_field()


Input = SingleInput | JoinInput | StateInput | AnonymousInput


@dataclass(frozen=True, slots=True)
class Query:
    """`selection` None means that no select was written: all attributes pass."""

    input: Input
    output: Output
    selection: Selection | None = None
    rate: Rate | None = None
    annotations: tuple[Annotation, ...] = ()
    span: Span = span_field()
