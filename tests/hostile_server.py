"""A server that answers anyone who connects with whatever a test wants."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterable


class HostileServer:
    """Reads what is sent, then sends `parts` on each connection until they end or the peer hangs up; `sent` counts
    bytes, `connections` how many came. With `greets` it speaks first."""

    def __init__(self, parts: Iterable[bytes], *, greets: bool = False, closes: bool = True) -> None:
        self.sent = 0
        self.connections = 0
        self.hung_up = threading.Event()
        self._parts = parts
        self._greets = greets
        self._closes = closes
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/"
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def __enter__(self) -> HostileServer:
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._thread.join(5)

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while not self._ends.is_set():
                peer, _ = self._listening.accept()
                self.connections += 1
                threading.Thread(target=self._answer, args=(peer,), daemon=True).start()

    def _answer(self, peer: socket.socket) -> None:
        with peer, contextlib.suppress(OSError):
            while self._greets or peer.recv(65_536):
                for part in self._parts:
                    if self._ends.is_set():
                        return
                    peer.sendall(part)
                    self.sent += len(part)
                if self._closes:
                    return
        self.hung_up.set()
