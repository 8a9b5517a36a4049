"""The interface of the data plane for other threads, such as those of HTTP servers."""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable
from concurrent.futures import Future
from typing import Any

import pyarrow as pa

from cep_common.clock import Clock
from cep_common.ids import PlanKey
from cep_common.protocol.worker_reports import MAX_ORPHANS, OrphanReport
from cep_worker.connector_runtime.running_sinks import SinkSupervisor
from cep_worker.connector_runtime.running_sources import SourceSupervisor
from cep_worker.coordination.status import StatusCollector
from cep_worker.failed_events.service import FailedEventService, ReplayAttempt
from cep_worker.failed_events.store import FailedEventStore
from cep_worker.http.event_posts import HttpSource
from cep_worker.http.idempotency import AnsweredRequests
from cep_worker.http.servers import HttpServers
from cep_worker.inflows.wal.store import WalStore
from cep_worker.ingest.submissions import SubmissionQueue
from cep_worker.ingest.tenant_limits import TenantLimits
from cep_worker.outflows.transactional_log.store import TransactionalLogStore
from cep_worker.plans.streams import EventStream, StreamDirectory
from cep_worker.runtime.event_loop import EventLoop
from cep_worker.runtime.lifecycle import Lifecycle
from cep_worker.runtime.worker_metrics import WorkerMetrics, WorkerParts
from cep_worker.serving.orphaned_events import OrphanedEventService
from cep_worker.serving.stream_names import ServedNames
from cep_worker.storage.records import BatchOrigin


class WorkerGateway:
    """The interface of the data plane for other threads. Thread-safe."""

    def __init__(
        self,
        worker: str,
        clock: Clock,
        event_loop: EventLoop,
        lifecycle: Lifecycle,
        names: ServedNames,
        submissions: SubmissionQueue,
        http_servers: HttpServers,
        limits: TenantLimits,
        status: StatusCollector,
        errors: FailedEventStore,
        wal: WalStore,
        prepared: TransactionalLogStore,
        sinks: SinkSupervisor,
        sources: SourceSupervisor,
        answered: AnsweredRequests,
        *,
        insecure: bool,
    ) -> None:
        self._worker = worker
        self._insecure = insecure
        self._clock = clock
        self._event_loop = event_loop
        self._lifecycle = lifecycle
        self._names = names
        self._submissions = submissions
        self._http_servers = http_servers
        self._limits = limits
        self._status = status
        self._wal = wal
        self._prepared = prepared
        self._sinks = sinks
        self._sources = sources
        self._answered = answered
        self._failed_events = FailedEventService(errors, self)
        self._orphans = OrphanedEventService(wal, prepared, self)

    def imported(self) -> StreamDirectory:
        """Return the event streams that accept events now."""
        return self._names.imported

    def submit(
        self, source: Hashable, stream: EventStream, batch: pa.RecordBatch, origin: BatchOrigin | None = None
    ) -> Future[None]:
        """Submit `batch` to the stream's inflows; see `SubmissionQueue.submit`."""
        return self._submissions.submit(source, stream, batch, origin)

    def plan_key(self, tenant: int, name: str) -> PlanKey:
        """Return the plan that has the name now; see `ServedNames.plan_key`."""
        return self._names.plan_key(tenant, name)

    def failed_event_service(self) -> FailedEventService:
        """Return the service that lists, replays and discards failed events."""
        return self._failed_events

    def orphan_service(self) -> OrphanedEventService:
        """Return the service that lists, restores and discards events of missing plans."""
        return self._orphans

    def replay_to_sink(
        self, key: PlanKey, stream: str, sink: str, batch: pa.RecordBatch, attempt: ReplayAttempt
    ) -> None:
        """Deliver failed events again with the sink of the plan's stream."""
        self._event_loop.post(lambda: self._sinks.replay(key, stream, sink, batch, attempt))

    def replay_to_source(
        self, key: PlanKey, stream: str, source: str, batch: pa.RecordBatch, attempt: ReplayAttempt
    ) -> None:
        """Read failed messages again with the source of the plan's stream."""
        self._event_loop.post(lambda: self._sources.replay(key, stream, source, batch, attempt))

    def http_source(self, path: str) -> HttpSource | None:
        """Return the source at `path`, if there is one."""
        return self._http_servers.source(path)

    def answered(self) -> AnsweredRequests:
        """Return the answers kept for requests with an idempotency key."""
        return self._answered

    def events_per_s(self, tenant: int) -> int:
        """Return the tenant's limit of events per second; 0: unlimited."""
        return self._limits.events_per_s(tenant)

    def limit_wait_ms(self, tenant: int) -> int:
        """Return how long the tenant must wait before it may send more events; 0: not at all."""
        return self._limits.wait_ms(tenant)

    def now_ms(self) -> int:
        """Return the time of day."""
        return self._clock.now_ms()

    def leaving(self) -> bool:
        """Return whether the worker shuts down and accepts no more events."""
        return self._lifecycle.leaving

    def not_live(self) -> str:
        """Return why the worker should be restarted, or an empty text."""
        return self._lifecycle.not_live(self._clock.monotonic_ms())

    def not_ready(self) -> str:
        """Return why the worker cannot serve plans now, or an empty text."""
        return self._lifecycle.not_ready()

    def health(self) -> dict[str, Any]:
        """Return the status of the worker, as `GET /health` shows it."""
        status = "leaving" if self._lifecycle.leaving else "ok"
        return {"status": status, "worker": self._worker, "insecure": self._insecure, "plans": self._status.health()}

    def parts(self) -> WorkerParts:
        """Return the status of everything that does not belong to one plan, not older than a tick."""
        most = sorted(self._orphan_list(), key=lambda one: -one.events)[:MAX_ORPHANS]
        return dataclasses.replace(self._status.parts(leaving=self._lifecycle.leaving), orphans=tuple(most))

    def metrics(self) -> WorkerMetrics:
        """Return the metrics of the worker, not older than a tick."""
        return dataclasses.replace(self._status.metrics(leaving=self._lifecycle.leaving), orphans=self._orphan_list())

    def _orphan_list(self) -> tuple[OrphanReport, ...]:
        return (*self._wal.orphans.reports(), *self._prepared.orphan_reports())
