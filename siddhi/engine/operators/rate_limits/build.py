"""Which limiter a query's `output` clause asks for."""

from __future__ import annotations

from siddhi.analysis import model
from siddhi.engine.columnar.strings import StringPool
from siddhi.engine.operators.rate_limits.by_events import AllByEvents, FirstByEvents, LastByEvents
from siddhi.engine.operators.rate_limits.by_time import AllByTime, FirstByTime, LastByTime
from siddhi.engine.operators.rate_limits.limiter import Limiter
from siddhi.engine.operators.rate_limits.snapshot import Snapshot
from siddhi.language import ast


def build_limiter(query: model.AnalysedQuery, pool: StringPool) -> Limiter | None:
    """Return the limiter of `query`, None when its output is not limited."""
    return None if query.rate is None else limiter_of(query, pool)


def limiter_of(query: model.AnalysedQuery, pool: StringPool) -> Limiter:
    """Return the limiter of `query`, which has an output rate."""
    rate, grouped = query.rate, bool(query.selection.group_by)
    assert rate is not None  # noqa: S101 - what the caller promises
    if isinstance(rate, ast.SnapshotRate):
        return _snapshot(query, rate, pool)
    if isinstance(rate, ast.EventRate):
        if rate.kind == "first":
            return FirstByEvents(rate.events, pool)
        return LastByEvents(rate.events, pool) if rate.kind == "last" else AllByEvents(rate.events, pool)
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
