"""Limits of a server's connections and of the memory of their bodies. Belongs to one thread."""

from __future__ import annotations

import logging

from cep_common.monitoring.http_refusals import REFUSALS
from cep_common.monitoring.paced_log import PacedLog
from cep_common.security.web_limits import BodyRefusal, WebLimits
from cep_common.web.requests import AnsweredConnection

logger = logging.getLogger(__name__)
paced_logger = PacedLog(logger)

REPLACED_PER_S = 2_000
"""How many connections of an address may replace older ones of it in a second; further new ones are refused."""


class _Client:
    """The connections of one address, least recently used first."""

    __slots__ = ("bodies_bytes", "connections", "half_open", "replaced")

    def __init__(self) -> None:
        self.connections: dict[AnsweredConnection, None] = {}
        self.half_open: dict[AnsweredConnection, None] = {}
        self.bodies_bytes = 0
        self.replaced = 0


class ConnectionTable:
    """All connections, by client address.

    Every operation but `_busiest` takes constant time: thousands of connections may arrive in a second.
    """

    def __init__(self, limits: WebLimits, most: int) -> None:
        """Allow `most` connections in all: the limit of open files may permit fewer than `limits`."""
        self._limits = limits
        self._most = most
        self._clients: dict[str, _Client] = {}
        self.connections: dict[AnsweredConnection, None] = {}
        self.bodies_bytes = 0

    def __len__(self) -> int:
        """Return how many connections are open."""
        return len(self.connections)

    def arrived(self, connection: AnsweredConnection) -> bool:
        """Add a connection, and close another one if there are too many. Return whether the new one may stay."""
        client = self._clients.get(connection.address)
        if client is None:
            client = self._clients[connection.address] = _Client()
        if client.replaced >= REPLACED_PER_S:
            REFUSALS.note("too-many-connections")
            return False
        client.connections[connection] = client.half_open[connection] = None
        self.connections[connection] = None
        limits = self._limits
        if len(client.half_open) > limits.half_open_per_address:
            self._end(client, client.half_open, "security.limits.half_open_per_address")
        elif len(client.connections) > limits.connections_per_address:
            self._end(client, client.half_open or client.connections, "security.limits.connections_per_address")
        elif len(self.connections) > self._most:
            busiest = self._busiest()
            self._end(busiest, busiest.half_open or busiest.connections, "security.limits.connections")
        return True

    def left(self, connection: AnsweredConnection) -> None:
        """Forget a connection."""
        client = self._clients.get(connection.address)
        if client is None or connection not in client.connections:
            return
        del client.connections[connection]
        del self.connections[connection]
        client.half_open.pop(connection, None)
        self._forget(connection.address, client)

    def half_open(self, connection: AnsweredConnection, *, half_open: bool) -> None:
        """Record whether the connection has not sent a complete request yet."""
        client = self._clients.get(connection.address)
        if client is None or connection not in client.connections:
            return
        if half_open:
            client.half_open[connection] = None
        else:
            client.half_open.pop(connection, None)

    def used(self, connection: AnsweredConnection) -> None:
        """Record that a connection has sent a complete request: others are closed before it."""
        client = self._clients.get(connection.address)
        if client is None or connection not in client.connections:
            return
        client.half_open.pop(connection, None)
        del client.connections[connection]
        client.connections[connection] = None

    def reserve(self, connection: AnsweredConnection, length: int) -> BodyRefusal | None:
        """Reserve memory for this many bytes of a body, or return why there is none."""
        client = self._clients.get(connection.address)
        if client is None:
            return _no_room("security.limits.bodies_bytes_per_address", connection.address)
        if client.bodies_bytes + length > self._limits.bodies_bytes_per_address:
            return _no_room("security.limits.bodies_bytes_per_address", connection.address)
        if self.bodies_bytes + length > self._limits.bodies_bytes:
            return _no_room("security.limits.bodies_bytes", connection.address)
        client.bodies_bytes += length
        self.bodies_bytes += length
        return None

    def release(self, connection: AnsweredConnection, length: int) -> None:
        """Release reserved memory."""
        self.bodies_bytes -= length
        client = self._clients.get(connection.address)
        if client is not None:
            client.bodies_bytes -= length
            self._forget(connection.address, client)

    def second(self) -> None:
        """Reset the counters of the last second."""
        for address, client in list(self._clients.items()):
            client.replaced = 0
            self._forget(address, client)

    def _forget(self, address: str, client: _Client) -> None:
        """Forget an address without connections and bodies."""
        if not client.connections and not client.bodies_bytes and not client.replaced:
            self._clients.pop(address, None)

    def _busiest(self) -> _Client:
        return max(self._clients.values(), key=lambda client: len(client.connections))

    def _end(self, client: _Client, among: dict[AnsweredConnection, None], key: str) -> None:
        connection = next(iter(among))
        paced_logger.problem(
            key, "a connection was replaced by another one: address=%s see=%s", connection.address, key
        )
        REFUSALS.note("connection-replaced")
        client.replaced += 1
        self.left(connection)
        connection.abort()


def _no_room(key: str, address: str) -> BodyRefusal:
    paced_logger.problem(key, "bodies were refused: address=%s see=%s", address, key)
    return BodyRefusal(503, "no-room", f"too many large bodies are being processed; send it again later ({key})")
