"""The loop of a stage host: gives turns to the tasks of many plans, one after the other.

It runs in the main thread, since only there can calls of a plan's own code be stopped (see `call_timer`). It waits for
all sockets of all tasks at once, so a plan that has nothing to do costs a tick every few seconds, and a turn of one
plan costs nothing for all others. What a task raises ends that task alone.
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
"""A task that has more to do than this waits for its next turn, as long as other plans are in the host."""
IDLE_TICK_MS = 1_000
"""How often a task ticks that has nothing to do: links must beat well within their lease."""
REST_TICK_MS = 30_000
"""How often it ticks when besides it is connected, and its checkpoints hold all that it has: links share heartbeats."""
WAIT_MS = 1_000
"""How long a host waits at most; a wakeup ends the wait."""

Ended = Callable[[BaseException | None], None]
"""Called by the loop when a task has ended and is closed, with its error if there is one."""


def _nothing() -> None:
    """Do nothing: the default observer of the turns of a task."""


class HostedTime(TaskTime):
    """Counts the processor time of the turns of one task: the process is not its own."""

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
    """What is waited for on its behalf."""


class HostLoop:
    """`run` gives turns until `stop` was called and all tasks have ended."""

    def __init__(
        self,
        clock: Clock,
        at_work: Callable[[Task | None], None],
        ready: ReadySockets | None = None,
        tick: Callable[[int], int] | None = None,
    ) -> None:
        """`at_work` is called before each turn with the task that gets it, and with None after it.

        `tick` is called with the monotonic time between turns, and returns when it wants to be called again. `ready`
        is what the loop waits with; it is closed with the loop.
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
        """Whose each source is that is waited for."""
        self._stopping = False
        self.busy: tuple[Task, int] | None = None
        """The task that has its turn, and since when (monotonic milliseconds); read by other threads."""
        self.turns = 0
        """How many turns were given so far; read by other threads."""

    def add(self, task: Task, time: HostedTime, ended: Ended, turned: Callable[[], None] = _nothing) -> None:
        """Give turns to `task` from now on, and call `turned` after each of them; called by any thread."""
        self._new.put(_Member(task, time, ended, turned))
        self._wakeup.ring()

    def stop(self) -> None:
        """End all tasks, and then `run`; called by any thread."""
        self._stopping = True
        self._wakeup.ring()

    def run(self) -> None:
        """Give turns; in the main thread."""
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
        """Wait for these sockets of `member`, and for its wakeup; it has used all of them."""
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
        except Exception as defect:  # the border between plans: the others must continue
            logger.exception("a task could not be closed: topology=%s", task.topology.run())
            failure = failure or defect
        member.ended(failure or task.failure)
