"""Sinks with `@distribution`: partitioned and round-robin destinations."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from cep_common.errors import ConfigError
from cep_common.protocol.worker_reports import TransactionReport, WrittenTopicReport
from cep_worker.failed_events.entries import FailureOrigin
from cep_worker.formats.value_texts import text_column
from cep_worker.outflows.consumers import FrameId, GroupId, Rows
from cep_worker.outflows.receipts import DeliveryReceipt
from cep_worker.sinks.base import EventSink, SinkContext, TopicMetrics
from cep_worker.sinks.threaded import ThreadedSink
from query_plan.connectors.distribution import DestinationShare, destinations_of, own_options
from siddhi.column_names import column_name
from siddhi.engine.columnar.java_order import string_hashes

logger = logging.getLogger(__name__)

FAILING_MS = 2_000
"""How long a destination may fail until the others get its events."""
AGAIN_MS = 10_000
"""How long until it is retried."""
_NULL = "null"
_BITS = 32


def shared_rows(batch: pa.RecordBatch, share: DestinationShare, kinds: Sequence[tuple[str, str]]) -> Rows:
    """Return the rows of `batch` that belong to the destination, as Siddhi distributes them.

    The hash code is Java's, of the key as text, so that other programs can determine the destination.

    Args:
        batch: The events.
        share: Which of them are wanted.
        kinds: The attributes of the stream, with their types.
    """
    kind = dict(kinds)[share.key]
    keys = batch.column(column_name(share.key)).dictionary_encode("encode")
    texts = [_NULL if text is None else text for text in text_column(kind, keys.dictionary)]
    codes = string_hashes(texts)
    signed = np.where(codes >= 1 << (_BITS - 1), codes - (1 << _BITS), codes)
    wanted = np.abs(signed) % share.count == share.index
    return np.flatnonzero(wanted[keys.indices.to_numpy()])


@dataclass(slots=True)
class _Destination:
    """A destination, since when it has failed (`failing_ms`), and until when it gets no events (`away_ms`)."""

    context: SinkContext
    sink: EventSink
    number: int
    failing_ms: int | None = None
    away_ms: int | None = None
    problem: str = ""


class RoundRobinSink:
    """A sink that distributes events to its destinations in turn.

    A failed destination is skipped until it is retried, and its undelivered events go to the others. In plans that
    deliver exactly once each event keeps its destination and waits for it, since another one might deliver it again.
    """

    passes_on = True

    def __init__(self, context: SinkContext, make: Callable[[SinkContext], EventSink]) -> None:
        """Create the sinks of all destinations.

        Raises:
            ConfigError: one of them cannot run.
        """
        self._make = make
        self._where = context.where()
        self._origin = context.origin()
        self.dropped_events = 0
        """Events that no destination could deliver."""
        self._room = context.room
        self._next = 0
        self._ended: list[EventSink] = []
        """Sinks that pass on their undelivered events."""
        self._ended_dropped = self._ended_delivered = 0
        self._ended_written: dict[str, int] = {}
        self._grouped = False
        self._destinations: list[_Destination] = []
        each, written = destinations_of(context.connector), own_options(context.connector.options)
        many = max(1, context.waiting_rows // len(each))
        try:
            for number, connector in enumerate(each):
                label = f"{context.label}.{number}"  # each destination has its own transactions and sequence numbers
                # options of the plan that override the operator's need permission
                given = context.given.difference(*written[number : number + 1])
                own = replace(context, connector=connector, label=label, waiting_rows=many, given=given)
                self._destinations.append(_Destination(own, self._made(own), number))
        except Exception:
            for made in self._destinations:
                made.sink.close()
            raise

    @property
    def delivered_events(self) -> int:
        """Events that any destination has delivered."""
        return self._ended_delivered + sum(one.delivered_events for one in self._sinks())

    @property
    def written(self) -> tuple[WrittenTopicReport, ...]:
        """See TopicMetrics."""
        counts = _written_in_all(self._ended_written, self._sinks())
        return tuple(WrittenTopicReport(*one) for one in sorted(counts.items()))

    @property
    def transactions(self) -> TransactionReport | None:
        """See TopicMetrics."""
        found = [one.transactions for one in self._sinks() if isinstance(one, TopicMetrics) and one.transactions]
        if not found:
            return None
        return TransactionReport(
            sum(one.committed for one in found), sum(one.aborted for one in found),
            max(one.checkpoint for one in found), any(one.in_doubt for one in found),
        )  # fmt: skip

    def has_room(self) -> bool:
        if self._grouped:
            return all(one.sink.has_room() for one in self._destinations)
        return any(one.sink.has_room() for one in self._present())

    def offer(self, batch: pa.RecordBatch, body: Any, receipt: DeliveryReceipt, frame: FrameId | None = None) -> None:
        self._grouped = frame is not None
        if frame is not None:
            takers = self._destinations
            first = frame.number
        else:
            takers = [one for one in self._present() if one.sink.has_room()] or self._present()
            first, self._next = self._next, (self._next + batch.num_rows) % (1 << 62)
        parts = zip(takers, _turns(batch.num_rows, first, len(takers)), strict=True)
        given = [(one, rows) for one, rows in parts if len(rows)]
        if not given:
            receipt.settle()
        shared = _DestinationParts(receipt, len(given))
        for one, rows in given:
            one.sink.offer(
                batch.take(pa.array(rows)), None, shared.receipt(), None if frame is None else frame.part(rows)
            )

    def commit(self, group: GroupId, receipt: DeliveryReceipt) -> None:
        shared = _DestinationParts(receipt, len(self._destinations))
        for one in self._destinations:
            one.sink.commit(group, shared.receipt())

    def threaded(self) -> list[ThreadedSink]:
        """Return the destinations' sinks that can replay failed events, healthy ones first."""
        sinks = [one.sink for one in sorted(self._destinations, key=lambda one: one.away_ms is not None)]
        return [one for one in sinks if isinstance(one, ThreadedSink)]

    def keep_as(self, origin: FailureOrigin) -> None:
        """Store failed events with `origin` from now on."""
        self._origin = origin
        for one in self.threaded():
            one.keep_as(origin)

    def tick(self, now_ms: int) -> None:
        for sink in self._sinks():
            sink.tick(now_ms)
        for ended in [one for one in self._ended if one.drained()]:
            self._ended.remove(ended)
            self._ended_dropped += ended.dropped_events
            self._ended_delivered += ended.delivered_events
            self._ended_written = _written_in_all(self._ended_written, [ended])
        self.dropped_events = self._ended_dropped + sum(one.dropped_events for one in self._sinks())
        for one in self._destinations:
            self._watch(one, now_ms)

    def drained(self) -> bool:
        return all(one.drained() for one in self._sinks())

    def waiting_events(self) -> int:
        return sum(one.waiting_events() for one in self._sinks())

    def last_error(self) -> str:
        for one in self._destinations:
            if error := one.sink.last_error() or one.problem:
                return f"destination {one.number + 1} of {len(self._destinations)}: {error}"
        return ""

    def close(self, successor: EventSink | None = None) -> None:
        for sink in self._sinks():
            sink.close(successor)

    def leave(self) -> None:
        for sink in self._sinks():
            sink.leave()

    def _watch(self, one: _Destination, now_ms: int) -> None:
        """Exclude a failing destination, and include it again after a while."""
        if one.away_ms is not None:
            if now_ms >= one.away_ms:
                one.away_ms, one.failing_ms, one.problem = None, None, ""
                self._room()
            return
        error = one.sink.last_error()
        if not error or one.sink.drained():
            one.failing_ms = None
        elif one.failing_ms is None:
            one.failing_ms = now_ms
        elif now_ms - one.failing_ms >= FAILING_MS and not self._grouped and one.sink.passes_on:
            others = [other for other in self._present() if other is not one and not other.sink.last_error()]
            if others:
                self._move(one, others[0], error, now_ms)

    def _move(self, one: _Destination, other: _Destination, error: str, now_ms: int) -> None:
        """Move the undelivered events of `one` to `other`."""
        logger.warning("destination failed, its events go to the others: sink=%s destination=%d events=%d reason=%s",
                       self._where, one.number + 1, one.sink.waiting_events(), error)  # fmt: skip
        one.away_ms, one.problem = now_ms + AGAIN_MS, error
        try:
            made = self._made(one.context)
        except ConfigError as wrong:  # it keeps its events until a new sink can be created
            one.problem = wrong.message
            return
        former, one.sink = one.sink, made
        self._ended.append(former)
        former.close(other.sink)

    def _present(self) -> list[_Destination]:
        """Return the destinations in use: all of them if every one fails."""
        return [one for one in self._destinations if one.away_ms is None] or self._destinations

    def _sinks(self) -> list[EventSink]:
        return [*(one.sink for one in self._destinations), *self._ended]

    def _made(self, context: SinkContext) -> EventSink:
        sink = self._make(context)
        if isinstance(sink, ThreadedSink):
            sink.keep_as(self._origin)
        return sink


