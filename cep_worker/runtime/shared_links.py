"""Sockets that all plans of a worker share: one port for publishers, one connection to each stage host."""

from __future__ import annotations

import zmq

from cep_common.security.roles import SocketKind
from cep_common.sockets.multiplexing import Connection, SharedConnections, SharedListener
from cep_worker.config import WorkerConfig
from cep_worker.runtime.event_loop import EventLoop
from topology.links.sender import SILENT_MS


class SharedLinks:
    """The shared sockets of a worker. Belongs to the data thread."""

    def __init__(self, event_loop: EventLoop, context: zmq.Context[zmq.Socket[bytes]], config: WorkerConfig) -> None:
        self._event_loop = event_loop
        self._context = context
        self._config = config
        self._listener: SharedListener | None = None
        self._opened = 0
        self.receivers = SharedConnections(context, SocketKind.RECEIVER, self._watch, self._unwatch)
        """Connections to stage hosts for the inflows of all plans."""

    def outflows(self) -> SharedListener:
        """Return the listener that publishers of all plans connect to.

        Raises:
            PortInUseError: When no port of `outflow` is free.
        """
        if self._listener is None:
            outflow = self._config.outflow
            ports = (outflow.first_port, outflow.last_port)
            listener = SharedListener(self._context, SocketKind.OUTFLOW, outflow.host, ports, self._config.host)
            self._event_loop.watch(listener.socket, listener.pump)
            self._listener = listener
        return self._listener

    def channel_name(self, name: str) -> str:
        """Return a name that begins with `name` and is unique during the life of this process."""
        self._opened += 1
        return f"{name}/{self._opened}"

    def tick(self, now_ms: int) -> None:
        """Send due heartbeats, which all links share."""
        self.receivers.tick(now_ms)
        if self._listener is not None:
            self._listener.tick(now_ms, SILENT_MS)

    def close(self) -> None:
        """Close the port and all connections."""
        self.receivers.close()
        if self._listener is not None:
            self._event_loop.unwatch(self._listener.socket)
            self._listener.close()
            self._listener = None

    def _watch(self, connection: Connection) -> None:
        for socket in (connection.socket, connection.monitor):
            self._event_loop.watch(socket, lambda _: self.receivers.pump(connection))

    def _unwatch(self, connection: Connection) -> None:
        for socket in (connection.socket, connection.monitor):
            self._event_loop.unwatch(socket)
