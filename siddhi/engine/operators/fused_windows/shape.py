"""Decide which selections can be fused with the preceding window, and which values of each row they need."""

from __future__ import annotations

from dataclasses import dataclass

from siddhi.analysis import model
from siddhi.analysis.expression.walk import has_aggregate
from siddhi.engine.operators.aggregates.accumulators import SOURCES, Accumulation, accumulation_of
from siddhi.engine.operators.aggregates.moves import RECORD
from siddhi.engine.operators.base.choices import NotApplicable
from siddhi.engine.operators.base.operator import OperatorContext, RemovalOrder
from siddhi.engine.operators.expressions.compiler import ExpressionCompiler
from siddhi.engine.operators.expressions.evaluation import ExpressionNode
from siddhi.engine.operators.fused_windows.outputs import OutputCompiler, Outputs
from siddhi.engine.operators.selection.group_properties import is_settled
from siddhi.language.ast import AttributeType, EventType

_STREAMS = frozenset(
    {model.SourceKind.STREAM, model.SourceKind.INNER_STREAM, model.SourceKind.FAULT_STREAM, model.SourceKind.TRIGGER}
)
"""Sources with current events only."""
SLIDING = frozenset({"length", "time", "externalTime", "timeLength"})
"""Windows that rows leave one by one."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A selection that can be fused.

    It has outputs, the keys of its groups, and for each of its aggregates the kind and the argument (None: without
    one).
    """

    outputs: Outputs
    keys: tuple[tuple[str, AttributeType], ...]
    accumulations: tuple[Accumulation, ...]
    arguments: tuple[ExpressionNode | None, ...]
    columns: dict[str, AttributeType]

    @property
    def lasting(self) -> bool:
        """True when an aggregate outlives the rows of its group."""
        return any(accumulation.kind == RECORD for accumulation in self.accumulations)


def shape_of(query: model.AnalysedQuery, context: OperatorContext) -> Shape | NotApplicable:
    """Return the shape of the selection of `query`.

    There is none for a selection that emits other than current events, that sorts, limits or delays rows, or that has
    an expression whose value may depend on more than the row and its aggregates.
    """
    selection, source = query.selection, query.input
    if not isinstance(source, model.SourceInput) or source.kind not in _STREAMS or source.after:
        return NotApplicable("input other than a stream, or handlers after the window")
    held_back = query.rate is not None or selection.order_by or selection.limit is not None or selection.offset
    if query.output.events is not EventType.CURRENT:
        return NotApplicable("expired events are requested")
    if held_back:
        return NotApplicable("`output`, `order by`, `limit` or `offset`")
    expressions = [output.expression for output in selection.attributes]
    if selection.having is not None:
        if has_aggregate(selection.having):
            return NotApplicable("an aggregate in `having`")
        expressions.append(selection.having)
    if not all(map(is_settled, expressions)):
        return NotApplicable("an expression that is not computed from its row and aggregates alone")
    if not all(map(_is_key, selection.group_by)):
        return NotApplicable("`group by` an object or an event")
    slides = source.window is not None and source.window.name in SLIDING
    return _compiled(selection, RemovalOrder.IN_ORDER if slides else RemovalOrder.NEVER, context)


def _compiled(
    selection: model.AnalysedSelection, removal_order: RemovalOrder, context: OperatorContext
) -> Shape | NotApplicable:
    outputs = Outputs(selection, OutputCompiler(context))
    accumulations = [accumulation_of(call, removal_order) for call in outputs.calls.values()]
    compiler = ExpressionCompiler(context)
    arguments = [
        compiler.compile(call.arguments[0]) if accumulation is not None and accumulation.argument is not None else None
        for call, accumulation in zip(outputs.calls.values(), accumulations, strict=True)
    ]
    known = tuple(accumulation for accumulation in accumulations if accumulation is not None)
    nodes = [*outputs.nodes, *(argument for argument in arguments if argument is not None)]
    if len(known) < len(accumulations):
        return NotApplicable("an aggregator whose state is not numeric")
    if any(node.can_fail or node.stateful for node in nodes):
        return NotApplicable("an expression that may fail or depends on earlier events")
    keys = tuple((key.name, key.type) for key in selection.group_by if isinstance(key, model.AttributeValue))
    return Shape(outputs, keys, known, tuple(arguments), {**outputs.columns, **compiler.columns, **dict(keys)})


def _is_key(key: model.AttributeValue | model.EventReference) -> bool:
    return isinstance(key, model.AttributeValue) and key.type in SOURCES
