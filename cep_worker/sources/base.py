"""What a source is, and what one is given to work with."""

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
    """Makes a route for a source that sends batches of a schema to an event stream's inflows."""

    def __call__(self, source: Hashable, offered: StreamSchema, stream: EventStream, /) -> Route: ...


class EventSource(Protocol):
    """Brings events of one stream.

    All methods are called on the data thread and none blocks.
    """

    @property
    def error(self) -> str:
        """What is wrong with it since it runs, or nothing."""

    @property
    def partitions(self) -> tuple[PartitionReport, ...]:
        """The partitions of topics that it reads."""

    @property
    def dropped_events(self) -> int:
        """Events that it could not take for good, since it runs."""

    @property
    def delivered_events(self) -> int:
        """Events that it brought, since it runs."""

    def retry(self, now_ms: int) -> None:
        """There is room again for what waited."""

    def reroute(self, declared: DeclaredConnector, now_ms: int) -> None:
        """Follow a change of the deployed plans; the declaration is the same, perhaps for other plans."""

    def tick(self, now_ms: int) -> None:
        """Time passes."""

    def close(self) -> None:
        """Nothing more is taken."""


class UncountedSource:
    """Of a source that does not count its events itself, and reads no topics."""

    partitions: tuple[PartitionReport, ...] = ()
    dropped_events = 0
    delivered_events = 0


@runtime_checkable
class ReplayableSource(Protocol):
    """A source that takes again what it once could not."""

    def replay(self, batch: pa.RecordBatch, attempt: ReplayAttempt) -> None:
        """`batch`, as the source gave it to the store, is tried once more; `attempt` gets what came of it."""


@dataclass(frozen=True, slots=True)
class SourceContext:
    """What every source is given.

    Any thread may call `submit` and `now_ms` (the time of day).
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
    """What the source may reach; None where the operator declares it."""
    label: str = ""
    """What tells the source from others of its stream."""
    safe_ms: int = 1_000
    """What was taken is on the disk after so long, whatever becomes of the machine."""

    def where(self) -> str:
        """Return the source as errors name it."""
        connector = self.declared.connector
        return f"@source(type='{connector.type}') of stream {connector.stream}"