def threaded_in(sink: EventSink | None) -> list[ThreadedSink]:
    """Return the threaded sinks of which `sink` consists."""
    if isinstance(sink, RoundRobinSink):
        return sink.threaded()
    return [sink] if isinstance(sink, ThreadedSink) else []


def _written_in_all(before: Mapping[str, int], sinks: Iterable[EventSink]) -> dict[str, int]:
    """Return the number of messages written to each topic, by the sinks and in `before`."""
    counts = dict(before)
    for sink in sinks:
        for one in sink.written if isinstance(sink, TopicMetrics) else ():
            counts[one.topic] = counts.get(one.topic, 0) + one.messages
    return counts


class _DestinationParts:
    """The parts of a frame at several destinations, which is delivered when all parts are."""

    def __init__(self, receipt: DeliveryReceipt, count: int) -> None:
        self._receipt = receipt
        self._left = count
        self._lost = 0
        self._given_back = False

    def receipt(self) -> DeliveryReceipt:
        """Return the receipt of one part."""

        def delivered() -> None:
            self._lost += mine.lost_rows
            self._settled()

        mine = DeliveryReceipt(1, delivered, self._return if self._receipt.takes_back else None)
        return mine

    def _return(self) -> None:
        self._given_back = True
        self._settled()

    def _settled(self) -> None:
        self._left -= 1
        if self._left:
            return
        if self._given_back:
            self._receipt.give_back()
        else:
            self._receipt.settle(self._lost)


def _turns(rows: int, first: int, count: int) -> list[Rows]:
    """Return the rows of each destination if the first row is event number `first`."""
    numbers = np.arange(rows, dtype=np.int64)
    return [numbers[(numbers + first) % count == index] for index in range(count)]
