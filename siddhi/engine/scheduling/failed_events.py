"""Handle failed events: count and report them, and send them to the fault stream but to no later reader."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from siddhi.engine.columnar.batch import EventBatch
from siddhi.engine.columnar.column import Column
from siddhi.engine.jit.arrays import Int64Array
from siddhi.engine.operators.base.operator import Failures
from siddhi.engine.operators.node import AppNode
from siddhi.engine.streams.junction import Junction
from siddhi.language.ast import AttributeType

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class FailedEvents:
    """Events that failed in `query` for the reason `message`, with their count.

    They came from `stream` (empty: the query's table refused its output), and are dropped, or `redirected` to the fault
    stream.
    """

    query: str
    stream: str
    events: int
    message: str
    redirected: bool = False


FailureListener = Callable[[FailedEvents], None]


class FailureTracker:
    """A tracker that counts the events that fail in an app.

    `outside` maps the key that a stream has inside a partition to the stream outside that feeds it.
    """

    def __init__(self, junctions: Mapping[str, Junction], outside: Mapping[str, str]) -> None:
        self._junctions = junctions
        self._outside = outside
        self.listeners: list[FailureListener] = []
        """The listeners; without any, failures are logged."""

    def take_out(
        self,
        failures: Failures,
        node: AppNode,
        inputs: Sequence[EventBatch],
        told: Sequence[EventBatch],
        arrived: dict[str, EventBatch],
    ) -> list[tuple[str, EventBatch]]:
        """Remove the events of `inputs` that failed in `node` from `arrived`; return the events for fault streams.

        `told` are the inputs in the form that the node received. Later readers inside and outside a partition do not
        receive the failed events.
        """
        faults: list[tuple[str, EventBatch]] = []
        failed, messages = failures.reasons()
        came = np.zeros(len(failed), dtype=np.bool_)
        for source, batch, as_told in zip(node.sources, inputs, told, strict=True):
            rows, reasons = _found(failed, as_told.orders)
            if not len(rows):
                continue
            came[reasons] = True
            arrived[source] = _without(batch, rows)
            outside = self._outside.get(source)
            if outside is None or outside not in arrived:
                faults.extend(self._book(source, batch.take(rows), node.name, messages, reasons))
                continue
            whole = arrived[outside]
            by_unit = batch.units is not None and whole.units is not None
            inner, outer = (batch.units, whole.units) if by_unit else (batch.orders, whole.orders)
            assert inner is not None  # noqa: S101 - just asked
            assert outer is not None  # noqa: S101 - just asked
            marks, first = np.unique(inner[rows], return_index=True)
            rows, places = _found(marks, outer)
            arrived[outside] = _without(whole, rows)
            faults.extend(self._book(outside, whole.take(rows), node.name, messages, reasons[first][places]))
        if not came.all():
            self._report_timer_failures(node, [messages[place] for place in np.flatnonzero(~came).tolist()])
        return faults

    def _report_timer_failures(self, node: AppNode, messages: Sequence[str]) -> None:
        """Report failures of events that a timer of `node` released.

        Such events arrived long ago: there is no batch to remove them from, and no event for a fault stream.
        """
        source = node.sources[0] if node.sources else ""
        for text, count in Counter(messages).items():
            self.tell(FailedEvents(node.name, self._outside.get(source, source), count, text))

    def _book(
        self, key: str, failed: EventBatch, query: str, messages: Sequence[str], reasons: Int64Array
    ) -> list[tuple[str, EventBatch]]:
        """Count and report failed events of stream `key`; return the events for its fault stream, if it has one.

        Event i failed with the message at index `reasons[i]`.
        """
        if not failed.size:
            return []
        junction = self._junctions[key]
        junction.failures += failed.size
        texts = [messages[place] for place in reasons.tolist()]
        for text, count in Counter(texts).items():
            self.tell(FailedEvents(query, key, count, text, junction.redirects))
        if junction.redirects:
            errors = [{"query": query, "message": text} for text in texts]
            error = Column.of(AttributeType.OBJECT, junction.pool, errors)
            return [(f"!{key}", failed.with_columns({**failed.columns, "_error": error}))]
        return []

    def tell(self, failed: FailedEvents) -> None:
        """Report failed events to the listeners."""
        for listener in self.listeners:
            listener(failed)
        if not self.listeners and not failed.redirected:
            what = "event dropped" if failed.stream else "table refused events"
            logger.error("%s stream=%s query=%s events=%d reason=%s", what, failed.stream, failed.query, failed.events,
                         failed.message)  # fmt: skip


def _found(marks: Int64Array, among: Int64Array) -> tuple[Int64Array, Int64Array]:
    """Return the positions in `among` of values in `marks` (ascending), and the position in `marks` of each."""
    places = np.minimum(np.searchsorted(marks, among), len(marks) - 1)
    (rows,) = (marks[places] == among).nonzero()
    return rows, places[rows]


def _without(batch: EventBatch, rows: Int64Array) -> EventBatch:
    kept = np.ones(batch.size, dtype=np.bool_)
    kept[rows] = False
    return batch.take(np.flatnonzero(kept))
