"""What becomes of events that failed: they are counted and told of, go to no later reader, and to the fault stream."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from siddhi.engine.batch import EventBatch
from siddhi.engine.column import Column
from siddhi.engine.junction import Junction
from siddhi.engine.node import Node
from siddhi.engine.operator import Failures
from siddhi.language.ast import AttributeType

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class FailedEvents:
    """So many events failed in `query` for the reason `message`. They were taken from `stream` (empty: the query's
    table refused what it made), and are dropped, or `redirected` to the fault stream."""

    query: str
    stream: str
    events: int
    message: str
    redirected: bool = False


FailureListener = Callable[[FailedEvents], None]


class FailureBook:
    """Books the events that fail in an app; `outside` has the stream that comes into a partition by the name that its
    key has within."""

    def __init__(self, junctions: Mapping[str, Junction], outside: Mapping[str, str]) -> None:
        self._junctions = junctions
        self._outside = outside
        self.listeners: list[FailureListener] = []
        """Who is told; as long as nobody is, the log is."""

    def take_out(
        self, failures: Failures, node: Node, inputs: Sequence[EventBatch], arrived: dict[str, EventBatch]
    ) -> list[tuple[str, EventBatch]]:
        """The events of `inputs` that failed in `node` are taken out of `arrived` for later readers, inside a partition
        and outside; returns what goes to fault streams."""
        faults: list[tuple[str, EventBatch]] = []
        failed = np.unique(np.concatenate(failures.orders))
        for key, batch in zip(node.sources, inputs, strict=True):
            hit = np.isin(batch.orders, failed)
            if not hit.any():
                continue
            arrived[key] = batch.take(np.flatnonzero(~hit))
            outside = self._outside.get(key)
            if outside is not None and outside in arrived:
                key, batch = outside, arrived[outside]  # noqa: PLW2901 - there they are booked
                hit = np.isin(batch.orders, failed)
                arrived[key] = batch.take(np.flatnonzero(~hit))
            faults.extend(self._book(key, batch.take(np.flatnonzero(hit)), node.name, failures.messages[0]))
        return faults

    def _book(self, key: str, failed: EventBatch, query: str, message: str) -> list[tuple[str, EventBatch]]:
        """Counts and tells of failed events of stream `key`; returns what its fault stream gets, if it has one."""
        junction = self._junctions[key]
        junction.failures += failed.size
        self.tell(FailedEvents(query, key, failed.size, message, junction.redirects))
        if junction.redirects:
            pool = junction.pool
            error = Column.of(AttributeType.OBJECT, pool, [{"query": query, "message": message}] * failed.size)
            return [(f"!{key}", failed.with_columns({**failed.columns, "_error": error}))]
        return []

    def tell(self, failed: FailedEvents) -> None:
        """Whoever wants to know of failed events knows of these."""
        for listener in self.listeners:
            listener(failed)
        if not self.listeners and not failed.redirected:
            what = "event dropped" if failed.stream else "table refused events"
            logger.error("%s stream=%s query=%s events=%d reason=%s", what, failed.stream, failed.query, failed.events,
                         failed.message)  # fmt: skip
