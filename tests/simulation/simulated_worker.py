"""A simulated worker: the real flow of a plan (logs on disk, links, prepared results) in a process that is made up."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fake_network import Network
from simulated_processes import Process
from simulated_rows import batch_of, ids_of
from virtual_world import VirtualWorld

from cep_common.protocol.registry import (
    DeployedPlan,
    EndpointAssigned,
    ListPlans,
    Message,
    PlansListed,
    RegisterEndpoint,
    RegisterWorker,
    RequestEndpoint,
    WorkerRegistered,
)
from cep_common.sockets.shared_socket import SharedSocket
from cep_worker.config import InflowConfig, OutflowConfig, ResultsConfig, WalConfig, WorkerConfig
from cep_worker.inflows.wal.store import WalStore
from cep_worker.outflows.consumers import FrameId, GroupId, Tap
from cep_worker.outflows.receipts import DeliveryReceipt
from cep_worker.outflows.transactional_log.store import TransactionalLogStore
from cep_worker.runtime.event_loop import Handler
from cep_worker.runtime.shared_links import SharedLinks
from cep_worker.serving.context import PlanContext
from cep_worker.serving.plan_flow import PlanFlow
from cep_worker.storage.group_commit import DiskSync
from topology.events.watermarks import NO_WATERMARK

STREAM, RESULTS = "In", "Out"
HOST = "127.0.0.1"
TICK_MS = 200

Ask = Callable[[Process, Message, Callable[[Any], None]], None]
"""Asks the manager; the answer may come late, or never."""


def _has_input(socket: Any) -> bool:
    return socket.has_input if isinstance(socket, SharedSocket) else bool(socket.inbox)


class FakeReactor:
    """As `cep_worker.runtime.event_loop.EventLoop`, with turns that the process takes."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._handlers: dict[Any, Handler] = {}
        self._deferred: dict[Handler, None] = {}
        self._timed: dict[Handler, int] = {}

    def watch(self, socket: Any, handler: Handler) -> None:
        self._handlers[socket] = handler

    def unwatch(self, socket: Any) -> None:
        del self._handlers[socket]

    def post(self, call: Callable[[], None]) -> None:
        self._process.soon(self._process.world.chance.randrange(20), call)

    def defer(self, handler: Handler) -> None:
        self._deferred[handler] = None
        self._process.wake()

    def call_at(self, time_ms: int, handler: Handler) -> None:
        self._timed[handler] = time_ms
        self._process.wake_at(time_ms)

    def turn(self, now_ms: int) -> None:
        """What is due is done."""
        for due in [handler for handler, time_ms in self._timed.items() if time_ms <= now_ms]:
            del self._timed[due]
            self._deferred[due] = None
        for socket, handler in list(self._handlers.items()):
            if _has_input(socket) and socket in self._handlers:
                handler(now_ms)
                if _has_input(socket) and not socket.closed:
                    self._process.wake()
        while self._deferred:
            handlers, self._deferred = self._deferred, {}
            for handler in handlers:
                handler(now_ms)


class LateSync:
    """Simulate `FileSync` without a thread: files are complete some time later, in order."""

    def __init__(self, post: Callable[[Callable[[], None]], None]) -> None:
        self._post = post

    def file(self, descriptor: int, folder: Path) -> None:
        os.close(descriptor)

    def when_done(self, call: Callable[[], None]) -> None:
        self._post(call)

    def close(self) -> None:
        """Nothing is left to be done."""


class Sink:
    """What results are given to. It outlives workers; a group that has taken effect does so never again."""

    def __init__(self, world: VirtualWorld, released: Callable[[list[int]], None]) -> None:
        self._world = world
        self._released = released
        self._committed: set[GroupId] = set()

    def session(self, process: Process) -> SinkSession:
        """What one process of a worker has of it."""
        return SinkSession(self, process)

    def deliver(self, ids: list[int], group: GroupId | None = None) -> None:
        """The results take effect, as a group at most once."""
        if group is None or group not in self._committed:
            self._released(ids)
        if group is not None:
            self._committed.add(group)


class SinkSession:
    """A consumer of the plan's results: delivers after a while, and forgets what was not delivered with its process."""

    name = form = "sink"
    lasting = True

    def __init__(self, sink: Sink, process: Process) -> None:
        self._sink = sink
        self._process = process
        self._staged: dict[GroupId, list[int]] = {}

    def has_room(self) -> bool:
        return True

    def offer(self, batch: Any, body: Any, receipt: DeliveryReceipt, frame: FrameId | None = None) -> None:
        ids = ids_of(batch)
        if frame is not None:
            self._staged.setdefault(frame.group, []).extend(ids)
            receipt.settle()
            return

        def deliver() -> None:
            self._sink.deliver(ids)
            receipt.settle()

        self._process.soon(self._process.world.chance.randrange(1, 60), deliver)

    def commit(self, group: GroupId, receipt: DeliveryReceipt) -> None:
        ids = self._staged.pop(group, [])
        world = self._process.world

        def settle() -> None:
            self._sink.deliver(ids, group)
            self._process.soon(world.chance.randrange(40), receipt.settle)

        self._process.soon(world.chance.randrange(1, 40), settle)


