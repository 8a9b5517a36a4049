"""A monitor that kills hung stages on their host.

    daemon ──forks──▶ monitor ◀──a pipe── beats ── stage, stage, …       silent for longer than its lease: SIGKILL
       └─────forks──▶ stage, stage, …

The driver declares a silent task lost and restarts its topology. But Spark checks only every other second whether the
job of a task was cancelled, and a hung process occupies its slot as long as it exists: if no other slot is free, the
topology waits. The monitor is a small child process of each executor's Python daemon. It reads heartbeats, and only
stops if the whole host does.
"""

from __future__ import annotations

import fcntl
import logging
import os
import select
import signal
import struct
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

logger = logging.getLogger(__name__)

LOOK_MS = 100
"""Interval at which the monitor checks for silent processes."""
GRACE_MS = 500
"""How much longer than the driver the monitor waits, so that the driver can report the cause first."""
NAME_AT = Path("/proc/self/comm")
"""The file to which a process writes its name for lists of processes (proc(5))."""
_BEAT = struct.Struct("=qq")
"""A heartbeat: process id, and for how many milliseconds it may be silent from now on (0: it ends)."""


Waits = Mapping[int, int]
"""For how many milliseconds each thread of a process has waited for a processor so far, by thread id."""


def _no_waits(_process_id: int) -> Waits:
    """Return no waits, where it is unknown what threads wait for."""
    return {}


@dataclass(slots=True)
class HeartbeatDeadlines:
    """The deadline of each process's next heartbeat, by process id. `now_ms` is the time of the last check.

    From half of its lease on a silent process is observed: on a busy host its threads may be waiting for a processor.
    The time that they wait extends its deadline.
    """

    now_ms: int
    due_ms: dict[int, int] = field(default_factory=dict)
    waits_of: Callable[[int], Waits] = _no_waits
    _beaten_ms: dict[int, int] = field(default_factory=dict)
    _observed: dict[int, Waits] = field(default_factory=dict)

    def look(self, now_ms: int, beats: Iterable[tuple[int, int]], *, dropped: bool = False) -> list[int]:
        """Return the processes that have been silent for too long at `now_ms`, and stop watching them.

        `beats` arrived since the last call: process ids, each with the milliseconds for which it may be silent, or 0.

        Time without calls does not count, as the whole host may have been suspended. When beats were
        `dropped`, it is unknown which processes have left: all are forgotten, and living ones send another beat.
        """
        late_ms = max(0, now_ms - self.now_ms - LOOK_MS)
        self.now_ms = now_ms
        if dropped:
            for known in (self.due_ms, self._beaten_ms, self._observed):
                known.clear()
            return []
        for process_id in self.due_ms if late_ms else ():
            self.due_ms[process_id] += late_ms
        for process_id, lease_ms in beats:
            self._forget(process_id)
            if lease_ms:
                self.due_ms[process_id] = now_ms + lease_ms + GRACE_MS
                self._beaten_ms[process_id] = now_ms
        silent = [process_id for process_id in list(self.due_ms) if self._is_silent(process_id, now_ms)]
        for process_id in silent:
            self._forget(process_id)
        return silent

    def _is_silent(self, process_id: int, now_ms: int) -> bool:
        due_ms = self.due_ms[process_id]
        if process_id not in self._observed and now_ms - self._beaten_ms[process_id] > (due_ms - now_ms):
            self._observed[process_id] = self.waits_of(process_id)
        if due_ms >= now_ms:
            return False
        waits, before = self.waits_of(process_id), self._observed.get(process_id, {})
        waited_ms = max((waits[thread] - before[thread] for thread in waits.keys() & before.keys()), default=0)
        if waited_ms < GRACE_MS:
            return True
        self.due_ms[process_id] = now_ms + waited_ms
        self._observed[process_id] = waits
        return False

    def _forget(self, process_id: int) -> None:
        for known in (self.due_ms, self._beaten_ms, self._observed):
            known.pop(process_id, None)


