"""The rate limiter for a query's `output` clause."""

from __future__ import annotations

from siddhi.analysis import model
from siddhi.engine.operators.base.operator import OperatorContext
from siddhi.engine.operators.rate_limits.first import FirstLimiter
from siddhi.engine.operators.rate_limits.limiter import LimitedRows, Limiter
from siddhi.engine.operators.rate_limits.snapshot import SnapshotLimiter
from siddhi.engine.operators.rate_limits.waiting import BlockLimiter
from siddhi.language import ast


def build_limiter(query: model.AnalysedQuery, context: OperatorContext) -> Limiter | None:
    """Return the limiter of `query`, None when its output is not limited."""
    rate, selection, source = query.rate, query.selection, query.input
    if rate is None:
        return None
    rows = LimitedRows(
        {output.name: output.type for output in selection.attributes},
        bool(selection.group_by),
        context.pool,
        context.partitioned,
        context.instance_ranks if context.partitioned else None,
    )
    if isinstance(rate, ast.SnapshotRate):
        aggregated = [isinstance(output.expression, model.Aggregate) for output in selection.attributes]
        windowed = not isinstance(source, model.SourceInput) or source.window is not None
        windowed = windowed and not isinstance(source, model.StateMachine)
        return SnapshotLimiter(max(rate.time.milliseconds, 1), rows, aggregated, windowed=windowed)
    by_time = not isinstance(rate, ast.EventRate)
    span = rate.events if isinstance(rate, ast.EventRate) else max(rate.time.milliseconds, 1)
    if rate.kind == "first":
        return FirstLimiter(span, rows, by_time=by_time)
    return BlockLimiter(span, rows, by_time=by_time, last=rate.kind == "last")
