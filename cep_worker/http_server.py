"""HTTP in threads of its own: a waitress server on one address."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Callable
from typing import Any

from waitress.server import create_server

from cep_common.errors import PortInUseError

logger = logging.getLogger(__name__)

WsgiApp = Callable[..., Any]


class HttpServer:
    """Serves `app` from construction to `close`. Raises PortInUseError when the address is taken."""

    def __init__(self, app: WsgiApp, host: str, port: int, threads: int, body_bytes: int) -> None:
        listening = _listen(host, port)
        self._server = create_server(
            app,
            sockets=[listening],
            threads=threads,
            # The app answers with 413 itself, as JSON; what is larger still is cut off before it is stored.
            max_request_body_size=2 * body_bytes,
            clear_untrusted_proxy_headers=True,
            ident="cep-worker",
        )
        self._thread = threading.Thread(target=self._server.run, name=f"http {host}:{port}", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Nobody is listened to any more; requests that are being worked on lose their answers."""
        self._server.trigger.pull_trigger(self._close_all)
        self._thread.join(timeout=2)
        self._server.task_dispatcher.shutdown(cancel_pending=True, timeout=1)

    def _close_all(self) -> None:
        """Runs on the server's own thread: its loop ends when nothing is left to wait for."""
        for dispatcher in list(self._server._map.values()):
            dispatcher.close()


def _listen(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listening = socket.socket(family, kind, protocol)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind(address)
        except OSError:
            listening.close()
            raise
    except OSError as error:
        raise PortInUseError(f"cannot listen on {host}:{port} for HTTP: {error.strerror}") from error
    return listening
