"""The body of a stage host: a Spark task that runs the tasks of many plans of one tenant, as ordered by its driver.

    main thread     HostLoop: turns of all tasks, one after the other (`topology/stages/hosts/host_loop.py`)
    builder         creates tasks and reads their states, so that no plan waits for the start of another
    control         registers all tasks with the manager
    driver          checkpoints of all tasks, orders and registrations of the host, and monitoring of the main thread

A plan that fails ends alone. A failure that cannot be isolated, such as a turn that does not return, ends the process.
Each plan then starts again from its checkpoint, and the one that was running gets a strike.
"""

from __future__ import annotations

import gc
import logging
import os
import threading
import traceback
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial

import msgspec
import pyarrow as pa
import zmq

from cep_common.clock import SystemClock
from cep_common.errors import ConfigError, DecodeError
from cep_common.ids import PlanKey
from cep_common.inspection.endpoint import Inspection, open_inspection
from cep_common.inspection.settings import settings_of
from cep_common.monitoring.paced_log import PacedLog
from cep_common.protocol.codec import MAXIMUM_CONTROL_BYTES, decode, encode
from cep_common.protocol.inspection import QueryRunningState
from cep_common.protocol.registry import Message, Rejected
from cep_common.protocol.stage_hosts import Blame, EndTask, HostedState, HostedTask, HostHeard, ReportHost, RunTask
from cep_common.security.context import open_context
from cep_common.security.roles import Role, SocketKind
from cep_common.sockets.ready_sockets import ReadySockets
from cep_common.sockets.transport import ControlClient, connecting_socket, receive_now, send_now
from siddhi.errors import SiddhiError
from topology.errors import STATE_UNREADABLE, TopologyError
from topology.links.shared import HostLinks
from topology.spark.executor_side.heartbeat_monitor import HEARTBEAT_MONITOR
from topology.spark.executor_side.task import address_of_task, build_task, start_task_log, unfit
from topology.spark.reasons import Ending, describe_place, read_ending
from topology.stages.hosts.host_control import HostAgents, HostControl, StatusRequest
from topology.stages.hosts.host_loop import HostedTime, HostLoop
from topology.stages.hosts.host_memory import HostMemory, raise_file_limit, refuse_beyond_files
from topology.stages.hosts.host_trace import HostTrace, default_folder, left_behind, remove_stale
from topology.stages.settings import HostAssignment, TaskAssignment
from topology.stages.tasks.call_timer import CallTimer
from topology.stages.tasks.checkpoint_agent import CheckpointReporter
from topology.stages.tasks.control import FENCED_EXIT_CODE, TaskReporter
from topology.stages.tasks.task import Task
from topology.stages.tasks.usage import TaskTime, memory_bytes

logger = logging.getLogger(__name__)
paced_logger = PacedLog(logger)

FIRST_HEARTBEAT_MS = 100
"""Interval at which the host registers until the driver has answered."""
HANG_MS = 30_000
"""The length of a turn that ends the host if other plans wait for theirs.

Reading a large state, or compiling on a busy machine, takes some seconds.
"""
TRACE_MS = 1_000
"""Interval at which the host checks for dead hosts on its machine."""

TaskId = tuple[PlanKey, int, int]
"""A plan, an epoch and an attempt."""


@dataclass(slots=True, eq=False)
class _Hosted:
    """A task in the host.

    It has `begun` once it is being built, and `ends` when it was ordered to. `ended` is the report of its end for the
    driver, and `reported` the number of the first registration with this report.
    """

    key: PlanKey
    task: Task | None = None
    begun: bool = False
    runs: bool = False
    ends: bool = False
    failure: BaseException | None = None
    ended: HostedTask | None = None
    reported: int | None = None


def run_host(payload: bytes, index: int, _rows: Iterable[object]) -> Iterator[None]:
    """Run a stage host as `payload` (a HostAssignment in JSON) says until it is stopped; yield nothing."""
    assignment = msgspec.json.decode(payload, type=HostAssignment)
    host = address_of_task(assignment.settings, index)
    ring = start_task_log(assignment.log, f"host-{assignment.host}-{os.getpid()}")
    insight = Inspection(ring, settings_of(assignment.settings, otherwise="driver"))
    with ExitStack() as opened:
        StageHost(assignment, host, insight, opened).run()
    return iter(())


