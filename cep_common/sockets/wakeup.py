"""What wakes a loop that waits for sockets when another thread has something for it."""

from __future__ import annotations

import contextlib
import os
import threading


class Wakeup:
    """The loop registers `handle` with its poller, and calls `silence` when that can be read; any thread may `ring`."""

    def __init__(self) -> None:
        """Open the pipe."""
        self._ringing = threading.Lock()
        self._closed = False
        self.handle, self._rope = os.pipe()
        os.set_blocking(self.handle, False)
        os.set_blocking(self._rope, False)

    def ring(self) -> None:
        """Make `handle` readable until the loop silences it; do nothing after `close`."""
        with self._ringing:  # the number of a closed pipe may be another file's by now
            if not self._closed:
                with contextlib.suppress(BlockingIOError):  # the pipe is full: it rings already
                    os.write(self._rope, b"\0")

    def silence(self) -> None:
        """Make `handle` unreadable until the next ring."""
        with contextlib.suppress(BlockingIOError):
            while os.read(self.handle, 4096):
                pass

    def close(self) -> None:
        """Close the pipe; the loop does not wait for it any more."""
        with self._ringing:
            if not self._closed:
                self._closed = True
                os.close(self.handle)
                os.close(self._rope)
