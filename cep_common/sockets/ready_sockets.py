"""Waits for many ZeroMQ sockets at once, at a cost that grows with those that are ready, not with all of them.

`zmq.Poller` looks at each of its sockets in each call. Here the kernel tells which handles can be read. The handle of a
ZeroMQ socket tells only that something happened to the socket since somebody used it last, so a socket that was used
must be asked once more before anybody waits for its handle: see `used`.
"""

from __future__ import annotations

import selectors
from collections.abc import Callable
from functools import partial
from typing import Any

import zmq

from cep_common.sockets.shared_socket import SharedSocket

Source = Any
"""A ZeroMQ socket, a part of a shared one, or the number of a file handle."""


class ReadySockets:
    """Sockets that are waited for together. Belongs to one thread, as the sockets in it do."""

    def __init__(self) -> None:
        """Create an empty set of sockets."""
        self._selector = selectors.DefaultSelector()
        self._handles: dict[Source, int] = {}
        self._used: set[Source] = set()
        self._called: dict[SharedSocket, None] = {}
        """Parts of shared sockets that have something to read."""
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
        """Call `pump` whenever `socket` can be read: it hands out what came to parts of the socket, which are added."""
        self.add(socket)
        self._pumps[socket] = pump

    def remove(self, source: Source) -> None:
        """Wait for `source` no longer; it may be closed already."""
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
        """Note that the socket was used: something may have come whose notice was taken then."""
        if isinstance(source, SharedSocket):
            if source.has_input:
                self._called[source] = None
        elif not isinstance(source, int):
            self._used.add(source)

    def poll(self, timeout_ms: int) -> set[Source]:
        """Return the sources that can be read; wait up to `timeout_ms` for the first."""
        # Sends use them at any time, so they are asked each time: there are few.
        pumped = [one for one in self._pumps if _readable(one)]
        for socket in pumped:
            self._run_pump(socket)
        # A pump stops after so many messages; no file handle signals what is left, so the selector must not block.
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
        pump = self._pumps.get(socket)  # a pump may have removed others
        if pump is not None:
            pump()

    def close(self) -> None:
        """Wait for nothing any more."""
        self._closed = True
        self._selector.close()


def _ignore() -> None:
    """Do nothing: the source is not waited for."""


def _readable(source: Source) -> bool:
    return not source.closed and bool(int(source.getsockopt(zmq.EVENTS)) & zmq.POLLIN)
