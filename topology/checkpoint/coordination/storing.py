"""The store of checkpoints for a thread that does not wait for it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from cep_common.clock import Clock
from cep_common.monitoring.paced_log import PacedLog
from topology.checkpoint.coordination.archive import Archive
from topology.checkpoint.errors import CheckpointError, StoreUnreachableError

logger = logging.getLogger(__name__)
paced_logger = PacedLog(logger)

CHECK_MS = 30_000
"""How soon it is looked again whether a store that could not be used can be."""

Answer = TypeVar("Answer")
Order = Callable[[], None]


class Storing:
    """Calls `archive` on a thread of its own, one call after the other.

    With None nothing is done. `post` runs a function on the owner's thread. `usable_again` is such a function, called
    when the store can be used again.
    """

    def __init__(
        self, archive: Archive | None, clock: Clock, post: Callable[[Order], None], usable_again: Order
    ) -> None:
        self.works = archive is not None
        self.problem = ""
        """Why the store cannot be used, as far as that is known; empty: nothing is wrong."""
        self._archive = archive
        self._clock = clock
        self._post = post
        self._usable_again = usable_again
        self._check_due_ms: int | None = None
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="checkpoint-store")

    def do(self, work: Callable[[Archive], Answer], done: Callable[[Answer | CheckpointError], None]) -> None:
        """Run `work` after everything submitted before it; `done` gets its result."""
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

        self._thread.submit(work, archive).add_done_callback(finished)

    def check(self) -> None:
        """Check whether the store can be used."""
        self._check_due_ms = None
        self.do(lambda archive: archive.check(), self._checked)

    def on_time(self, now_ms: int) -> None:
        """Retry a store that could not be used, after a while; `now_ms` is the monotonic time."""
        if self._check_due_ms is not None and now_ms >= self._check_due_ms:
            self.check()

    def close(self) -> None:
        """Finish all submitted calls."""
        self._thread.shutdown(wait=True)

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
