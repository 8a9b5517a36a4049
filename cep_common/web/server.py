"""The web server: httptools on uvloop in a thread of its own, with HTTPS if there is a certificate."""

from __future__ import annotations

import resource
import socket
import threading

from cep_common.errors import PortInUseError
from cep_common.security.certificates import Certificate
from cep_common.security.config import ServerSecurity
from cep_common.security.web_limits import AdmitBody
from cep_common.web.direct import DirectCalls
from cep_common.web.server_loop import BACKLOG, ServerLoop
from cep_common.web.wsgi import WsgiApp, is_stopping

__all__ = ["WebServer", "WsgiApp", "is_stopping"]

SPARE_FILES = 1_024
"""Open files of a process that serves HTTP, in addition to its connections."""


class WebServer:
    """Serves `app` at an address. `start` and `stop` are called by one thread, once each."""

    def __init__(
        self,
        app: WsgiApp,
        host: str,
        port: int,
        threads: int,
        body_bytes: int,
        security: ServerSecurity,
        keys: str,
        admit: AdmitBody | None = None,
        direct: DirectCalls | None = None,
    ) -> None:
        """Bind the port; requests wait until `start`.

        Bodies of more than `body_bytes` are refused, and `admit` decides which others are read (None: all). `direct`
        handles some requests without the app.

        Raises:
            PortInUseError: With the `keys` that set the address.
            ConfigError: When the certificate cannot be used.
        """
        certificate = Certificate(security.certificate, security.certificate_key) if security.certificate else None
        connections = _allow_connections(security.limits.connections)
        listening = _listen(host, port, keys)
        self._loop = ServerLoop(listening, security.limits, connections, body_bytes, admit, certificate, direct)
        self._loop.serve(app, threads)
        self._thread = threading.Thread(target=self._loop.run, name="web-server", daemon=True)

    def start(self) -> None:
        """Start to answer requests."""
        self._thread.start()

    def stop(self) -> None:
        """Answer pending requests, close all connections and free the port."""
        if self._thread.ident is None:
            self._loop.discard()
            return
        self._loop.stop()
        self._thread.join(timeout=10)

    def connections(self) -> int:
        """Return how many connections there are."""
        return len(self._loop.table)

    def bodies_bytes(self) -> int:
        """Return the size of all bodies that are being read or processed."""
        return self._loop.table.bodies_bytes


def _allow_connections(wanted: int) -> int:
    """Raise the process's limit of open files for this many connections, and return how many connections it permits."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = wanted + SPARE_FILES
    if soft != resource.RLIM_INFINITY and soft < files:
        soft = files if hard == resource.RLIM_INFINITY else min(files, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return wanted if soft == resource.RLIM_INFINITY else max(16, min(wanted, soft - SPARE_FILES))


def _listen(host: str, port: int, keys: str) -> socket.socket:
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address[:2], family=family, backlog=BACKLOG)
    except OSError as error:
        raise PortInUseError(
            f"cannot listen on {host}:{port} for HTTP: {error.strerror}; set {keys} to a free one"
        ) from error
