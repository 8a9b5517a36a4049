"""The production web server (waitress) for console and REST API, in threads of its own."""

from __future__ import annotations

import socket
import threading
from typing import Any

from flask import Flask
from waitress import wasyncore
from waitress.server import create_server

from cep_common.errors import PortInUseError
from cep_manager.config import HttpConfig


class WebServer:
    """Serves `app` at the configured address. `start` and `stop` are called by one thread, once each."""

    def __init__(self, app: Flask, config: HttpConfig) -> None:
        """The port is bound; requests wait until `start`. Raises PortInUseError that names the configuration's key."""
        self._channels: dict[int, Any] = {}
        self._server: Any = create_server(
            app,
            map=self._channels,
            sockets=[_listen(config)],
            threads=config.threads,
            # The app itself refuses larger bodies in the API's own words; this bound is for what never reaches it.
            max_request_body_size=2 * config.body_bytes,
            ident=None,
            clear_untrusted_proxy_headers=True,
        )
        self._thread = threading.Thread(target=self._server.run, name="web-server", daemon=True)

    def start(self) -> None:
        """Requests are answered."""
        self._thread.start()

    def stop(self) -> None:
        """No request is answered any more and the port is free."""
        # Requests end first: each one wakes the server's thread through the trigger, which must not be closed by then.
        self._server.task_dispatcher.shutdown(cancel_pending=True, timeout=5)
        if self._thread.ident is None:
            wasyncore.close_all(self._channels)
        else:
            self._close_in_server_thread()
            self._thread.join(timeout=5)

    def _close_in_server_thread(self) -> None:
        """Sockets belong to the server's thread: it closes them itself and ends when none is left."""
        pulled = threading.Event()

        def close_all() -> None:
            # An earlier pull may run this while `pull_trigger` has yet to write to the trigger that is closed here.
            pulled.wait()
            wasyncore.close_all(self._channels)

        self._server.trigger.pull_trigger(close_all)
        pulled.set()


def _listen(config: HttpConfig) -> socket.socket:
    try:
        family, _, _, _, address = socket.getaddrinfo(config.host, config.port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address[:2], family=family, backlog=1_024)
    except OSError as error:
        where = f"{config.host}:{config.port}"
        raise PortInUseError(
            f"cannot listen on {where} for the console: {error.strerror}; set http.port (and http.host) to a free one"
        ) from error
