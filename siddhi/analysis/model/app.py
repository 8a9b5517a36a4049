"""The whole app: queries and partitions, with the definitions that they use."""

from __future__ import annotations

from dataclasses import dataclass, field

from siddhi.analysis.model.expressions import AnalysedFunction, AttributeValue, TypedExpression
from siddhi.analysis.model.inputs import HandlerCall, SourceInput, SourceKind
from siddhi.analysis.model.queries import AnalysedOutput, AnalysedQuery, AnalysedSelection
from siddhi.analysis.model.schema import Schema
from siddhi.language import ast
from siddhi.language.ast import EventType


@dataclass(frozen=True, slots=True)
class PartitionKey:
    """How events of a stream are assigned to partitions: by `expression`, or by each label whose condition is true."""

    stream: str
    expression: TypedExpression | None = None
    ranges: tuple[tuple[TypedExpression, str], ...] = ()


@dataclass(frozen=True, slots=True)
class AnalysedPartition:
    """A partition whose keys and queries are resolved."""

    name: str
    keys: tuple[PartitionKey, ...]
    queries: tuple[AnalysedQuery, ...]
    inner_streams: tuple[Schema, ...]
    purge_interval_ms: int | None = None
    purge_idle_ms: int | None = None
    syntax: ast.Partition | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class AnalysedStream:
    """A stream of the app.

    `defined` is False when its schema was inferred from the first query that inserts into it.
    """

    schema: Schema
    defined: bool
    on_error: str = "LOG"
    fault: Schema | None = None
    syntax: ast.StreamDefinition | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class AnalysedTable:
    """`replaces` means that an inserted row replaces the row with the same key."""

    schema: Schema
    primary_key: tuple[str, ...]
    indexes: tuple[str, ...]
    replaces: bool = False
    syntax: ast.TableDefinition = field(kw_only=True, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class AnalysedWindow:
    """A named window whose schema is resolved."""

    schema: Schema
    window: HandlerCall
    output: EventType
    syntax: ast.WindowDefinition = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class AnalysedRetention:
    """How long an aggregation keeps its buckets.

    Every `interval_ms` it purges buckets older than `kept_ms` (one value per duration; None keeps all), unless
    `enabled` is False.
    """

    kept_ms: tuple[int | None, ...]
    interval_ms: int
    enabled: bool


@dataclass(frozen=True, slots=True)
class AnalysedAggregation:
    """An incremental aggregation.

    `schema` describes the rows that a read returns: `AGG_TIMESTAMP` first, then what it selects. `durations` are all
    that are kept, finest first, ranges filled in; `by` None means the event's own timestamp.
    """

    schema: Schema
    input: SourceInput
    selection: AnalysedSelection
    by: AttributeValue | None
    durations: tuple[str, ...]
    retention: AnalysedRetention
    syntax: ast.AggregationDefinition = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class AnalysedApp:
    """A whole app after analysis.

    `streams` holds defined, inferred and trigger streams by id, in order of appearance; `elements` holds queries and
    partitions in text order. `playback` is set where event time drives the clock.
    """

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
    """An on-demand query.

    A read has `source`, in slot 0, and a selection. A write has `output`, and a selection of constants unless it
    needs none (`delete T on …`). `schema` is that of the selection, or else the table's.
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