class HeartbeatMonitor:
    """The connection of a process to its monitor."""

    def __init__(self) -> None:
        self._beats = -1
        """The end of the pipe in which the monitor reads; -1 when there is none."""

    def hire(self) -> None:
        """Start a monitor for the processes that this one forks, until the last of them and this one have ended.

        If that is not possible, it is logged.
        """
        daemon = os.getpid()
        ends: tuple[int, ...] = ()
        try:
            ends = reading, writing = os.pipe()
            os.set_blocking(writing, False)
            monitor = os.fork()
        except OSError as error:
            logger.warning("the stages are not monitored, one that hangs is only ended by Spark: %s", error)
            for end in ends:
                os.close(end)
            return
        if monitor:
            os.close(reading)
            self._beats = writing
            return
        try:
            os.close(writing)
            with suppress(OSError):  # some containers do not let it be written
                NAME_AT.write_text("cep-monitor", encoding="ascii")
            _Guard(daemon).stand(reading)
        except Exception:
            logger.exception("the stages are no longer monitored, one that hangs is only ended by Spark")
        finally:
            os._exit(0)

    def beat(self, lease_ms: int) -> None:
        """Report that this process is alive and may be silent for `lease_ms`; 0: it is no longer watched.

        Does nothing where there is no monitor.
        """
        if self._beats < 0:
            return
        try:
            os.write(self._beats, _BEAT.pack(os.getpid(), lease_ms))
        except BlockingIOError:
            pass  # the monitor is stopped; it will detect that the pipe was full
        except OSError as error:
            logger.warning("this process is no longer monitored: %s", error)
            self._beats = -1


HEARTBEAT_MONITOR = HeartbeatMonitor()
"""The monitor of this process; child processes inherit it."""


class _Guard:
    """The monitor process, with handles of the watched processes, which are children of `daemon`."""

    def __init__(self, daemon: int) -> None:
        self._daemon = daemon
        self._handles: dict[int, int] = {}

    def stand(self, beats: int) -> None:
        """Read `beats` until no process is left that could write there."""
        for number in (signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)  # the pipe is closed when all writers have ended
        os.close(os.pidfd_open(os.getpid()))  # an error here means that this kernel does not support pidfds
        watch = HeartbeatDeadlines(_now_ms(), waits_of=waits_of)
        room = fcntl.fcntl(beats, fcntl.F_GETPIPE_SZ)
        poller = select.poll()
        poller.register(beats, select.POLLIN)
        while True:
            read = b""
            if poller.poll(LOOK_MS) and not (read := os.read(beats, room)):
                return
            silent = watch.look(_now_ms(), _BEAT.iter_unpack(read), dropped=len(read) == room)
            self._hold(watch.due_ms.keys() | silent)
            for process_id in silent:
                self._end(process_id)

    def _hold(self, process_ids: set[int]) -> None:
        """Open a handle for each of `process_ids` that is a stage, and close all others.

        A process id alone may belong to another process by the time it is used.
        """
        for process_id in self._handles.keys() - process_ids:
            os.close(self._handles.pop(process_id))
        for process_id in process_ids - self._handles.keys():
            with suppress(ProcessLookupError):  # it has ended meanwhile
                handle = os.pidfd_open(process_id)
                if _parent_of(process_id) == self._daemon:
                    self._handles[process_id] = handle
                else:
                    os.close(handle)

    def _end(self, process_id: int) -> None:
        if process_id in self._handles:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._handles[process_id], signal.SIGKILL)
                logger.warning("killing a stage that hangs: process=%d", process_id)


def waits_of(process_id: int) -> Waits:
    """Return how long each thread of the process has waited for a processor (schedstat of proc(5)).

    The result is empty where the kernel does not say, or the process has ended.
    """
    waits: dict[int, int] = {}
    for schedstat in Path(f"/proc/{process_id}/task").glob("*/schedstat"):
        with suppress(OSError, ValueError):  # that thread has ended
            _ran_ns, waited_ns, _turns = map(int, schedstat.read_text(encoding="ascii").split())
            waits[int(schedstat.parent.name)] = waited_ns // 1_000_000
    return waits


def _parent_of(process_id: int) -> int:
    """Return the parent of the process; 0 if the process no longer exists."""
    try:
        stat = Path(f"/proc/{process_id}/stat").read_text(encoding="utf-8")
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return int(stat.rpartition(")")[2].split()[1])


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000
