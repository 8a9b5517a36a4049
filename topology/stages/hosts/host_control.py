"""The threads of a stage host that communicate for all of its tasks: one with the managers, one with the driver."""

from __future__ import annotations

import logging
import os
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import zmq

from cep_common.errors import PeerError, RequestRejectedError
from cep_common.monitoring.paced_log import PacedLog
from cep_common.process.priority import ControlPriority, raise_priority
from cep_common.protocol.tasks import RefreshedTask, RefreshTasks, TasksRefreshed
from cep_common.sockets.ready_sockets import ReadySockets
from cep_common.sockets.transport import ControlClient
from cep_common.sockets.wakeup import Wakeup
from topology.stages.hosts.wake_times import WakeTimes
from topology.stages.tasks.checkpoint_agent import CLOSING_S, LOOK_MS, CheckpointReporter
from topology.stages.tasks.control import TaskReporter
from topology.stages.tasks.task import Task

logger = logging.getLogger(__name__)
paced_logger = PacedLog(logger)

PARENT_S = 0.5
"""Interval at which a host checks whether the process that started it still runs."""
REFRESH_LOOK_S = 0.2
"""How often a host checks whether other tasks must be refreshed while many tasks register."""
RETRY_S = 0.5
"""How long a host waits after a request that no manager answered before its next request."""


class StatusRequest(threading.Event):
    """An event by which a task requests to be registered at once; it wakes the thread that registers all tasks."""

    def __init__(self, wake: threading.Event) -> None:
        super().__init__()
        self._wake = wake

    def set(self) -> None:
        super().set()
        self._wake.set()


@dataclass(slots=True, eq=False)
class _Registered:
    task: Task
    speaker: TaskReporter
    due_s: float = 0.0
    answered: bool = False
    """Whether a manager has accepted a registration of it."""
    reported: object | None = None
    """Its `standing` at the last registration; None if it must be registered again."""
    turned: bool = True
    """Whether it had a turn since the last comparison, since its status only changes in turns."""
    same: bool = False
    """The result of the last comparison."""
    reference: RefreshedTask = field(init=False)

    def __post_init__(self) -> None:
        self.reference = self.speaker.reference()

    def note_turn(self) -> None:
        """Compare the status with the report at the next check. Any thread may call this."""
        self.turned = True

    def is_unchanged(self) -> bool:
        """Return whether the manager has the task's current registration, so that no new one is needed."""
        if self.reported is None or self.task.asks.is_set():
            return False
        if self.turned:
            self.turned = False  # before the comparison, since a turn during it requires another one
            self.same = self.reported == self.speaker.standing()
        return self.same

    def note_reported(self, standing: object | None) -> None:
        """Record the status that the manager has (None: the task must be registered again)."""
        self.reported, self.turned = standing, True


