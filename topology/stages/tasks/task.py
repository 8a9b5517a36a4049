"""A task: the component instances that are placed in it, and the loop that feeds them.

One thread does all the work: that of `run`, or that of a stage host which gives turns to the tasks of many plans.
Bundles between instances of the task are handed over in memory; `TaskExchange` carries those for other tasks.
Acknowledgements are sent once a turn, and no new events are accepted while results cannot be sent.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import zmq

from cep_common.clock import Clock
from cep_common.errors import DecodeError
from cep_common.ids import Endpoint
from cep_common.protocol.error_records import SCRIPT_STOPPED
from cep_common.protocol.registry import EndpointAssigned
from cep_common.protocol.tasks import ComponentReport, SampleOrder, StatisticsLevel, TaskOrder
from cep_common.sockets.wakeup import Wakeup
from siddhi.errors import SnapshotError
from topology.errors import STATE_UNREADABLE, TopologyError
from topology.events.bundle import Bundle
from topology.links.sender import BEAT_MS
from topology.links.shared import HostLinks
from topology.model import Topology
from topology.stages.contract import NO_STATE, Parts
from topology.stages.kinds.processor import Processor
from topology.stages.kinds.publisher import Publisher
from topology.stages.kinds.receiver import Receiver
from topology.stages.kinds.trigger import TriggerInstance
from topology.stages.routes.exchange import TASK_LOST, TaskExchange
from topology.stages.settings import StageSettings
from topology.stages.state.checkpointing import Checkpointing
from topology.stages.state.state_queries import StateQueryService
from topology.stages.state.transfer import TaskState
from topology.stages.tasks.aligned_times import aligned
from topology.stages.tasks.instances import InstanceContext, TaskInstances
from topology.stages.tasks.sampler import Sampler
from topology.stages.tasks.script_runner import PlanScripts
from topology.sync_log.task_logs import TaskLogs

logger = logging.getLogger(__name__)

TICK_MS = 250
"""How often links beat and the counters are published."""
HAND_OVER_MS = 20
"""How often a task that does not work looks what it has been ordered."""
TURN_MS = 250
"""Bundles are delivered for so long in a turn: links are served between turns, and a peer that is silent for too long
is lost."""
MEASURE_MS = 2_000
"""How often stages look how much state they hold."""


@dataclass(slots=True)
class Pace:
    """How a task divides its time into turns.

    A turn may deliver bundles for `turn_ms`, and an idle task ticks every `idle_tick_ms`; a stage host, where others
    wait, sets the first lower and the second higher. It has `worked` when a bundle was delivered since the last tick;
    `due_ms` is when each instance wants to be called.
    """

    turn_ms: int = TURN_MS
    idle_tick_ms: int = TICK_MS
    next_tick_ms: int = 0
    flush_ms: int | None = None
    worked: bool = False
    due_ms: Mapping[str, int] = field(default_factory=dict)

    def ticks(self, monotonic_ms: int) -> bool:
        """Return whether it is time for a tick, and plan the next one."""
        if self.worked:
            self.next_tick_ms = min(self.next_tick_ms, monotonic_ms + TICK_MS)
        if monotonic_ms < self.next_tick_ms:
            return False
        self.next_tick_ms = aligned(monotonic_ms + (TICK_MS if self.worked else self.idle_tick_ms), monotonic_ms)
        self.worked = False
        return True


class Task:
    """Task `index` of a topology. `run` returns when `stop` was called; any error ends it, and with it the topology."""

    def __init__(
        self,
        topology: Topology,
        index: int,
        settings: StageSettings,
        context: zmq.Context[zmq.Socket[bytes]],
        clock: Clock,
        stands_by: bool = False,
        secures: bool = False,
        asks: threading.Event | None = None,
        links: HostLinks | None = None,
    ) -> None:
        """Create task `index` of a topology; in a stage host it uses the host's `links`.

        With `stands_by` it starts on the manager's command. With `secures` checkpoints will be taken, and workers learn
        what they hold.

        Raises:
            TopologyError: When the plan needs checkpoints and there are none.
        """
        if topology.plan.delivery == "exactly-once" and not secures:
            raise TopologyError(
                "not-supported",
                "exactly-once delivery needs checkpoints: set checkpoint.location in the driver's "
                "configuration, or write @Plan:delivery('at-least-once')",
            )
        self.topology = topology
        self.index = index
        self._clock = clock
        self._work: deque[tuple[str, Bundle]] = deque()
        self._assigned: queue.SimpleQueue[tuple[str, EndpointAssigned]] = queue.SimpleQueue()
        self._wakeup = Wakeup()
        self._exchanges: Sequence[Endpoint] = ()
        self.met = topology.tasks == 1
        """The task knows the others: before, nothing is taken in and nothing can go to them; read by other threads."""
        self.asks = asks or threading.Event()
        """Set when a manager is to be asked for something at once; the control thread clears it."""
        self._order: TaskOrder = "stand-by" if stands_by else "work"
        self._level: StatisticsLevel = "basic"
        self._released: tuple[str, ...] = ()
        self._followed_released: tuple[str, ...] = ()
        self._opened = False
        self.at_work = ""
        """The instance that works now: when the task fails, the one that did."""
        self._failure: BaseException | None = None
        self._stopping = False
        self._full = True
        """Nothing is taken in."""
        self.pace = Pace()
        self._counted: tuple[tuple[ComponentReport, ...], int] = ((), clock.monotonic_ms())
        self._measure_ms = 0
        self._measured: object = None
        """How far the task had come, and at which level it counted, when its state was measured last."""
        self._watched: list[Any] = []
        self._poller = zmq.Poller()
        self._poller.register(self._wakeup.handle, zmq.POLLIN)
        self.sampler = Sampler()
        """What of the events is shown; its orders and what it has seen belong to the control thread."""
        self._logs = TaskLogs(topology, index, settings.sync_log, self._enqueue, self._wakeup.ring)
        self.exchange = TaskExchange(topology, index, context, settings.host, settings.ports, self._deliver)
        self._links, self._beat_ms = links, 0
        self._scripts = PlanScripts(settings.script_process, self._keep_links)
        self._instances = self._place(
            InstanceContext(
                settings=settings,
                context=context,
                clock=clock,
                sampler=self.sampler,
                exchange=self.exchange,
                deliver=self._deliver,
                lost=self.asks.set,
                secures=secures,
                logs=self._logs,
                scripts=self._scripts,
                links=links,
            )
        )
        self._scripts.start()
        self.receivers, self.publishers = self._instances.receivers, self._instances.publishers
        self._triggers = {name: one for name, one in self._instances.items() if isinstance(one, TriggerInstance)}
        self.state = TaskState(topology, self._instances, self._instances.processors, settings.scripts)
        """What it starts from, and what it gives to a later topology."""
        self.checkpointing = Checkpointing(topology, self._instances, self._logs)
        by_name = {processor.name: processor for processor in self._instances.processors}
        self.questions = StateQueryService(by_name, self._wakeup.ring)
        """Answers what others ask about the state of its stages."""

    @property
    def endpoint(self) -> Endpoint:
        """Where the task can be reached: by the others, or, when it is the only one, by workers."""
        server = self.exchange.server
        return server.endpoint if server is not None else self.receivers[0].server.endpoint

    @property
    def reports(self) -> tuple[ComponentReport, ...]:
        """The newest counters; read by the control thread."""
        return self._counted[0]

    def counted(self) -> tuple[tuple[ComponentReport, ...], int]:
        """Return the newest counters, and their age in milliseconds; called by the control thread."""
        reports, at_ms = self._counted
        return reports, max(0, self._clock.monotonic_ms() - at_ms)

    def assign(self, publisher: str, assignment: EndpointAssigned) -> None:
        """Set the worker that a publisher sends to; called by the control thread."""
        self._assigned.put((publisher, assignment))
        self._wakeup.ring()

    def sample(self, orders: Iterable[SampleOrder]) -> None:
        """Events are sampled as `orders` say; called by the control thread."""
        self.sampler.follow(orders, self._clock.monotonic_ms())

    def follow(self, order: TaskOrder) -> None:
        """Set the task's status for the loop; called by the control thread."""
        if order != self._order:
            self._order = order
            self.wake()

    def release(self, streams: tuple[str, ...]) -> None:
        """Set the streams for whose first events the loop does not wait; called by the control thread."""
        if streams != self._released:
            self._released = streams
            self._wakeup.ring()

    def count(self, level: StatisticsLevel) -> None:
        """Set the statistics that the instances collect from the next tick on; called by the control thread."""
        if level != self._level:
            self._level = level
            self.pace.next_tick_ms = 0  # ticks of a task that rests are far apart
            self.wake()

    def stop(self, failure: BaseException | None = None) -> None:
        """End the loop soon, with `failure` as its error if there is one; called by the control thread."""
        self._failure = failure
        self._stopping = True
        self._wakeup.ring()

    def meet(self, exchanges: Sequence[Endpoint]) -> None:
        """Give the loop the addresses of all tasks, in order; called by the agent's thread, perhaps repeatedly."""
        if not self._exchanges:
            self._exchanges = exchanges
            self._wakeup.ring()

    def _place(self, around: InstanceContext) -> TaskInstances:
        try:
            return TaskInstances(self.topology, self.index, around)
        except BaseException:
            self._scripts.close()
            self._logs.close()  # their threads would run on in the process, with a connection for each attempt
            raise

    def run(self) -> None:
        """Works until stopped, from when it has met the other tasks."""
        try:
            self._loop()
        except TopologyError as error:
            if not self.expects(error):
                raise
        finally:
            self.close()
        if self._failure is not None:
            raise self._failure

    def close(self) -> None:
        """Close the instances and their sockets; the thread that gives the turns calls this once, after the last."""
        for instance in self._instances.values():
            instance.close()
        self._scripts.close()
        self._logs.close()
        self.exchange.close()
        self._wakeup.close()

    @property
    def rests(self) -> bool:
        """Whether it is connected, and nothing has happened since its last checkpoint."""
        connected = all(one.is_connected() and not one.needs_worker() for one in self.publishers)
        return connected and self._works() and self.checkpointing.idle and not self._triggers

    @property
    def stopping(self) -> bool:
        """Whether `stop` was called; then no further turn is to be given."""
        return self._stopping

    @property
    def failure(self) -> BaseException | None:
        """The error that `stop` was called with."""
        return self._failure

    def expects(self, error: BaseException) -> bool:
        """Return whether `error` only means that the task was stopped.

        The tasks of a topology are stopped one after the other: one that ends first breaks its links to the rest.
        """
        return self._stopping and isinstance(error, TopologyError) and error.reason_code == TASK_LOST

    def _loop(self) -> None:
        self.pace.next_tick_ms, self.pace.flush_ms = 0, None
        while not self._stopping:
            wait_ms = self.prepare()
            self.turn(self._wait(wait_ms))

    def prepare(self) -> int:
        """Follow the orders since the last turn, and return how long the next turn may wait, in milliseconds.

        It waits for `sockets` and the wakeup.
        """
        self._obey()
        works = self._works()
        pace = self.pace
        pace.due_ms = self._deadlines() if works else {}
        if self._work:
            return 0
        wait_ms = min(pace.next_tick_ms, pace.flush_ms or pace.next_tick_ms) - self._clock.monotonic_ms()
        if not works:
            wait_ms = min(wait_ms, HAND_OVER_MS)
        if pace.due_ms:
            wait_ms = min(wait_ms, min(pace.due_ms.values()) - self._clock.now_ms())
        return max(0, wait_ms)

    def turn(self, readable: set[Any]) -> None:
        """Process the `readable` ones of `sockets`, and what is due. Raise what ends the task.

        Plans follow the time of day; links and ticks the monotonic time: a corrected clock breaks no link.
        """
        now_ms, monotonic_ms = self._clock.now_ms(), self._clock.monotonic_ms()
        if self.met:
            self.checkpointing.obey(works=self._works(), now_ms=now_ms)
        self._take_in(readable, now_ms, monotonic_ms)
        self._logs.pump()
        self._drain(now_ms)
        if self._released != self._followed_released and self._works():
            self._let_go(now_ms)
        # No timer fires before events that came earlier.
        for name, deadline_ms in self.pace.due_ms.items() if not self._work else ():
            if deadline_ms <= now_ms:
                self.at_work = name
                self.checkpointing.changes += 1
                self._instances[name].on_time(now_ms)
        self._drain(now_ms)
        if self.pace.ticks(monotonic_ms):
            self._tick(now_ms, monotonic_ms)
        self.questions.answer(works=self._opened)
        self.checkpointing.note_flushed()
        self.checkpointing.note_settled()
        self.pace.flush_ms = self._flush(monotonic_ms)

    def _let_go(self, now_ms: int) -> None:
        """Stages continue without the first events that need not be waited for."""
        self._measured = None
        self._followed_released = self._released
        for processor in self._instances.processors:
            processor.release(self._released)
            processor.on_time(now_ms)
        self._drain(now_ms)

    def _works(self) -> bool:
        """Return whether events are taken in and timers fire."""
        return self.met and self._opened and self._order == "work" and not self.checkpointing.ending

    def _obey(self) -> None:
        """Follow the orders of driver and manager since the last turn.

        It does nothing before it has met the other tasks, since what is opened may send to them at once.
        """
        if not self.met:
            if not self._exchanges:
                return
            self.exchange.connect(self._exchanges, self._clock.monotonic_ms())
            self.met = True
            self.asks.set()
        if not self._opened:
            if self.state.brought is not None:
                self._open(self.state.brought)
                self.state.step = "restored"
            elif self._order != "stand-by":
                self._open({})
        elif self._order == "work":
            self.state.finish()
        elif self._order in ("pause", "give"):
            self._rest()
            self.state.give(self._order, quiet=self._is_quiet())

    def _open(self, states: Mapping[str, Parts]) -> None:
        now_ms = self._clock.now_ms()
        for name, instance in self._instances.items():
            try:
                instance.open(now_ms, states.get(name, NO_STATE))
            except (SnapshotError, DecodeError, msgspec.MsgspecError, UnicodeDecodeError) as error:
                raise TopologyError(STATE_UNREADABLE, f"the state of {name} cannot be read: {error}") from error
        self._opened = True

    def _rest(self) -> None:
        """Let processors finish what they have, so that the task becomes quiet."""
        for processor in self._instances.processors if self.state.step in ("", "restored") else ():
            processor.rest()

    def _is_quiet(self) -> bool:
        parts: tuple[TaskExchange | TaskLogs | Receiver | Processor | Publisher, ...]
        parts = (self.exchange, self._logs, *self.receivers, *self._instances.processors, *self.publishers)
        return not self._work and all(part.is_drained() for part in parts)

    def _deadlines(self) -> dict[str, int]:
        """Return when each instance that waits for a time must be called."""
        deadlines = ((name, instance.next_deadline_ms()) for name, instance in self._instances.items())
        return {name: deadline_ms for name, deadline_ms in deadlines if deadline_ms is not None}

    def _flush(self, monotonic_ms: int) -> int | None:
        """Send the acknowledgements that are due; return the time at which to look again, or None."""
        times = [receiver.server.flush(monotonic_ms) for receiver in self.receivers]
        self.exchange.flush()
        return min((time_ms for time_ms in times if time_ms is not None), default=None)

    def wake(self) -> None:
        """Wake the loop, so that it follows its orders soon; called by any thread."""
        self._wakeup.ring()

    @property
    def wakeup(self) -> int:
        """The file handle that can be read when another thread has something for the task, until `silence`."""
        return self._wakeup.handle

    def silence(self) -> None:
        """Take note that the wakeup has rung."""
        self._wakeup.silence()

    def sockets(self) -> list[Any]:
        """Return the sockets to wait for now."""
        server = self.exchange.server
        watched: list[Any] = [server.socket] if self.met and server is not None else []
        for publisher in self.publishers:
            if publisher.link is not None:
                watched += publisher.link.sockets
        for sender in self.exchange.senders():
            watched += sender.sockets
        self._full = not self._works() or self._instances.is_full()
        if not self._full:
            watched += [receiver.server.socket for receiver in self.receivers]
        return watched

    def _wait(self, timeout_ms: int) -> set[Any]:
        """Wait at most so long for a readable socket or the wakeup of another thread; return the readable sockets."""
        watched = self.sockets()
        if watched != self._watched:
            self._watched, self._poller = watched, zmq.Poller()
            self._poller.register(self._wakeup.handle, zmq.POLLIN)
            for socket in watched:
                self._poller.register(socket, zmq.POLLIN)
        readable = {socket for socket, _ in self._poller.poll(timeout_ms)}
        if self._wakeup.handle in readable:
            self._wakeup.silence()
        return readable

    def _take_in(self, readable: set[Any], now_ms: int, monotonic_ms: int) -> None:
        while not self._assigned.empty():
            name, assignment = self._assigned.get()
            for publisher in self.publishers:
                if publisher.name == name and publisher.needs_worker():
                    publisher.assign(assignment.endpoint, assignment.instance, monotonic_ms)
        for publisher in self.publishers:
            if publisher.link is not None and not readable.isdisjoint(publisher.link.sockets):
                publisher.on_readable(now_ms)
        self.exchange.on_senders_readable()
        server = self.exchange.server
        if self.met and server is not None and server.socket in readable:
            self.exchange.on_readable(monotonic_ms)
        for receiver in self.receivers:
            if receiver.server.socket in readable:
                receiver.on_readable(monotonic_ms)
            receiver.pace(monotonic_ms, full=self._full)

    def _drain(self, now_ms: int) -> None:
        end_ms = self._clock.monotonic_ms() + self.pace.turn_ms
        while self._work:
            target, bundle = self._work.popleft()
            self.at_work = target
            if self.sampler.on:
                self.sampler.note(target, "in", bundle, now_ms, self._clock.monotonic_ms())
            self.checkpointing.deliver(target, bundle, now_ms)
            if self._clock.monotonic_ms() >= end_ms:
                break
        self.at_work = ""

    def _tick(self, now_ms: int, monotonic_ms: int) -> None:
        for publisher in self.publishers:
            publisher.keep_alive(monotonic_ms)
            publisher.on_readable(now_ms)
        for receiver in self.receivers if self._works() else ():
            receiver.on_time(monotonic_ms)
        self.exchange.tick(monotonic_ms)
        for name, code, text in self._logs.problems():
            if self._instances[name].statistics.error(code, text, now_ms):
                logger.error("%s: instance=%s", text, name)
        self._scripts.tend()
        for function, count, reason in self._scripts.stopped():
            self._note_stopped(function, count, reason, now_ms)
        if self._clock.deviation_ms:
            text = f"the host's clock jumped by {self._clock.deviation_ms} ms; check its time server"
            stages: tuple[Receiver | Processor, ...] = (*self.receivers, *self._instances.processors)
            for instance in stages:
                instance.statistics.error("clock-jumped", text, now_ms)
        for name in self._triggers if self._opened else ():
            self._triggers[name].note_time(now_ms)
        self._instances.follow_level(self._level)
        if self._opened and monotonic_ms >= self._measure_ms:
            self._measure_ms = monotonic_ms + MEASURE_MS
            changes = self.checkpointing.changes, self._level
            self._instances.measure(self._level, changed=changes != self._measured)
            self._measured = changes
        self._counted = self._instances.reports(), monotonic_ms

    def _keep_links(self) -> None:
        """Beat on links while scripts run, which may take minutes for a batch: peers would take the task for lost."""
        monotonic_ms = self._clock.monotonic_ms()
        if monotonic_ms < self._beat_ms:
            return
        self._beat_ms = monotonic_ms + BEAT_MS
        if self._links is not None:
            self._links.keep_alive(monotonic_ms)
        for publisher in self.publishers:
            if publisher.link is not None:
                publisher.link.keep_alive(monotonic_ms)
        self.exchange.keep_alive(monotonic_ms)

    def _note_stopped(self, function: str, count: int, reason: str, now_ms: int) -> None:
        """Record calls of `function` that were stopped at the stage that calls it; their events count as errors."""
        stages = [one for one in self._instances.processors if function in one.functions] or self._instances.processors
        instance = stages[0] if stages else next(iter(self._instances.values()))
        if instance.statistics.explain(SCRIPT_STOPPED, f"function {function}: {reason}", now_ms, count):
            logger.error("a script was stopped, more are counted only: function=%s reason=%s", function, reason)

    def _deliver(self, target: str, bundle: Bundle) -> None:
        if not self._logs.takes(target, bundle):
            self._enqueue(target, bundle)

    def _enqueue(self, target: str, bundle: Bundle) -> None:
        self.pace.worked = True
        if not bundle.checkpoint:
            self.checkpointing.changes += 1
        self._work.append((target, bundle))
