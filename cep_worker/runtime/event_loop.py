"""The data thread's event loop: sockets and their handlers, calls from other threads, and deferred work."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

import zmq

from cep_common.sockets.shared_socket import SharedSocket
from cep_common.sockets.wakeup import Wakeup

Handler = Callable[[int], None]
"""Called with the monotonic time in milliseconds when its socket is readable."""


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
        self._called: dict[SharedSocket, None] = {}
        """Virtual sockets that have something to read."""
        self._wakeup = Wakeup()
        self._poller.register(self._wakeup.handle, zmq.POLLIN)

    def watch(self, socket: zmq.Socket[bytes] | SharedSocket, handler: Handler) -> None:
        """Call `handler` whenever `socket` is readable; it may read some or all of the messages."""
        if isinstance(socket, SharedSocket):
            socket.notify = partial(self._called.__setitem__, socket, None)
            if socket.has_input:
                socket.notify()
        else:
            self._poller.register(socket, zmq.POLLIN)
        self._handlers[socket] = handler

    def unwatch(self, socket: zmq.Socket[bytes] | SharedSocket) -> None:
        """Stop watching `socket`, which may be closed."""
        if isinstance(socket, SharedSocket):
            socket.notify = _ignore
            self._called.pop(socket, None)
        else:
            self._poller.unregister(socket)
        del self._handlers[socket]

    def post(self, call: Callable[[], None]) -> None:
        """Run `call` on the data thread. Any thread may call this.

        After `close` calls are ignored.
        """
        self._posted.append(call)
        self._wakeup.ring()

    def defer(self, handler: Handler) -> None:
        """Run `handler` once at the end of this turn, even if it is deferred several times."""
        self._deferred[handler] = None

    def call_at(self, time_ms: int, handler: Handler) -> None:
        """Run `handler` at that monotonic time; a later call for the same handler replaces it."""
        self._timed[handler] = time_ms

    def turn(self, timeout_ms: int, now: Callable[[], int]) -> None:
        """Wait up to `timeout_ms` for work and perform it; `now` returns the monotonic time."""
        if self._timed:
            timeout_ms = max(0, min(timeout_ms, min(self._timed.values()) - now()))
        ready = self._poller.poll(0 if self._deferred or self._posted or self._called else timeout_ms)
        now_ms = now()
        for due in [handler for handler, time_ms in self._timed.items() if time_ms <= now_ms]:
            del self._timed[due]
            self._deferred[due] = None
        for source, _ in ready:
            if source == self._wakeup.handle:
                self._wakeup.silence()
                continue
            handler = self._handlers.get(source)
            if handler is not None:  # closed by an earlier handler of this turn
                handler(now_ms)
        called = list(self._called)
        self._called.clear()
        for shared in called:
            handler = self._handlers.get(shared)
            if handler is not None:
                handler(now_ms)
                if shared.has_input and shared in self._handlers:
                    self._called[shared] = None
        for _ in range(len(self._posted)):
            self._posted.popleft()()
        while self._deferred:
            handlers, self._deferred = self._deferred, {}
            for handler in handlers:
                handler(now_ms)

    def close(self) -> None:
        """Close the wakeup socket. Other sockets are closed by their owners."""
        self._wakeup.close()


def _ignore() -> None:
    """Do nothing: the socket is not waited for."""