class SimulatedWorker(Process):
    """One process of a worker; another one continues with its folder when it has died."""

    def __init__(
        self,
        world: VirtualWorld,
        network: Network,
        name: str,
        number: int,
        folder: Path,
        sink: Sink,
        ask: Ask,
        failed: Callable[[list[int], str], int],
    ) -> None:
        """`failed` keeps events that are given up, for that reason, and returns how many it could not keep."""
        super().__init__(world, network, name, TICK_MS)
        self._ask = ask
        self._event_loop: Any = FakeReactor(self)
        self._session: Tap = sink.session(self)
        self.config = WorkerConfig(
            name=name,
            inflow=InflowConfig(waiting_rows=8, batch_rows=4, max_in_flight_frames=3),
            outflow=OutflowConfig(HOST, 20_000 + 100 * number, 20_099 + 100 * number, window_rows=6),
            wal=WalConfig(str(folder / "wal"), "none", 1_000, 65_536, 4_096),
            results=ResultsConfig(str(folder / "results"), 65_536),
        )
        self._wal = WalStore(self.config.wal, name)
        self._prepared = TransactionalLogStore(self.config.results, name, self._event_loop)
        wrong_ms = world.clock_error_ms()
        self._around = PlanContext(
            name,
            self.config,
            self._event_loop,
            self.context,
            self._wal,
            DiskSync(),
            self._prepared,
            self._changed,
            self.wake,
            lambda _key, _stream, batch, reason: failed(ids_of(batch), reason),
            lambda: self.world.now_ms + wrong_ms,
            SharedLinks(self._event_loop, self.context, self.config),
        )
        self.flow: PlanFlow | None = None
        self._revision = -1
        self._beat_ms = 0
        self._ticked_ms = 0
        self._asking: set[str] = set()

    def accept(self, ids: list[int]) -> tuple[str, int] | None:
        """The events are the worker's to keep: in its log (which), at that position. None when it has no room."""
        inflow = self.flow.inflows[STREAM] if self.flow is not None else None
        if inflow is None or not inflow.has_room():
            return None
        batch = batch_of(ids)
        body = inflow.prepare(batch, None)
        inflow.offer("source", batch, body, NO_WATERMARK, self.world.now_ms)
        log = inflow._log
        return log.identity.log, log.last_position

    def log(self) -> Any:
        """The log of accepted events, if there is one."""
        return self.flow.inflows[STREAM]._log if self.flow is not None else None

    def kill(self) -> None:
        """Files stay as they are; the system closes them."""
        super().kill()
        self._wal.close()
        self._prepared.close()
        if self.flow is None:
            return
        log = self.log()
        if log._writer is not None:
            os.close(log._writer.descriptor)
        log._tally.close()
        for inflow in self.flow.inflows.values():
            inflow._out._backlog._stop_reading()
        prepared = self.flow.outflows._prepared
        if prepared is not None:
            prepared.close()

    def turn(self) -> None:
        now_ms = self.world.now_ms
        self._event_loop.turn(now_ms)
        if self.flow is not None and now_ms - self._ticked_ms >= TICK_MS:
            self._ticked_ms = now_ms
            self._around.links.tick(now_ms)
            self.flow.tick(now_ms)
        self._control(now_ms)
        self._event_loop.turn(now_ms)

    # ---- the manager ------------------------------------------------------------------------------------------------

    def _changed(self) -> None:
        self._beat_ms = 0
        self.wake()

    def _control(self, now_ms: int) -> None:
        snapshot = self.flow.snapshot("", ()) if self.flow is not None else None
        if now_ms >= self._beat_ms:
            self._beat_ms = now_ms + 1_000
            plans = (snapshot.report,) if snapshot is not None else ()
            self._ask(
                self, RegisterWorker(self.name, HOST, self.number, max(self._revision, 0), plans), self._registered
            )
            if snapshot is not None and snapshot.outflow is not None:
                report = snapshot.report
                self._ask(
                    self,
                    RegisterEndpoint(
                        "worker", report.key, report.epoch, self.name, snapshot.outflow, report.publishers
                    ),
                    lambda _: None,
                )
        for one in snapshot.unconnected if snapshot is not None else ():
            if one.stream not in self._asking:
                self._asking.add(one.stream)
                self._request_receiver(snapshot.report.key, snapshot.report.epoch, one.stream, one.former)

    def _registered(self, answer: Any) -> None:
        if not isinstance(answer, WorkerRegistered):
            return
        if self.flow is not None and answer.checkpoints:
            key = self.flow.plan.key
            self.flow.outflows.apply_checkpoints(tuple(one for one in answer.checkpoints if one.key == key))
        if answer.revision != self._revision:
            self._ask(self, ListPlans(), self._listed)

    def _listed(self, answer: Any) -> None:
        if not isinstance(answer, PlansListed) or answer.revision <= self._revision:
            return
        self._revision = answer.revision
        for plan in answer.plans:
            self._apply(plan)

    def _apply(self, plan: DeployedPlan) -> None:
        now_ms = self.world.now_ms
        if self.flow is None:
            self.flow = PlanFlow(self._around, plan, lambda _: (self._session,), now_ms)
            self.world.note("%s works for epoch %d", self.name, plan.epoch)
        elif plan.epoch != self.flow.plan.epoch:
            self.flow.update(plan, now_ms)
            self.world.note("%s turns to epoch %d", self.name, plan.epoch)
        self._beat_ms = 0

    def _request_receiver(self, key: Any, epoch: int, stream: str, former: str) -> None:
        def answered(answer: Any) -> None:
            inflow = self.flow.inflows.get(stream) if self.flow is not None else None
            fits = inflow is not None and inflow.epoch == epoch and inflow.asks
            if isinstance(answer, EndpointAssigned) and fits:
                self.world.note("%s links to %s of attempt %d", self.name, answer.instance, answer.attempt)
                inflow.connect(answer, self.world.now_ms)

        self._ask(self, RequestEndpoint("receiver", key, epoch, self.name, HOST, stream, former=former), answered)
        self.soon(self.config.registry.reconnect_ms, lambda: self._asking.discard(stream))
