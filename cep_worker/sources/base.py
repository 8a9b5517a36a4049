"""The interface of sources, and the context that each source gets."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import pyarrow as pa
import zmq

from cep_common.protocol.links import StreamSchema
from cep_common.protocol.worker_reports import PartitionReport
from cep_common.reach.guard import Guard
from cep_worker.config import FileSourcesConfig, IngressConfig, WorkerHttpConfig
from cep_worker.failed_events.service import ReplayAttempt
from cep_worker.failed_events.store import FailedEventStore
from cep_worker.http.servers import HttpServers
from cep_worker.ingest.routing import Route
from cep_worker.ingest.submissions import SubmissionQueue
from cep_worker.plan_links.topic_registry import TopicRegistry
from cep_worker.plans.connectors import DeclaredConnector
from cep_worker.plans.streams import EventStream
from cep_worker.runtime.event_loop import EventLoop
from cep_worker.storage.group_commit import DiskSync


class MakeRoute(Protocol):
    """Makes a route from a source, with batches of a given schema, to an event stream's inflows."""

    def __call__(self, source: Hashable, offered: StreamSchema, stream: EventStream, /) -> Route: ...


class EventSource(Protocol):
    """Brings events of one stream into the worker.

    All methods are called on the data thread, and none may block or sleep: a source that waits for other systems does
    so on its own thread and passes batches to `SourceContext.submit`.
    """

    @property
    def error(self) -> str:
        """Return the present error for operators, with what to do; empty without an error."""

    @property
    def partitions(self) -> tuple[PartitionReport, ...]:
        """Return positions in the partitions of topics that it reads; empty for sources without topics."""

    @property
    def dropped_events(self) -> int:
        """Return the number of events that were dropped since the source started."""

    @property
    def delivered_events(self) -> int:
        """Return the number of events accepted since the source started."""

    def retry(self, now_ms: int) -> None:
        """Retry batches that wait for room in the inflows.

        Args:
            now_ms: Monotonic time in ms.
        """

    def reroute(self, declared: DeclaredConnector, now_ms: int) -> None:
        """Handle a change of the deployed plans.

        Args:
            declared: The same declaration with the present stream, possibly of other plans.
            now_ms: Monotonic time in ms.
        """

    def tick(self, now_ms: int) -> None:
        """Perform due work, such as polling or reconnecting.

        Args:
            now_ms: Monotonic time in ms.
        """

    def close(self) -> None:
        """Stop accepting events and release all resources. Submitted events stay in the worker."""


class UncountedSource:
    """Defaults for a source that does not count its events itself and reads no topics."""

    partitions: tuple[PartitionReport, ...] = ()
    dropped_events = 0
    delivered_events = 0


@runtime_checkable
class ReplayableSource(Protocol):
    """A source that can replay events that it stored as failed."""

    def replay(self, batch: pa.RecordBatch, attempt: ReplayAttempt) -> None:
        """Replay events that the source stored as failed.

        Args:
            batch: The events as the source stored them.
            attempt: Receives the outcome.
        """


@dataclass(frozen=True, slots=True)
class SourceContext:
    """Everything that a source gets from the worker.

    Args:
        declared: The declaration, with the stream that it feeds.
        ingress: Limits of the worker's ingress.
        http: The worker's HTTP settings.
        files: The worker's settings for file sources.
        event_loop: The data thread's loop; `post` runs a call on it from any thread.
        disk_sync: Makes files durable in groups.
        zmq_context: For sources that open ZeroMQ sockets.
        http_servers: Servers that sources share, by address.
        make_route: Makes a route to the stream's inflows, for sources that work on the data thread.
        submit: Submits a batch, from any thread. The future completes when the worker has accepted the batch, or fails
            with the reason.
        intake: The queue behind `submit`.
        errors: Store for events that cannot be taken.
        worker: Name of the worker.
        topics: The topics of `inMemory` sources and sinks.
        now_ms: Returns the time of day in ms, on any thread.
        guard: What the source may access; None for sources that the operator declares.
        label: Distinguishes sources of the same stream.
        safe_ms: The time after which accepted events are on disk, in ms, even if the machine fails.
    """

    declared: DeclaredConnector
    ingress: IngressConfig
    http: WorkerHttpConfig
    files: FileSourcesConfig
    event_loop: EventLoop
    disk_sync: DiskSync
    zmq_context: zmq.Context[zmq.Socket[bytes]]
    http_servers: HttpServers
    make_route: MakeRoute
    submit: Callable[[Hashable, EventStream, pa.RecordBatch], Future[None]]
    intake: SubmissionQueue
    errors: FailedEventStore
    worker: str
    topics: TopicRegistry
    now_ms: Callable[[], int]
    guard: Guard | None = None
    """What the source may access; None for sources that the operator declares."""
    label: str = ""
    """Distinguishes the source from others of its stream."""
    safe_ms: int = 1_000
    """The time after which accepted events are on disk, in ms, even if the machine fails."""

    def where(self) -> str:
        """Return the source's name for error messages."""
        connector = self.declared.connector
        return f"@source(type='{connector.type}') of stream {connector.stream}"
