"""Waits for many ZeroMQ sockets at once, at a cost that grows with those that are ready, not with all of them.

`zmq.Poller` looks at each of its sockets in each call. Here the kernel tells which handles can be read. The handle of a
ZeroMQ socket tells only that something happened to the socket since somebody used it last, so a socket that was used
must be asked once more before anybody waits for its handle: see `used`.
"""

from __future__ import annotations

import selectors
from typing import Any

import zmq

Source = Any
"""A ZeroMQ socket, or the number of a file handle."""


class ReadySockets:
    """Belongs to one thread, as the sockets in it do."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._handles: dict[Source, int] = {}
        self._used: set[Source] = set()

    def add(self, source: Source) -> None:
        """Wait for `source` from now on."""
        handle = source if isinstance(source, int) else int(source.getsockopt(zmq.FD))
        self._selector.register(handle, selectors.EVENT_READ, source)
        self._handles[source] = handle
        self.used(source)

    def remove(self, source: Source) -> None:
        """Wait for `source` no longer; it may be closed already."""
        self._selector.unregister(self._handles.pop(source))
        self._used.discard(source)

    def used(self, source: Source) -> None:
        """Note that the socket was used: something may have come whose notice was taken then."""
        if not isinstance(source, int):
            self._used.add(source)

    def poll(self, timeout_ms: int) -> set[Source]:
        """Return the sources that can be read; wait up to `timeout_ms` for the first."""
        ready = {source for source in self._used if _readable(source)}
        self._used.clear()
        for key, _ in self._selector.select(0 if ready else timeout_ms / 1000):
            source = key.data
            if isinstance(source, int) or _readable(source):
                ready.add(source)
        return ready

    def close(self) -> None:
        """Wait for nothing any more."""
        self._selector.close()


def _readable(source: Source) -> bool:
    return not source.closed and bool(int(source.getsockopt(zmq.EVENTS)) & zmq.POLLIN)
