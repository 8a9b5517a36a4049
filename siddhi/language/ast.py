"""The syntax tree of SiddhiQL: what a plan says, with where it says it.

Nodes are frozen and compare by meaning: two nodes are equal when they print the same text, wherever they stood.
Positions (`span`) take no part in equality, so `parse(print_app(app)) == app` holds. Nothing here knows types or
scopes; that is `siddhi.analysis`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum


@dataclass(frozen=True, slots=True)
class Span:
    """Where a node stands in its text: lines and columns count from 1, offsets from 0, the end is exclusive."""

    line: int
    column: int
    end_line: int
    end_column: int
    start: int
    end: int


NOWHERE = Span(0, 0, 0, 0, 0, 0)
"""The span of a node that was made, not parsed."""


def _span() -> Span:
    return field(default=NOWHERE, compare=False, repr=False, kw_only=True)


class AttributeType(str, Enum):
    """The attribute types of SiddhiQL: `int` and `float` have 32 bits, `long` and `double` 64."""

    STRING = "string"
    INT = "int"
    LONG = "long"
    FLOAT = "float"
    DOUBLE = "double"
    BOOL = "bool"
    OBJECT = "object"


# ---- expressions ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Constant:
    """A literal; `value` is a bool, int, float or str according to `type`."""

    value: bool | int | float | str
    type: AttributeType
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class TimeConstant:
    """A time literal such as `1 min 30 sec`: `parts` as written, (amount, canonical unit); a long in milliseconds."""

    parts: tuple[tuple[int, str], ...]
    milliseconds: int
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class EventIndex:
    """Which event of a counted pattern element is meant: `[k]` counts from the first, `[last - k]` from the last."""

    offset: int
    from_last: bool = False


@dataclass(frozen=True, slots=True)
class SourceReference:
    """A stream, alias or pattern reference in front of an attribute, or alone in `e1 is null`.

    `inner` and `fault` say that the name was written `#name` or `!name`; `nested` is the `inner` of `S#inner.attr`.
    """

    name: str
    inner: bool = False
    fault: bool = False
    index: EventIndex | None = None
    nested: str | None = None
    nested_index: EventIndex | None = None
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Attribute:
    """`name` or `source.name`."""

    name: str
    source: SourceReference | None = None
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """`namespace:name(arguments)`; `star` says that the argument list was `*`. An argument may be an indexed event
    (`e1[0]`); a plain one (`e1`) is parsed as an `Attribute`."""

    namespace: str
    name: str
    arguments: tuple[Expression | SourceReference, ...] = ()
    star: bool = False
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Not:
    operand: Expression
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Binary:
    """`operator` is one of `* / % + - < <= > >= == != and or`."""

    operator: str
    left: Expression
    right: Expression
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class IsNull:
    """`operand is null`. A bare name is parsed as an `Attribute`; analysis decides whether it means a stream's slot."""

    operand: Attribute | SourceReference | FunctionCall
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class In:
    """`operand in table`."""

    operand: Expression
    table: str
    span: Span = _span()


Expression = Constant | TimeConstant | Attribute | FunctionCall | Not | Binary | IsNull | In


# ---- annotations and definitions ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AnnotationElement:
    """`key='value'`, or `'value'` with `key` None."""

    key: str | None
    value: str
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Annotation:
    """`@name(...)`, or `@namespace:name(...)` in front of an app (`@app:playback`, `@Plan:name`). Names keep their
    case; compare them with `casefold`."""

    name: str
    elements: tuple[AnnotationElement, ...] = ()
    annotations: tuple[Annotation, ...] = ()
    namespace: str | None = None
    span: Span = _span()

    def value(self, key: str | None = None, default: str | None = None) -> str | None:
        """The value of element `key` (any case), or of the first unnamed element when `key` is None."""
        for element in self.elements:
            if (element.key or "").casefold() == (key or "").casefold():
                return element.value
        return default


@dataclass(frozen=True, slots=True)
class AttributeDefinition:
    name: str
    type: AttributeType
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class StreamDefinition:
    id: str
    attributes: tuple[AttributeDefinition, ...]
    annotations: tuple[Annotation, ...] = ()
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class TableDefinition:
    id: str
    attributes: tuple[AttributeDefinition, ...]
    annotations: tuple[Annotation, ...] = ()
    span: Span = _span()


class EventType(str, Enum):
    """Which events a query or a named window lets out."""

    CURRENT = "current"
    EXPIRED = "expired"
    ALL = "all"


@dataclass(frozen=True, slots=True)
class WindowDefinition:
    """A named window; `output` None means that nothing was written (all events)."""

    id: str
    attributes: tuple[AttributeDefinition, ...]
    window: FunctionCall
    output: EventType | None = None
    annotations: tuple[Annotation, ...] = ()
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class TriggerDefinition:
    """Exactly one of `every`, `cron` is set, or neither for `at 'start'`."""

    id: str
    every: TimeConstant | None = None
    cron: str | None = None
    annotations: tuple[Annotation, ...] = ()
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class FunctionDefinition:
    id: str
    language: str
    return_type: AttributeType
    body: str
    annotations: tuple[Annotation, ...] = ()
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class AggregationDefinition:
    """`durations` are canonical singular names (`sec` … `year`) as written; `range` says that they are first and
    last."""

    id: str
    source: SingleInput
    selection: Selection
    by: Attribute | None
    durations: tuple[str, ...]
    range: bool
    annotations: tuple[Annotation, ...] = ()
    span: Span = _span()


Definition = (
    StreamDefinition
    | TableDefinition
    | WindowDefinition
    | TriggerDefinition
    | FunctionDefinition
    | AggregationDefinition
)


