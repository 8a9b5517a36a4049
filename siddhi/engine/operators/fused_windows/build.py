"""Choose the fused form of a query, if there is one."""

from __future__ import annotations

from siddhi.analysis import model
from siddhi.engine.operators.aggregates.accumulators import SOURCES
from siddhi.engine.operators.base.choices import NotApplicable
from siddhi.engine.operators.base.operator import OperatorContext
from siddhi.engine.operators.fused_windows.fused import FusedSelection
from siddhi.engine.operators.fused_windows.keyed import KeyedSlidingSelection
from siddhi.engine.operators.fused_windows.shape import shape_of
from siddhi.engine.operators.fused_windows.sliding import SlidingSelection, leaving_of
from siddhi.engine.operators.fused_windows.tumbling import TimedTumblingSelection, TumblingSelection, cutter_of
from siddhi.engine.operators.windows.time_batch import TimeCutter


def fused_selection(query: model.AnalysedQuery, context: OperatorContext) -> FusedSelection | NotApplicable | None:
    """Return the window and the selection of `query` as one operator, unless they must run one after the other.

    Return None if nothing can be fused. Inside a partition only windows that rows leave one by one are fused; without a
    window the selection alone handles the instances.
    """
    if not isinstance(query.input, model.SourceInput) or not query.selection.aggregates:
        return None
    shape = shape_of(query, context)
    if isinstance(shape, NotApplicable):
        return shape
    window = query.input.window
    leaving = leaving_of(window, context)
    if context.partitioned:
        if leaving is None or window is None:
            return NotApplicable("in a partition, a window that rows do not leave one by one, or none")
        return KeyedSlidingSelection(shape, leaving, context)
    if leaving is not None:
        return SlidingSelection(shape, leaving, context)
    found = cutter_of(window, shape, context)
    if found is None:
        return NotApplicable("a window that neither slides nor cuts events into batches, or `having` over batches")
    if not all(type_ in SOURCES for type_ in shape.outputs.columns.values()):
        return NotApplicable("an object is selected")
    cutter, columns = found
    make = TimedTumblingSelection if isinstance(cutter, TimeCutter) else TumblingSelection
    return make(shape, cutter, columns, context)
