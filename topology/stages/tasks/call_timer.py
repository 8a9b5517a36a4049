"""Stop calls of a plan's own code that take too long: see `siddhi.engine.time_limits`.

The interpreter checks for signals while a regular expression is matched and between the steps of a script. So a timer
that raises in its handler stops both, without a thread or a process for each call. It works in the main thread alone,
which is where a stage runs its engines. Only code that processes a row's values is ever interrupted, never the engine.
"""

from __future__ import annotations

import signal
import threading
import time
from types import FrameType
from typing import Self

from siddhi.engine.time_limits import CallLimit, TookTooLongError, set_call_limit

LIMIT_MS = 500
"""A call may use so much processor time. The interpreter's lock is held meanwhile, and the heartbeats of the stage wait
for it: this must be far below the lease of a task."""
LEAST_LIMIT_MS = 50
"""The reduced limit after many calls of one batch took too long."""
TICK_S = 0.025


class CallTimer(CallLimit):
    """Limits the time of calls in the main thread.

    Processor time counts, so that no call fails because the host is busy. The limit decreases with each call of a
    batch that was stopped, so that many such events delay the stage less.
    """

    def __init__(self) -> None:
        self._call = 0
        """The number of the call, odd while it runs."""
        self._seen = -1
        self._since_s = 0.0
        self._stopped = 0
        self._depth = 0

    def install(self) -> bool:
        """Install this limit in the process. Return False if this is not the main thread, where it is impossible."""
        if threading.current_thread() is not threading.main_thread():
            return False
        signal.signal(signal.SIGALRM, self._look)
        set_call_limit(self)
        return True

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            if not self._depth:
                self._stopped = 0
                signal.setitimer(signal.ITIMER_REAL, TICK_S, TICK_S)
            self._depth += 1
        return self

    def __exit__(self, *_: object) -> None:
        if threading.current_thread() is threading.main_thread():
            self._depth -= 1
            if not self._depth:
                signal.setitimer(signal.ITIMER_REAL, 0)

    def begin(self) -> None:
        self._call |= 1

    def end(self) -> None:
        if self._call & 1:
            self._call += 1

    def _look(self, _signal: int, _frame: FrameType | None) -> None:
        if not self._call & 1:
            return
        used_s = time.thread_time()
        if self._call != self._seen:
            self._seen, self._since_s = self._call, used_s
            return
        limit_ms = max(LEAST_LIMIT_MS, LIMIT_MS >> self._stopped)
        if (used_s - self._since_s) * 1000 >= limit_ms:
            self._stopped += 1
            self._seen = -1
            raise TookTooLongError(f"it took more than {limit_ms} ms of processor time for one event")
