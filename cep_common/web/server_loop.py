"""The loop of a web server: one thread that reads and answers all connections, and looks after them."""

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
"""In so many steps all connections are looked at: ten thousand at once would keep requests waiting."""
IDLE_SWEEP_S = SWEEP_S * SWEEPS_PER_S
"""How often a server without connections looks whether there are any."""
STOP_S = 5.0
"""How long a server that stops waits for requests to be answered."""
QUIET_S = 0.2
"""How long a connection must be quiet before a server that stops closes it: a request that is on its way then would get
no response."""
BACKLOG = 4_096
ACCEPTED_AT_ONCE = 64


class ServerLoop:
    """All of a server but its address. Methods are called on the loop's thread, where nothing else is said."""

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
        """Serve `listening`, from `run` on, with `connections` at most and bodies of at most `body_bytes`."""
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
        """Have `app` answer what no direct call does. Called once, before `run`."""
        host, port = self._listening.getsockname()[:2]
        scheme = "http" if self._certificate is None else "https"
        self._wsgi = WsgiServer(app, host, port, scheme, self.loop, self.stopping)
        self._pool = ThreadPool(threads, "web-worker")

    def run(self) -> None:
        """Serve until `stop`; this is the loop's thread."""
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_until_complete(self._serve())
        finally:
            self.loop.close()

    def stop(self) -> None:
        """Answer what was asked, then close all connections. Any thread may call it.

        A connection on which requests come is answered once more, with `Connection: close`.
        """
        self.stopping.set()
        self.loop.call_soon_threadsafe(self._stop.set)

    def discard(self) -> None:
        """Free the port of a server that never ran."""
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
        else:  # connections without a TLS handshake count as well, so they are accepted here
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
        """Return whether a client of the server that `began` to stop waits for a response, or may be sending."""
        now = self.now()
        if now - began > STOP_S:
            return False
        return any(connection.busy() or connection.is_recent(now, QUIET_S) for connection in self.table.connections)

    def _accept(self) -> None:
        """Take the connections that wait, and have them shake hands."""
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
        """Return the certificate that new connections get, if there is one."""
        return self._certificate.context if self._certificate is not None else None

    def admit(self, head: BodyHead) -> BodyRefusal | None:
        """Return why a body is not read, going by who sends it."""
        return self._admit(head) if self._admit is not None else None

    def too_large(self, length: int) -> BodyRefusal | None:
        """Return why a body of the length is not read."""
        if length <= self._body_bytes:
            return None
        message = f"the body has {length:,} bytes or more; {self._body_bytes:,} are the most"
        return BodyRefusal(413, "too-large", message)

    def direct(self, exchange: Exchange) -> bool:
        """Return whether a direct call answers the exchange."""
        return self._direct is not None and self._direct.take(exchange)

    def run_app(self, exchange: Exchange) -> None:
        """Have the application answer."""
        if self._pool is not None and self._wsgi is not None:
            wsgi = self._wsgi
            self._pool.submit(lambda: wsgi.answer(exchange))

    def _sweep(self) -> None:
        """Close what is overdue among a part of the connections."""
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
        """Do what is due each second."""
        self.table.second()
        if self._certificate is not None:
            self._certificate.refresh()
