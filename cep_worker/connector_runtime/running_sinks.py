"""The supervisor of sinks, which runs exactly those that plans and artefacts declare."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
import zmq

from cep_common.configuration.redaction import redact
from cep_common.configuration.secrets import Secrets
from cep_common.errors import ConfigError, InputError
from cep_common.ids import PlanKey
from cep_common.monitoring.paced_log import PacedLog
from cep_common.reach.guard import Guard
from cep_worker.connector_runtime.labels import ConnectorLabels, form_of, labels_of
from cep_worker.connector_runtime.sink_types import make_sink
from cep_worker.failed_events.entries import FailureOrigin
from cep_worker.failed_events.service import ReplayAttempt, fitting
from cep_worker.failed_events.store import FailedEventStore
from cep_worker.outflows.consumers import FrameId, GroupId, ResultConsumer
from cep_worker.outflows.receipts import DeliveryReceipt
from cep_worker.plan_links.topic_registry import TopicRegistry
from cep_worker.plans.connectors import DeclaredConnector, with_secrets
from cep_worker.plans.streams import Attributes, SchemaFit
from cep_worker.runtime.error_tracking import PlanError
from cep_worker.runtime.event_loop import EventLoop
from cep_worker.runtime.worker_metrics import ConnectorMetrics, connector_metrics
from cep_worker.sinks.base import EventSink, SinkContext, TopicMetrics
from cep_worker.sinks.distribution import RoundRobinSink, shared_rows, threaded_in
from cep_worker.sinks.threaded import ThreadedSink
from query_plan.connectors.distribution import DestinationShare, share_of

logger = logging.getLogger(__name__)
paced_logger = PacedLog(logger)

Who = tuple[PlanKey, str, str]
"""Identifies a sink: plan, stream, and its name there."""
ENDING_MS = 30_000
"""How long a removed sink may continue delivering its events. If that fails, its successor gets them at once."""


REMAKE_MS = 5_000
"""Interval between attempts to create a sink that could not be created."""


class _MissingSink:
    """The placeholder of a sink that cannot be created: it accepts nothing, so results wait."""

    def has_room(self) -> bool:
        return False

    def offer(self, batch: pa.RecordBatch, body: Any, receipt: DeliveryReceipt, frame: FrameId | None = None) -> None:
        raise AssertionError("a consumer without room is not offered batches")

    def commit(self, group: GroupId, receipt: DeliveryReceipt) -> None:
        raise AssertionError("a consumer that was offered nothing has nothing to commit")


class _SinkTap:
    """Adapts a sink to one plan's stream, whose columns may be in another order.

    Results from before an edit of the stream are converted to its present attributes; those that do not fit go to
    `failed`, with the reason.
    """

    lasting = True

    def __init__(
        self,
        name: str,
        form: str,
        sink: ResultConsumer,
        attributes: Attributes,
        failed: Callable[[pa.RecordBatch, str], int],
        share: DestinationShare | None = None,
    ) -> None:
        self._share = share
        self._attributes = attributes
        self.name = name
        self.form = form
        self._sink = sink
        self._fit = SchemaFit(attributes)
        self._failed = failed

    def has_room(self) -> bool:
        return self._sink.has_room()

    def offer(self, batch: pa.RecordBatch, body: Any, receipt: DeliveryReceipt, frame: FrameId | None = None) -> None:
        if self._fit.is_whole(batch):
            self._offer(batch, body, receipt, frame)
        elif problem := self._fit.problem(batch):
            self._failed(batch, f"its stream was edited: {problem}")
            receipt.settle()
        else:
            self._offer(self._fit.fitted(batch), None, receipt, frame)

    def commit(self, group: GroupId, receipt: DeliveryReceipt) -> None:
        self._sink.commit(group, receipt)

    def _offer(self, batch: pa.RecordBatch, body: Any, receipt: DeliveryReceipt, frame: FrameId | None) -> None:
        if self._share is None:
            self._sink.offer(batch, body, receipt, frame)
            return
        rows = shared_rows(batch, self._share, self._attributes)
        if len(rows):
            part = None if frame is None else frame.part(rows)
            self._sink.offer(batch.take(pa.array(rows)), None, receipt, part)
        else:
            receipt.settle()


@dataclass(slots=True)
class _RunningSink:
    declared: DeclaredConnector
    sink: EventSink | None
    error: str
    label: str
    """Its type, with a number if the stream has several of it."""
    tried_ms: int | None = None
    """When creating it failed for the first time, or was last retried."""

    def change_to(self, declaration: DeclaredConnector) -> None:
        """Change the declaration; the stream of an artefact may belong to other plans than before."""
        self.declared = declaration
        origin = FailureOrigin(declaration.plan(), declaration.connector.stream, "sink", self.label)
        if isinstance(self.sink, ThreadedSink | RoundRobinSink):
            self.sink.keep_as(origin)

    def name(self) -> str:
        """Return the sink's name among the consumers of a stream."""
        return self.label if self.declared.key is not None else f"artefact {self.label}"

    def form(self) -> str:
        """Return a form without secrets that is equal for equal declarations, in all processes."""
        return form_of(self.declared.connector)

    def waiting_on_disk(self, on_disk: Mapping[Who, int]) -> int:
        """Return the number of results on disk that wait for it."""
        members = self.declared.stream.members
        return sum(on_disk.get((one.key, one.binding.stream, self.name()), 0) for one in members)

    def is_at(self, key: PlanKey, stream: str) -> bool:
        """Return whether it is a sink of the plan's stream, as the error store knows these."""
        declared = self.declared
        return declared.plan() == key and declared.connector.stream == stream


