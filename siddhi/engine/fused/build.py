"""Chooses the fused form of a query, where there is one."""

from __future__ import annotations

from siddhi.analysis import model
from siddhi.engine.fused.fused import FusedSelection
from siddhi.engine.fused.shape import shape_of
from siddhi.engine.fused.sliding import SlidingSelection, leaving_of
from siddhi.engine.operator import OperatorContext


def fused_selection(query: model.AnalysedQuery, context: OperatorContext) -> FusedSelection | None:
    """The window and the selection of `query` as one operator, None when they have to run one after the other."""
    if context.partitioned or not isinstance(query.input, model.SourceInput):
        return None
    shape = shape_of(query, context)
    if shape is None:
        return None
    leaving = leaving_of(query.input.window, context)
    return None if leaving is None else SlidingSelection(shape, leaving, context)
