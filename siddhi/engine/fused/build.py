"""Chooses the fused form of a query, where there is one."""

from __future__ import annotations

from siddhi.analysis import model
from siddhi.engine.aggregators.accumulators import SOURCES
from siddhi.engine.fused.fused import FusedSelection
from siddhi.engine.fused.keyed import KeyedSlidingSelection
from siddhi.engine.fused.shape import shape_of
from siddhi.engine.fused.sliding import SlidingSelection, leaving_of
from siddhi.engine.fused.tumbling import TimedTumblingSelection, TumblingSelection, cutter_of
from siddhi.engine.operator import OperatorContext
from siddhi.engine.windows.time_batch import TimeCutter


def fused_selection(query: model.AnalysedQuery, context: OperatorContext) -> FusedSelection | None:
    """The window and the selection of `query` as one operator, None when they have to run one after the other.

    Inside a partition these are windows that rows leave one by one; without a window the selection alone knows the
    instances.
    """
    if not isinstance(query.input, model.SourceInput):
        return None
    shape = shape_of(query, context)
    if shape is None:
        return None
    window = query.input.window
    leaving = leaving_of(window, context)
    if context.partitioned:
        return None if leaving is None or window is None else KeyedSlidingSelection(shape, leaving, context)
    if leaving is not None:
        return SlidingSelection(shape, leaving, context)
    found = cutter_of(window, shape, context)
    if found is None or not all(type_ in SOURCES for type_ in shape.outputs.columns.values()):
        return None
    cutter, columns = found
    make = TimedTumblingSelection if isinstance(cutter, TimeCutter) else TumblingSelection
    return make(shape, cutter, columns, context)
