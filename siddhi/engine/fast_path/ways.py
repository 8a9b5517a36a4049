"""Which queries that keep something have a short way."""

from __future__ import annotations

from collections.abc import Mapping

from siddhi.analysis import model
from siddhi.engine.fast_path.chain_way import chain_way
from siddhi.engine.fast_path.instance_keys import instance_keys
from siddhi.engine.fast_path.join_way import join_way
from siddhi.engine.fast_path.lookup_way import lookup_way
from siddhi.engine.fast_path.sliding_way import sliding_way
from siddhi.engine.fast_path.tumbling_way import tumbling_way
from siddhi.engine.fast_path.way import Way
from siddhi.engine.operators.filters import Filter
from siddhi.engine.operators.fused_windows.sliding import SlidingSelection
from siddhi.engine.operators.fused_windows.tumbling import TumblingSelection
from siddhi.engine.operators.joins.join import JoinOperator
from siddhi.engine.operators.node import Node
from siddhi.engine.operators.partitions.keys import KeyedStream
from siddhi.engine.operators.patterns.chain.operator import ChainOperator
from siddhi.engine.operators.selection.plain_query import plain_tests
from siddhi.engine.operators.selection.selector import Selector
from siddhi.engine.planner.query import Query
from siddhi.language.ast import AttributeType


def short_way(
    query: Query,
    stream: str,
    source: Mapping[str, AttributeType],
    types: Mapping[str, AttributeType],
    entrance: Node | None,
) -> Way | None:
    """The short way of events of `stream`, which have the attributes `source`, through `query`, which feeds a stream
    with the attributes `types`; `entrance` is how they come into its partition. None when there is none."""
    if query.limiter is not None or query.timed:
        return None
    head, selector, keys = query.head, query.selector, None
    if query.by_key:
        keys = instance_keys(entrance, query.name) if isinstance(entrance, KeyedStream) else None
        if keys is None:
            return None
    if isinstance(head, ChainOperator) and isinstance(selector, Selector) and selector.hands_out:
        return chain_way(head, selector.hands_out, stream, source, types, keys)
    if isinstance(head, JoinOperator):
        return None if query.by_key else _joining(query, head, stream, types)
    tests = plain_tests(query.analysed.input) if isinstance(query.analysed.input, model.SourceInput) else None
    if tests is None:
        return None
    if isinstance(query.fused, SlidingSelection):
        return sliding_way(query.fused, source, types, tests, keys)
    if isinstance(query.fused, TumblingSelection) and not query.by_key:
        return tumbling_way(query.fused, tests)
    return None


def _joining(query: Query, head: JoinOperator, stream: str, types: Mapping[str, AttributeType]) -> Way | None:
    """As `short_way`, for a query that joins."""
    join = query.analysed.input
    if not query.hands_on or not isinstance(join, model.Join):
        return None
    slot = 0 if head.sides[0].source == stream else 1
    tests = plain_tests((join.left, join.right)[slot])
    if tests is None or not all(isinstance(operator, Filter) for operator in head.sides[slot].chain):
        return None
    return join_way(head, slot, types, tests) or lookup_way(head, types, tests)
