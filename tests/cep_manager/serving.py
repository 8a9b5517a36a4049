"""The console behind the real web server, for tests in a browser."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from flask import Flask
from free_ports import free_port

from cep_common.security.config import ServerSecurity
from cep_common.web.server import WebServer


@contextmanager
def serving(app: Flask, body_bytes: int = 1_000_000) -> Iterator[str]:
    """The address at which `app` is served until the block ends."""
    port = free_port()
    server = WebServer(app, "127.0.0.1", port, 16, body_bytes, ServerSecurity(), "a test")
    server.start()
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.stop()
