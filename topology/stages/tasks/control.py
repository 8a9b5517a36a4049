"""A task's communication with the manager: heartbeats, endpoints of receivers, workers for publishers, and orders.

Its thread (one of the task's own, or one for all tasks of a stage host) shares only immutable reports with the task's
loop, so heartbeats continue while a stage is busy.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from contextlib import suppress

import zmq

from cep_common.errors import CepError, PeerError, RequestRejectedError
from cep_common.ids import InspectionAddress
from cep_common.monitoring.paced_log import PacedLog
from cep_common.process.priority import ControlPriority, raise_priority
from cep_common.protocol.registry import EndpointAssigned, Message, RegisterEndpoint, RequestEndpoint
from cep_common.protocol.tasks import RefreshedTask, RegisterTask, StateSource, TaskRegistered
from cep_common.sockets.transport import ControlClient
from topology.errors import TopologyError
from topology.stages.settings import StageSettings
from topology.stages.state.state_endpoint import StateEndpoint, fetch_state
from topology.stages.tasks.task import Task
from topology.stages.tasks.usage import TaskTime, memory_bytes

logger = logging.getLogger(__name__)
paced_logger = PacedLog(logger)

FENCED = ("stale-epoch", "unknown-plan")
"""Refusals after which a task stops, since it was replaced or its plan no longer exists."""

FIRST_HEARTBEAT_MS = 100
"""The interval of requests to the manager until everything is connected."""

FENCED_EXIT_CODE = 70
"""Exit code of a process that did not stop in time when requested."""


class TaskReporter:
    """Registers a task and its endpoints with the manager whenever `speak` is called. Belongs to the calling thread."""

    def __init__(
        self,
        task: Task,
        settings: StageSettings,
        context: zmq.Context[zmq.Socket[bytes]],
        client: ControlClient,
        insight: InspectionAddress | None = None,
        time: TaskTime | None = None,
        stage_host: str = "",
        shared_by: Callable[[], int] = lambda: 1,
    ) -> None:
        """Create the control of a task.

        Managers can read the task's log at `insight`, and get the processor time of `time`. In a `stage_host`,
        `shared_by` is the number of tasks in the process.
        """
        self._task = task
        self._context = context
        self._ports = settings.ports
        self._state_endpoint: StateEndpoint | None = None
        self._fetched = False
        self._insight = insight
        self._client = client
        self._host = settings.host
        self._time = time or TaskTime()
        self._stage_host = stage_host
        self._shared_by = shared_by
        self.heartbeat_ms = FIRST_HEARTBEAT_MS
        """The interval until the next call of `speak`."""
        self.steady = False
        """Whether the last registration was answered, and neither side waits for anything."""

    def close(self) -> None:
        """Stop transferring state to other topologies."""
        if self._state_endpoint is not None:
            self._state_endpoint.close()

    def speak(self) -> TopologyError | None:
        """Register and follow the answer. Return why the task must stop; empty if it need not.

        It must stop when another run has replaced it, or after an internal error.

        Raises:
            PeerError: When no manager answers.
        """
        try:
            self._beat()
        except RequestRejectedError as refusal:
            if refusal.reason_code in FENCED:
                return TopologyError(refusal.reason_code, str(refusal))
            paced_logger.problem("manager", "manager refused: code=%s reason=%s", refusal.reason_code, refusal)
        except PeerError as error:
            paced_logger.problem("manager", "no manager: %s", error)
            raise
        except CepError:
            paced_logger.exception("control of task %s failed", self._task.index)
        except (
            Exception
        ) as defect:  # a defect here must not end the thread: without it the task would run without heartbeats
            logger.exception("control of task %s has ended", self._task.index)
            return TopologyError("internal", f"control of the task: {type(defect).__name__}: {defect}")
        else:
            paced_logger.over("manager", "a manager responds again: task=%s", self._task.index)
        return None

    def reference(self) -> RefreshedTask:
        """Return the name of the task."""
        topology = self._task.topology
        return RefreshedTask(topology.key, topology.epoch, self._task.index, topology.attempt)

    def standing(self) -> object | None:
        """Return all that a registration would say but for usage, and None while more than that is to be said.

        As long as it is the same, and the registration was answered, the stage host's heartbeat says enough.
        """
        task = self._task
        if not task.met or task.sampler.on or task.state.step or self._state_endpoint is not None:
            return None
        connections = tuple(receiver.connections for receiver in task.receivers)
        connected = all(one.is_connected() and not one.needs_worker() for one in task.publishers)
        return (task.reports, connections, task.state.left()) if connected else None

    def _beat(self) -> None:
        task, topology = self._task, self._task.topology
        self.steady = False
        self._keep_state_endpoint()
        components, counted_ago_ms = task.counted()
        answer = self._client.request(
            RegisterTask(
                key=topology.key,
                epoch=topology.epoch,
                task=task.index,
                host=self._host,
                process_id=os.getpid(),
                components=components,
                counted_ago_ms=counted_ago_ms,
                memory_bytes=memory_bytes() // max(1, self._shared_by()),
                cpu_ms=self._time.used_ms(),
                up_ms=self._time.up_ms(),
                state_transfer=task.state.step,
                attempt=topology.attempt,
                left=task.state.left(),
                samples=task.sampler.take(),
                insight=self._insight,
                state_endpoint=self._state_endpoint.endpoint if self._state_endpoint is not None else None,
                stage_host=self._stage_host,
            )
        )
        if isinstance(answer, TaskRegistered):
            task.follow(answer.order)
            task.count(answer.statistics)
            task.sample(answer.samples)
            task.release(answer.released)
            self._fetch(answer.sources)
        for receiver in task.receivers if task.met else ():
            self._client.request(
                RegisterEndpoint(
                    role="receiver",
                    key=topology.key,
                    epoch=topology.epoch,
                    instance=receiver.name,
                    endpoint=receiver.server.endpoint,
                    connections=receiver.connections,
                    attempt=topology.attempt,
                )
            )
        connected = self._ask_for_workers()
        if isinstance(answer, TaskRegistered):
            self.heartbeat_ms = answer.heartbeat_ms if connected else min(answer.heartbeat_ms, FIRST_HEARTBEAT_MS)
            calm = answer.order == "work" and not answer.samples and answer.heartbeat_ms > FIRST_HEARTBEAT_MS
            self.steady = connected and calm

    def _keep_state_endpoint(self) -> None:
        """Keep the state endpoint open as long as there is a state to transfer."""
        task = self._task
        if task.state.step == "given" and self._state_endpoint is None:
            key, epoch = task.topology.key, task.topology.epoch
            self._state_endpoint = StateEndpoint(self._context, self._host, self._ports, key, epoch, task.state.given)
            self._state_endpoint.start()
        elif task.state.step != "given" and self._state_endpoint is not None:
            self._state_endpoint.close()
            self._state_endpoint = None

    def _fetch(self, sources: tuple[StateSource, ...]) -> None:
        """Fetch the states of the task's instances, once all are available."""
        if self._fetched or not sources:
            return
        found = {source.instance: source for source in sources}
        key = self._task.topology.key
        states = {
            name: fetch_state(self._context, found[name].endpoint, key, found[name].epoch, name)
            for name in sorted(self._task.state.wants(found))
        }
        self._fetched = True
        try:
            self._task.state.bring(states)
        except TopologyError as error:  # it will not fit later either: the former topology continues
            self._task.stop(error)

    def _ask_for_workers(self) -> bool:
        """Request workers for publishers, and return whether every publisher has one that responds."""
        connected = True
        topology = self._task.topology
        for publisher in self._task.publishers:
            connected = connected and publisher.is_connected() and not publisher.needs_worker()
            if publisher.needs_worker():
                answer = self._request_quietly(
                    RequestEndpoint(
                        role="worker",
                        key=topology.key,
                        epoch=topology.epoch,
                        requester=publisher.name,
                        host=self._host,
                        attempt=topology.attempt,
                        former=publisher.former,
                    )
                )
                if isinstance(answer, EndpointAssigned):
                    self._task.assign(publisher.name, answer)
        return connected

    def _request_quietly(self, message: Message) -> Message | None:
        """Return the answer, or None while no endpoint is available."""
        try:
            return self._client.request(message)
        except RequestRejectedError as refusal:
            if refusal.reason_code in FENCED:
                raise
            return None


