"""HTTPS in front of an HTTP server of the same process: TLS ends here, on a thread of its own, and what it carried goes
on over loopback. Clients that are slow, or never speak, cost a connection and no thread."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
import threading

from cep_common.errors import ConfigError

logger = logging.getLogger(__name__)

HANDSHAKE_S = 10.0
PIECE_BYTES = 65_536


class TlsFront:
    """Carries between clients and the server at `inner`, from construction to `close`."""

    def __init__(
        self, listening: socket.socket, inner: tuple[str, int], context: ssl.SSLContext, most_connections: int
    ) -> None:
        """`listening` is bound, and belongs to the front from now on."""
        self._listening = listening
        self._inner = inner
        self._context = context
        self._most_connections = most_connections
        self._clients: dict[int, str] = {}
        self._carried: set[asyncio.Task[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._ended = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="tls", daemon=True)
        self._thread.start()

    def client(self, port: int) -> str | None:
        """The address of the client whose requests reach the inner server from `port` of this host."""
        return self._clients.get(port)

    def close(self) -> None:
        """No connection stands any more and the port is free."""
        self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join()

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._serve())
        finally:
            self._loop.close()

    async def _serve(self) -> None:
        server = await asyncio.start_server(
            self._carry, sock=self._listening, ssl=self._context, ssl_handshake_timeout=HANDSHAKE_S
        )
        await self._ended.wait()
        server.close()
        for task in self._carried:
            task.cancel()
        await asyncio.gather(*self._carried, return_exceptions=True)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is None or len(self._carried) >= self._most_connections:
            writer.close()
            return
        self._carried.add(task)
        try:
            inner_reader, inner_writer = await asyncio.open_connection(*self._inner)
            port = inner_writer.get_extra_info("sockname")[1]
            self._clients[port] = writer.get_extra_info("peername")[0]
            try:
                async with asyncio.TaskGroup() as both:
                    both.create_task(_pump(reader, inner_writer))
                    both.create_task(_pump(inner_reader, writer))
            finally:
                del self._clients[port]
                inner_writer.close()
        except* OSError as lost:
            logger.debug("connection lost: reason=%s", lost.exceptions[0])
        finally:
            self._carried.discard(task)
            writer.close()


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


def tls_context(certificate: str, key: str) -> ssl.SSLContext:
    """TLS 1.2 or later with the certificate (chain) and key in those PEM files. Raises ConfigError that names them."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(certificate, key)
    except OSError as error:  # ssl.SSLError is one
        raise ConfigError(f"security.certificate: {certificate} with {key} cannot be used: {error}") from error
    return context
