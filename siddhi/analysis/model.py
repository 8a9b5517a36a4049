"""What analysis knows of an app: every stream with its schema, every name resolved, every expression typed.

The engine and the planner work from this model alone; nobody goes back to the text or searches in names. Each node
keeps the syntax node that it came from, for positions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum

from siddhi.language import ast
from siddhi.language.ast import AttributeType, EventType, JoinKind
from siddhi.scripts.language import Script


@dataclass(frozen=True, slots=True)
class Schema:
    """Attribute names and types of a stream, table, window or aggregation, in definition order."""

    id: str
    attributes: tuple[tuple[str, AttributeType], ...]

    def names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.attributes)

    def type_of(self, name: str) -> AttributeType:
        """The type of attribute `name`; KeyError when there is none."""
        return dict(self.attributes)[name]

    def __contains__(self, name: object) -> bool:
        return any(name == attribute for attribute, _ in self.attributes)


# ---- typed expressions ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ConstantValue:
    """A literal; a time literal is a long in milliseconds."""

    value: bool | int | float | str
    type: AttributeType


@dataclass(frozen=True, slots=True)
class AttributeValue:
    """Attribute `name` of the input in slot `slot`.

    Slot 0 is the only input of a single-stream query, 0 and 1 the left and right of a join, and a pattern's elements
    are numbered in text order from 0. `index` is set for a counted element's `e[k]`, and where the selection
    means its first event; without it a counted element gives the last event, or (`all_events`) a list.
    """

    slot: int
    name: str
    type: AttributeType
    index: ast.EventIndex | None = None
    all_events: bool = False


@dataclass(frozen=True, slots=True)
class OutputValue:
    """Attribute `name` of the query's own output (in having, order by, `on` and `set`)."""

    name: str
    type: AttributeType


@dataclass(frozen=True, slots=True)
class TableValue:
    """Attribute `name` of a row of table `table` (in `in`, `on` and `set`)."""

    table: str
    name: str
    type: AttributeType


@dataclass(frozen=True, slots=True)
class EventReference:
    """A whole event handed to a function, as in `eventTimestamp(e1)`."""

    slot: int
    index: ast.EventIndex | None = None
    type: AttributeType = AttributeType.OBJECT


