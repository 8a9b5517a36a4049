"""The HTTP servers of a worker: the built-in one, and one for each further address of sources."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cep_common.errors import ConfigError
from cep_common.security.config import ServerSecurity
from cep_common.security.web import Gate
from cep_common.web.direct import DirectCalls
from cep_common.web.server import WebServer, WsgiApp
from cep_worker.config import WorkerHttpConfig
from cep_worker.http.event_posts import HttpSource

Address = tuple[str, int]

MakeDirect = Callable[[str], DirectCalls | None]
"""Creates the direct calls of the server at an address."""


class HttpServers:
    """HTTP servers and the sources at their paths.

    Changed by the data thread, read by those of the servers.
    """

    def __init__(self, config: WorkerHttpConfig, security: ServerSecurity, gate: Gate) -> None:
        self._config = config
        self._security = security
        self._gate = gate
        self._app: WsgiApp | None = None
        self._direct: MakeDirect = lambda _: None
        self._servers: dict[Address, WebServer] = {}
        self._sources: dict[str, HttpSource] = {}

    def open(self, app: WsgiApp, direct: MakeDirect) -> None:
        """Serve `app` on the built-in server and on servers that are added later, each with the `direct` calls.

        Raises:
            PortInUseError: the port is taken.
        """
        self._app = app
        self._direct = direct
        self._serve((self._config.host, self._config.port))

    def source(self, path: str) -> HttpSource | None:
        """Return the source at `path` (`host:port/path`)."""
        return self._sources.get(path)

    def add(self, address: Address, path: str, source: HttpSource) -> None:
        """Add a source, which gets the events that are posted to `path` at `address`.

        Raises:
            PortInUseError: the address is in use.
            ConfigError: the path is in use, or the address is not loopback and no token is required.
        """
        name = _name(address, path)
        if name in self._sources or (path + "/").startswith("/events/"):
            raise ConfigError(f"the path {path} at {address[0]}:{address[1]} is taken already; choose another one")
        self._serve(address)
        self._sources[name] = source

    def replace(self, address: Address, path: str, source: HttpSource) -> None:
        """Replace the source of the path."""
        self._sources[_name(address, path)] = source

    def remove(self, address: Address, path: str) -> None:
        """Stop accepting events at the path.

        Its server stops too, unless it is the built-in one or has other paths.
        """
        del self._sources[_name(address, path)]
        built_in = address == (self._config.host, self._config.port)
        if not built_in and not any(name.startswith(_name(address, "/")) for name in self._sources):
            self._servers.pop(address).stop()

    def close(self) -> None:
        """Close all servers."""
        for server in self._servers.values():
            server.stop()
        self._servers.clear()

    def _serve(self, address: Address) -> None:
        if address in self._servers or self._app is None:
            return
        host, port = address
        self._gate.refuse_open_host(host, "a source's address")
        app, config = _addressed(self._app, address), self._config
        keys = "http.port (and http.host), or a source's receiver.url,"
        direct = self._direct(f"{host}:{port}")
        admit = self._gate.admit_body
        server = WebServer(app, host, port, config.threads, config.body_bytes, self._security, keys, admit, direct)
        server.start()
        self._servers[address] = server


def _name(address: Address, path: str) -> str:
    return f"{address[0]}:{address[1]}{path}"


def _addressed(app: WsgiApp, address: Address) -> WsgiApp:
    """`app`, with the worker's address at which a request arrived."""
    text = f"{address[0]}:{address[1]}"

    def addressed(environ: dict[str, Any], start_response: Callable[..., Any]) -> Any:
        environ["cep.address"] = text
        return app(environ, start_response)

    return addressed
