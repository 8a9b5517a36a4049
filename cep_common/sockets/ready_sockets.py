"""Wait for many ZeroMQ sockets, at a cost that grows with the ready ones only.

`zmq.Poller` checks each of its sockets in each call. Here the kernel reports the readable file handles. The handle of a
ZeroMQ socket is edge-triggered: using the socket consumes the notification, so a socket that was used must be checked
once more before its handle is waited for (see `used`).
"""

from __future__ import annotations

import selectors
from collections.abc import Callable
from functools import partial
from typing import Any

import zmq

from cep_common.sockets.shared_socket import SharedSocket

Source = Any
"""A ZeroMQ socket, a virtual socket of a shared one, or a file descriptor."""


class ReadySockets:
    """A set of sockets to wait for. Belongs to one thread, as its sockets do."""

    def __init__(self) -> None:
        """Create an empty set of sockets."""
        self._selector = selectors.DefaultSelector()
        self._handles: dict[Source, int] = {}
        self._used: set[Source] = set()
        self._called: dict[SharedSocket, None] = {}
        """Virtual sockets that have something to read."""
        self._closed = False
        self._pumps: dict[Source, Callable[[], None]] = {}

    def add(self, source: Source) -> None:
        """Wait for `source` from now on."""
        if isinstance(source, SharedSocket):
            source.notify = partial(self._called.__setitem__, source, None)
        else:
            handle = source if isinstance(source, int) else int(source.getsockopt(zmq.FD))
            self._selector.register(handle, selectors.EVENT_READ, source)
            self._handles[source] = handle
        self.used(source)

    def pump(self, socket: zmq.Socket[bytes], pump: Callable[[], None]) -> None:
        """Call `pump` whenever `socket` is readable, to distribute its messages to virtual sockets."""
        self.add(socket)
        self._pumps[socket] = pump

    def remove(self, source: Source) -> None:
        """Stop waiting for `source`, which may be closed already."""
        if isinstance(source, SharedSocket):
            source.notify = _ignore
            self._called.pop(source, None)
            return
        handle = self._handles.pop(source)
        if not self._closed:
            self._selector.unregister(handle)
        self._used.discard(source)
        self._pumps.pop(source, None)

    def used(self, source: Source) -> None:
        """Record that the socket was used: messages may have arrived whose notification was consumed."""
        if isinstance(source, SharedSocket):
            if source.has_input:
                self._called[source] = None
        elif not isinstance(source, int):
            self._used.add(source)

    def poll(self, timeout_ms: int) -> set[Source]:
        """Return the readable sources; wait up to `timeout_ms` for the first."""
        # sends use these sockets at any time, so the few of them are checked each time
        pumped = [one for one in self._pumps if _readable(one)]
        for socket in pumped:
            self._run_pump(socket)
        # A pump stops after a number of messages. No file handle signals the remaining ones, so the selector must not
        # block.
        more = any(socket in self._pumps and _readable(socket) for socket in pumped)
        ready = {source for source in self._used if source not in self._pumps and _readable(source)}
        self._used.clear()
        for key, _ in self._selector.select(0 if ready or self._called or more else timeout_ms / 1000):
            source = key.data
            if source in self._pumps:
                self._run_pump(source)
            elif isinstance(source, int) or _readable(source):
                ready.add(source)
        ready.update(self._called)
        self._called.clear()
        return ready

    def _run_pump(self, socket: Source) -> None:
        pump = self._pumps.get(socket)  # a pump may have removed other sockets
        if pump is not None:
            pump()

    def close(self) -> None:
        """Stop waiting for all sources."""
        self._closed = True
        self._selector.close()


def _ignore() -> None:
    """Do nothing: the source is not waited for."""


def _readable(source: Source) -> bool:
    return not source.closed and bool(int(source.getsockopt(zmq.EVENTS)) & zmq.POLLIN)
