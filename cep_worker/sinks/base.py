"""The interface of sinks, and the context that each sink gets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import zmq

from cep_common.ids import PlanKey
from cep_common.protocol.links import StreamSchema
from cep_common.protocol.registry import Connector
from cep_common.protocol.worker_reports import TransactionReport, WrittenTopicReport
from cep_common.reach.guard import Guard
from cep_worker.failed_events.entries import FailureOrigin
from cep_worker.failed_events.store import FailedEventStore
from cep_worker.outflows.consumers import ResultConsumer
from cep_worker.plan_links.topic_registry import TopicRegistry
from cep_worker.runtime.event_loop import EventLoop


class EventSink(ResultConsumer, Protocol):
    """Delivers the events of one exported stream to the outside.

    All methods are called on the data thread, and none may block or sleep: a sink that waits for other systems does so
    on its own thread (`cep_worker.sinks.threaded.ThreadedSink`) and reports back through `SinkContext.event_loop`.

    Attributes:
        dropped_events: Events that were dropped since the sink started.
        passes_on: Whether a successor gets the undelivered events when the sink is closed.
    """

    dropped_events: int
    passes_on: bool

    @property
    def delivered_events(self) -> int:
        """Events that have been delivered since the sink started."""

    def tick(self, now_ms: int) -> None:
        """Perform due work, such as retries; called several times a second.

        Args:
            now_ms: Monotonic time in ms.
        """

    def drained(self) -> bool:
        """Return whether everything that was offered has been delivered or dropped."""

    def waiting_events(self) -> int:
        """Return how many events have been offered and are neither delivered nor dropped yet."""

    def last_error(self) -> str:
        """Return the present error for operators, with what to do; empty while all is well."""

    def close(self, successor: EventSink | None = None) -> None:
        """Stop the sink at once, without waiting for other systems, and pass undelivered events to `successor`.

        Args:
            successor: Gets undelivered groups from their beginning. Without a successor, undelivered events are
                returned if their receipt allows it, and otherwise dropped and settled.
        """

    def leave(self) -> None:
        """Stop the sink at once because its worker ends. Nothing undelivered is dropped, and no receipt is settled.

        Publishers send what was not acknowledged to the next process, and logs on the disk still hold their groups.
        """


@runtime_checkable
class TopicMetrics(Protocol):
    """A sink, or its writer, that counts the messages it wrote to each topic. Both are read from other threads."""

    @property
    def written(self) -> tuple[WrittenTopicReport, ...]:
        """Return the topics with the number of messages that the sink has written since it started."""

    @property
    def transactions(self) -> TransactionReport | None:
        """Return its transactions; None for a sink without transactions."""


@dataclass(frozen=True, slots=True)
class SinkContext:
    """Everything that a sink gets from the worker.

    Args:
        connector: The declaration: type, options and mapper.
        key: The plan that declares the sink.
        schema: Attributes of the stream, in the order of the batches' columns.
        event_stream: The event stream whose results the sink takes.
        worker: Name of the worker.
        waiting_rows: How many rows may wait in the sink before `has_room` must return False.
        event_loop: The data thread's loop; `post` runs a call on it from any thread.
        zmq_context: For sinks that open ZeroMQ sockets.
        room: To be called, from any thread, when a sink that was full has room again.
        topics: The topics of `inMemory` sources and sinks.
        errors: Store for events that cannot be delivered.
        label: Distinguishes sinks of the same type and stream.
        guard: What the sink may access; None for sinks that the operator declares.
        given: Names of the options that come from the worker's configuration rather than the plan.
        positions: Folder for what the sink must remember across restarts; empty: none.
    """

    connector: Connector
    key: PlanKey
    schema: StreamSchema
    event_stream: str
    worker: str
    waiting_rows: int
    event_loop: EventLoop
    zmq_context: zmq.Context[zmq.Socket[bytes]]
    room: Callable[[], None]
    topics: TopicRegistry
    errors: FailedEventStore
    label: str
    guard: Guard | None = None
    """What the sink may access; None for sinks that the operator declares."""
    given: frozenset[str] = frozenset()
    positions: str = ""
    """The folder for what the sink must remember across restarts."""

    def origin(self) -> FailureOrigin:
        """Return the origin to store with events that the sink cannot deliver."""
        return FailureOrigin(self.key, self.connector.stream, "sink", self.label)

    def where(self) -> str:
        """Return the sink's name for error messages."""
        return f"@sink(type='{self.connector.type}') of stream {self.connector.stream}"
