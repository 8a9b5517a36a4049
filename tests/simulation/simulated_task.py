"""A simulated task of a topology: the real task, its real speaker with the driver, and stages that only remember."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from fake_network import Network
from simulated_processes import LaterExecutor, Process, WorldClock
from simulated_rows import ids_of
from simulated_worker import Ask
from virtual_world import VirtualWorld

from cep_common.errors import CepError
from cep_common.ids import Endpoint
from cep_common.protocol.registry import EndpointAssigned, RegisterEndpoint, Rejected, RequestEndpoint
from cep_common.protocol.tasks import RegisterTask, TaskRegistered
from topology.checkpoint.storage.store import CheckpointStore
from topology.checkpoint.storage.writer import PartWriter
from topology.events.bundle import Bundle
from topology.events.resequencer import Resequencer
from topology.model import PROCESSOR, Component, Topology
from topology.stages.contract import NO_STATE, Emit, InstanceStatistics, Parts
from topology.stages.settings import StageSettings
from topology.stages.state import stored_states
from topology.stages.tasks.checkpoint_agent import CheckpointAgent
from topology.stages.tasks.instances import InstanceContext, TaskInstances
from topology.stages.tasks.task import Task

SEEN = "engine"
SETTINGS = StageSettings("127.0.0.1", 15_000, 15_999, window_rows=6, publisher_queue_rows=12)


class RememberingStage:
    """Passes on what comes; one that keeps a state remembers how often each event came."""

    def __init__(self, name: str, topology: Topology, component: Component, emit: Emit) -> None:
        self.name = name
        self.statistics = InstanceStatistics(component.name, PROCESSOR)
        self.seen: dict[int, int] = {}
        self._emit = emit
        self._passes = topology.keeps_tickets(component)
        self._output = next(one for one in topology.plan.processors if one.name == component.name).outputs[0].id
        self._resequencer = Resequencer(topology.paths(component))
        self._next_ticket = 0

    def open(self, now_ms: int, state: Parts = NO_STATE) -> None:
        if SEEN in state:
            self.seen = {int(number): count for number, count in json.loads(state[SEEN]).items()}

    def on_bundle(self, bundle: Bundle, now_ms: int) -> None:
        for one in [bundle] if self._passes else self._resequencer.push(bundle):
            batches = tuple((self._output, batch) for _, batch in one.batches if batch.num_rows)
            for _, batch in batches if not self._passes else ():
                for number in ids_of(batch):
                    self.seen[number] = self.seen.get(number, 0) + 1
            if self._passes:
                streams = (self._output,) if one.streams else ()
                self._emit(
                    Bundle(
                        self.name, one.origin, one.ticket, one.channel, streams, batches=batches, receipt=one.receipt
                    )
                )
            elif batches:
                ticket, self._next_ticket = self._next_ticket, self._next_ticket + 1
                out = (self._output,)
                self._emit(Bundle(self.name, self.name, ticket, self.name, out, batches=batches, receipt=one.receipt))
            one.settle()

    def on_time(self, now_ms: int) -> None:
        """Nothing waits for a time."""

    def next_deadline_ms(self) -> int | None:
        return None

    def snapshot(self) -> Parts:
        return NO_STATE if self._passes else {SEEN: json.dumps(self.seen).encode()}

    def mark(self, checkpoint: int) -> Parts:
        state = self.snapshot()
        self._emit(Bundle.marker(self.name, checkpoint))
        return state

    def close(self) -> None:
        """Nothing is held outside of memory."""


class RememberingInstances(TaskInstances):
    """The real ends of a topology, and stages that remember between them."""

    def peers(self, name: str) -> tuple[str, ...]:
        return ()  # for people alone, and dear

    def build(self, name: str, component: Component) -> Any:
        if component.kind != PROCESSOR:
            return super().build(name, component)
        return RememberingStage(name, self._topology, component, self._routing.emitter(component))


class TurningTask(Task):
    """A task whose loop goes round once for each `go_round`."""

    flush_ms: int | None = None

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._wakeup.close()  # nobody waits here, and thousands of tasks would leave their pipes behind

    def go_round(self) -> None:
        """What has come is handled. Raises whatever ends the task."""
        self._stopping = False
        self._loop()

    def _wait(self, timeout_ms: int) -> set[Any]:
        self._stopping = True
        publishers = [publisher.link for publisher in self.publishers if publisher.link is not None]
        server = self.exchange.server
        watched: list[Any] = [] if server is None else [server.socket]
        for link in (*publishers, *self.exchange.senders()):
            watched += link.sockets
        if self._works() and not self._instances.is_full():
            watched += [receiver.server.socket for receiver in self.receivers]
        return {socket for socket in watched if socket.inbox}

    def _flush(self, monotonic_ms: int) -> int | None:
        self.flush_ms = super()._flush(monotonic_ms)
        return self.flush_ms

    def _place(self, around: InstanceContext) -> TaskInstances:
        return RememberingInstances(self.topology, self.index, around)


class SimulatedTask(Process):
    """The process of one task of an attempt. `ended` is called with the reason when it ends by itself."""

    def __init__(
        self,
        world: VirtualWorld,
        network: Network,
        topology: Topology,
        index: int,
        coordinator: Endpoint,
        store: CheckpointStore,
        reference: str,
        goes_back: bool,
        cleared: tuple[int, ...],
        doubtful: tuple[int, ...],
        ask: Ask,
        ended: Callable[[str], None],
    ) -> None:
        """Raises CheckpointError when the state that it starts from cannot be read."""
        super().__init__(world, network, f"task {index} of {topology.epoch}.{topology.attempt}", 500)
        self._ask = ask
        self._ended = ended
        self._beat_ms = self._join_ms = 0
        try:
            self.task = TurningTask(topology, index, SETTINGS, self.context, WorldClock(world), secures=True)
            for receiver in self.task.receivers:
                receiver.goes_back = goes_back
                receiver.server.cleared, receiver.server.doubtful = cleared, doubtful
            self.agent = self._agent(coordinator, store, reference)
        except BaseException:
            self.kill()
            raise

    def _agent(self, coordinator: Endpoint, store: CheckpointStore, reference: str) -> CheckpointAgent:
        topology = self.task.topology
        manifest = store.read_manifest(reference) if reference else None
        if manifest is not None:
            wanted = self.task.state.wants(stored_states.instances(manifest))
            self.task.state.bring(stored_states.read(store, manifest, wanted))
        twice = topology.plan.delivery == "exactly-once"
        writer = PartWriter(
            store, topology.key, topology.epoch, topology.attempt, self.task.index, manifest, twice=twice
        )
        agent = CheckpointAgent(self.task, coordinator, self.context, WorldClock(self.world), writer)
        agent._writing = LaterExecutor(self, 40)  # type: ignore[assignment]
        return agent

    def turn(self) -> None:
        now_ms = self.world.now_ms
        if now_ms >= self._join_ms:
            self._join_ms = now_ms + self.agent._heartbeat_ms
            self.agent._join()
        if now_ms >= self._beat_ms:
            self._beat_ms = now_ms + (1_000 if self._is_connected() else 300)
            self._beat()
        try:
            self.agent._receive()
            if self.task._failure is not None:
                raise self.task._failure
            self.task.go_round()
            self.agent._store_what_is_ready()
            if self.task._failure is not None:
                raise self.task._failure
        except CepError as error:
            self.world.note("%s ends: %s", self.name, error)
            self.kill()
            self._ended(str(error))
            return
        if self.task.flush_ms is not None:
            self.wake_at(max(self.task.flush_ms, now_ms + 1))

    def _is_connected(self) -> bool:
        return all(publisher.is_connected() for publisher in self.task.publishers)

    def _beat(self) -> None:
        """As the task's control thread does."""
        topology = self.task.topology
        key, epoch, attempt = topology.key, topology.epoch, topology.attempt
        self._ask(
            self,
            RegisterTask(
                key,
                epoch,
                self.task.index,
                "127.0.0.1",
                self.number,
                state_transfer=self.task.state.step,
                attempt=attempt,
            ),
            self._registered,
        )
        for receiver in self.task.receivers if self.task.met else ():
            endpoint = receiver.server.endpoint
            message = RegisterEndpoint("receiver", key, epoch, receiver.name, endpoint, receiver.connections, attempt)
            self._ask(self, message, self._registered)
        for publisher in self.task.publishers:
            if publisher.needs_worker():
                request = RequestEndpoint(
                    "worker", key, epoch, publisher.name, "127.0.0.1", attempt=attempt, former=publisher.former
                )
                self._ask(self, request, self._assigner(publisher.name))

    def _assigner(self, publisher: str) -> Callable[[Any], None]:
        def assigned(answer: Any) -> None:
            if isinstance(answer, EndpointAssigned):
                self.task.assign(publisher, answer)
            self._registered(answer)

        return assigned

    def _registered(self, answer: Any) -> None:
        if isinstance(answer, TaskRegistered):
            self.task.follow(answer.order)
        elif isinstance(answer, Rejected) and answer.code in ("stale-epoch", "unknown-plan"):
            self.task.stop(CepError(f"fenced: {answer.reason}"))
