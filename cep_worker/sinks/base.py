"""What a sink is, and what one is given to work with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import zmq

from cep_common.ids import PlanKey
from cep_common.protocol.links import StreamSchema
from cep_common.protocol.registry import Connector
from cep_common.reach.guard import Guard
from cep_worker.failed_events.entries import FailureOrigin
from cep_worker.failed_events.store import FailedEventStore
from cep_worker.outflows.consumers import ResultConsumer
from cep_worker.plan_links.topic_registry import TopicRegistry
from cep_worker.runtime.event_loop import EventLoop


class EventSink(ResultConsumer, Protocol):
    """Takes the events of one exported stream.

    All methods are called on the data thread and none blocks. `dropped_events` counts those that could not be delivered
    for good. `passes_on` says whether a successor gets what the sink cannot deliver.
    """

    dropped_events: int
    passes_on: bool

    @property
    def delivered_events(self) -> int:
        """How many events have been delivered since the sink started."""

    def tick(self, now_ms: int) -> None:
        """Time passes."""

    def drained(self) -> bool:
        """Return whether everything that was offered has been delivered."""

    def waiting_events(self) -> int:
        """Return how many events have been offered and not been delivered yet."""

    def last_error(self) -> str:
        """Return what is wrong now, or nothing while all is well."""

    def close(self, successor: EventSink | None = None) -> None:
        """Stop the sink at once and pass everything undelivered to `successor`.

        Groups go to the successor from their beginning. Without one, the events are given up and settled.
        """


@dataclass(frozen=True, slots=True)
class SinkContext:
    """What every sink is given: the connector that declares it, the plan, and the stream's schema.

    `label` tells sinks of one type and stream apart.

    `room` is to be called, from any thread, when a full sink has room again.
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
    """What the sink may reach; None where the operator declares it."""
    given: frozenset[str] = frozenset()
    positions: str = ""
    """The folder of what a sink must know again in the next process."""

    def origin(self) -> FailureOrigin:
        """Return where the events come from that the sink cannot deliver."""
        return FailureOrigin(self.key, self.connector.stream, "sink", self.label)

    def where(self) -> str:
        """Return the sink as errors name it."""
        return f"@sink(type='{self.connector.type}') of stream {self.connector.stream}"
