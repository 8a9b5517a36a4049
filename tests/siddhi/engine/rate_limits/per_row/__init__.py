"""Output rate limits that process one row after the other, one limiter for each instance."""

from __future__ import annotations

from per_row.by_events import AllByEvents, FirstByEvents, LastByEvents
from per_row.by_time import AllByTime, FirstByTime, LastByTime
from per_row.limiter import Limiter
from per_row.per_instance import LimiterPerInstance
from per_row.snapshot import Snapshot
from siddhi.analysis import model
from siddhi.engine.columnar.strings import StringPool
from siddhi.engine.operators.base.operator import OperatorContext
from siddhi.language import ast


def limiter_by_row(query: model.AnalysedQuery, context: OperatorContext) -> Limiter | None:
    """As `build_limiter`."""
    if query.rate is None:
        return None
    if context.partitioned:
        return LimiterPerInstance(lambda: _limiter_of(query, context.pool), context.instance_ranks)
    return _limiter_of(query, context.pool)


def _limiter_of(query: model.AnalysedQuery, pool: StringPool) -> Limiter:
    rate, grouped = query.rate, bool(query.selection.group_by)
    if isinstance(rate, ast.SnapshotRate):
        return _snapshot(query, rate, pool)
    if isinstance(rate, ast.EventRate):
        if rate.kind == "first":
            return FirstByEvents(rate.events, pool)
        return LastByEvents(rate.events, pool) if rate.kind == "last" else AllByEvents(rate.events, pool)
    assert rate is not None
    period = max(rate.time.milliseconds, 1)
    if rate.kind == "first":
        return FirstByTime(period, pool, grouped=grouped)
    return LastByTime(period, pool) if rate.kind == "last" else AllByTime(period, pool)


def _snapshot(query: model.AnalysedQuery, rate: ast.SnapshotRate, pool: StringPool) -> Limiter:
    source = query.input
    windowed = isinstance(source, model.Join) or (isinstance(source, model.SourceInput) and source.window is not None)
    return Snapshot(
        max(rate.time.milliseconds, 1),
        [(output.name, output.type) for output in query.selection.attributes],
        [isinstance(output.expression, model.Aggregate) for output in query.selection.attributes],
        pool,
        windowed=windowed,
        grouped=bool(query.selection.group_by),
    )
