"""Calls of the client library that are left alone when they do not return in time.

librdkafka does not keep the time limit of every call: `send_offsets_to_transaction` waits without end when the
coordinator of the consumer group goes away meanwhile (its issues 5456 and 5511). No other thread can end such a call.
So each runs on a thread of its own, which keeps the client while the call lasts: destroying it would wait, too.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from cep_worker.kafka.client import library

DESTROY_S = 30.0
"""Destroying a producer may take so long; then it counts as stuck."""


class StuckCallError(Exception):
    """A call did not return in time; it may yet have its effect."""


class BoundedCalls:
    """The calls of one user of the library, one after the other."""

    def __init__(self) -> None:
        self._left: list[tuple[threading.Thread, float]] = []
        """Threads that were left alone, each with the monotonic time after which it counts as stuck."""

    @property
    def stuck(self) -> int:
        """How many calls that were left alone have not returned yet."""
        self._left = [(thread, due_s) for thread, due_s in self._left if thread.is_alive()]
        now_s = time.monotonic()
        return sum(due_s <= now_s for _, due_s in self._left)

    def make(self, what: str, call: Callable[[], Any], limit_s: float) -> Any:
        """Make a call.

        Args:
            what: Names the call in an error.
            call: The call.
            limit_s: How long to wait for it.

        Returns:
            What the call returns.

        Raises:
            StuckCallError: It has not returned in time. Use what it works with no more.
            Exception: What the call raises.
        """
        outcome = _CallOutcome()
        thread = threading.Thread(target=outcome.run, args=(call,), name=f"kafka {what}", daemon=True)
        del call  # from now on only its thread keeps the client: see `discard`
        thread.start()
        thread.join(limit_s)
        if thread.is_alive():
            self._left.append((thread, time.monotonic()))
            raise StuckCallError(f"{what} has not returned within {limit_s:g} s")
        if (error := outcome.error) is not None:
            outcome.error = None
            raise error
        return outcome.value

    def discard(self, producers: list[Any]) -> None:
        """Destroy producers without waiting for it, and with what they have not sent; the list is emptied.

        Args:
            producers: They must not be referenced elsewhere: the thread that drops the last reference destroys them.
        """
        thread = threading.Thread(target=_destroy, args=(producers,), name="kafka discarded producer", daemon=True)
        self._left.append((thread, time.monotonic() + DESTROY_S))
        thread.start()


class _CallOutcome:
    """What a call has returned or raised."""

    def __init__(self) -> None:
        self.value: Any = None
        self.error: BaseException | None = None

    def run(self, call: Callable[[], Any]) -> None:
        """Make the call."""
        try:
            self.value = call()
        except BaseException as error:  # noqa: BLE001 - raised again on the thread that waits
            self.error = error.with_traceback(None)  # its frames would keep the client


def _destroy(producers: list[Any]) -> None:
    while producers:
        with suppress(library().KafkaException):
            producers[-1].purge()
            producers[-1].poll(0)
        producers.pop()
