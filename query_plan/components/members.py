"""The members of execution groups: the streams and the state that each query, partition and aggregation uses.

This module only collects facts from the analysed app; planning decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from query_plan.annotations import (
    DEFAULT_REPLICAS,
    AnnotationValue,
    Distribution,
    Header,
    read_distribution,
    read_header,
)
from query_plan.components.elements import queries_of, sources, syntax_of
from query_plan.components.names import ElementName, element_names
from query_plan.model import ALL, GLOBAL, SHUFFLE, Grouping, by_expression, by_ranges, fields
from siddhi.analysis import model
from siddhi.analysis.definition.windows import spans_keys
from siddhi.analysis.expression.walk import has_aggregate
from siddhi.analysis.parts import parts_of
from siddhi.language import ast

_OBJECT = ast.AttributeType.OBJECT
_STREAM_KINDS = (model.SourceKind.STREAM, model.SourceKind.TRIGGER)
_STATE_KINDS = (model.SourceKind.TABLE, model.SourceKind.WINDOW, model.SourceKind.AGGREGATION)
STATELESS_STREAM_FUNCTIONS = frozenset({("", "log"), ("", "pol2Cart")})


@dataclass(frozen=True, slots=True)
class Read:
    """A stream that a member reads, and how the instances of a parallel stage must share it.

    `bears` are other groupings that give the same results, by a key of the member's own. They are used if another
    member requires one.
    """

    stream: str
    grouping: Grouping
    span: ast.Span
    bears: tuple[Grouping, ...] = ()


@dataclass(frozen=True, slots=True)
class Member:
    """The smallest unit of placement: a query, a partition or an aggregation.

    `state` are the tables, named windows and aggregations that it uses, all in the memory of an engine. `private` are
    the streams without a definition, which therefore stay in one stage: `#S` outside partitions, and `!S`, which every
    reader of `S` may write. `keeps` describes the state that prevents several instances, None when there is none.
    `named` means that the plan itself gives the name; `inside` are the names of the queries in a partition.
    """

    name: str
    element: model.AnalysedQuery | model.AnalysedPartition | model.AnalysedAggregation
    span: ast.Span
    distribution: Distribution
    reads: tuple[Read, ...]
    writes: tuple[str, ...]
    state: tuple[str, ...] = ()
    functions: tuple[str, ...] = ()
    private: tuple[str, ...] = ()
    keeps: str | None = None
    named: bool = False
    inside: tuple[str, ...] = ()

    @property
    def parallel(self) -> int:
        """The initial number of instances that the plan requests, at least 1."""
        return self.distribution.bounds[0]

    @property
    def most(self) -> int:
        """The largest number of instances that it may have."""
        return self.distribution.bounds[1]

    @property
    def parallel_text(self) -> str:
        """The number of instances, as text for messages."""
        if not self.distribution.scales:
            return f"parallel {self.parallel}"
        return f"parallel auto ({self.parallel} to {self.most})"

    @property
    def group(self) -> str | None:
        """The execution group that it requests."""
        return self.distribution.group.text if self.distribution.group else None

    @property
    def parallel_span(self) -> ast.Span:
        """The position of its `parallel`; without one, that of the member."""
        return self.distribution.parallel.span if self.distribution.parallel else self.span

    @property
    def group_span(self) -> ast.Span:
        """The position of its `execGroup`; without one, that of the member."""
        return self.distribution.group.span if self.distribution.group else self.span


def members(app: model.AnalysedApp) -> tuple[Member, ...]:
    """Return every query and partition in text order, then every aggregation in order of definition."""
    handled = _handled_faults(app)
    named = zip(app.elements, element_names(app), strict=True)
    elements = tuple(_element(element, name, handled) for element, name in named)
    found = elements + tuple(_aggregation(aggregation) for aggregation in app.aggregations.values())
    header = read_header(app.syntax)
    return tuple(_with_shared_state(one, header) for one in found) if header.shares_state else found


def _with_shared_state(member: Member, header: Header) -> Member:
    """Return `member` in the one group of a plan whose instances share their state."""
    if member.distribution.present or header.distributed is None:
        return member
    span = header.distributed.span
    replicas = header.workers or AnnotationValue(str(DEFAULT_REPLICAS), span)
    shared = Distribution(
        present=True, group=AnnotationValue(header.name, span), parallel=replicas, state=AnnotationValue("shared", span)
    )
    return replace(member, distribution=shared)


def state_kept(query: model.AnalysedQuery) -> str | None:
    """Return a description of the state that `query` keeps between events; None when it is stateless."""
    selection, source = query.selection, query.input
    if isinstance(source, model.Join):
        return "a join"
    if isinstance(source, model.StateMachine):
        return "a sequence" if source.sequence else "a pattern"
    if (kept := _kept_by_source(source)) is not None:
        return kept
    if selection.group_by:
        return "group by"
    if selection.aggregates:
        return "an aggregate"
    return "an output rate" if query.rate is not None else None


def _kept_by_source(source: model.SourceInput) -> str | None:
    if source.window is not None or source.kind is model.SourceKind.WINDOW:
        return "a window"
    if any(isinstance(part, model.Aggregate) for part in parts_of((source.before, source.after))):
        return "an aggregate in a filter"
    functions = (step for step in (*source.before, *source.after) if isinstance(step, model.HandlerCall))
    keeping = (step for step in functions if (step.namespace, step.name) not in STATELESS_STREAM_FUNCTIONS)
    return next((f"the stream function {step.name}" for step in keeping), None)


def _element(
    element: model.AnalysedQuery | model.AnalysedPartition,
    name: ElementName,
    handled: frozenset[str],
) -> Member:
    queries = queries_of(element)
    parts = tuple(parts_of(element))
    state = _unique(
        (
            *(state for query in queries for state in _state_used(query)),
            *(part.table for part in parts if isinstance(part, model.InTable)),
        )
    )
    syntax = syntax_of(element)
    return Member(
        name=name.name,
        element=element,
        span=syntax.span,
        distribution=read_distribution(syntax.annotations),
        reads=_partition_reads(element)
        if isinstance(element, model.AnalysedPartition)
        else _query_reads(element, state),
        writes=_unique(query.output.target for query in queries if query.output.kind is model.TargetKind.STREAM),
        state=state,
        functions=_scripts(parts),
        private=_unique(stream for query in queries for stream in _private(query, handled)),
        keeps=state_kept(element) if isinstance(element, model.AnalysedQuery) else _kept_over_keys(element),
        named=name.written,
        inside=name.inside,
    )


def _kept_over_keys(partition: model.AnalysedPartition) -> str | None:
    """Like `state_kept`, for a partition: describe the state that is shared by all keys."""
    windows = (source.window for query in partition.queries for source in sources(query))
    spanning = any(window is not None and spans_keys(window) for window in windows)
    return "the expression of a window" if spanning else None


def _query_reads(query: model.AnalysedQuery, state: tuple[str, ...]) -> tuple[Read, ...]:
    if state_kept(query) is None and not state:
        return _reads((query,), {}, SHUFFLE)
    bears = () if state else tuple(map(fields, _own_keys(query)))
    return tuple(replace(read, bears=bears) for read in _reads((query,), {}, GLOBAL))


def _own_keys(query: model.AnalysedQuery) -> Iterator[str]:
    """Yield the attributes of the only input that alone determine which events share the state of `query`.

    These are the attributes of `group by`, when the query keeps no other state.
    """
    source, having = query.input, query.selection.having
    if not isinstance(source, model.SourceInput) or query.rate is not None or _kept_by_source(source) is not None:
        return
    if having is not None and has_aggregate(having):
        return  # the count over all groups
    for key in query.selection.group_by:
        if isinstance(key, model.AttributeValue) and key.name in source.schema and key.type is not _OBJECT:
            yield key.name


def _partition_reads(partition: model.AnalysedPartition) -> tuple[Read, ...]:
    keys = zip(partition.keys, syntax_of(partition).keys, strict=True)
    groupings = {key.stream: _key_grouping(key, syntax) for key, syntax in keys}
    return _reads(partition.queries, groupings, ALL)


def _reads(
    queries: tuple[model.AnalysedQuery, ...], groupings: dict[str, Grouping], otherwise: Grouping
) -> tuple[Read, ...]:
    found: dict[str, Read] = {}
    for query in queries:
        for name, span in _streams_read(query):
            found.setdefault(name, Read(name, groupings.get(name, otherwise), span))
    return tuple(found.values())


def _key_grouping(key: model.PartitionKey, syntax: ast.ValuePartition | ast.RangePartition) -> Grouping:
    if isinstance(syntax, ast.RangePartition):
        return by_ranges(syntax)
    if isinstance(key.expression, model.AttributeValue):
        return fields(key.expression.name)
    return by_expression(syntax)


def _streams_read(query: model.AnalysedQuery) -> tuple[tuple[str, ast.Span], ...]:
    return tuple(
        (source.source, source.syntax.span if source.syntax else query.syntax.span)
        for source in sources(query)
        if source.kind in _STREAM_KINDS
    )


def _state_used(query: model.AnalysedQuery) -> Iterator[str]:
    yield from (source.source for source in sources(query) if source.kind in _STATE_KINDS)
    if query.output.kind in (model.TargetKind.TABLE, model.TargetKind.WINDOW):
        yield query.output.target


def _private(query: model.AnalysedQuery, handled: frozenset[str]) -> Iterator[str]:
    for source in sources(query):
        if source.kind is model.SourceKind.STREAM and source.source.startswith("#"):
            yield source.source
        if source.kind in (model.SourceKind.STREAM, model.SourceKind.FAULT_STREAM) and source.source in handled:
            yield f"!{source.source}"
    output = query.output
    if output.kind is model.TargetKind.STREAM and output.target.startswith("#"):
        yield output.target


def _handled_faults(app: model.AnalysedApp) -> frozenset[str]:
    """Return the streams whose fault stream some query reads."""
    return frozenset(
        source.source
        for element in app.elements
        for query in queries_of(element)
        for source in sources(query)
        if source.kind is model.SourceKind.FAULT_STREAM
    )


def _aggregation(aggregation: model.AnalysedAggregation) -> Member:
    source = aggregation.input
    return Member(
        name=aggregation.schema.id,
        element=aggregation,
        span=aggregation.syntax.span,
        distribution=Distribution(present=False, group=None, parallel=None),
        reads=(Read(source.source, GLOBAL, source.syntax.span if source.syntax else aggregation.syntax.span),),
        writes=(),
        state=(aggregation.schema.id,),
        functions=_scripts(parts_of(aggregation)),
        keeps="an aggregation",
    )


def _scripts(parts: Iterable[object]) -> tuple[str, ...]:
    return _unique(part.script.syntax.id for part in parts if isinstance(part, model.Call) and part.script is not None)


def _unique(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))
