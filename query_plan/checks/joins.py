"""The rule about filters on tables, named windows and aggregations in joins."""

from __future__ import annotations

from collections.abc import Iterator

from query_plan.findings import Finding, warning_rule
from siddhi.language import ast

_HOLDERS = {
    ast.TableDefinition: "table",
    ast.WindowDefinition: "named window",
    ast.AggregationDefinition: "aggregation",
}

FILTER_IGNORED = warning_rule(
    "filter-not-looked-at",
    "a table, a named window or an aggregation in a join has a filter, which Siddhi accepts and ignores",
    "write the condition after `on`",
)


def join_filters_have_effect(app: ast.App) -> Iterator[Finding]:
    """Warn about filters on a side of a join that stores rows; they have no effect."""
    holders = {one.id: _HOLDERS[type(one)] for one in app.definitions if type(one) in _HOLDERS}
    for element in app.elements:
        for query in element.queries if isinstance(element, ast.Partition) else (element,):
            if isinstance(query.input, ast.JoinInput):
                yield from _ignored(query.input.left, holders)
                yield from _ignored(query.input.right, holders)


def _ignored(side: ast.SingleInput, holders: dict[str, str]) -> Iterator[Finding]:
    kind = None if side.inner or side.fault else holders.get(side.source)
    for handler in side.handlers if kind is not None else ():
        if isinstance(handler, ast.FilterHandler):
            yield FILTER_IGNORED.broken(
                f"the filter on the {kind} {side.source} in a join is ignored, all its rows are joined",
                "write its condition after 'on'",
                handler.span,
            )