class StageHost:
    """A stage host; `run` is called in the main thread."""

    def __init__(self, assignment: HostAssignment, address: str, insight: Inspection, opened: ExitStack) -> None:
        """Create a host; `opened` closes what it opens."""
        self._assignment = assignment
        self._settings = msgspec.structs.replace(assignment.settings, host=address)
        self._clock = SystemClock()
        self._lock = threading.Lock()
        self._hosted: dict[TaskId, _Hosted] = {}
        self._number = 0
        self._changed = True
        self._listed = self._known = 0
        """The registration that listed the tasks last, and the one whose list the driver has."""
        self._heartbeat_ms, self._lease_ms = FIRST_HEARTBEAT_MS, 0
        self._next_beat_ms = self._next_trace_ms = 0
        self._exit_ms: int | None = None
        self._blames: list[Blame] = []
        self._time = TaskTime()
        pa.set_cpu_count(1)
        raise_file_limit()
        CallTimer().install()
        self._folder = default_folder(assignment.host)
        self._trace = self._open_trace()
        settings = self._settings
        self._context = open_context(settings.security, Role.STAGE, {"stages.host": address})
        opened.callback(self._context.destroy, linger=0)
        endpoint = open_inspection(self._context, Role.STAGE, address, assignment.log, insight)
        self._address_of_insight = endpoint.address if endpoint is not None else None
        if endpoint is not None:
            opened.callback(endpoint.close)
            endpoint.answers_queries = self._ask
        self._memory = HostMemory(settings.task_memory_bytes)
        ready = ReadySockets()
        self._links = HostLinks(self._context, address, settings.ports, ready, self._clock.monotonic_ms)
        self._loop = HostLoop(self._clock, self._at_work, ready, self._links.tick)
        self._builder = ThreadPoolExecutor(max_workers=1, thread_name_prefix="builder")
        self._writing = ThreadPoolExecutor(max_workers=1, thread_name_prefix="checkpoint writer")
        client = ControlClient(self._context, settings.managers, settings.request_timeout_ms)
        self._control = HostControl(client, assignment.priority, self._orphaned, assignment.host)
        self._socket = connecting_socket(self._context, SocketKind.HOSTS, MAXIMUM_CONTROL_BYTES)
        self._socket.connect(assignment.driver.url())
        self._agents = HostAgents(assignment.priority, self._each_turn, self._socket)

    def run(self) -> None:
        """Run until the driver ends the host."""
        gc.collect()
        gc.freeze()  # existing objects stay: garbage collections need not visit them while events wait
        self._control.start()
        self._agents.start()
        try:
            self._loop.run()
        finally:
            self._builder.shutdown(wait=False, cancel_futures=True)
            self._control.close()
            self._agents.close()
            HEARTBEAT_MONITOR.beat(0)
            self._writing.shutdown(wait=True)
            self._links.close()
            self._socket.close()
            if self._trace is not None:
                self._trace.close()

    def _open_trace(self) -> HostTrace | None:
        try:
            trace = HostTrace(self._assignment.host, self._folder)
            remove_stale(self._folder)
        except OSError as error:
            logger.warning("if this host dies, the plan that was running will not be known: %s", error)
            return None
        return trace

    # ---- the main thread --------------------------------------------------------------------------------------------

    def _at_work(self, task: Task | None) -> None:
        if self._trace is not None:
            self._trace.note(task.topology.key if task is not None else None)

    def _task_ended(self, task_id: TaskId, failure: BaseException | None) -> None:
        hosted = self._hosted[task_id]
        hosted.failure = failure
        if hosted.task is not None:
            if failure is not None:
                failure.add_note(describe_place(hosted.task.at_work, 0, self._settings.host, os.getpid()))
            self._control.remove(hosted.task)
            self._agents.leave(hosted.task)

    # ---- the builder ------------------------------------------------------------------------------------------------

    def _build(self, task_id: TaskId, data: bytes) -> None:
        with self._lock:
            hosted = self._hosted.get(task_id)
            if hosted is None or hosted.ended is not None:  # ended while it waited
                return
            hosted.begun = True
        self._note_change()
        try:
            refuse_beyond_files()
        except TopologyError as failure:  # not caused by the plan, which may start in another host
            self._note_end(hosted, task_id, failure)
            return
        try:
            assignment = msgspec.json.decode(data, type=TaskAssignment)
            settings = msgspec.structs.replace(assignment.settings, host=self._settings.host)
            asks = StatusRequest(self._control.wake)
            task, writer = build_task(assignment, 0, settings, self._context, asks, self._links)
        except (SiddhiError, TopologyError, ConfigError) as failure:
            self._note_end(hosted, task_id, unfit(failure, task_id[0].plan))
            return
        except Exception as failure:  # noqa: BLE001 - the border between plans: the driver tells why this one ended
            self._note_end(hosted, task_id, failure)
            return
        timing = HostedTime()
        speaker = TaskReporter(
            task, settings, self._context, self._control.client, self._address_of_insight, timing,
            self._assignment.host, self._count,
        )  # fmt: skip
        agent = CheckpointReporter(
            task, assignment.coordinator, self._context, self._clock, writer, writing=self._writing
        )
        with self._lock:
            hosted.task, hosted.runs = task, True
            if hosted.ends:
                task.stop()
        self._note_change()
        note_checkpoints = self._agents.add(task, agent, partial(self._gone, task_id))
        note_status = self._control.add(task, speaker)

        def turned() -> None:
            note_status()
            note_checkpoints()

        self._loop.add(task, timing, partial(self._task_ended, task_id), turned)

    def _note_change(self) -> None:
        """Report the running tasks to the driver at once. Any thread may call this."""
        self._changed = True
        self._agents.wake()

    def _count(self) -> int:
        with self._lock:
            return sum(one.runs and one.ended is None for one in self._hosted.values())

    # ---- the thread that speaks with the driver ---------------------------------------------------------------------

    def _gone(self, task_id: TaskId) -> None:
        """Finish sending and writing for a task that has ended."""
        hosted = self._hosted[task_id]
        failure = hosted.failure
        if isinstance(failure, TopologyError) and failure.reason_code == STATE_UNREADABLE:
            failure = unfit(failure, task_id[0].plan)
        self._note_end(hosted, task_id, failure)

    def _note_end(self, hosted: _Hosted, task_id: TaskId, failure: BaseException | None) -> None:
        key, epoch, attempt = task_id
        ended = HostedTask(key, epoch, attempt, "ended", reason="the tasks stopped")
        if failure is not None:
            text = "".join(traceback.format_exception(failure))
            ending: Ending = read_ending(text, {})
            ended = HostedTask(
                key, epoch, attempt, "ended", ending.code, ending.reason, ending.traceback, ending.instance,
                ending.unfit,
            )  # fmt: skip
            logger.warning("task ended: topology=%s epoch=%d reason=%s", key.topology(), epoch, ending.reason)
        with self._lock:
            hosted.ended, hosted.task = ended, None
        self._note_change()

    def _each_turn(self, readable: set[zmq.Socket[bytes]]) -> int:
        """Do everything that is due, and return the time of the next due work."""
        if self._socket in readable:
            while (frames := receive_now(self._socket)) is not None:
                try:
                    self._obey(decode(frames).message)
                except DecodeError as error:
                    paced_logger.problem("order", "unreadable order of the driver: %s", error)
        now_ms = self._clock.monotonic_ms()
        self._watch(now_ms)
        if now_ms >= self._next_trace_ms:
            self._next_trace_ms = now_ms + TRACE_MS
            for host, key in left_behind(self._folder):
                self._blames.append(Blame(host, key, "it was running when its stage host died"))
                self._changed = True
        if self._changed or now_ms >= self._next_beat_ms:
            self._register(now_ms)
        # The check shares the wake-up of the next registration. It stays due: each change defers that registration.
        trace_ms = max(self._next_trace_ms, self._next_beat_ms) if self._lease_ms else self._next_trace_ms
        times_ms = [self._next_beat_ms, trace_ms, self._exit_ms, self._memory.due_ms(self._loop.turns)]
        return min(time_ms for time_ms in times_ms if time_ms is not None)

    def _obey(self, message: Message) -> None:
        match message:
            case HostHeard(heartbeat_ms=heartbeat_ms, lease_ms=lease_ms, knows=knows):
                self._heartbeat_ms, self._lease_ms, self._known = heartbeat_ms, lease_ms, knows
                with self._lock:
                    for task_id, one in list(self._hosted.items()):
                        if one.reported is not None and one.reported <= knows:
                            del self._hosted[task_id]
            case RunTask(key=key, epoch=epoch, attempt=attempt, assignment=assignment):
                task_id = (key, epoch, attempt)
                with self._lock:
                    if task_id in self._hosted:
                        return
                    self._hosted[task_id] = _Hosted(key)
                    self._changed = True
                logger.info("task received: topology=%s epoch=%d attempt=%d", key.topology(), epoch, attempt)
                self._builder.submit(self._build, task_id, assignment)
            case EndTask(key=key, epoch=epoch, attempt=attempt):
                self._end(key, epoch, attempt)
            case Rejected(reason=reason):
                logger.warning("the driver does not know this host, which stops: reason=%s", reason)
                self._leave(now_ms=self._clock.monotonic_ms())
            case _:
                logger.warning("unexpected order of the driver: type=%s", message.TYPE)

    def _end(self, key: PlanKey, epoch: int, attempt: int) -> None:
        """End a task. A task that never arrived here, or that still waits, is reported as ended.

        The driver repeats its order until it gets this report.
        """
        with self._lock:
            hosted = self._hosted.get((key, epoch, attempt))
            if hosted is None or not hosted.begun:
                hosted = self._hosted.setdefault((key, epoch, attempt), _Hosted(key))
                if hosted.ended is None:
                    hosted.ended = HostedTask(key, epoch, attempt, "ended", reason="the tasks stopped")
                    self._changed = True
            elif hosted.task is not None:
                hosted.task.stop()
            else:
                hosted.ends = True

    def _register(self, now_ms: int) -> None:
        with self._lock:
            self._number += 1
            if self._changed or self._known != self._listed:
                self._listed = self._number
            self._changed = False
            listed = self._listed == self._number
            tasks = tuple(self._report_of(task_id, one) for task_id, one in self._hosted.items()) if listed else ()
            for one in self._hosted.values() if listed else ():
                if one.ended is not None and one.reported is None:
                    one.reported = self._number
        blames, self._blames = tuple(self._blames), []
        message = ReportHost(
            self._assignment.host, self._settings.host, os.getpid(), self._number, tasks, blames, memory_bytes(),
            self._time.used_ms(), self._listed,
        )  # fmt: skip
        if not send_now(self._socket, encode(message)):
            paced_logger.problem("driver", "the driver does not accept the registration of this host")
        self._next_beat_ms = now_ms + self._heartbeat_ms
        if self._lease_ms:
            HEARTBEAT_MONITOR.beat(self._heartbeat_ms + self._lease_ms)

    def _report_of(self, task_id: TaskId, one: _Hosted) -> HostedTask:
        state: HostedState = "running" if one.runs else "starting" if one.begun else "waiting"
        return one.ended or HostedTask(*task_id, state)

    def _watch(self, now_ms: int) -> None:
        """End the process if its main thread hangs, and the largest plan when memory runs out."""
        if self._exit_ms is not None and now_ms >= self._exit_ms:
            os._exit(FENCED_EXIT_CODE)
        busy = self._loop.busy
        if busy is not None:
            task, since_ms = busy
            most_ms = self._settings.stop_timeout_ms if task.stopping else HANG_MS
            alone = self._count() < 2 and not task.stopping  # no other plan waits, as in a task with its own process
            if now_ms - since_ms >= most_ms and not alone:
                logger.error("a plan does not return, its host stops: topology=%s", task.topology.run())
                os._exit(FENCED_EXIT_CODE)
        if not self._memory.is_due(now_ms, self._loop.turns):
            return
        with self._lock:
            tasks = [one.task for one in self._hosted.values() if one.task is not None]
        stopped = self._memory.look(now_ms, tasks, self._loop.turns)
        if stopped is not None:
            key = stopped.topology.key
            self._blames.append(Blame(f"{self._assignment.host}/{now_ms}", key, "it used most of its host's memory"))
            self._changed = True

    def _orphaned(self) -> None:
        logger.warning("the process that started this host has ended: stopping")
        self._leave(now_ms=self._clock.monotonic_ms())

    def _leave(self, now_ms: int) -> None:
        """End in order, or else in time."""
        self._exit_ms = now_ms + self._settings.stop_timeout_ms
        self._loop.stop()
        self._agents.wake()

    # ---- the thread of the inspection endpoint ---------------------------------------------------------------------

    def _ask(self, message: QueryRunningState) -> Message:
        with self._lock:
            tasks = [one.task for one in self._hosted.values() if one.task is not None and one.key == message.key]
        if not tasks:
            return Rejected("other-run", "the plan no longer runs in this process")
        return tasks[-1].questions.ask(message)
