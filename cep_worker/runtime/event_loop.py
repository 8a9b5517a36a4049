"""The data thread's loop: sockets and their handlers, calls from other threads, work put off to the end of a turn."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import zmq

from cep_common.sockets.wakeup import Wakeup

Handler = Callable[[int], None]
"""Called with the monotonic time in milliseconds when its socket can be read."""


class EventLoop:
    """Waits for sockets and calls their handlers.

    All methods but `post` belong to one thread.
    """

    def __init__(self) -> None:
        self._poller = zmq.Poller()
        self._handlers: dict[Any, Handler] = {}
        self._posted: deque[Callable[[], None]] = deque()
        self._deferred: dict[Handler, None] = {}
        self._timed: dict[Handler, int] = {}
        self._wakeup = Wakeup()
        self._poller.register(self._wakeup.handle, zmq.POLLIN)

    def watch(self, socket: zmq.Socket[bytes], handler: Handler) -> None:
        """Call `handler` whenever `socket` is readable; it may read some or all of the messages."""
        self._poller.register(socket, zmq.POLLIN)
        self._handlers[socket] = handler

    def unwatch(self, socket: zmq.Socket[bytes]) -> None:
        """`socket` is no longer waited for; it may be closed."""
        self._poller.unregister(socket)
        del self._handlers[socket]

    def post(self, call: Callable[[], None]) -> None:
        """`call` will run on the data thread; any thread may post.

        After `close` nothing runs.
        """
        self._posted.append(call)
        self._wakeup.ring()

    def defer(self, handler: Handler) -> None:
        """Run `handler` once at the end of this turn, however often it is deferred."""
        self._deferred[handler] = None

    def call_at(self, time_ms: int, handler: Handler) -> None:
        """Run `handler` at that monotonic time; a later call for the same handler replaces it."""
        self._timed[handler] = time_ms

    def turn(self, timeout_ms: int, now: Callable[[], int]) -> None:
        """Wait up to `timeout_ms` for something to do and does it; `now` gives the monotonic time."""
        if self._timed:
            timeout_ms = max(0, min(timeout_ms, min(self._timed.values()) - now()))
        ready = self._poller.poll(0 if self._deferred or self._posted else timeout_ms)
        now_ms = now()
        for due in [handler for handler, time_ms in self._timed.items() if time_ms <= now_ms]:
            del self._timed[due]
            self._deferred[due] = None
        for source, _ in ready:
            if source == self._wakeup.handle:
                self._wakeup.silence()
                continue
            handler = self._handlers.get(source)
            if handler is not None:  # closed by a handler before it in this turn
                handler(now_ms)
        for _ in range(len(self._posted)):
            self._posted.popleft()()
        while self._deferred:
            handlers, self._deferred = self._deferred, {}
            for handler in handlers:
                handler(now_ms)

    def close(self) -> None:
        """Close the wakeup socket. Other sockets are closed by their owners."""
        self._wakeup.close()
