"""The manager's web server: what stopping it means."""

from __future__ import annotations

import socket
import urllib.request
from typing import Any

import pytest
from flask import Flask

from cep_manager.config import HttpConfig
from cep_manager.web_server import WebServer


def _started() -> tuple[WebServer, int]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    app = Flask("test")
    app.add_url_rule("/", view_func=lambda: "here")
    server = WebServer(app, HttpConfig(host="127.0.0.1", port=port))
    server.start()
    return server, port


def test_a_stopped_server_frees_its_port() -> None:
    server, port = _started()
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=5) as answer:
        assert answer.read() == b"here"
    server.stop()
    socket.create_server(("127.0.0.1", port)).close()


def test_a_server_thread_that_is_awake_already_does_not_close_the_trigger_under_the_one_who_stops_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server, _ = _started()
    trigger: Any = server._server.trigger
    pull = trigger._physical_pull

    def pull_while_the_thread_is_awake() -> None:
        pull()
        server._thread.join(timeout=0.2)
        pull()

    monkeypatch.setattr(trigger, "_physical_pull", pull_while_the_thread_is_awake)
    server.stop()
    assert not server._thread.is_alive()
