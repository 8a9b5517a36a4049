"""Choose the fast path for a query."""

from __future__ import annotations

from collections.abc import Mapping

from siddhi.analysis import model
from siddhi.engine.fast_path.chain_route import chain_route
from siddhi.engine.fast_path.instance_keys import instance_keys
from siddhi.engine.fast_path.join_route import join_route
from siddhi.engine.fast_path.lookup_route import lookup_route
from siddhi.engine.fast_path.route import FastRoute
from siddhi.engine.fast_path.selection_route import selection_route
from siddhi.engine.fast_path.sliding_route import sliding_route
from siddhi.engine.fast_path.tumbling_route import tumbling_route
from siddhi.engine.operators.filters import Filter
from siddhi.engine.operators.fused_windows.sliding import SlidingSelection
from siddhi.engine.operators.fused_windows.tumbling import TumblingSelection
from siddhi.engine.operators.joins.join import JoinOperator
from siddhi.engine.operators.node import AppNode
from siddhi.engine.operators.partitions.keys import KeyedStream
from siddhi.engine.operators.patterns.chain.operator import ChainOperator
from siddhi.engine.operators.selection.plain_query import plain_tests
from siddhi.engine.operators.selection.selector import Selector
from siddhi.engine.planner.query import QueryNode
from siddhi.language.ast import AttributeType


def fast_route(
    query: QueryNode,
    stream: str,
    source: Mapping[str, AttributeType],
    types: Mapping[str, AttributeType],
    entrance: AppNode | None,
) -> FastRoute | None:
    """Return the fast route of events of `stream` through `query`, None when there is none.

    The events have the attributes `source`, and the target stream the attributes `types`; `entrance` is the way into
    the query's partition.
    """
    if query.limiter is not None or query.timed:
        return None
    head, selector, keys = query.head, query.selector, None
    if query.by_key:
        keys = instance_keys(entrance, query.name) if isinstance(entrance, KeyedStream) else None
        if keys is None:
            return None
    if isinstance(head, ChainOperator) and isinstance(selector, Selector) and selector.hands_out:
        return chain_route(head, selector.hands_out, stream, source, types, keys)
    if isinstance(head, JoinOperator):
        return None if query.by_key else _joining(query, head, stream, types)
    if query.fused is None and not query.plain:
        return selection_route(query, source, types, keys)
    tests = plain_tests(query.analysed.input) if isinstance(query.analysed.input, model.SourceInput) else None
    if tests is None:
        return None
    if isinstance(query.fused, SlidingSelection):
        return sliding_route(query.fused, query.analysed.selection, query.context, source, types, tests, keys)
    if isinstance(query.fused, TumblingSelection) and not query.by_key:
        return tumbling_route(query.fused, tests)
    return None


def _joining(query: QueryNode, head: JoinOperator, stream: str, types: Mapping[str, AttributeType]) -> FastRoute | None:
    """Return the fast route of a query that joins, as `fast_route` does."""
    join = query.analysed.input
    if not query.hands_on or not isinstance(join, model.Join):
        return None
    slot = 0 if head.sides[0].source == stream else 1
    tests = plain_tests((join.left, join.right)[slot])
    if tests is None or not all(isinstance(operator, Filter) for operator in head.sides[slot].chain):
        return None
    return join_route(head, slot, types, tests) or lookup_route(head, types, tests)
