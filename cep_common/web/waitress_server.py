"""The former web server (waitress), for environments in which httptools and uvloop are not installed yet."""

from __future__ import annotations

import resource
import socket
import threading
from collections.abc import Callable
from typing import Any

from waitress import wasyncore

from cep_common.errors import PortInUseError
from cep_common.security.certificates import tls_context
from cep_common.security.config import ServerSecurity
from cep_common.security.tls_front import TlsFront
from cep_common.security.web_limits import AdmitBody
from cep_common.web.channels import IDLE_S, GuardedServer
from cep_common.web.wsgi import STOPPING, WsgiApp

LEAST_FILES = 4_096
"""Open files of a process that serves HTTP, where its system lets it have so many."""


class WaitressServer:
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
        direct: object = None,
    ) -> None:
        """Bind the port; requests wait until `start`.

        `admit` decides which bodies are read; None: all.

        Raises:
            PortInUseError: With the `keys` that set the address.
            ConfigError: When the certificate cannot be used.
        """
        _allow_files()
        context = tls_context(security.certificate, security.certificate_key) if security.certificate else None
        listening = _listen(host, port, keys)
        inner = listening if context is None else _listen("127.0.0.1", 0, keys)
        self._front: TlsFront | None = None
        self._app = app
        self._stopping = threading.Event()
        self._channels: dict[int, Any] = {}
        if context is not None:
            self._front = TlsFront(listening, inner.getsockname(), context, security.limits)
        self._server: Any = GuardedServer(
            self._serve,
            inner,
            security.limits,
            admit,
            self._front.client if self._front is not None else None,
            map=self._channels,
            threads=threads,
            url_scheme="http" if context is None else "https",
            # The app itself refuses larger bodies in its own words; this bound is for what never reaches it.
            max_request_body_size=2 * body_bytes,
            channel_timeout=IDLE_S,
            asyncore_use_poll=True,
            ident=None,
            clear_untrusted_proxy_headers=True,
        )
        self._thread = threading.Thread(target=self._server.run, name="web-server", daemon=True)

    def start(self) -> None:
        """Start to answer requests."""
        self._thread.start()

    def stop(self) -> None:
        """No request is answered any more and the port is free."""
        self._stopping.set()
        if self._front is not None:
            self._front.close()
        # Requests end first: each one wakes the server's thread through the trigger, which must not be closed by then.
        self._server.task_dispatcher.shutdown(cancel_pending=True, timeout=5)
        if self._thread.ident is None:
            wasyncore.close_all(self._channels)
        else:
            self._close_in_server_thread()
            self._thread.join(timeout=5)

    def connections(self) -> int:
        """Return how many connections there are."""
        return len(self._server.active_channels)

    def bodies_bytes(self) -> int:
        """Return how much room bodies take that are being read or worked on."""
        return sum(one.reserved() for one in tuple(self._server.active_channels.values()))

    def _serve(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Any:
        """Call the app, with the address of a TLS client, and a way to see that the server is stopping."""
        environ[STOPPING] = self._stopping
        if self._front is not None:
            client = self._front.client(int(environ["REMOTE_PORT"]))
            environ["REMOTE_ADDR"] = environ["REMOTE_HOST"] = client or "unknown"
        return self._app(environ, start_response)

    def _close_in_server_thread(self) -> None:
        """Sockets belong to the server's thread: it closes them itself and ends when none is left."""
        pulled = threading.Event()

        def close_all() -> None:
            # An earlier pull may run this while `pull_trigger` has yet to write to the trigger that is closed here.
            pulled.wait()
            wasyncore.close_all(self._channels)

        self._server.trigger.pull_trigger(close_all)
        pulled.set()


def _allow_files() -> None:
    """Let the process have as many open files as its limits on connections need."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = LEAST_FILES if hard == resource.RLIM_INFINITY else min(LEAST_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _listen(host: str, port: int, keys: str) -> socket.socket:
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address[:2], family=family, backlog=1_024)
    except OSError as error:
        raise PortInUseError(
            f"cannot listen on {host}:{port} for HTTP: {error.strerror}; set {keys} to a free one"
        ) from error
