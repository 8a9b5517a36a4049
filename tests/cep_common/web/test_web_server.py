"""The web server: what stopping it means, and HTTPS."""

from __future__ import annotations

import socket
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests
from certificates import certificate_for_loopback
from flask import Flask, request

from cep_common.errors import ConfigError
from cep_common.security.certificates import Certificate
from cep_common.security.config import ServerSecurity
from cep_common.web import server_loop
from cep_common.web.server import WebServer


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    return port


def _started() -> tuple[WebServer, int]:
    port = _free_port()
    app = Flask("test")
    app.add_url_rule("/", view_func=lambda: "here")
    server = WebServer(app, "127.0.0.1", port, 4, 1_000, ServerSecurity(), "a test")
    server.start()
    return server, port


def test_a_stopped_server_frees_its_port() -> None:
    server, port = _started()
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=5) as answer:
        assert answer.read() == b"here"
    server.stop()
    socket.create_server(("127.0.0.1", port)).close()


def test_a_request_that_comes_while_a_server_stops_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_loop, "QUIET_S", 30.0)
    monkeypatch.setattr(server_loop, "STOP_S", 30.0)
    server, port = _started()
    with requests.Session() as session:
        assert "Connection" not in session.get(f"http://127.0.0.1:{port}/", timeout=5).headers
        stopping = threading.Thread(target=server.stop)
        stopping.start()
        while _takes_connections(port):
            pass
        answer = session.get(f"http://127.0.0.1:{port}/", timeout=5)
    stopping.join()
    assert (answer.text, answer.headers["Connection"]) == ("here", "close")


def _takes_connections(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """A certificate for 127.0.0.1, and its key."""
    return certificate_for_loopback(tmp_path_factory.mktemp("certificate"))


@pytest.fixture
def secured(certificate: tuple[str, str]) -> Iterator[int]:
    """The port of an HTTPS server that answers with the caller's address and scheme, or the length of what it got."""
    app = Flask("test")
    app.add_url_rule("/", "who", lambda: f"{request.remote_addr} {request.scheme}")
    app.add_url_rule("/take", "take", lambda: str(len(request.get_data())), methods=["POST"])
    port = _free_port()
    server = WebServer(
        app,
        "127.0.0.1",
        port,
        4,
        10_000_000,
        ServerSecurity(certificate=certificate[0], certificate_key=certificate[1]),
        "a key",
    )
    server.start()
    yield port
    server.stop()
    socket.create_server(("127.0.0.1", port)).close()


def test_https_tells_the_app_who_called(secured: int, certificate: tuple[str, str]) -> None:
    with requests.Session() as session:
        for _ in range(3):
            assert (
                session.get(f"https://127.0.0.1:{secured}/", verify=certificate[0], timeout=5).text == "127.0.0.1 https"
            )


def test_https_carries_large_bodies_whole(secured: int, certificate: tuple[str, str]) -> None:
    body = b"0123456789" * 300_000
    answer = requests.post(f"https://127.0.0.1:{secured}/take", data=body, verify=certificate[0], timeout=10)
    assert answer.text == "3000000"


def test_who_never_shakes_hands_keeps_nobody_waiting(secured: int, certificate: tuple[str, str]) -> None:
    silent = [socket.create_connection(("127.0.0.1", secured)) for _ in range(50)]
    try:
        assert requests.get(f"https://127.0.0.1:{secured}/", verify=certificate[0], timeout=5).status_code == 200
    finally:
        for one in silent:
            one.close()


def test_plain_http_is_not_spoken_where_there_is_a_certificate(secured: int) -> None:
    with pytest.raises(requests.ConnectionError):
        requests.get(f"http://127.0.0.1:{secured}/", timeout=5)


def test_a_certificate_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    security = ServerSecurity(certificate=str(tmp_path / "none.pem"), certificate_key=str(tmp_path / "none.key"))
    with pytest.raises(ConfigError, match=r"security\.certificate: .*none\.pem"):
        WebServer(Flask("test"), "127.0.0.1", _free_port(), 1, 1_000, security, "a key")


def test_a_certificate_whose_files_change_is_read_again(tmp_path: Path) -> None:
    """Half of a new pair leaves the former one in use."""
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
    first, second = (certificate_for_loopback(tmp_path / name) for name in ("first", "second"))
    certificate = Certificate(*first)
    before = certificate.context
    Path(first[0]).write_bytes(Path(second[0]).read_bytes())
    certificate.refresh()
    assert certificate.context is before
    Path(first[1]).write_bytes(Path(second[1]).read_bytes())
    certificate.refresh()
    after = certificate.context
    assert after is not before
    certificate.refresh()
    assert certificate.context is after
