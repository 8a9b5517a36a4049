"""The loop of a web server: one thread that reads, writes and supervises all connections."""

from __future__ import annotations

import asyncio
import itertools
import logging
import socket
import ssl
import threading

import uvloop

from cep_common.monitoring.http_refusals import REFUSALS
from cep_common.security.certificates import Certificate
from cep_common.security.web_limits import AdmitBody, BodyHead, BodyRefusal, WebLimits
from cep_common.web.connection import ClientConnection
from cep_common.web.connections import ConnectionTable
from cep_common.web.direct import DirectCalls
from cep_common.web.requests import Exchange
from cep_common.web.thread_pool import ThreadPool
from cep_common.web.wsgi import WsgiApp, WsgiServer

logger = logging.getLogger(__name__)

SWEEP_S = 0.05
SWEEPS_PER_S = 20
"""The number of steps in which all connections are checked: checking ten thousand at once would delay requests."""
IDLE_SWEEP_S = SWEEP_S * SWEEPS_PER_S
"""How often a server without connections checks for new ones."""
STOP_S = 5.0
"""How long a server that stops waits for requests to be answered."""
QUIET_S = 0.2
"""How long a connection must be quiet before a stopping server closes it: a request that arrives then would get no
response."""
BACKLOG = 4_096
ACCEPTED_AT_ONCE = 64


class ServerLoop:
    """The connections and requests of a server. Methods are called on the loop's thread unless stated otherwise."""

    def __init__(
        self,
        listening: socket.socket,
        limits: WebLimits,
        connections: int,
        body_bytes: int,
        admit: AdmitBody | None,
        certificate: Certificate | None,
        direct: DirectCalls | None,
    ) -> None:
        """Serve the socket `listening` with at most `connections`, and bodies of at most `body_bytes`."""
        self.loop = uvloop.new_event_loop()
        self.limits = limits
        self.table = ConnectionTable(limits, connections)
        self.stopping = threading.Event()
        self.now = self.loop.time
        self._listening = listening
        self._body_bytes = body_bytes
        self._admit = admit
        self._certificate = certificate
        self._direct = direct
        self._wsgi: WsgiServer | None = None
        self._pool: ThreadPool | None = None
        self._sweeps = itertools.count(1)
        self._stop = asyncio.Event()
        self._handshakes: set[asyncio.Task[None]] = set()

    def serve(self, app: WsgiApp, threads: int) -> None:
        """Let `app` handle requests that no direct call handles. Called once, before `run`."""
        host, port = self._listening.getsockname()[:2]
        scheme = "http" if self._certificate is None else "https"
        self._wsgi = WsgiServer(app, host, port, scheme, self.loop, self.stopping)
        self._pool = ThreadPool(threads, "web-worker")

    def run(self) -> None:
        """Serve until `stop` is called. The calling thread becomes the loop's thread."""
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_until_complete(self._serve())
        finally:
            self.loop.close()

    def stop(self) -> None:
        """Answer pending requests, then close all connections. Any thread may call it.

        A connection that sends further requests gets one more response, with `Connection: close`.
        """
        self.stopping.set()
        self.loop.call_soon_threadsafe(self._stop.set)

    def discard(self) -> None:
        """Free the port of a server that was never run."""
        self._listening.close()
        self.loop.close()
        if self._pool is not None:
            self._pool.stop(5.0)

    async def _serve(self) -> None:
        server = None
        if self._certificate is None:
            server = await self.loop.create_server(
                lambda: ClientConnection(self), sock=self._listening, backlog=BACKLOG
            )
        else:  # accepted here, since connections that have not finished the TLS handshake must count as well
            self._listening.setblocking(False)  # noqa: FBT003
            self.loop.add_reader(self._listening, self._accept)
        self.loop.call_later(IDLE_SWEEP_S, self._sweep)
        await self._stop.wait()
        if server is not None:
            server.close()
        else:
            self.loop.remove_reader(self._listening)
            self._listening.close()
        began = self.now()
        while self._waits_for_connections(began):
            await asyncio.sleep(0.01)
        for connection in list(self.table.connections):
            connection.abort()
        if self._pool is not None:
            self._pool.stop(0.0)
        await asyncio.sleep(0)

    def _waits_for_connections(self, began: float) -> bool:
        """Return whether a client waits for a response or may be sending, for a server that `began` to stop."""
        now = self.now()
        if now - began > STOP_S:
            return False
        return any(connection.busy() or connection.is_recent(now, QUIET_S) for connection in self.table.connections)

    def _accept(self) -> None:
        """Accept waiting connections and start their TLS handshakes."""
        for _ in range(ACCEPTED_AT_ONCE):
            try:
                accepted, peer = self._listening.accept()
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                logger.debug("a connection was gone before it was accepted: reason=%s", error)
                return
            accepted.setblocking(False)  # noqa: FBT003
            connection, context = ClientConnection(self), self.tls_context()
            if context is None or not connection.arrive(peer):
                accepted.close()
                continue
            task = self.loop.create_task(connection.shake_hands(accepted, context))
            self._handshakes.add(task)
            task.add_done_callback(self._handshakes.discard)

    # ---- of connections ---------------------------------------------------------------------------------------------

    def tls_context(self) -> ssl.SSLContext | None:
        """Return the TLS context of new connections, if there is a certificate."""
        return self._certificate.context if self._certificate is not None else None

    def admit(self, head: BodyHead) -> BodyRefusal | None:
        """Return why the body is not read, judged by its sender."""
        return self._admit(head) if self._admit is not None else None

    def too_large(self, length: int) -> BodyRefusal | None:
        """Return why a body of this length is not read."""
        if length <= self._body_bytes:
            return None
        message = f"the body has {length:,} bytes or more; the maximum is {self._body_bytes:,}"
        return BodyRefusal(413, "too-large", message)

    def direct(self, exchange: Exchange) -> bool:
        """Return whether a direct call answers the exchange."""
        return self._direct is not None and self._direct.take(exchange)

    def run_app(self, exchange: Exchange) -> None:
        """Run the application for the exchange."""
        if self._pool is not None and self._wsgi is not None:
            wsgi = self._wsgi
            self._pool.submit(lambda: wsgi.answer(exchange))

    def _sweep(self) -> None:
        """Close overdue connections among a part of all connections."""
        if not self.table.connections:
            self._second()
            self.loop.call_later(IDLE_SWEEP_S, self._sweep)
            return
        step = next(self._sweeps) % SWEEPS_PER_S
        now = self.now()
        for connection in [*itertools.islice(self.table.connections, step, None, SWEEPS_PER_S)]:
            if connection.overdue(now):
                if not connection.is_idle():
                    REFUSALS.note("too-slow")
                connection.abort()
        if step == 0:
            self._second()
        self.loop.call_later(SWEEP_S, self._sweep)

    def _second(self) -> None:
        """Run the tasks of each second."""
        self.table.second()
        if self._certificate is not None:
            self._certificate.refresh()
