"""Shared by the links of all plans in one stage host: a port for workers, and one connection to each worker."""

from __future__ import annotations

from collections.abc import Callable

import zmq

from cep_common.security.roles import SocketKind
from cep_common.sockets.multiplexing import Connection, SharedConnections, SharedListener
from cep_common.sockets.ready_sockets import ReadySockets
from topology.links.sender import BEAT_MS

STALLED_MS = 3 * BEAT_MS
"""How long processing time waits for a sender without a heartbeat."""


class HostLinks:
    """`receivers` may open channels from any thread; all else belongs to the thread of `ready`."""

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        host: str,
        ports: tuple[int, int],
        ready: ReadySockets,
        monotonic_ms: Callable[[], int],
    ) -> None:
        """Listen on the first free one of `ports`.

        Raises:
            PortInUseError: When none is free.
        """
        self._ready = ready
        self._next_ms = 0
        self.receivers = SharedListener(context, SocketKind.RECEIVER, host, ports)
        self.workers = SharedConnections(context, SocketKind.OUTFLOW, self._watch, self._unwatch)
        ready.pump(self.receivers.socket, lambda: self.receivers.pump(monotonic_ms()))

    def tick(self, now_ms: int) -> int:
        """Send due heartbeats, and return when to call this again."""
        if now_ms >= self._next_ms:
            self._next_ms = now_ms + BEAT_MS
            self.receivers.tick(now_ms, STALLED_MS)
            self.workers.tick(now_ms)
        return self._next_ms

    def keep_alive(self, now_ms: int) -> None:
        """Distribute messages and send heartbeats while the loop that polls the sockets is busy."""
        self.receivers.pump(now_ms)
        self.workers.pump_all()
        self.tick(now_ms)

    def close(self) -> None:
        """Close the port and all connections."""
        self.workers.close()
        self.receivers.close()

    def _watch(self, connection: Connection) -> None:
        for socket in (connection.socket, connection.monitor):
            self._ready.pump(socket, lambda: self.workers.pump(connection))

    def _unwatch(self, connection: Connection) -> None:
        for socket in (connection.socket, connection.monitor):
            self._ready.remove(socket)
