"""The loop of a stage host, which schedules the tasks of many plans in turn.

It runs in the main thread, since calls of a plan's own code can only be stopped there (see `call_timer`). It waits for
all sockets of all tasks at once, so an idle plan costs a tick every few seconds, and a turn of one plan does not cost
the others. An error of a task ends only that task.
"""

from __future__ import annotations

import logging
import queue
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from cep_common.clock import Clock
from cep_common.sockets.ready_sockets import ReadySockets
from cep_common.sockets.wakeup import Wakeup
from siddhi.engine.time_limits import TookTooLongError
from topology.stages.hosts.wake_times import WakeTimes
from topology.stages.tasks.task import Task
from topology.stages.tasks.usage import TaskTime

logger = logging.getLogger(__name__)

TURN_MS = 20
"""The maximum length of a turn while other plans are in the host."""
IDLE_TICK_MS = 1_000
"""How often an idle task ticks: links must send heartbeats well within their lease."""
REST_TICK_MS = 30_000
"""How often an idle task ticks that is connected and whose checkpoints are current: links share heartbeats."""
WAIT_MS = 1_000
"""The maximum wait of a host; a wakeup ends it."""

Ended = Callable[[BaseException | None], None]
"""Called by the loop when a task has ended and is closed, with its error, if any."""


def _nothing() -> None:
    """Do nothing: the default observer of the turns of a task."""


class HostedTime(TaskTime):
    """Counts the processor time of the turns of one task, since it shares its process."""

    def __init__(self) -> None:
        super().__init__()
        self.turns_ns = 0

    def used_ms(self) -> int:
        return self.turns_ns // 1_000_000


@dataclass(slots=True, eq=False)
class _Member:
    task: Task
    time: HostedTime
    ended: Ended
    turned: Callable[[], None]
    sources: list[Any] = field(default_factory=list)
    """The sources that the loop waits for on its behalf."""


class HostLoop:
    """Schedules tasks; `run` returns after `stop` when all tasks have ended."""

    def __init__(
        self,
        clock: Clock,
        at_work: Callable[[Task | None], None],
        ready: ReadySockets | None = None,
        tick: Callable[[int], int] | None = None,
    ) -> None:
        """`at_work` is called before each turn with the task that gets it, and with None after it.

        `tick` is called with the monotonic time between turns, and returns when to be called again. The loop waits with
        `ready` and closes it.
        """
        self._clock = clock
        self._at_work = at_work
        self._members: dict[_Member, None] = {}
        self._wakes: WakeTimes[_Member] = WakeTimes()
        """When tasks want their next turns."""
        self._new: queue.SimpleQueue[_Member] = queue.SimpleQueue()
        self._wakeup = Wakeup()
        self._tick = tick
        self._ready = ready or ReadySockets()
        self._ready.add(self._wakeup.handle)
        self._owners: dict[Any, _Member] = {}
        """The task of each source."""
        self._stopping = False
        self.busy: tuple[Task, int] | None = None
        """The task that has the turn, and since when (monotonic milliseconds); read by other threads."""
        self.turns = 0
        """The number of turns so far; read by other threads."""

    def add(self, task: Task, time: HostedTime, ended: Ended, turned: Callable[[], None] = _nothing) -> None:
        """Schedule `task` from now on, and call `turned` after each of its turns. Any thread may call this."""
        self._new.put(_Member(task, time, ended, turned))
        self._wakeup.ring()

    def stop(self) -> None:
        """End all tasks, then make `run` return. Any thread may call this."""
        self._stopping = True
        self._wakeup.ring()

    def run(self) -> None:
        """Run the loop in the main thread."""
        try:
            while not (self._stopping and not self._members and self._new.empty()):
                self._round()
        finally:
            self._ready.close()
            self._wakeup.close()

    def _round(self) -> None:
        while not self._new.empty():
            member = self._new.get()
            self._members[member] = None
            self._give(member, None)
        now_ms = self._clock.monotonic_ms()
        due_ms = self._wakes.next_ms(now_ms + WAIT_MS)
        if self._tick is not None:
            due_ms = min(due_ms, self._tick(now_ms))
        readable = self._ready.poll(max(0, due_ms - now_ms))
        if self._wakeup.handle in readable:
            self._wakeup.silence()
        now_ms = self._clock.monotonic_ms()
        called = {self._owners[source]: None for source in readable if source in self._owners}
        if self._stopping:
            for member in self._members:
                member.task.stop()
            called |= self._members
        for member in called | self._wakes.take_due(now_ms):
            if member.task.stopping:
                self._end(member, None)
            else:
                self._give(member, readable)

    def _watch(self, member: _Member, sockets: list[Any]) -> None:
        """Wait for these sockets of `member`, all of which it has used, and for its wakeup."""
        wanted = [member.task.wakeup, *sockets]
        for source in [one for one in member.sources if one not in wanted]:
            self._ready.remove(source)
            del self._owners[source]
        for source in wanted:
            if source in self._owners:
                self._ready.used(source)
            else:
                self._ready.add(source)
                self._owners[source] = member
        member.sources = wanted

    def _unwatch(self, member: _Member) -> None:
        for source in member.sources:
            self._ready.remove(source)
            del self._owners[source]
        member.sources = []

    def _give(self, member: _Member, readable: set[Any] | None) -> None:
        """Give `member` a turn, unless `readable` is None: then it only prepares its first one."""
        task = member.task
        since_ns = time.thread_time_ns()
        self.busy = task, self._clock.monotonic_ms()
        self._at_work(task)
        try:
            if len(self._members) > 1:
                task.pace.turn_ms = TURN_MS
            task.pace.idle_tick_ms = REST_TICK_MS if task.rests else IDLE_TICK_MS
            if readable is not None:
                if task.wakeup in readable:
                    task.silence()
                task.turn(readable)
            wake_ms = task.prepare() + self._clock.monotonic_ms()
            sockets = task.sockets()
        except (Exception, TookTooLongError) as failure:  # noqa: BLE001 - the border between plans
            self._end(member, failure)
            return
        finally:
            self.busy = None
            self._at_work(None)
            member.time.turns_ns += time.thread_time_ns() - since_ns
            self.turns += 1
        self._watch(member, sockets)
        self._wakes.set(member, wake_ms)
        member.turned()

    def _end(self, member: _Member, failure: BaseException | None) -> None:
        task = member.task
        self._members.pop(member, None)
        self._wakes.remove(member)
        self._unwatch(member)
        if failure is not None and task.expects(failure):
            failure = None
        try:
            task.close()
        except Exception as defect:  # isolates plans: the others must continue
            logger.exception("a task could not be closed: topology=%s", task.topology.run())
            failure = failure or defect
        member.ended(failure or task.failure)
