"""Asynchronous access to the checkpoint store."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from cep_common.clock import Clock
from cep_common.ids import PlanKey
from cep_common.monitoring.paced_log import PacedLog
from topology.checkpoint.coordination.archive import Archive
from topology.checkpoint.errors import CheckpointError, StoreUnreachableError

logger = logging.getLogger(__name__)
paced_logger = PacedLog(logger)

CHECK_MS = 30_000
"""Interval at which an unavailable store is retried."""

AT_ONCE = 4
"""The number of plans that use the store concurrently, since calls mostly wait for a disk or a server."""

Answer = TypeVar("Answer")
Order = Callable[[], None]


@dataclass(slots=True, eq=False)
class _Call:
    work: Callable[[Archive], Any]
    finished: Callable[[Future[Any]], None]
    urgent: bool


class _PlanCalls:
    """Chooses the next call: calls of one plan stay in order, and plans with an urgent call come first."""

    def __init__(self) -> None:
        self._waiting: dict[PlanKey | None, deque[_Call]] = {}
        self._urgent: dict[PlanKey | None, None] = {}
        self._others: dict[PlanKey | None, None] = {}
        self._busy: set[PlanKey | None] = set()

    def add(self, key: PlanKey | None, call: _Call) -> None:
        self._waiting.setdefault(key, deque()).append(call)
        self._line_up(key)

    def next(self) -> tuple[PlanKey | None, _Call] | None:
        """Return a call that may be made now; its plan has no other until `done`."""
        line = self._urgent or self._others
        if len(self._busy) >= AT_ONCE or not line:
            return None
        key = next(iter(line))
        del line[key]
        self._busy.add(key)
        return key, self._waiting[key].popleft()

    def done(self, key: PlanKey | None) -> None:
        self._busy.discard(key)
        if self._waiting[key]:
            self._line_up(key)
        else:
            del self._waiting[key]

    @property
    def empty(self) -> bool:
        """Whether no call is waiting or running."""
        return not self._waiting

    def _line_up(self, key: PlanKey | None) -> None:
        if key in self._busy:
            return
        if any(call.urgent for call in self._waiting[key]):
            self._others.pop(key, None)
            self._urgent.setdefault(key)
        else:
            self._others.setdefault(key)


class Storing:
    """Calls `archive` on separate threads, for each plan one call after the other.

    With None nothing is done. `post` runs a function on the owner's thread. `usable_again` is such a function, called
    when the store can be used again.
    """

    def __init__(
        self, archive: Archive | None, clock: Clock, post: Callable[[Order], None], usable_again: Order
    ) -> None:
        self.works = archive is not None
        self.problem = ""
        """Why the store cannot be used; empty if no problem is known."""
        self._archive = archive
        self._clock = clock
        self._post = post
        self._usable_again = usable_again
        self._check_due_ms: int | None = None
        self._lock = threading.Lock()
        self._calls = _PlanCalls()
        self._idle = threading.Condition(self._lock)
        self._threads = ThreadPoolExecutor(max_workers=AT_ONCE, thread_name_prefix="checkpoint-store")

    def do(
        self,
        key: PlanKey | None,
        work: Callable[[Archive], Answer],
        done: Callable[[Answer | CheckpointError], None],
        *,
        urgent: bool = False,
    ) -> None:
        """Run `work` after all earlier calls for the plan `key`, or for no plan; `done` gets its result.

        Plans with an `urgent` call go first, since a starting plan must not wait until a thousand have written their
        checkpoints.
        """
        archive = self._archive
        if archive is None:
            return

        def finished(future: Future[Answer]) -> None:
            error = future.exception()
            if error is None:
                answer: Answer | CheckpointError = future.result()
            elif isinstance(error, CheckpointError):
                answer = error
                if isinstance(error, StoreUnreachableError):
                    reason = error.message
                    self._post(lambda: self._note_unreachable(reason))
            else:
                logger.error("the store's thread failed", exc_info=error)
                answer = CheckpointError(f"the store failed: {error}")
            self._post(lambda: done(answer))

        with self._lock:
            self._calls.add(key, _Call(work, finished, urgent))
        self._make_calls(archive)

    def _make_calls(self, archive: Archive) -> None:
        """Start all calls that may run now. Any thread may call this."""
        while True:
            with self._lock:
                found = self._calls.next()
                if found is None:
                    return
            key, call = found
            future = self._threads.submit(call.work, archive)
            future.add_done_callback(call.finished)
            future.add_done_callback(partial(self._made, archive, key))

    def _made(self, archive: Archive, key: PlanKey | None, _future: Future[Any]) -> None:
        with self._lock:
            self._calls.done(key)
            self._idle.notify_all()
        self._make_calls(archive)

    def check(self) -> None:
        """Check whether the store can be used."""
        self._check_due_ms = None
        self.do(None, lambda archive: archive.check(), self._checked)

    def on_time(self, now_ms: int) -> None:
        """Retry a store that could not be used, after a while; `now_ms` is the monotonic time."""
        if self._check_due_ms is not None and now_ms >= self._check_due_ms:
            self.check()

    def close(self) -> None:
        """Finish all submitted calls."""
        with self._idle:
            self._idle.wait_for(lambda: self._calls.empty)
        self._threads.shutdown(wait=True)

    def _checked(self, answer: CheckpointError | None) -> None:
        if answer is None and self.problem:
            paced_logger.over("store", "checkpoint store can be used again")
            self.problem = ""
            self._usable_again()

    def _note_unreachable(self, reason: str) -> None:
        self.problem = reason
        paced_logger.problem("store", "checkpoint store cannot be used: %s", reason)
        if self._check_due_ms is None:
            self._check_due_ms = self._clock.monotonic_ms() + CHECK_MS
