"""Which queries that keep something have a short way."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from siddhi.engine.fused.keyed import KeyedSlidingSelection
from siddhi.engine.fused.sliding import SlidingSelection
from siddhi.engine.joins.join import JoinOperator
from siddhi.engine.pattern.chain import ChainOperator
from siddhi.engine.selector import Selector
from siddhi.engine.shortcuts.chain_way import chain_way
from siddhi.engine.shortcuts.join_way import join_way
from siddhi.engine.shortcuts.sliding_way import sliding_way
from siddhi.engine.shortcuts.way import Way
from siddhi.language.ast import AttributeType

if TYPE_CHECKING:
    from siddhi.engine.query import Query


def short_way(
    query: Query,
    stream: str,
    source: Mapping[str, AttributeType],
    types: Mapping[str, AttributeType],
    *,
    playback: bool,
) -> Way | None:
    """The short way of events of `stream`, which have the attributes `source`, through `query`, which feeds a stream
    with the attributes `types`; None when it has none."""
    if query.by_key or query.chain or query.limiter is not None or query.timed:
        return None
    fused = query.fused
    if isinstance(fused, SlidingSelection) and not isinstance(fused, KeyedSlidingSelection):
        return sliding_way(fused, source, types, playback=playback)
    if isinstance(query.head, JoinOperator) and query.hands_on:
        return join_way(query.head, stream, types)
    if isinstance(query.head, ChainOperator) and isinstance(query.selector, Selector) and query.selector.hands_out:
        return chain_way(query.head, query.selector.hands_out, stream, source, types)
    return None
