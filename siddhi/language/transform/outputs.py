"""The outputs of queries: selection, rate and target."""

from __future__ import annotations

from dataclasses import dataclass, replace

from lark import Token
from lark.tree import Meta

from siddhi.errors import Problem
from siddhi.language import ast
from siddhi.language.ast import EventType
from siddhi.language.literals import string_value
from siddhi.language.transform.base import TransformerBase, span_of


@dataclass(frozen=True)
class EventTypeText:
    """`current events`, `all raw events`, `events`; `type` None when no type was written."""

    type: EventType | None
    raw: bool


_KINDS = frozenset({"CURRENT", "EXPIRED", "ALL"})


class OutputTransformer(TransformerBase):
    """Transforms selections, outputs and output rates."""

    # ---- selection --------------------------------------------------------------------------------------------------

    def selection(
        self,
        meta: Meta,
        attributes: tuple[ast.OutputAttribute, ...] | None,
        group_by: tuple[ast.Attribute, ...] | None,
        having: ast.Expression | None,
        order_by: tuple[ast.OrderBy, ...] | None,
        limit: ast.Expression | None,
        offset: ast.Expression | None,
    ) -> ast.Selection:
        return ast.Selection(attributes, group_by or (), having, order_by or (), limit, offset, span=span_of(meta))

    def all_attributes(self, _meta: Meta, _star: Token) -> None:
        return None

    def output_attributes(self, _meta: Meta, *attributes: ast.OutputAttribute) -> tuple[ast.OutputAttribute, ...]:
        return attributes

    def output_attribute(self, meta: Meta, expression: ast.Expression, name: str | None) -> ast.OutputAttribute:
        bare = isinstance(expression, ast.Attribute) and expression.span.start == meta.start_pos  # without parentheses
        if name is None and not bare:
            self._problem("output-without-name", "this output needs a name", meta, "add `as <name>` after it")
        return ast.OutputAttribute(expression, name, span=span_of(meta))

    def group_by(self, _meta: Meta, *attributes: ast.Attribute) -> tuple[ast.Attribute, ...]:
        return attributes

    def order_by(self, _meta: Meta, *attributes: ast.OrderBy) -> tuple[ast.OrderBy, ...]:
        return attributes

    def order_attribute(self, meta: Meta, attribute: ast.Attribute, descending: Token | None = None) -> ast.OrderBy:
        return ast.OrderBy(attribute, descending is not None, span=span_of(meta))

    # ---- rate -------------------------------------------------------------------------------------------------------

    def event_rate(self, meta: Meta, kind: Token | None, _every: Token, count: Token, _events: Token) -> ast.EventRate:
        events = int(count)
        if events > 0x7FFFFFFF:
            self._problem("number-out-of-range", f"{events} does not fit in int", meta)
        return ast.EventRate(_kind(kind), events, span=span_of(meta))

    def time_rate(self, meta: Meta, kind: Token | None, _every: Token, time: ast.TimeConstant) -> ast.TimeRate:
        return ast.TimeRate(_kind(kind), time, span=span_of(meta))

    def snapshot_rate(self, meta: Meta, _every: Token, time: ast.TimeConstant) -> ast.SnapshotRate:
        return ast.SnapshotRate(time, span=span_of(meta))

    # ---- output -----------------------------------------------------------------------------------------------------

    def event_type(self, meta: Meta, *tokens: Token) -> EventTypeText:
        types = {token.type for token in tokens}
        unsaid = None if "RAW" in types else EventType.CURRENT
        kind = next((EventType(token.casefold()) for token in tokens if token.type in _KINDS), unsaid)
        if "EVENTS" not in types:
            self._legacy(meta, "the word 'events' is missing", f"write '{' '.join(tokens)} events'")
        if "RAW" in types:
            self._legacy(meta, "there are no raw events", "leave out 'raw'")
        return EventTypeText(kind, "RAW" in types)

    def insert_into(self, meta: Meta, events: EventTypeText | None, target: ast.SingleInput) -> ast.InsertInto:
        return ast.InsertInto(
            target.source,
            events.type if events is not None else None,
            target.inner,
            target.fault,
            events is not None and events.raw,
            span=span_of(meta),
        )

    def overwrite(self, meta: Meta, target: str, events: EventTypeText | None, on: ast.Expression) -> ast.Update:
        return ast.Update(target, on, (), _type(events), insert=True, span=span_of(meta))

    def delete(self, meta: Meta, target: str, events: EventTypeText | None, on: ast.Expression | None) -> ast.Delete:
        return ast.Delete(target, on, _type(events), span=span_of(meta))

    def update(
        self,
        meta: Meta,
        target: str,
        events: EventTypeText | None,
        assignments: tuple[ast.SetAssignment, ...] | None,
        on: ast.Expression,
    ) -> ast.Update:
        return ast.Update(target, on, assignments or (), _type(events), span=span_of(meta))

    def update_or_insert(
        self,
        meta: Meta,
        _or: Token,
        target: str,
        events: EventTypeText | None,
        assignments: tuple[ast.SetAssignment, ...] | None,
        on: ast.Expression,
    ) -> ast.Update:
        return replace(self.update(meta, target, events, assignments, on), insert=True)

    def return_events(self, meta: Meta, events: EventTypeText | None) -> ast.Return:
        return ast.Return(_type(events), span=span_of(meta))

    def set_clause(self, _meta: Meta, *assignments: ast.SetAssignment) -> tuple[ast.SetAssignment, ...]:
        return assignments

    def assignment(self, meta: Meta, attribute: ast.Attribute, value: ast.Expression) -> ast.SetAssignment:
        return ast.SetAssignment(attribute, value, span=span_of(meta))

    # ---- queries and partitions -------------------------------------------------------------------------------------

    def query(
        self,
        meta: Meta,
        annotations: tuple[ast.Annotation, ...],
        source: ast.Input,
        selection: ast.Selection | None,
        rate: ast.Rate | None,
        output: ast.Output,
    ) -> ast.Query:
        return ast.Query(source, output, selection, rate, annotations, span=span_of(meta))

    def single_query(self, _meta: Meta, query: ast.Query) -> ast.Query:
        return query

    def partition(
        self,
        meta: Meta,
        annotations: tuple[ast.Annotation, ...],
        *parts: ast.ValuePartition | ast.RangePartition | ast.Query,
    ) -> ast.Partition:
        keys = tuple(part for part in parts if not isinstance(part, ast.Query))
        queries = tuple(part for part in parts if isinstance(part, ast.Query))
        return ast.Partition(keys, queries, annotations, span=span_of(meta))

    def value_partition(self, meta: Meta, expression: ast.Expression, stream: str) -> ast.ValuePartition:
        return ast.ValuePartition(expression, stream, span=span_of(meta))

    def range_partition(self, meta: Meta, *parts: tuple[ast.Expression, str] | Token | str) -> ast.RangePartition:
        ranges = tuple(part for part in parts if isinstance(part, tuple))
        return ast.RangePartition(ranges, str(parts[-1]), span=span_of(meta))

    def range_label(self, _meta: Meta, condition: ast.Expression, label: Token) -> tuple[ast.Expression, str]:
        return condition, string_value(label)

    # ---- on-demand queries ------------------------------------------------------------------------------------------

    def on_demand_read(
        self,
        meta: Meta,
        source: str,
        alias: str | None,
        on: ast.Expression | None,
        within: tuple[ast.Expression, ...] | None,
        per: ast.Expression | None,
        selection: ast.Selection | None,
    ) -> ast.OnDemandQuery:
        return ast.OnDemandQuery(source, None, selection, alias, on, within or (), per, span=span_of(meta))

    def on_demand_write(self, meta: Meta, selection: ast.Selection | None, output: ast.Output) -> ast.OnDemandQuery:
        return ast.OnDemandQuery(None, output, selection, span=span_of(meta))

    def stored_insert(self, meta: Meta, target: str) -> ast.InsertInto:
        return ast.InsertInto(target, span=span_of(meta))

    def stored_delete(self, meta: Meta, target: str, on: ast.Expression | None) -> ast.Delete:
        return ast.Delete(target, on, span=span_of(meta))

    def stored_update(
        self, meta: Meta, target: str, assignments: tuple[ast.SetAssignment, ...] | None, on: ast.Expression
    ) -> ast.Update:
        return ast.Update(target, on, assignments or (), span=span_of(meta))

    def stored_update_or_insert(
        self,
        meta: Meta,
        _or: Token,
        target: str,
        assignments: tuple[ast.SetAssignment, ...] | None,
        on: ast.Expression,
    ) -> ast.Update:
        return ast.Update(target, on, assignments or (), insert=True, span=span_of(meta))

    def _legacy(self, meta: Meta, message: str, hint: str) -> None:
        self.legacy.append(Problem("only-in-3x", f"{message} (3.x dialect, @Plan:name)", hint, span_of(meta)))


def _type(events: EventTypeText | None) -> EventType | None:
    return events.type if events is not None else None


def _kind(token: Token | None) -> str:
    return token.casefold() if token is not None else "all"
