"""Slow requests, half-open ones and large bodies cost their sender more than the server and its other callers."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests
from flask import Flask, request
from free_ports import free_port
from long_form import of_length

from cep_common.clock import SystemClock
from cep_common.monitoring.http_refusals import REFUSALS
from cep_common.security.access import AccessRole, Permission
from cep_common.security.config import ServerSecurity
from cep_common.security.tokens import TokenFile
from cep_common.security.web import Gate, guard
from cep_common.security.web_limits import WebLimits
from cep_common.web.server import WebServer

pytestmark = pytest.mark.thorough

BODY_BYTES = 16_777_216
EVENTS_PER_S, PER_REQUEST = 400, 4
EVENTS = json.dumps([{"a": 1}] * PER_REQUEST).encode()
LIMITS = WebLimits(head_s=1, half_open_per_address=32, connections_per_address=200)


class Served:
    """A server whose address is `url`, and what it wrote to disk."""

    def __init__(self, security: ServerSecurity) -> None:
        port = free_port()
        app = Flask("test")
        gate = Gate(security, "127.0.0.1", SystemClock())
        guard(app, gate, {"take": Permission.SEND, "here": Permission.OPEN}, _refused)
        app.add_url_rule("/take", "take", lambda: str(len(request.get_data())), methods=["POST"])
        app.add_url_rule("/", "here", lambda: "here")
        self.server = WebServer(app, "127.0.0.1", port, 4, BODY_BYTES, security, "a test", gate.admit_body)
        self.server.start()
        self.address = ("127.0.0.1", port)
        self.url = f"http://127.0.0.1:{port}"

    def connections(self) -> int:
        return self.server.connections()

    def until(self, connections: int, within_s: float = 10.0) -> None:
        deadline = time.monotonic() + within_s
        while self.connections() > connections:
            assert time.monotonic() < deadline, self.connections()
            time.sleep(0.02)


def _refused(status: int, code: str, message: str) -> object:
    return {"code": code, "message": message}, status


@contextlib.contextmanager
def serving(security: ServerSecurity) -> Iterator[Served]:
    served = Served(security)
    try:
        yield served
    finally:
        served.server.stop()


@pytest.fixture(scope="module")
def open_server() -> Iterator[Served]:
    with serving(ServerSecurity(limits=LIMITS)) as served:
        yield served


@pytest.fixture(scope="module")
def token(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    file = tmp_path_factory.mktemp("tokens") / "tokens.json"
    return str(file), TokenFile(file).create("s", AccessRole.SENDER, None, 1)


@pytest.fixture(scope="module")
def guarded_server(token: tuple[str, str]) -> Iterator[Served]:
    with serving(ServerSecurity(limits=LIMITS, tokens=token[0])) as served:
        yield served


def connect(served: Served, text: bytes, count: int = 1) -> list[socket.socket]:
    made = []
    for _ in range(count):
        one = socket.create_connection(served.address, timeout=10)
        with contextlib.suppress(OSError):
            one.sendall(text)
        made.append(one)
    return made


def close(sockets: list[socket.socket]) -> None:
    for one in sockets:
        one.close()


@pytest.mark.parametrize("begun", [b"", b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n", b"POST /take HTTP/1.1\r\nX: "])
def test_half_open_requests_keep_nobody_out(open_server: Served, begun: bytes) -> None:
    silent = connect(open_server, begun, of_length(200, 2_000))
    try:
        assert requests.get(open_server.url, timeout=5).text == "here"
        assert open_server.connections() <= LIMITS.half_open_per_address + 2
        open_server.until(0)
        refused = REFUSALS.counts()
        assert refused["connection-replaced"] + refused["too-slow"] >= len(silent), "operators see it"
    finally:
        close(silent)


def test_a_head_that_comes_a_byte_at_a_time_comes_too_late(open_server: Served) -> None:
    (slow,) = connect(open_server, b"GET / HTTP/1.1\r\nX-A: ")
    began = time.monotonic()
    with contextlib.suppress(OSError):
        while time.monotonic() - began < 10:
            slow.sendall(b"a")
            time.sleep(0.1)
    slow.close()
    assert time.monotonic() - began < 5


def test_a_body_that_comes_too_slowly_is_given_up() -> None:
    with serving(ServerSecurity(limits=WebLimits(body_s=1, head_s=1))) as served:
        slow = connect(served, b"POST /take HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100000\r\n\r\nabc", 5)
        served.until(0)
        close(slow)


def test_who_keeps_connections_open_is_not_served_worse(open_server: Served) -> None:
    with requests.Session() as session:
        assert session.get(open_server.url, timeout=5).text == "here"
        silent = connect(open_server, b"", 100)
        for _ in range(20):
            assert session.get(open_server.url, timeout=5).text == "here"
        close(silent)


def test_many_connections_of_one_sender_work(open_server: Served) -> None:
    sessions = [requests.Session() for _ in range(150)]
    for _ in range(2):
        assert {session.post(f"{open_server.url}/take", data=b"x" * 10, timeout=5).text for session in sessions} == {
            "10"
        }
    for session in sessions:
        session.close()


@pytest.mark.parametrize("header", [{}, {"Authorization": "Bearer cep_guess"}, {"Cookie": "session=guess"}])
@pytest.mark.parametrize("chunked", [False, True])
def test_no_body_of_a_stranger_is_read(guarded_server: Served, header: dict[str, str], chunked: bool) -> None:
    body = b"x" * 10_000_000
    sent = iter([body]) if chunked else body
    answer = requests.post(f"{guarded_server.url}/take", data=sent, headers=header, timeout=10)
    assert (answer.status_code, answer.json()["code"]) == (401, "not-authenticated")
    assert "Bearer" in answer.headers["WWW-Authenticate"]


def test_who_asks_before_sending_is_told_at_once(guarded_server: Served) -> None:
    head = b"POST /take HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 10000000\r\nExpect: 100-continue\r\n\r\n"
    (one,) = connect(guarded_server, head)
    assert one.recv(100).startswith(b"HTTP/1.1 401 ")
    one.close()


def test_a_sender_may_send_what_fits(guarded_server: Served, token: tuple[str, str]) -> None:
    headers = {"Authorization": f"Bearer {token[1]}"}
    answer = requests.post(f"{guarded_server.url}/take", data=b"x" * 10_000_000, headers=headers, timeout=10)
    assert answer.text == "10000000"


def test_a_body_that_is_too_large_is_refused_by_its_head(guarded_server: Served, token: tuple[str, str]) -> None:
    head = f"POST /take HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token[1]}\r\n"
    head += "Content-Length: 999999999\r\n\r\n"
    before = REFUSALS.counts()["too-large"]
    (one,) = connect(guarded_server, head.encode())
    assert one.recv(100).startswith(b"HTTP/1.1 413 ")
    assert REFUSALS.counts()["too-large"] == before + 1
    one.close()


def test_bodies_have_so_much_room_and_no_more() -> None:
    limits = WebLimits(bodies_bytes_per_address=1_000_000)
    with serving(ServerSecurity(limits=limits)) as served:
        head = b"POST /take HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 600000\r\n\r\n"
        first = connect(served, head)
        deadline = time.monotonic() + 5
        while not served.server.bodies_bytes():
            assert time.monotonic() < deadline
        for data in (b"x" * 600_000, iter([b"x" * 600_000, b"x" * 600_000])):
            answer = requests.post(f"{served.url}/take", data=data, timeout=5)
            assert (answer.status_code, answer.json()["code"]) == (503, "no-room")
            assert answer.headers["Retry-After"] == "1"
        assert requests.post(f"{served.url}/take", data=b"x" * 60_000, timeout=5).text == "60000"
        close(first)
        deadline = time.monotonic() + 5
        while requests.post(f"{served.url}/take", data=b"x" * 600_000, timeout=5).status_code != 200:
            assert time.monotonic() < deadline


def test_a_sender_goes_on_while_one_address_attacks() -> None:
    """2,000 slow connections and 100 large bodies of an address, against a sender of 400 events a second."""
    seconds, slow, large, most_s = of_length((2.0, 200, 10, 4.0), (30.0, 2_000, 100, 0.1))
    took: list[float] = []
    with serving(ServerSecurity()) as served, requests.Session() as session:
        session.post(f"{served.url}/take", data=b"[]", timeout=5)
        script = Path(__file__).with_name("slow_attacker.py")
        port = str(served.address[1])
        arguments = [port, str(slow), str(large), str(seconds + 5)]
        attacker = subprocess.Popen([sys.executable, str(script), *arguments])  # noqa: S603 - a script of ours
        try:
            while served.connections() < 20:
                assert attacker.poll() is None
                time.sleep(0.01)
            next_at = began = time.monotonic()
            while time.monotonic() - began < seconds:
                asked = time.monotonic()
                assert session.post(f"{served.url}/take", data=EVENTS, timeout=5).text == str(len(EVENTS))
                took.append(time.monotonic() - asked)
                next_at = max(next_at + PER_REQUEST / EVENTS_PER_S, time.monotonic() - 1)
                time.sleep(max(0.0, next_at - time.monotonic()))
        finally:
            attacker.kill()
            attacker.wait()
    took.sort()
    p99 = took[int(len(took) * 0.99)]
    assert p99 < most_s, f"{len(took)} requests, p50 {took[len(took) // 2]:.4f} s, p99 {p99:.4f} s"
