"""The data thread: everything that events pass through, in one event loop."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial

import pyarrow as pa
import zmq

from cep_common.clock import Clock
from cep_common.configuration.secrets import Secrets
from cep_common.ids import PlanKey
from cep_common.process.freed_memory import give_back_freed_memory
from cep_common.protocol.registry import DeployedPlan, EndpointAssigned, PlanCheckpoints, RemovedPlan, TenantLimit
from cep_common.security.web import Gate
from cep_worker.config import WorkerConfig
from cep_worker.connector_runtime.reach import worker_guard
from cep_worker.connector_runtime.running_sinks import SinkSupervisor
from cep_worker.connector_runtime.running_sources import SourceSupervisor
from cep_worker.coordination.status import StatusCollector
from cep_worker.failed_events.store import FailedEventStore
from cep_worker.gateway import WorkerGateway
from cep_worker.http.app import create_app
from cep_worker.http.direct_intake import DirectIntake
from cep_worker.http.idempotency import AnsweredRequests
from cep_worker.http.servers import HttpServers
from cep_worker.inflows.wal.store import WalStore
from cep_worker.ingest.link_ingress import LinkIngress
from cep_worker.ingest.plan_routes import PlanRoutes
from cep_worker.ingest.submissions import SubmissionQueue
from cep_worker.ingest.tenant_limits import TenantLimits
from cep_worker.mirror.acknowledgements import MirroredDiskSync
from cep_worker.mirror.sender import MirrorSender
from cep_worker.outflows.consumers import Tap
from cep_worker.outflows.egress import Egress
from cep_worker.outflows.transactional_log.store import TransactionalLogStore
from cep_worker.plan_links.shared_streams import SharedStreams
from cep_worker.plan_links.topic_registry import TopicRegistry
from cep_worker.plans.connectors import Artefact, DeclaredConnector
from cep_worker.plans.declared_connectors import DeclaredConnectors
from cep_worker.plans.extensions import ConnectorExtensions
from cep_worker.runtime.event_loop import EventLoop
from cep_worker.runtime.lifecycle import Lifecycle
from cep_worker.runtime.shared_links import SharedLinks
from cep_worker.runtime.worker_metrics import WorkerParts
from cep_worker.serving.context import PlanContext
from cep_worker.serving.plan_flow import PlanSnapshot
from cep_worker.serving.plan_outflows import PlanOutflows
from cep_worker.serving.served_plans import ServedPlans
from cep_worker.serving.stream_names import ServedNames
from cep_worker.sources.base import SourceContext
from cep_worker.storage.group_commit import open_disk_sync

logger = logging.getLogger(__name__)

TICK_MS = 100
DRAIN_TURN_MS = 20
ACKNOWLEDGED_MS = 1_000
"""How long to wait for acknowledgements after intake has stopped: the other node must have the events."""
GIVE_BACK_MS = 2_000
"""How often freed memory is returned to the system, before the events after an outage are spread over it."""


class DataPlane:
    """Owns all sockets that carry events.

    `run` is the data thread; `apply`, `connect`, `submit`, `stop` and the read-only methods may be called from any
    thread. `changed` is called on the data thread when a connection was established or lost.
    """

    def __init__(
        self,
        config: WorkerConfig,
        worker: str,
        wal: WalStore,
        context: zmq.Context[zmq.Socket[bytes]],
        clock: Clock,
        artefacts: tuple[tuple[Artefact, ...], tuple[Artefact, ...]],
        changed: Callable[[], None],
        mirror: MirrorSender | None = None,
    ) -> None:
        """Create the data plane. With a `mirror`, events are acknowledged only when the passive node has them."""
        self._config = config
        self._worker = worker
        self._context = context
        self._clock = clock
        self._tell = changed
        self._connectors = DeclaredConnectors(ConnectorExtensions(config.extensions), *artefacts)
        self._guard = worker_guard(config)
        self._event_loop = EventLoop()
        self._disk_sync = open_disk_sync(config.wal, self._event_loop.defer)
        self._mirror = mirror
        if mirror is not None:
            mirror.attach(self._event_loop.post)
            self._disk_sync = MirroredDiskSync(self._disk_sync, mirror)
        self._names = ServedNames()
        self._lifecycle = Lifecycle()
        self._limits = TenantLimits()
        self._given_back_ms = clock.monotonic_ms()
        self._prepared = TransactionalLogStore(
            config.results, worker, self._event_loop, config.wal.orphan_retention_ms, clock, self._disk_sync.when_safe
        )
        self._wal = wal
        self._removed: tuple[RemovedPlan, ...] = ()
        self._errors = FailedEventStore(config.errors, worker, clock.now_ms, config.wal.orphan_retention_ms)
        self._links = SharedLinks(self._event_loop, context, config)
        plan_context = PlanContext(
            worker, config, self._event_loop, context, wal, self._disk_sync, self._prepared, self._changed, self._room,
            self._errors.keep_of_stream,
            clock.now_ms, self._links,
        )  # fmt: skip
        self._served = ServedPlans(plan_context, self._consumers)
        self._routes = PlanRoutes(self._served, self._limits, clock.monotonic_ms)
        self._submissions = SubmissionQueue(self._event_loop, self._disk_sync, self._routes.make, clock.monotonic_ms)
        self._ingress = LinkIngress(
            self._event_loop, self._disk_sync, self._names.resolve, self._routes.make, config.ingress.links
        )
        self._egress = Egress(self._event_loop, config.egress, self._room)
        self._gate = Gate(config.security, config.http.host, clock)
        self._http_servers = HttpServers(config.http, config.security, self._gate)
        self._topics = TopicRegistry(
            self._routes.make_unlimited, self._disk_sync, clock.monotonic_ms, self._errors.keep_of_stream
        )
        self._shared_streams = SharedStreams(self._topics)
        secrets = Secrets(config.secrets, "secrets")
        self._sinks = SinkSupervisor(
            self._event_loop, context, worker, config.sinks.waiting_rows, self._room_from_anywhere, self._topics,
            self._errors, self._guard, secrets, config.file_sources.positions,
        )  # fmt: skip
        self._sources = SourceSupervisor(self._source_context, secrets, config.file_sources.positions)
        self._status = StatusCollector(
            self._served, self._sources, self._sinks, self._egress, self._topics, self._limits, self._errors
        )
        self.gateway = WorkerGateway(
            worker, clock, self._event_loop, self._lifecycle, self._names, self._submissions, self._http_servers,
            self._limits, self._status, self._errors, wal, self._prepared, self._sinks, self._sources,
            AnsweredRequests(config.http.idempotency_keys, config.http.idempotency_ms),
            insecure=config.security.insecure,
        )  # fmt: skip

    def open(self) -> None:
        """Open the built-in services.

        Raises:
            PortInUseError: a port is taken; nothing is left open then.
        """
        ingress = self._config.ingress
        self._errors.open_existing()
        self._disk_sync.start()
        try:
            self._ingress.listen(self._context, ingress.host, ingress.port, ingress.window_rows)
            self._egress.listen(self._context)
            http = self._config.http
            app = create_app(self.gateway, http.body_bytes, http.wait_ms, self._gate)
            self._http_servers.open(app, partial(DirectIntake, self.gateway, self._gate, http, app))
        except BaseException:
            self._close()
            raise

    def run(self) -> None:
        """Process events until `stop`, then shut down in order: sources first, then waiting events, then sinks."""
        try:
            while not self._lifecycle.ends:
                self._turn(TICK_MS)
            self._drain()
        finally:
            self._close()

    # ---- any thread -------------------------------------------------------------------------------------------------

    def apply(
        self,
        plans: tuple[DeployedPlan, ...],
        kept: tuple[PlanKey, ...] = (),
        removed: tuple[RemovedPlan, ...] = (),
    ) -> None:
        """Serve exactly `plans`.

        Files of plans in `kept` stay, files of those in `removed` are deleted, and those of any other plan are
        orphaned.
        """
        self._event_loop.post(lambda: self._apply(plans, kept, removed))

    def limit(self, limits: tuple[TenantLimit, ...]) -> None:
        """Replace the rate limits of tenants."""
        self._event_loop.post(lambda: self._limits.apply(limits, self._clock.monotonic_ms()))

    def registered(self, *, registered: bool) -> None:
        """Set whether a manager accepts the heartbeats."""
        self._lifecycle.registered = registered

    def checkpoints(self, known: tuple[PlanCheckpoints, ...]) -> None:
        """Release or discard prepared results of these plans by their checkpoints."""
        self._event_loop.post(lambda: self._served.apply_checkpoints(known))

    def connect(self, key: PlanKey, epoch: int, stream: str, assigned: EndpointAssigned) -> None:
        """Connect the inflow of an imported stream to the receiver, if it still needs one."""
        self._event_loop.post(lambda: self._connect(key, epoch, stream, assigned))

    def stop(self) -> None:
        """Make `run` shut down and return."""
        self._event_loop.post(self._leave)

    def snapshots(self) -> tuple[PlanSnapshot, ...]:
        """Return the status of the plans, not older than a tick."""
        return self._status.plans

    def parts(self) -> WorkerParts:
        """Return the status of everything that does not belong to one plan, not older than a tick."""
        return self.gateway.parts()

    # ---- the data thread --------------------------------------------------------------------------------------------

    def _turn(self, wait_ms: int) -> None:
        self._event_loop.turn(wait_ms, self._clock.monotonic_ms)
        now_ms = self._clock.monotonic_ms()
        if now_ms - self._lifecycle.tick_ms >= TICK_MS:
            self._lifecycle.tick_ms = now_ms
            self._tick(now_ms)

    def _tick(self, now_ms: int) -> None:
        self._limits.refill(now_ms)
        self._links.tick(now_ms)
        self._ingress.tick(now_ms)
        self._sources.tick(now_ms)
        if self._served.tick(now_ms):
            self._keep_errors()
            self._reroute(now_ms)
        self._sinks.tick(now_ms)
        self._egress.tick(now_ms)
        self._topics.tick(now_ms)
        self._shared_streams.tick(now_ms)
        self._wal.orphans.tick()
        self._prepared.tick()
        self._retry(now_ms)
        self._snapshot(now_ms)
        if now_ms - self._given_back_ms >= GIVE_BACK_MS:
            self._given_back_ms = now_ms
            give_back_freed_memory()
            pa.default_memory_pool().release_unused()  # Arrow only returns the memory of the calling thread

    def _apply(
        self, plans: tuple[DeployedPlan, ...], kept: tuple[PlanKey, ...], removed: tuple[RemovedPlan, ...]
    ) -> None:
        if self._lifecycle.ends:
            return
        now_ms = self._clock.monotonic_ms()
        self._served.apply(plans, now_ms, kept, removed)
        self._names.deploy(plans)
        self._status.keep(self._served.keys())
        self._removed = tuple(RemovedPlan(one.key, one.deployed_ms) for one in removed)
        self._keep_errors()
        self._reroute(now_ms)
        self._changed()

    def _keep_errors(self) -> None:
        served = {plan.key: plan.deployed_ms for plan in self._served.plans()}
        self._errors.keep_only(self._served.kept_keys(), served, self._removed)

    def _reroute(self, now_ms: int) -> None:
        """Update all users of inflows and exported streams after a change.

        Sinks of plans that are being ended stay for outstanding results.
        """
        exporting = self._served.exporting()
        self._names.export(exporting)
        self._submissions.reroute()
        self._connectors.update(self._served.plans(), self._names.imported, exporting, self._names.exported)
        self._sinks.apply(self._connectors.sinks, now_ms)
        self._sources.apply(self._connectors.sources, now_ms)
        gone = {one.key for one in self._removed} - self._served.kept_keys()
        self._sinks.delete_labels(gone)
        self._sources.delete_labels(gone)
        self._shared_streams.apply(exporting, self._served.plans(), now_ms)
        self._topics.reroute(now_ms)
        self._ingress.reroute(now_ms)
        self._egress.reroute(self._names.exported)

    def _connect(self, key: PlanKey, epoch: int, stream: str, assigned: EndpointAssigned) -> None:
        inflow = self._served.inflows.get((key, stream))
        if inflow is not None and inflow.epoch == epoch:
            inflow.connect(assigned, self._clock.monotonic_ms())

    def _leave(self) -> None:
        self._lifecycle.ends = True

    def _accept_nothing(self) -> None:
        self._lifecycle.leaving = True
        self._topics.leave()
        self._ingress.close()
        self._sources.close()

    def _drain(self) -> None:
        """Stop accepting events and deliver the waiting ones, for as long as the configuration allows.

        The active one of two nodes accepts events until everything else is done, to keep the time short in which no
        node
        does: the other node has these events, and its topologies process them.
        """
        mirror = self._mirror
        if mirror is None:
            self._accept_nothing()
        deadline_ms = self._clock.monotonic_ms() + self._config.leave_ms
        self._turn_until(self._served.drained, deadline_ms)
        outflows = self._served.outflows()
        for outflow in outflows:
            outflow.leave()
        self._turn_until(lambda: not self._undelivered(outflows), deadline_ms)
        if undelivered := self._undelivered(outflows):
            logger.warning("undelivered events after %d ms: waits=%s", self._config.leave_ms, undelivered)
        if mirror is not None:
            self._accept_nothing()
            deadline_ms = self._clock.monotonic_ms() + ACKNOWLEDGED_MS
            self._turn_until(lambda: not (self._submissions.waiting() or mirror.is_behind()), deadline_ms)
        for outflow in outflows:
            outflow.close_services()

    def _undelivered(self, outflows: list[PlanOutflows]) -> str:
        """Return the parts that still have something to deliver; empty: none."""
        waits = {
            "sinks": not self._sinks.drained(),
            "listeners": not self._egress.drained(),
            "publishers": not all(one.delivered() for one in outflows),
        }
        return ", ".join(name for name, has_something in waits.items() if has_something)

    def _turn_until(self, done: Callable[[], bool], deadline_ms: int) -> None:
        while not done() and self._clock.monotonic_ms() < deadline_ms:
            if not self._lifecycle.leaving:
                self._turn(DRAIN_TURN_MS)
                continue
            self._event_loop.turn(DRAIN_TURN_MS, self._clock.monotonic_ms)
            self._sinks.tick(self._clock.monotonic_ms())

    def _close(self) -> None:
        self._http_servers.close()
        self._ingress.close()
        self._sources.close()
        self._served.close()
        self._disk_sync.stop()
        # before the sinks: publishers resend what these have not delivered, or it is read from disk
        self._errors.close()
        self._sinks.close()
        self._egress.close()
        self._prepared.close()
        self._links.close()
        self._event_loop.close()

    def _source_context(self, declaration: DeclaredConnector) -> SourceContext:
        return SourceContext(
            declared=declaration,
            ingress=self._config.ingress,
            http=self._config.http,
            files=self._config.file_sources,
            event_loop=self._event_loop,
            disk_sync=self._disk_sync,
            zmq_context=self._context,
            http_servers=self._http_servers,
            make_route=self._routes.make,
            submit=self._submissions.submit,
            intake=self._submissions,
            errors=self._errors,
            worker=self._worker,
            safe_ms=self._config.wal.fsync_interval_ms if self._config.wal.fsync == "interval" else 0,
            topics=self._topics,
            now_ms=self._clock.now_ms,
            guard=None if declaration.key is None else self._guard,
        )

    def _consumers(self, key: PlanKey) -> Callable[[str], list[Tap]]:
        return lambda stream: [
            *self._sinks.taps(key, stream),
            *self._shared_streams.taps(key, stream),
            *self._egress.taps(key, stream),
        ]

    def _room(self) -> None:
        self._event_loop.defer(self._retry)

    def _room_from_anywhere(self) -> None:
        self._event_loop.post(self._room)

    def _retry(self, now_ms: int) -> None:
        """Let everything that waits for room retry."""
        self._ingress.retry(now_ms)
        self._sources.retry(now_ms)
        if self._submissions.waiting():
            self._submissions.retry(now_ms)
        self._topics.retry(now_ms)
        self._served.retry(now_ms)

    def _changed(self) -> None:
        self._event_loop.defer(self._snapshot_and_tell)

    def _snapshot_and_tell(self, now_ms: int) -> None:
        self._snapshot(now_ms)
        self._tell()

    def _snapshot(self, now_ms: int) -> None:
        self._status.look(self._connectors.problems, now_ms, self._clock.now_ms())
