"""Limit each caller to one costly request at a time, so that one that sends many of them delays only itself."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator

from flask import current_app

from cep_common.security.web import caller_name
from cep_manager.errors import PlansBusyError

WAITS = 2
"""The number of further requests of a caller that wait: the editor validates and previews a text at the same time."""
WAIT_S = 2.0
_KEY = "cep.turns"


class CallerSlots:
    """Lets one request of each caller run at a time. Any thread may use it."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._under_way: set[str] = set()
        self._waiting: dict[str, int] = {}

    @contextlib.contextmanager
    def of(self, caller: str) -> Iterator[None]:
        """Wait for the caller's turn and hold it for the block.

        Raises PlansBusyError when too many of the caller's requests wait, or this one has waited too long.
        """
        self._begin(caller)
        try:
            yield
        finally:
            with self._changed:
                self._under_way.discard(caller)
                self._changed.notify_all()

    def _begin(self, caller: str) -> None:
        deadline = time.monotonic() + WAIT_S
        with self._changed:
            waiting = self._waiting.get(caller, 0)
            if caller in self._under_way and waiting >= WAITS:
                raise PlansBusyError("another request of yours is being processed; wait for its response")
            self._waiting[caller] = waiting + 1
            try:
                free = self._changed.wait_for(lambda: caller not in self._under_way, deadline - time.monotonic())
            finally:
                self._waiting[caller] -= 1
                if not self._waiting[caller]:
                    del self._waiting[caller]
            if not free:
                raise PlansBusyError("another request of yours is being processed; wait for its response")
            self._under_way.add(caller)


def one_at_a_time() -> contextlib.AbstractContextManager[None]:
    """Return the turn of the present request's caller. Raises PlansBusyError."""
    turns: CallerSlots = current_app.extensions.setdefault(_KEY, CallerSlots())
    return turns.of(caller_name())
