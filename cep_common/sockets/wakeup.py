"""Wakes a loop that waits for sockets, from another thread."""

from __future__ import annotations

import contextlib
import os
import threading


class Wakeup:
    """A pipe whose `handle` a loop polls. Any thread may `ring`; the loop then calls `silence`."""

    def __init__(self) -> None:
        """Open the pipe."""
        self._ringing = threading.Lock()
        self._closed = False
        self.handle, self._rope = os.pipe()
        os.set_blocking(self.handle, False)
        os.set_blocking(self._rope, False)

    def ring(self) -> None:
        """Make `handle` readable until `silence` is called. Do nothing after `close`."""
        with self._ringing:  # the descriptor of a closed pipe may belong to another file by now
            if not self._closed:
                with contextlib.suppress(BlockingIOError):  # the pipe is full, so the handle is readable
                    os.write(self._rope, b"\0")

    def silence(self) -> None:
        """Make `handle` unreadable until the next ring."""
        with contextlib.suppress(BlockingIOError):
            while os.read(self.handle, 4096):
                pass

    def close(self) -> None:
        """Close the pipe, which the loop must not poll any more."""
        with self._ringing:
            if not self._closed:
                self._closed = True
                os.close(self.handle)
                os.close(self._rope)
