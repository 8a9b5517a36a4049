"""A small world around a worker: a manager, receiver stages and publisher stages, all played by the test."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import zmq
from free_ports import free_port, free_range

from cep_common.errors import DecodeError, UnauthorisedError
from cep_common.ids import Endpoint, PlanKey
from cep_common.nodes.role_watch import RoleWatch
from cep_common.protocol.links import MarkCheckpoint, MarkIdle, OpenLink, StreamSchema
from cep_common.protocol.registry import (
    Connector,
    DeployedPlan,
    EndpointAssigned,
    EndpointRegistered,
    ListPlans,
    Message,
    PlanCheckpoints,
    PlansListed,
    RegisterEndpoint,
    RegisterWorker,
    Rejected,
    RemovedPlan,
    RequestEndpoint,
    StreamBinding,
    TenantLimit,
    WorkerRegistered,
)
from cep_common.security.config import SecurityConfig
from cep_common.security.context import open_context
from cep_common.security.roles import Role, SocketKind
from cep_common.sockets.transport import ControlServer
from cep_worker.config import (
    EgressConfig,
    ErrorsConfig,
    FileSourcesConfig,
    FoldersConfig,
    InflowConfig,
    IngressConfig,
    OutflowConfig,
    RegistryConfig,
    ResultsConfig,
    SinkConfig,
    SourcesConfig,
    WalConfig,
    WorkerConfig,
    WorkerHttpConfig,
)
from cep_worker.failed_events.store import FailedEventStore
from cep_worker.ingest.event_sender import EventSender
from cep_worker.ingest.routing import Route
from cep_worker.ingest.tenant_limits import RateLimit
from cep_worker.plan_links.topic_registry import TopicRegistry
from cep_worker.runtime.event_loop import EventLoop
from cep_worker.sinks.base import SinkContext
from cep_worker.storage.group_commit import DiskSync
from cep_worker.worker import Worker
from topology.events.frames import arrow_schema, encode_batch
from topology.links.event_listener import EventListener
from topology.links.sender import LinkSender, LinkState
from topology.links.server import FrameArrived, LinkEvent, LinkServer

DEADLINE_MS = 8_000
OPEN_SINKS = SinkConfig(folders=("/",), urls=("*", "*://localhost", "*://127.0.0.1"))
"""Plans of these tests may write and call what they like."""
OUTFLOWS = 10
"""A worker has one for each plan."""
KEY = PlanKey(-1234, "KnockOnDelays")
DEPARTURES = (("carrier", "string"), ("dep_delay", "int"), ("price", "double"))
ALERTS = (("carrier", "string"), ("late", "long"))
EVENT = {"_timestamp": 1, "carrier": "UA", "dep_delay": 5, "price": 1.5}
PLAN = DeployedPlan(
    key=KEY,
    epoch=7,
    imported=(StreamBinding("Departures", "Departures:1.0.0", DEPARTURES),),
    exported=(StreamBinding("Alerts", "Alerts:1.0.0", ALERTS),),
)


def now_ms() -> int:
    return time.monotonic_ns() // 1_000_000


def lonely_topics() -> TopicRegistry:
    """Topics whose subscribers have no inflows."""

    def route(source: Any, offered: StreamSchema, _: Any) -> Route:
        return Route(source, offered.attributes, (), RateLimit())

    return TopicRegistry(route, DiskSync(), now_ms, lambda *_: 0)


def sink_context(
    connector: Connector, event_loop: EventLoop, context: zmq.Context[Any], errors: FailedEventStore | None = None
) -> SinkContext:
    """What a sink of the stream `Alerts` gets that has no worker around it; without `errors` it can keep nothing."""
    if errors is None:
        errors = FailedEventStore(ErrorsConfig(), "worker-1", lambda: 0)
        errors.close()
    return SinkContext(
        connector=connector,
        key=PlanKey(KEY.tenant, "Plan"),
        schema=StreamSchema("Alerts", ALERTS),
        event_stream="Alerts:1.0.0",
        worker="worker-1",
        waiting_rows=100,
        event_loop=event_loop,
        zmq_context=context,
        room=lambda: None,
        topics=lonely_topics(),
        errors=errors,
        label=connector.type,
    )


def departures(
    *rows: tuple[int, str | None, int | None, float | None], stream: str = "Departures:1.0.0"
) -> pa.RecordBatch:
    """Rows of (timestamp, carrier, dep_delay, price)."""
    columns = list(zip(*rows, strict=True)) if rows else [(), (), (), ()]
    schema = arrow_schema(StreamSchema(stream, DEPARTURES))
    arrays = [pa.array(column, field.type) for column, field in zip(
        [columns[0], [0] * len(rows), *columns[1:]], schema, strict=True)]  # fmt: skip
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def alerts(*rows: tuple[int, str, int]) -> pa.RecordBatch:
    """Rows of (timestamp, carrier, late)."""
    columns = list(zip(*rows, strict=True))
    schema = arrow_schema(StreamSchema("Alerts", ALERTS))
    arrays = [pa.array(column, field.type) for column, field in zip(
        [columns[0], [0] * len(rows), *columns[1:]], schema, strict=True)]  # fmt: skip
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def values(batch: pa.RecordBatch) -> list[tuple[Any, ...]]:
    """The rows of a batch without `_kind`."""
    return [tuple(row.values()) for row in batch.drop_columns(["_kind"]).to_pylist()]


@dataclass
class FakeManager:
    """Answers a worker on a thread of its own; `receivers` are handed out by stream."""

    port: int = field(default_factory=free_port)
    plans: tuple[DeployedPlan, ...] = ()
    removed: tuple[RemovedPlan, ...] = ()
    system: str = ""
    adopts: bool = False
    remembers: bool = False
    revision: int = 1
    heartbeat_ms: int = 50
    receivers: dict[str, Endpoint] = field(default_factory=dict)
    heard: list[Message] = field(default_factory=list)
    refuse: set[str] = field(default_factory=set)
    refusal: str = "refused"
    attempt: int = 0
    limits: tuple[TenantLimit, ...] = ()
    checkpoints: tuple[PlanCheckpoints, ...] = ()
    security: SecurityConfig = field(default_factory=SecurityConfig)
    _stopping: bool = False
    _thread: threading.Thread | None = None

    def start(self) -> None:
        self._stopping = False
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def stop(self) -> None:
        if self._thread is not None:
            self._stopping = True
            self._thread.join()
            self._thread = None

    def deploy(self, *plans: DeployedPlan) -> None:
        """These plans are deployed, all others are undeployed on purpose."""
        gone = [one for one in self.plans if (one.key, one.deployed_ms) not in {(p.key, p.deployed_ms) for p in plans}]
        self.removed += tuple(RemovedPlan(one.key, one.deployed_ms) for one in gone)
        self.lose(*plans)

    def lose(self, *plans: DeployedPlan) -> None:
        """These plans are known, and any others have never been heard of."""
        self.plans = plans
        self.revision += 1

    def last(self, kind: type[Message]) -> Any:
        return next((message for message in reversed(self.heard) if isinstance(message, kind)), None)

    def _serve(self) -> None:
        context = open_context(self.security, Role.MANAGER)
        server = ControlServer(context, "127.0.0.1", self.port)
        while not self._stopping:
            if server.socket.poll(20):
                try:
                    peer, envelope = server.receive()
                except (DecodeError, UnauthorisedError):
                    continue
                self.heard.append(envelope.message)
                server.send(peer, self._answer(envelope.message), envelope.correlation)
        server.close()
        context.destroy(linger=0)

    def _answer(self, message: Message) -> Message:
        if message.TYPE in self.refuse:
            return Rejected(self.refusal, "as the test wishes")
        match message:
            case RegisterWorker():
                return WorkerRegistered(
                    self.heartbeat_ms,
                    self.revision,
                    self.limits,
                    self.checkpoints,
                    system=self.system,
                    adopts=self.adopts,
                    knows=message.number if self.remembers else 0,
                )
            case ListPlans():
                return PlansListed(self.revision, self.plans, removed=self.removed, system=self.system)
            case RegisterEndpoint():
                return EndpointRegistered(self.heartbeat_ms, 3_000)
            case RequestEndpoint(stream=stream) if stream in self.receivers:
                return EndpointAssigned(self.receivers[stream], "receiver#0", self.attempt)
        return Rejected("no-endpoint", "not yet")


class FakeReceiver:
    """A receiver stage; it takes frames only while it is pumped, and acknowledges them unless told not to."""

    def __init__(self, context: zmq.Context[Any], window_rows: int = 65_536, port: int | None = None) -> None:
        self.openings: list[OpenLink] = []
        self.frames: list[FrameArrived] = []
        self.caught_up = 0
        """How often a sender that tells the time said, in a frame of its own, that nothing waits."""
        self.acknowledge = True
        self.server = LinkServer.listen(
            context, SocketKind.RECEIVER, "127.0.0.1", port or free_port(), window_rows, self._accept
        )

    @property
    def endpoint(self) -> Endpoint:
        return self.server.endpoint

    def pump(self) -> None:
        self.server.socket.poll(5)
        for event in self.server.receive(now_ms()):
            self._take(event)
        self.server.flush()

    def rows(self) -> list[tuple[Any, ...]]:
        return [row for frame in self.frames if frame.batch is not None for row in values(frame.batch)]

    def close(self) -> None:
        self.server.close()

    def _accept(self, opening: OpenLink) -> Rejected | None:
        self.openings.append(opening)
        return None

    def _take(self, event: LinkEvent) -> None:
        if isinstance(event, FrameArrived):
            if isinstance(event.message, MarkIdle) and event.link.opening.sends_times:
                self.caught_up += 1
            else:
                self.frames.append(event)
            if self.acknowledge:
                self.server.done(event.link, event.sequence)


class FakePublisher:
    """A publisher stage linked to a worker's outflow; its log begins behind `position`. Results up to `acknowledged`
    were acknowledged to it before, without a marker."""

    def __init__(
        self,
        context: zmq.Context[Any],
        endpoint: Endpoint,
        plan: DeployedPlan,
        name: str = "publisher#0",
        attempt: int = 0,
        position: int = 0,
        acknowledged: int = 0,
    ) -> None:
        streams = tuple(StreamSchema(binding.stream, binding.attributes) for binding in plan.exported)
        log = f"{plan.epoch}.{attempt}"
        opening = OpenLink(name, streams, plan.key, plan.epoch, attempt=attempt, log=log, position=acknowledged)
        self.link = LinkSender(context, SocketKind.OUTFLOW, endpoint, opening, now_ms())
        self.position = position

    def pump(self) -> None:
        self.link.sockets[0].poll(5)
        self.link.handle()
        self.link.tick(now_ms())

    def open(self) -> FakePublisher:
        until(lambda: self.link.state is LinkState.OPEN, self)
        return self

    def send(self, stream: str, batch: pa.RecordBatch) -> None:
        until(self.link.has_room, self)
        self.position += batch.num_rows
        self.link.send(stream, encode_batch(batch), batch.num_rows, 0, self.position)

    def mark(self, checkpoint: int) -> None:
        until(self.link.has_room, self)
        sequence = self.link.outbox.next_sequence
        self.link.send_frame(MarkCheckpoint(sequence, checkpoint), sequence, 0, ())

    def close(self) -> None:
        self.link.close()


def until(condition: Callable[[], Any], *pumped: Any, deadline_ms: int = DEADLINE_MS) -> None:
    """`condition` holds; whatever is `pumped` works meanwhile. Fails after the deadline."""
    end_ms = now_ms() + deadline_ms
    pause = threading.Event()
    while not condition():
        assert now_ms() < end_ms, "the deadline has passed"
        for thing in pumped:
            thing.pump()
        if not pumped:
            pause.wait(0.002)


@dataclass
class World:
    """A manager and a worker on free ports, and what the test adds."""

    context: zmq.Context[Any]
    manager: FakeManager
    config: WorkerConfig
    worker: Worker | None = None
    closing: list[Any] = field(default_factory=list)
    receivers: list[FakeReceiver] = field(default_factory=list)

    @classmethod
    def make(cls, context: zmq.Context[Any], folder: Path, **changes: Any) -> World:
        manager = FakeManager()
        first_port, last_port = free_range(OUTFLOWS)
        config = WorkerConfig(
            name="worker-1",
            managers=(f"127.0.0.1:{manager.port}",),
            leave_ms=1_000,
            registry=RegistryConfig(timeout_ms=200, heartbeat_ms=50, reconnect_ms=20, connect_ms=100),
            inflow=InflowConfig(idle_ms=300),
            outflow=OutflowConfig(first_port=first_port, last_port=last_port),
            ingress=IngressConfig(port=free_port()),
            egress=EgressConfig(port=free_port()),
            http=WorkerHttpConfig(port=free_port(), wait_ms=1_000, body_bytes=100_000),
            wal=WalConfig(path=str(folder / "wal")),
            results=ResultsConfig(path=str(folder / "results")),
            errors=ErrorsConfig(path=str(folder / "errors")),
            sinks=OPEN_SINKS,
            sources=SourcesConfig(urls=OPEN_SINKS.urls),
            password_files=FoldersConfig(folders=OPEN_SINKS.folders),
            file_sources=FileSourcesConfig(positions=str(folder / "positions")),
        )
        return cls(context, manager, msgspec.structs.replace(config, **changes))

    def start(self, *plans: DeployedPlan, watch: RoleWatch | None = None) -> None:
        self.manager.plans = plans
        self.manager.start()
        worker = Worker(self.config, watch=watch)
        worker.start()
        self.worker = worker
        if plans:
            until(lambda: len(self.health()["plans"]) == len(plans))

    def health(self) -> dict[str, Any]:
        assert self.worker is not None
        return self.worker.health()

    def receiver(self, stream: str = "Departures", **options: Any) -> FakeReceiver:
        receiver = FakeReceiver(self.context, **options)
        self.manager.receivers[stream] = receiver.endpoint
        self.receivers.append(receiver)
        return receiver

    def connected_receiver(self, stream: str = "Departures", **options: Any) -> FakeReceiver:
        receiver = self.receiver(stream, **options)
        until(lambda: self.inflow(stream).connected, receiver)
        return receiver

    def inflow(self, stream: str = "Departures") -> Any:
        reports = [report for plan in self.reports() for report in plan.inflow if report.stream == stream]
        return reports[0]

    def reports(self) -> Any:
        assert self.worker is not None
        return [snapshot.report for snapshot in self.worker.snapshots()]

    def publisher(self, plan: DeployedPlan = PLAN, name: str = "publisher#0") -> FakePublisher:
        def registered() -> RegisterEndpoint | None:
            found = (one for one in reversed(self.manager.heard) if isinstance(one, RegisterEndpoint))
            return next((one for one in found if (one.key, one.epoch) == (plan.key, plan.epoch)), None)

        until(registered)
        message = registered()
        assert message is not None
        publisher = FakePublisher(self.context, message.endpoint, plan, name)
        self.closing.append(publisher)
        return publisher

    def sender(self, stream: str = "Departures", attributes: tuple[tuple[str, str], ...] = DEPARTURES) -> EventSender:
        sender = EventSender(Endpoint("127.0.0.1", self.config.ingress.port), StreamSchema(stream, attributes))
        self.closing.append(sender)
        return sender

    def listener(self, stream: str = "Alerts") -> EventListener:
        listener = EventListener(Endpoint("127.0.0.1", self.config.egress.port), stream)
        self.closing.append(listener)
        return listener

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.config.http.port}{path}"

    def close(self) -> None:
        with contextlib.ExitStack() as last:
            last.callback(self.manager.stop)
            for receiver in self.receivers:
                last.callback(receiver.close)
            if self.worker is not None:
                last.callback(self.worker.stop)
            for thing in self.closing:
                last.callback(thing.close)
        assert self.worker is None or self.worker.failure is None