class TaskControl(threading.Thread):
    """Communicates with the manager for one task until `close`.

    A refused registration stops the task, and so does the loss of the process that started this one; a silent manager
    does not. A task that does not stop in time is ended with its process.
    """

    def __init__(
        self,
        task: Task,
        settings: StageSettings,
        context: zmq.Context[zmq.Socket[bytes]],
        insight: InspectionAddress | None = None,
        priority: ControlPriority = "normal",
    ) -> None:
        """Create the control; managers learn that they can read the task's log at `insight`."""
        super().__init__(name=f"control of task {task.index}", daemon=True)
        self._task = task
        self._client = ControlClient(context, settings.managers, settings.request_timeout_ms)
        self._speaker = TaskReporter(task, settings, context, self._client, insight)
        self._priority = priority
        self._stop_timeout_s = settings.stop_timeout_ms / 1000
        self._closing = threading.Event()
        self._parent = os.getppid()

    def close(self) -> None:
        """End the thread and wait for it."""
        self._closing.set()
        self._task.asks.set()
        self.join()

    def run(self) -> None:
        raise_priority(self._priority)  # this thread sends heartbeats
        while not self._closing.is_set():
            reason: TopologyError | None = None
            with suppress(PeerError):
                reason = self._speaker.speak()
            if reason is None and os.getppid() != self._parent:
                reason = orphaned()
            if reason is not None:
                self._fence(reason)
                break
            self._task.asks.wait(self._speaker.heartbeat_ms / 1000)
            self._task.asks.clear()
        self._client.close()
        self._speaker.close()

    def _fence(self, reason: TopologyError) -> None:
        """Stop the task, or end this process if it does not stop in time: it must not run beside its successor."""
        logger.warning("task stops: task=%s reason=%s", self._task.index, reason)
        self._task.stop(reason)
        if not self._closing.wait(self._stop_timeout_s):
            logger.error("task did not stop in time, its process ends: task=%s", self._task.index)
            os._exit(FENCED_EXIT_CODE)


def orphaned() -> TopologyError:
    """Return why a task stops whose parent process has ended."""
    return TopologyError("orphaned", "the process that started this task has ended")