@dataclass(frozen=True, slots=True, eq=False)
class _EndingSink:
    """A removed sink, the time of its removal, and the successor that gets what it cannot deliver."""

    sink: EventSink
    since_ms: int
    successor: EventSink | None


class SinkSupervisor:
    """Starts and stops sinks.

    A sink that cannot be created is reported, and its results wait until it can; the rest of its plan runs.
    """

    def __init__(
        self,
        event_loop: EventLoop,
        context: zmq.Context[zmq.Socket[bytes]],
        worker: str,
        waiting_rows: int,
        room: Callable[[], None],
        topics: TopicRegistry,
        errors: FailedEventStore,
        guard: Guard,
        secrets: Secrets,
        positions: str = "",
    ) -> None:
        self._positions = positions
        self._labels = ConnectorLabels(positions, "sink")
        self._secrets = secrets
        self._guard = guard
        self._event_loop = event_loop
        self._context = context
        self._worker = worker
        self._waiting_rows = waiting_rows
        self._room = room
        self._topics = topics
        self._errors = errors
        self._running: list[_RunningSink] = []
        self._ending: list[_EndingSink] = []
        self._taps: dict[tuple[PlanKey, str], list[_SinkTap]] = {}

    def apply(self, wanted: list[DeclaredConnector], now_ms: int) -> None:
        """Run exactly the sinks that `wanted` declares; unchanged ones continue."""
        before, self._running = self._running, []
        kept: list[_RunningSink | None] = []
        for declaration in wanted:
            same = next((running for running in before if _alike(running.declared, declaration)), None)
            if same is not None:
                before.remove(same)
                same.change_to(declaration)
            kept.append(same)
        edited = {one.declared.plan() for one in before}
        labels = labels_of(wanted, [None if one is None else one.label for one in kept], edited, self._labels)
        for same, declaration, label in zip(kept, wanted, labels, strict=True):
            self._running.append(self._start(declaration, label) if same is None else same)
        for running in before:
            if running.sink is not None:
                self._ending.append(_EndingSink(running.sink, now_ms, self._successor(running, kept)))
        self._tap()

    def delete_labels(self, keys: Collection[PlanKey]) -> None:
        """Delete what is kept of undeployed plans that have no sinks any more."""
        self._labels.delete(keys)

    def _successor(self, former: _RunningSink, kept: list[_RunningSink | None]) -> EventSink | None:
        """Return the new sink that replaces the `former` one: it has its label."""
        for running in self._running:
            one = running.declared
            same = (one.connector.stream, running.label) == (former.declared.connector.stream, former.label)
            if running not in kept and same and one.is_at(former.declared):
                return running.sink
        return None

    def taps(self, key: PlanKey, stream: str) -> list[_SinkTap]:
        """Return the sinks of an exported stream."""
        return self._taps.get((key, stream), [])

    def replay(self, key: PlanKey, stream: str, sink: str, batch: pa.RecordBatch, attempt: ReplayAttempt) -> None:
        """Deliver failed events again with the sink called `sink`.

        `attempt` learns the outcome, or why the sink cannot try.
        """
        there = [running for running in self._running if running.is_at(key, stream)]
        found = next((running for running in there if running.label == sink), None)
        if found is None:
            names = ", ".join(running.label for running in there) or "none"
            attempt.refuse(InputError("no-sink", f"{stream} of {key.plan} has no sink {sink} now; it has: {names}"))
        elif not (threaded := threaded_in(found.sink)):
            attempt.refuse(
                InputError("no-sink", found.error or f"the sink {sink} of {stream} does not accept events again")
            )
        elif not threaded[0].has_room():
            attempt.refuse(InputError("no-room", f"the sink {sink} of {stream} is busy; replay the entry again"))
        else:
            try:
                events = fitting(batch, found.declared.stream.schema)
            except InputError as error:
                attempt.refuse(error)
            else:
                threaded[0].replay(events, attempt)

    def errors_found(self) -> Iterator[PlanError]:
        """Return the state of each sink of each plan."""
        for running in self._running:
            connector, sink = running.declared.connector, running.sink
            error = running.error or (redact(sink.last_error()) if sink is not None else "")
            dropped = sink.dropped_events if sink is not None else 0
            for member in running.declared.stream.members:
                yield PlanError(member.key, f"sink {connector.type} of {connector.stream}", "sink", error, dropped)

    def metrics(self, on_disk: Mapping[Who, int]) -> tuple[ConnectorMetrics, ...]:
        """Return the metrics of all sinks; `on_disk` results wait, by stream and sink of a plan."""
        return tuple(
            connector_metrics("sink", one.declared, one.error, one.waiting_on_disk(on_disk))
            if one.sink is None
            else connector_metrics(
                "sink",
                one.declared,
                redact(one.sink.last_error()),
                max(one.sink.waiting_events(), one.waiting_on_disk(on_disk)),  # some are in both
                one.sink.dropped_events,
                one.sink.delivered_events,
                written=one.sink.written if isinstance(one.sink, TopicMetrics) else (),
                transactions=one.sink.transactions if isinstance(one.sink, TopicMetrics) else None,
            )
            for one in self._running
        )

    def tick(self, now_ms: int) -> None:
        """Tick all sinks, and end removed ones that have delivered their last events."""
        for sink in self._sinks():
            sink.tick(now_ms)
        self._remake(now_ms)
        for ending in list(self._ending):
            sink = ending.sink
            passes_on = ending.successor is not None and sink.passes_on and bool(sink.last_error())
            if sink.drained() or passes_on or now_ms - ending.since_ms >= ENDING_MS:
                sink.close(ending.successor)
                self._ending.remove(ending)

    def drained(self) -> bool:
        """Return whether every sink has delivered all of its events."""
        return all(sink.drained() for sink in self._sinks())

    def close(self) -> None:
        """End all sinks with the worker.

        The next process delivers what is left for declared sinks, but may not know the others. Results of plans with
        at-most-once delivery were acknowledged when the sink accepted them, so they are dropped.
        """
        for running in self._running:
            if running.sink is None:
                continue
            if running.declared.delivery == "at-most-once":
                running.sink.close()
            else:
                running.sink.leave()
        for ending in self._ending:
            ending.sink.close()
        self._running, self._ending, self._taps = [], [], {}

    def _sinks(self) -> list[EventSink]:
        running = [running.sink for running in self._running if running.sink is not None]
        return running + [ending.sink for ending in self._ending]

    def _remake(self, now_ms: int) -> None:
        """Retry creating the sinks that could not be created."""
        made = False
        for running in self._running:
            if running.sink is not None:
                continue
            if running.tried_ms is None:
                running.tried_ms = now_ms
            elif now_ms - running.tried_ms >= REMAKE_MS:
                running.tried_ms = now_ms
                again = self._start(running.declared, running.label)
                running.sink, running.error = again.sink, again.error
                made = made or again.sink is not None
        if made:
            self._tap()
            self._room()

    def _start(self, declaration: DeclaredConnector, label: str) -> _RunningSink:
        where = f"{declaration.plan().topology()} {declaration.connector.stream} {label}"
        try:
            connector = with_secrets(declaration, self._secrets)
        except ConfigError as error:
            paced_logger.problem(where, "sink cannot run: %s", error, level=logging.ERROR)
            return _RunningSink(declaration, None, error.message, label)
        context = SinkContext(
            connector=connector,
            key=declaration.plan(),
            schema=declaration.stream.schema,
            event_stream=declaration.stream.members[0].binding.event_stream,
            worker=self._worker,
            waiting_rows=self._waiting_rows,
            event_loop=self._event_loop,
            zmq_context=self._context,
            room=self._room,
            topics=self._topics,
            errors=self._errors,
            label=label,
            guard=None if declaration.key is None else self._guard,
            given=declaration.given,
            positions=self._positions,
        )
        try:
            sink = make_sink(context)
        except ConfigError as error:
            paced_logger.problem(where, "sink cannot run: %s", error, level=logging.ERROR)
            return _RunningSink(declaration, None, redact(error.message), label)
        paced_logger.over(where, "sink can run now: %s", context.where())
        return _RunningSink(declaration, sink, "", label)

    def _tap(self) -> None:
        self._taps = {}
        for running in self._running:
            stream = running.declared.stream
            share = share_of(running.declared.connector.options)
            for member in stream.members:
                failed = partial(self._errors.keep_of_sink, member.key, member.binding.stream, running.label)
                taps = self._taps.setdefault((member.key, member.binding.stream), [])
                name = running.name()
                while name in {one.name for one in taps}:
                    name += "+"
                tap = _SinkTap(
                    name, running.form(), running.sink or _MissingSink(), stream.schema.attributes, failed, share
                )
                taps.append(tap)


def _alike(one: DeclaredConnector, other: DeclaredConnector) -> bool:
    """Return whether both declare the same sink, perhaps for other plans or a renamed plan.

    The name of the plan only matters for sinks that show it, such as `log`.
    """
    if one.connector.type == "log" and one.plan().plan != other.plan().plan:
        return False
    return one.is_like(other)