class HostControl(threading.Thread):
    """Registers all tasks of the host with the manager, each when it is due, until `close`."""

    def __init__(
        self, client: ControlClient, priority: ControlPriority, orphaned: Callable[[], None], host: str = ""
    ) -> None:
        """`orphaned` is called once the process that started this one has ended; `host` is the stage host's name."""
        super().__init__(name="control of the stage host", daemon=True)
        self.wake = threading.Event()
        self.client = client
        """Belongs to this thread."""
        self._priority = priority
        self._orphaned = orphaned
        self._parent = os.getppid()
        self._lock = threading.Lock()
        self._registered: list[_Registered] = []
        self._gone: list[_Registered] = []
        self._closing = False
        self._host = host
        # random, so that lists of another process with the same host name are not confused with those of this one
        self._version = secrets.randbits(48)
        self._refreshed: tuple[RefreshedTask, ...] = ()
        self._refresh_s = 0.0

    def add(self, task: Task, speaker: TaskReporter) -> Callable[[], None]:
        """Register `task` from now on, and return what to call after each of its turns. Any thread may call this."""
        registered = _Registered(task, speaker)
        with self._lock:
            self._registered.append(registered)
        self.wake.set()
        return registered.note_turn

    def remove(self, task: Task) -> None:
        """Stop registering `task`, which has ended. Any thread may call this."""
        with self._lock:
            self._gone += [one for one in self._registered if one.task is task]
            self._registered = [one for one in self._registered if one.task is not task]
        self.wake.set()

    def close(self) -> None:
        """End the thread and wait for it."""
        self._closing = True
        self.wake.set()
        self.join()

    def run(self) -> None:
        raise_priority(self._priority)  # this thread sends heartbeats
        while not self._closing:
            self.wake.clear()
            with self._lock:
                registered, gone, self._gone = list(self._registered), self._gone, []
            for one in gone:
                one.speaker.close()
            now_s = look_s = time.monotonic()
            for one in registered:
                asks = one.task.asks.is_set()
                if (not asks and one.due_s > now_s) or one.is_unchanged():
                    continue
                one.task.asks.clear()
                if not self._speak(one):
                    break
                # hundreds of tasks may have to register, which must not delay the refresh of the others
                if time.monotonic() - look_s >= REFRESH_LOOK_S:
                    look_s = self._refresh_due(registered)
            else:
                self._refresh_due(registered)
            if os.getppid() != self._parent:
                self._orphaned()
                break
            due_s = min((one.due_s for one in registered), default=time.monotonic() + PARENT_S)
            self.wake.wait(max(0.0, min(PARENT_S, due_s - time.monotonic())))
        self.client.close()
        for one in (*self._registered, *self._gone):
            one.speaker.close()

    def _speak(self, one: _Registered) -> bool:
        """Register one task. Return False when no manager answers, so that other tasks do not try in turn."""
        standing = one.speaker.standing()
        one.note_reported(None)
        try:
            reason = one.speaker.speak()
        except PeerError:
            self._wait_for_a_manager()
            return False
        if reason is not None:
            logger.warning("task stops: topology=%s reason=%s", one.task.topology.run(), reason)
            one.task.stop(reason)
        else:
            one.answered = True
        if reason is None and one.speaker.steady:
            one.note_reported(standing)
            # all unchanged tasks are refreshed together
            one.due_s = max(self._refresh_s, time.monotonic())
            return True
        one.due_s = time.monotonic() + one.speaker.heartbeat_ms / 1000
        return True

    def _refresh_due(self, registered: list[_Registered]) -> float:
        """Refresh the tasks that the manager knows if that is due, and return the time.

        Tasks that must register, for example because they wait for a worker, are refreshed, too, since registering
        hundreds of them takes longer than a lease.
        """
        now_s = time.monotonic()
        known = [one for one in registered if one.answered]
        if known and now_s >= self._refresh_s:
            self._refresh(known)
        return now_s

    def _refresh(self, known_tasks: list[_Registered]) -> None:
        """Send one heartbeat for all of these tasks to the manager."""
        unchanged = [one for one in known_tasks if one.is_unchanged()]
        tasks = tuple(one.reference for one in known_tasks)
        known = tasks == self._refreshed
        if not known:
            self._version, self._refreshed = self._version + 1, tasks
        try:
            answer = self.client.request(RefreshTasks(self._host, self._version, () if known else tasks))
            if isinstance(answer, TasksRefreshed) and not answer.known:  # another manager leads now
                answer = self.client.request(RefreshTasks(self._host, self._version, tasks))
        except RequestRejectedError as refusal:
            paced_logger.problem("refresh", "manager refused: code=%s reason=%s", refusal.reason_code, refusal)
            answer = None
        except PeerError as error:
            paced_logger.problem("manager", "no manager: %s", error)
            self._wait_for_a_manager()
            return
        now_s = time.monotonic()
        if not isinstance(answer, TasksRefreshed):
            self._refreshed = ()
            for one in known_tasks:
                one.note_reported(None)
            self._refresh_s = now_s + RETRY_S
            return
        paced_logger.over("manager", "a manager responds again: host=%s", self._host)
        self._refresh_s = now_s + answer.heartbeat_ms / 1000
        for one in unchanged:
            one.due_s = self._refresh_s
        for place in answer.again:
            if place < len(known_tasks):
                known_tasks[place].note_reported(None)
                known_tasks[place].due_s = now_s

    def _wait_for_a_manager(self) -> None:
        later_s = time.monotonic() + RETRY_S
        with self._lock:
            for other in self._registered:
                other.due_s = max(other.due_s, later_s)


@dataclass(slots=True, eq=False)
class _Watched:
    task: Task
    speaker: CheckpointReporter
    gone: Callable[[], None]
    written: Future[None] | None = None
    until_s: float = 0.0
    has_news: bool = False
    """Whether it is among the tasks that the thread was woken for."""


@dataclass(slots=True)
class _Changes:
    joins: list[_Watched] = field(default_factory=list)
    leaves: list[Task] = field(default_factory=list)


