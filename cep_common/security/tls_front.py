"""HTTPS in front of an HTTP server of the same process.

TLS ends here, on a thread of its own, and its content continues over loopback. Clients that are slow, or never send,
cost a connection and no thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
import threading
from collections import Counter
from collections.abc import Iterator

from cep_common.security.web_limits import WebLimits

logger = logging.getLogger(__name__)

HANDSHAKE_S = 10.0
PIECE_BYTES = 65_536


class TlsFront:
    """Carries between clients and the server at `inner`, from construction to `close`."""

    def __init__(
        self, listening: socket.socket, inner: tuple[str, int], context: ssl.SSLContext, limits: WebLimits
    ) -> None:
        """Create a front; `listening` is bound, and belongs to the front from now on."""
        self._listening = listening
        self._inner = inner
        self._context = context
        self._limits = limits
        self._of_address: Counter[str] = Counter()
        self._shaking: Counter[str] = Counter()
        self._clients: dict[int, str] = {}
        self._carried: set[asyncio.Task[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._ended = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="tls", daemon=True)
        self._thread.start()

    def client(self, port: int) -> str | None:
        """Return the address of the client whose requests reach the inner server from `port` of this host."""
        return self._clients.get(port)

    def close(self) -> None:
        """Close all connections and free the port."""
        self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join()

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._serve())
        finally:
            self._loop.close()

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._admit, sock=self._listening)
        await self._ended.wait()
        server.close()
        for task in self._carried:
            task.cancel()
        await asyncio.gather(*self._carried, return_exceptions=True)

    async def _admit(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry for a client, unless it has too many connections, or too many that do not shake hands."""
        task, address = asyncio.current_task(), (writer.get_extra_info("peername") or ("",))[0]
        limits = self._limits
        # The inner server makes room at its own limits, so here a few more are let through to it.
        crowded = len(self._carried) >= limits.connections + limits.half_open_per_address
        crowded |= self._of_address[address] >= limits.connections_per_address + limits.half_open_per_address
        if task is None or crowded or self._shaking[address] >= limits.half_open_per_address:
            writer.transport.abort()
            return
        self._carried.add(task)
        self._of_address[address] += 1
        try:
            with _counted(self._shaking, address):
                await writer.start_tls(self._context, ssl_handshake_timeout=HANDSHAKE_S)
            await self._carry(reader, writer, address)
        except OSError as lost:  # ssl.SSLError is one
            logger.debug("connection lost: reason=%s", lost)
        finally:
            self._carried.discard(task)
            self._of_address[address] -= 1
            if not self._of_address[address]:
                del self._of_address[address]
            writer.close()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, address: str) -> None:
        inner = socket.socket()
        inner.settimeout(0.0)
        inner.bind((self._inner[0], 0))
        port = inner.getsockname()[1]
        # The inner server asks for whom the connection is as soon as it is there.
        self._clients[port] = address
        try:
            await asyncio.get_running_loop().sock_connect(inner, self._inner)
            inner_reader, inner_writer = await asyncio.open_connection(sock=inner)
        except BaseException:  # also when it is cancelled
            del self._clients[port]
            inner.close()
            raise
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(_pump(reader, inner_writer))
                both.create_task(_pump(inner_reader, writer))
        except* OSError as lost:
            logger.debug("connection lost: reason=%s", lost.exceptions[0])
        finally:
            del self._clients[port]
            inner_writer.close()


@contextlib.contextmanager
def _counted(counter: Counter[str], key: str) -> Iterator[None]:
    counter[key] += 1
    try:
        yield
    finally:
        counter[key] -= 1
        if not counter[key]:
            del counter[key]


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Carries until the reader's side ends, then says so to the other."""
    while piece := await reader.read(PIECE_BYTES):
        writer.write(piece)
        await writer.drain()
    with contextlib.suppress(OSError):
        if writer.can_write_eof():
            writer.write_eof()
        else:
            writer.close()