# ---- inputs ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Filter:
    condition: Expression
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class StreamFunction:
    """`#namespace:name(arguments)` in an input's handler chain."""

    call: FunctionCall
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Window:
    """`#window.name(arguments)`."""

    call: FunctionCall
    span: Span = _span()


Handler = Filter | StreamFunction | Window


@dataclass(frozen=True, slots=True)
class SingleInput:
    """One source with its handlers in text order; `alias` is the `as` of a join side or the `e1=` of a pattern."""

    source: str
    handlers: tuple[Handler, ...] = ()
    alias: str | None = None
    inner: bool = False
    fault: bool = False
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class AnonymousInput:
    """`from (from … return)`: parsed, refused by analysis as in Siddhi."""

    query: Query
    handlers: tuple[Handler, ...] = ()
    span: Span = _span()


class JoinKind(str, Enum):
    INNER = "join"
    LEFT_OUTER = "left outer join"
    RIGHT_OUTER = "right outer join"
    FULL_OUTER = "full outer join"


@dataclass(frozen=True, slots=True)
class JoinInput:
    """`unidirectional` is the side (`left`, `right`) that alone triggers, or None."""

    left: SingleInput
    right: SingleInput
    kind: JoinKind
    on: Expression | None = None
    unidirectional: str | None = None
    within: tuple[Expression, ...] = ()
    per: Expression | None = None
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class StreamElement:
    """One element of a pattern or sequence: a stream with its handlers, counted `minimum` to `maximum` times.

    `minimum` and `maximum` are None for an uncounted element; `maximum` -1 is unbounded.
    """

    input: SingleInput
    minimum: int | None = None
    maximum: int | None = None
    span: Span = _span()

    @property
    def bare(self) -> bool:
        """Whether nothing but brackets tells it from a stream that a query reads event by event."""
        return self.minimum is None and self.input.alias is None


@dataclass(frozen=True, slots=True)
class AbsentElement:
    """`not S[…]`, with `for` a time when `waiting` is set."""

    input: SingleInput
    waiting: TimeConstant | None = None
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class LogicalElement:
    """`left and right` or `left or right`."""

    operator: str
    left: StreamElement | AbsentElement
    right: StreamElement | AbsentElement
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class EveryElement:
    element: StateElement
    within: TimeConstant | None = None
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class NextElement:
    """Elements one after the other: `a -> b -> c` in a pattern, `a, b, c` in a sequence."""

    elements: tuple[StateElement, ...]
    within: TimeConstant | None = None
    span: Span = _span()


StateElement = StreamElement | AbsentElement | LogicalElement | EveryElement | NextElement


@dataclass(frozen=True, slots=True)
class StateInput:
    """A pattern (`sequence` False) or a sequence."""

    element: StateElement
    sequence: bool
    within: TimeConstant | None = None
    span: Span = _span()


Input = SingleInput | JoinInput | StateInput | AnonymousInput


# ---- queries --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OutputAttribute:
    """`expression as name`; `name` None is a bare attribute that keeps its name."""

    expression: Expression
    name: str | None = None
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class OrderBy:
    attribute: Attribute
    descending: bool = False
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Selection:
    """`attributes` None is `select *`."""

    attributes: tuple[OutputAttribute, ...] | None = None
    group_by: tuple[Attribute, ...] = ()
    having: Expression | None = None
    order_by: tuple[OrderBy, ...] = ()
    limit: Expression | None = None
    offset: Expression | None = None
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class EventRate:
    """`output all|first|last every N events`."""

    kind: str
    events: int
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class TimeRate:
    """`output all|first|last every T`."""

    kind: str
    time: TimeConstant
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class SnapshotRate:
    """`output snapshot every T`."""

    time: TimeConstant
    span: Span = _span()


Rate = EventRate | TimeRate | SnapshotRate


@dataclass(frozen=True, slots=True)
class SetAssignment:
    attribute: Attribute
    value: Expression
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class InsertInto:
    """`events` None means that no event type was written; `raw` is the 3.x form `all raw events`."""

    target: str
    events: EventType | None = None
    inner: bool = False
    fault: bool = False
    raw: bool = False
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Delete:
    target: str
    on: Expression | None = None
    events: EventType | None = None
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Update:
    """`update T`, or `update or insert into T` with `insert` True (3.x: `insert overwrite T`)."""

    target: str
    on: Expression | None
    assignments: tuple[SetAssignment, ...] = ()
    events: EventType | None = None
    insert: bool = False
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Return:
    events: EventType | None = None
    span: Span = _span()


Output = InsertInto | Delete | Update | Return


@dataclass(frozen=True, slots=True)
class Query:
    """`selection` None means that no select was written: all attributes pass."""

    input: Input
    output: Output
    selection: Selection | None = None
    rate: Rate | None = None
    annotations: tuple[Annotation, ...] = ()
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class ValuePartition:
    expression: Expression
    stream: str
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class RangePartition:
    """`condition as 'label' or … of stream`."""

    ranges: tuple[tuple[Expression, str], ...]
    stream: str
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Partition:
    keys: tuple[ValuePartition | RangePartition, ...]
    queries: tuple[Query, ...]
    annotations: tuple[Annotation, ...] = ()
    span: Span = _span()


ExecutionElement = Query | Partition


@dataclass(frozen=True, slots=True)
class App:
    """A whole execution plan in text order."""

    annotations: tuple[Annotation, ...] = ()
    definitions: tuple[Definition, ...] = ()
    elements: tuple[ExecutionElement, ...] = ()
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class OnDemandQuery:
    """A query put to tables, windows and aggregations from outside; `source` None for `select … insert into T`."""

    source: str | None
    output: Output | None
    selection: Selection | None = None
    alias: str | None = None
    on: Expression | None = None
    within: tuple[Expression, ...] = ()
    per: Expression | None = None
    span: Span = _span()