class HostAgents(threading.Thread):
    """Communicates with the coordinator of checkpoints for all tasks of the host, until `close`.

    It waits for messages from the driver, for changes of a task, and for due times. `each_turn` is called at each
    wakeup and monitors the host.
    """

    def __init__(
        self, priority: ControlPriority, each_turn: Callable[[set[zmq.Socket[bytes]]], int], *also: zmq.Socket[bytes]
    ) -> None:
        """Create the thread. `each_turn` gets the readable sockets, including `also`, and returns its next due time."""
        super().__init__(name="driver of the stage host", daemon=True)
        self._priority = priority
        self._each_turn = each_turn
        self._also = also
        self._lock = threading.Lock()
        self._changes = _Changes()
        self._watched: dict[_Watched, None] = {}
        self._owners: dict[Any, _Watched] = {}
        """The task of each socket."""
        self._news: deque[_Watched] = deque()
        """Tasks with pending reports; any thread may add to them."""
        self._leaving: list[_Watched] = []
        """Tasks that have ended and are writing their last states."""
        self._wakes: WakeTimes[_Watched] = WakeTimes()
        self._wakeup = Wakeup()
        self._ready = ReadySockets()
        self._closing = False

    def add(self, task: Task, speaker: CheckpointReporter, gone: Callable[[], None]) -> Callable[[], None]:
        """Communicate for `task` from now on; `gone` is called on this thread when it has finished.

        Return what to call after each turn of the task.
        """
        watched = _Watched(task, speaker, gone)
        with self._lock:
            self._changes.joins.append(watched)
        self._wakeup.ring()  # it joins at once
        return partial(self._note_turn, watched)

    def leave(self, task: Task) -> None:
        """Stop communicating for `task`, which has ended, once its last states are written."""
        with self._lock:
            self._changes.leaves.append(task)
        self._wakeup.ring()

    def wake(self) -> None:
        """Call `each_turn` soon. Any thread may call this."""
        self._wakeup.ring()

    def close(self) -> None:
        """End the thread and wait for it."""
        self._closing = True
        self._wakeup.ring()
        if self.ident is not None:
            self.join()
        self._wakeup.close()

    def run(self) -> None:
        raise_priority(self._priority)  # this thread sends heartbeats
        for source in (self._wakeup.handle, *self._also):
            self._ready.add(source)
        due_ms = _now_ms()
        while not self._closing:
            now_ms = _now_ms()
            latest_ms = min(due_ms, now_ms + LOOK_MS) if self._leaving else due_ms
            readable: set[Any] = self._ready.poll(max(0, self._wakes.next_ms(latest_ms) - now_ms))
            if self._wakeup.handle in readable:
                self._wakeup.silence()
            self._follow_changes()
            now_ms = _now_ms()
            called = {self._owners[source]: None for source in readable if source in self._owners}
            while self._news:
                watched = self._news.popleft()
                watched.has_news = False  # before the check, since changes during it require another one
                called[watched] = None
            for one in called | self._wakes.take_due(now_ms):
                if one in self._watched:
                    self._speak(one, readable, now_ms)
            self._let_go()
            due_ms = self._each_turn(readable)
            for source in self._also:
                self._ready.used(source)
        for one in self._watched:
            one.speaker.socket.close()
        self._ready.close()

    def _note_turn(self, watched: _Watched) -> None:
        """Wake the thread if the task has a report after a turn; called by the thread of the turns."""
        if not watched.has_news and watched.speaker.has_news():
            watched.has_news = True
            self._news.append(watched)
            self._wakeup.ring()

    def _speak(self, one: _Watched, readable: set[Any], now_ms: int) -> None:
        try:
            one.speaker.speak(readable=one.speaker.socket in readable)
        except Exception as defect:  # isolates plans from each other
            logger.exception("no further reports about checkpoints: topology=%s", one.task.topology.run())
            one.task.stop(defect)
        self._ready.used(one.speaker.socket)
        self._wakes.set(one, one.speaker.next_ms(now_ms))

    def _follow_changes(self) -> None:
        with self._lock:
            changes, self._changes = self._changes, _Changes()
        for one in changes.joins:
            self._watched[one] = None
            self._owners[one.speaker.socket] = one
            self._ready.add(one.speaker.socket)
            self._wakes.set(one, 0)
        for one in list(self._watched) if changes.leaves else ():
            if one.task in changes.leaves:
                # Heartbeats continue meanwhile, but not forever: the driver must be able to miss a task whose store
                # does not answer.
                one.written, one.until_s = one.speaker.finish_writing(), time.monotonic() + CLOSING_S
                self._leaving.append(one)

    def _let_go(self) -> None:
        for one in list(self._leaving):
            if one.written is not None and not one.written.done() and time.monotonic() < one.until_s:
                continue
            with suppress(Exception):  # unsent reports are known to be lost
                one.speaker.speak(readable=False)
            self._leaving.remove(one)
            del self._watched[one], self._owners[one.speaker.socket]
            self._wakes.remove(one)
            self._ready.remove(one.speaker.socket)
            one.speaker.socket.close()
            one.gone()


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000