@dataclass(frozen=True, slots=True)
class AnalysedFunction:
    """A function that the app defines itself. `make` compiles it for one who calls it."""

    syntax: ast.FunctionDefinition
    make: Callable[[], Script] = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a scalar function. `script` is set for a function that the app defines itself."""

    namespace: str
    name: str
    arguments: tuple[TypedExpression, ...]
    type: AttributeType
    script: AnalysedFunction | None = None
    syntax: ast.FunctionCall | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Aggregate:
    """A call of an aggregator. Each occurrence in a query is an instance of its own, with its own state."""

    namespace: str
    name: str
    arguments: tuple[TypedExpression, ...]
    type: AttributeType
    syntax: ast.FunctionCall | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """`operator` is one of `* / % + -`; both operands are taken as `type` before it works."""

    operator: str
    left: TypedExpression
    right: TypedExpression
    type: AttributeType


@dataclass(frozen=True, slots=True)
class Comparison:
    """`operator` is one of `< <= > >= == !=`; numeric operands are compared as `operand_type`."""

    operator: str
    left: TypedExpression
    right: TypedExpression
    operand_type: AttributeType
    type: AttributeType = AttributeType.BOOL


@dataclass(frozen=True, slots=True)
class Logical:
    """`operator` is `and` or `or`."""

    operator: str
    left: TypedExpression
    right: TypedExpression
    type: AttributeType = AttributeType.BOOL


@dataclass(frozen=True, slots=True)
class Negation:
    operand: TypedExpression
    type: AttributeType = AttributeType.BOOL


@dataclass(frozen=True, slots=True)
class IsNullValue:
    operand: TypedExpression
    type: AttributeType = AttributeType.BOOL


@dataclass(frozen=True, slots=True)
class IsEmptySlot:
    """`e1 is null` of a state query: no event stands in that slot (at that index)."""

    slot: int
    index: ast.EventIndex | None = None
    type: AttributeType = AttributeType.BOOL


@dataclass(frozen=True, slots=True)
class InTable:
    """True when some row of `table` makes `condition` true (its `TableValue`s are that row's)."""

    condition: TypedExpression
    table: str
    type: AttributeType = AttributeType.BOOL


TypedExpression = (
    ConstantValue
    | AttributeValue
    | OutputValue
    | TableValue
    | EventReference
    | Call
    | Aggregate
    | Arithmetic
    | Comparison
    | Logical
    | Negation
    | IsNullValue
    | IsEmptySlot
    | InTable
)


# ---- inputs ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FilterStep:
    condition: TypedExpression


@dataclass(frozen=True, slots=True)
class HandlerCall:
    """A stream function or a window with typed arguments; `output` is the schema after it.

    `condition` is that of an expression window whose text is a constant: plain attributes are those of the event that
    is looked at, index 0 and last mean the ends of the window.
    """

    namespace: str
    name: str
    arguments: tuple[TypedExpression, ...]
    output: Schema
    condition: TypedExpression | None = None
    syntax: ast.FunctionCall | None = field(default=None, compare=False, repr=False)


class SourceKind(Enum):
    STREAM = "stream"
    INNER_STREAM = "inner stream"
    FAULT_STREAM = "fault stream"
    WINDOW = "window"
    TRIGGER = "trigger"
    TABLE = "table"
    AGGREGATION = "aggregation"


@dataclass(frozen=True, slots=True)
class SourceInput:
    """One source: `before` run ahead of the window, `after` behind it. `schema` is the source's own, `output` what
    leaves the chain. `reference` is the alias or pattern reference, else the source's id."""

    source: str
    kind: SourceKind
    reference: str
    schema: Schema
    output: Schema
    before: tuple[FilterStep | HandlerCall, ...] = ()
    window: HandlerCall | None = None
    after: tuple[FilterStep | HandlerCall, ...] = ()
    syntax: ast.SingleInput | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Join:
    """`triggers` says which sides (left, right) start a look-up in the other."""

    left: SourceInput
    right: SourceInput
    kind: JoinKind
    on: TypedExpression | None
    triggers: tuple[bool, bool]
    within: tuple[TypedExpression, ...] = ()
    per: TypedExpression | None = None


@dataclass(frozen=True, slots=True)
class PatternElement:
    """One event slot of a pattern: `slot` counts in text order. `minimum` = `maximum` = 1 and `counted` False when no
    count was written; `maximum` -1 is unbounded. `absent` marks `not`, `waiting_ms` its `for`."""

    slot: int
    input: SourceInput
    minimum: int = 1
    maximum: int = 1
    counted: bool = False
    absent: bool = False
    waiting_ms: int | None = None


@dataclass(frozen=True, slots=True)
class LogicalPair:
    operator: str
    left: PatternElement
    right: PatternElement


@dataclass(frozen=True, slots=True)
class EveryScope:
    """`every (…)` over consecutive steps."""

    steps: tuple[PatternStep, ...]
    within_ms: int | None = None


@dataclass(frozen=True, slots=True)
class BoundScope:
    """`(…) within t` over consecutive steps inside a pattern, which only the 3.x dialect has."""

    steps: tuple[PatternStep, ...]
    within_ms: int


PatternStep = PatternElement | LogicalPair | EveryScope | BoundScope


@dataclass(frozen=True, slots=True)
class StateMachine:
    """A pattern or sequence as a flat chain of steps; `slots` are its elements by slot number."""

    sequence: bool
    steps: tuple[PatternStep, ...]
    slots: tuple[PatternElement, ...]
    within_ms: int | None = None


QueryInput = SourceInput | Join | StateMachine


# ---- queries --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OutputExpression:
    name: str
    expression: TypedExpression
    type: AttributeType


@dataclass(frozen=True, slots=True)
class SortKey:
    """`value` is the output attribute `name`, or, in joins and patterns, an input attribute that is not selected."""

    name: str
    descending: bool
    value: OutputValue | AttributeValue | None = None


@dataclass(frozen=True, slots=True)
class AnalysedSelection:
    """`star` keeps that nothing but `*` was written. `having` reads `OutputValue`s (and inputs in join and state
    queries) and may hold aggregates of its own. A key of `group_by` is an attribute, or the whole event of a pattern or
    a join, followed by the attributes that the query reads of it."""

    attributes: tuple[OutputExpression, ...]
    group_by: tuple[AttributeValue | EventReference, ...] = ()
    having: TypedExpression | None = None
    order_by: tuple[SortKey, ...] = ()
    limit: int | None = None
    offset: int | None = None
    star: bool = False
    aggregates: bool = False
    """True when an aggregate stands in the attributes or in having."""


class TargetKind(Enum):
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
    """`action` is `insert`, `delete`, `update` or `update or insert`; `events` is what reaches the target."""

    action: str
    target: str
    kind: TargetKind
    events: EventType
    schema: Schema
    on: TypedExpression | None = None
    assignments: tuple[Assignment, ...] = ()


@dataclass(frozen=True, slots=True)
class AnalysedQuery:
    """One query, ready to be built. `name` is its `@info(name)` or `query_<n>`; `position` its place among all queries
    of the app, from 0. `output.schema` is what it selects."""

    name: str
    position: int
    input: QueryInput
    selection: AnalysedSelection
    output: AnalysedOutput
    rate: ast.Rate | None
    syntax: ast.Query = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class PartitionKey:
    """How one stream's events find their partition: the value of `expression`, or each label whose condition holds."""

    stream: str
    expression: TypedExpression | None = None
    ranges: tuple[tuple[TypedExpression, str], ...] = ()


@dataclass(frozen=True, slots=True)
class AnalysedPartition:
    name: str
    keys: tuple[PartitionKey, ...]
    queries: tuple[AnalysedQuery, ...]
    inner_streams: tuple[Schema, ...]
    purge_interval_ms: int | None = None
    purge_idle_ms: int | None = None
    syntax: ast.Partition | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class AnalysedStream:
    """A stream of the app. `defined` is False when its schema was inferred from the first query that inserts into
    it."""

    schema: Schema
    defined: bool
    on_error: str = "LOG"
    fault: Schema | None = None
    syntax: ast.StreamDefinition | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class AnalysedTable:
    """`replaces` says that a row which is inserted takes the place of the one that has its key."""

    schema: Schema
    primary_key: tuple[str, ...]
    indexes: tuple[str, ...]
    replaces: bool = False
    syntax: ast.TableDefinition = field(kw_only=True, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class AnalysedWindow:
    schema: Schema
    window: HandlerCall
    output: EventType
    syntax: ast.WindowDefinition = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class AnalysedRetention:
    """Every `interval_ms` buckets that are older than `kept_ms` (one for each duration; None: all stay) are given up;
    never when not `enabled`."""

    kept_ms: tuple[int | None, ...]
    interval_ms: int
    enabled: bool


@dataclass(frozen=True, slots=True)
class AnalysedAggregation:
    """An incremental aggregation. `schema` is what reading it gives: `AGG_TIMESTAMP` first, then what it selects.
    `durations` are all that are kept, finest first, ranges filled in; `by` None means the event's own timestamp."""

    schema: Schema
    input: SourceInput
    selection: AnalysedSelection
    by: AttributeValue | None
    durations: tuple[str, ...]
    retention: AnalysedRetention
    syntax: ast.AggregationDefinition = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class AnalysedApp:
    """A whole app after analysis. `streams` holds defined, inferred and trigger streams by id, in order of appearance;
    `elements` queries and partitions in text order. `playback` says that event time drives the clock."""

    name: str | None
    playback: bool
    streams: dict[str, AnalysedStream]
    tables: dict[str, AnalysedTable]
    windows: dict[str, AnalysedWindow]
    triggers: dict[str, ast.TriggerDefinition]
    functions: dict[str, AnalysedFunction]
    aggregations: dict[str, AnalysedAggregation]
    elements: tuple[AnalysedQuery | AnalysedPartition, ...]
    playback_idle_ms: int | None = None
    playback_increment_ms: int | None = None
    syntax: ast.App = field(default_factory=ast.App, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class AnalysedOnDemandQuery:
    """A query from outside. A read has `source`, in slot 0, and a selection; a write has `output`, and a selection of
    constants unless it needs none (`delete T on …`). `schema` is what comes out of the selection, or else the table's.
    """

    source: str | None
    kind: SourceKind | None
    selection: AnalysedSelection | None
    schema: Schema
    on: TypedExpression | None = None
    within: tuple[TypedExpression, ...] = ()
    per: TypedExpression | None = None
    output: AnalysedOutput | None = None
    syntax: ast.OnDemandQuery | None = field(default=None, compare=False, repr=False)
