"""Requests that are malformed, ambiguous, endless or broken off: one answer each, and the server continues."""

from __future__ import annotations

import contextlib
import json
import re
import resource
import socket
import time
from collections.abc import Iterator

import pytest
import requests
from flask import Flask, Response, request
from free_ports import free_port
from long_form import of_length

from cep_common.security.config import ServerSecurity
from cep_common.security.web_limits import WebLimits
from cep_common.web.answers import whole_answer
from cep_common.web.requests import Exchange
from cep_common.web.server import WebServer

pytestmark = pytest.mark.thorough

BODY_BYTES = 1_000_000
POST = b"POST /take HTTP/1.1\r\nHost: 127.0.0.1\r\n"
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n"
IDLE = of_length(1_500, 9_000)


class Direct:
    """Answers posts to `/direct` at once, with their bodies."""

    def take(self, exchange: Exchange) -> bool:
        if not exchange.request.target.startswith(b"/direct"):
            return False
        exchange.answer = whole_answer(200, json.dumps((exchange.request.body() or b"").decode()).encode())
        return True


@pytest.fixture(scope="module")
def server() -> Iterator[WebServer]:
    app = Flask("test")
    app.add_url_rule("/", "here", lambda: "here")
    app.add_url_rule("/take", "take", lambda: str(len(request.get_data())), methods=["POST"])
    app.add_url_rule("/long", "long", lambda: Response(b"x" * 65_536 for _ in range(1_000)))
    port = free_port()
    security = ServerSecurity(limits=WebLimits(head_s=60))
    made = WebServer(app, "127.0.0.1", port, 4, BODY_BYTES, security, "a test", None, Direct())
    made.port = port  # type: ignore[attr-defined]
    made.start()
    yield made
    made.stop()


def exchange(server: WebServer, raw: bytes, *, half_close: bool = False, timeout: float = 10) -> bytes:
    """Everything that the server answers to `raw`, until it closes the connection or has answered all of it."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=timeout) as one:  # type: ignore[attr-defined]
        with contextlib.suppress(OSError):
            one.sendall(raw)
            if half_close:
                one.shutdown(socket.SHUT_WR)
        answer = b""
        with contextlib.suppress(ConnectionResetError):
            while piece := one.recv(65_536):
                answer += piece
    return answer


def statuses(answer: bytes) -> list[int]:
    return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d{3}) ", answer)]


def goes_on(server: WebServer) -> bool:
    return requests.get(f"http://127.0.0.1:{server.port}/", timeout=10).text == "here"  # type: ignore[attr-defined]


AMBIGUOUS = {
    "length and coding": CHUNKED + b"Content-Length: 4\r\n\r\n0\r\n\r\n",
    "coding and length": POST + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "two lengths": POST + b"Content-Length: 4\r\nContent-Length: 5\r\n\r\nabcd",
    "the same length twice": POST + b"Content-Length: 4\r\nContent-Length: 4\r\n\r\nabcd",
    "a list of lengths": POST + b"Content-Length: 4, 4\r\n\r\nabcd",
    "a length with a sign": POST + b"Content-Length: +4\r\n\r\nabcd",
    "a negative length": POST + b"Content-Length: -4\r\n\r\nabcd",
    "a length in hex": POST + b"Content-Length: 0x4\r\n\r\nabcd",
    "a length beyond all": POST + b"Content-Length: 99999999999999999999999\r\n\r\nabcd",
    "another coding": POST + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "a coding in disguise": POST + b"Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n",
    "two codings": CHUNKED + b"Transfer-Encoding: identity\r\n\r\n0\r\n\r\n",
    "a coding before chunked": POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "a coding in HTTP/1.0": b"POST /take HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "a space before the colon": POST + b"Content-Length : 4\r\n\r\nabcd",
    "a folded header": POST + b"X: a\r\n b\r\nContent-Length: 4\r\n\r\nabcd",
    "lines without CR": b"POST /take HTTP/1.1\nHost: 127.0.0.1\nContent-Length: 4\n\nabcd",
    "a header line without CR": POST + b"Content-Length: 4\n\r\nabcd",
    "a bare CR": POST + b"X: a\rContent-Length: 4\r\n\r\nabcd",
    "a NUL in a header": POST + b"X: a\0b\r\n\r\n",
    "two hosts": b"POST /take HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: evil\r\nContent-Length: 0\r\n\r\n",
    "two credentials": POST + b"Authorization: Bearer a\r\nAuthorization: Bearer b\r\nContent-Length: 0\r\n\r\n",
    "a chunk size that is none": CHUNKED + b"\r\nzz\r\nabcd\r\n0\r\n\r\n",
    "a chunk size beyond all": CHUNKED + b"\r\nfffffffffffffffff\r\nabcd\r\n0\r\n\r\n",
    "a chunk size without CR": CHUNKED + b"\r\n4\nabcd\r\n0\r\n\r\n",
    "a chunk longer than its size": CHUNKED + b"\r\n4\r\nabcdef\r\n0\r\n\r\n",
    "a length in the trailer": CHUNKED + b"\r\n0\r\nContent-Length: 7\r\n\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(40),
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "no HTTP": b"hello\r\n\r\n",
    "an unknown method": b"TAKE /take HTTP/1.1\r\nHost: a\r\n\r\n",
}


@pytest.mark.parametrize("raw", AMBIGUOUS.values(), ids=AMBIGUOUS.keys())
def test_what_two_servers_could_read_differently_is_refused_and_nothing_behind_it_is_read(
    server: WebServer, raw: bytes
) -> None:
    """A request behind it, which a proxy may have taken for a body, must not be answered."""
    answer = exchange(server, raw + b"POST /direct HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 2\r\n\r\nhi")
    assert statuses(answer) in ([400], [501]), answer
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"Connection: close" in head
    assert set(json.loads(body)) == {"code", "message", "details"}
    assert goes_on(server)


@pytest.mark.parametrize(
    "head",
    [
        b"X: " + b"a" * 1_000_000 + b"\r\n",
        b"".join(b"X%d: a\r\n" % number for number in range(10_000)),
        b"X" * 1_000_000,
    ],
    ids=["a long value", "many headers", "a name that never ends"],
)
def test_a_huge_head_is_refused(server: WebServer, head: bytes) -> None:
    assert statuses(exchange(server, POST + head + b"\r\n")) == [431]
    assert statuses(exchange(server, b"GET /" + b"a" * 1_000_000 + b" HTTP/1.1\r\n\r\n")) == [431]
    assert goes_on(server)


def test_chunked_bodies_are_read_in_any_pieces_and_refused_beyond_the_limit(server: WebServer) -> None:
    chunks = b"".join(b"%x\r\n%b\r\n" % (size, b"x" * size) for size in (1, 10, 5_000))
    body = chunks + b"0;ext=1\r\nHost: evil\r\nX-Sum: 7\r\n\r\n"
    raw = CHUNKED + b"\r\n" + body + b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
    answer = exchange(server, raw)
    assert statuses(answer) == [200, 200]
    assert b"5011" in answer
    assert answer.endswith(b"here")
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as one:  # type: ignore[attr-defined]
        for position in range(len(raw) - 5_100, len(raw), 7):
            one.sendall(raw[:position] if position == len(raw) - 5_100 else raw[position - 7 : position])
        one.sendall(raw[position:])
        answer = b""
        while piece := one.recv(65_536):
            answer += piece
    assert statuses(answer) == [200, 200]
    large = CHUNKED + b"\r\n" + b"".join(b"%x\r\n%b\r\n" % (65_536, b"x" * 65_536) for _ in range(20))
    assert statuses(exchange(server, large)) == [413]
    assert server.bodies_bytes() == 0


def test_a_body_beyond_the_limit_is_refused_without_being_read(server: WebServer) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as one:  # type: ignore[attr-defined]
        one.sendall(POST + b"Content-Length: 67108864\r\n\r\n")
        assert statuses(one.recv(65_536)) == [413]
    assert server.bodies_bytes() == 0


def test_a_burst_of_pipelined_requests_is_answered_in_order(server: WebServer) -> None:
    count = 2_000
    burst = b"".join(
        b"POST /direct HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n%d" % (len(str(n)), n)
        for n in range(count)
    )
    mixed = burst + b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" + burst
    answer = exchange(server, mixed + b"GET /x HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n", timeout=30)
    assert statuses(answer) == [200] * (2 * count + 1) + [404]
    bodies = [part.rpartition(b"\r\n\r\n")[2] for part in answer.split(b"HTTP/1.1 ")[1:-1]]
    numbers = [b'"%d"' % number for number in range(count)]
    assert bodies == [*numbers, b"here", *numbers]


def test_who_says_that_nothing_more_comes_still_gets_the_answers(server: WebServer) -> None:
    raw = POST + b"Content-Length: 2\r\n\r\nhi" + b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    answer = exchange(server, raw, half_close=True)
    assert statuses(answer) == [200, 200]
    assert answer.endswith(b"here")
    assert exchange(server, POST + b"Content-Length: 20\r\n\r\nhi", half_close=True) == b""
    assert exchange(server, b"", half_close=True) == b""


def test_whoever_reads_slowly_keeps_nobody_waiting_and_gets_everything(server: WebServer) -> None:
    with socket.socket() as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        slow.settimeout(30)
        slow.connect(("127.0.0.1", server.port))  # type: ignore[attr-defined]
        slow.sendall(b"GET /long HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
        time.sleep(0.2)
        assert all(goes_on(server) for _ in range(10))
        got = 0
        while piece := slow.recv(1_048_576):
            got += len(piece)
    assert got > 65_536 * 1_000


def test_whoever_goes_away_in_the_middle_of_an_answer_frees_its_thread(server: WebServer) -> None:
    for _ in range(12):  # three times as many as there are threads
        with socket.create_connection(("127.0.0.1", server.port), timeout=10) as one:  # type: ignore[attr-defined]
            one.sendall(b"GET /long HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            assert one.recv(10)
    assert goes_on(server)


@pytest.mark.parametrize(
    "raw",
    [
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: tea\r\n\r\n\x81\x05hello",
        b"GET http://127.0.0.1/ HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n",
        b"GET / HTTP/1.0\r\n\r\n",
    ],
    ids=["h2c", "another protocol", "a whole URL", "HTTP/1.0"],
)
def test_other_forms_of_a_request_are_answered_as_http_1_1(server: WebServer, raw: bytes) -> None:
    answer = exchange(server, raw)
    assert statuses(answer) == [200]
    assert answer.endswith(b"here")


def test_head_and_expectations_are_answered(server: WebServer) -> None:
    answer = exchange(server, b"HEAD / HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
    assert answer.endswith(b"\r\n\r\n")
    assert b"Content-Length: 4" in answer
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as one:  # type: ignore[attr-defined]
        one.sendall(POST + b"Content-Length: 2\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n")
        assert one.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        one.sendall(b"hi")
        assert statuses(one.recv(65_536)) == [200]
    assert statuses(exchange(server, POST + b"Content-Length: 2\r\nExpect: tea\r\n\r\n")) == [417]


def test_idle_connections_cost_little_and_are_answered_when_they_ask(server: WebServer) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = 2 * IDLE + 1_000  # both ends are here
    if hard < files:
        pytest.skip("this process may not have so many files open")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, files), hard))
    asks = b"POST /direct HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 2\r\n\r\nhi"
    idle = [socket.create_connection(("127.0.0.1", server.port), timeout=30) for _ in range(IDLE)]  # type: ignore[attr-defined]
    try:
        for _ in range(2):
            for one in idle:
                one.sendall(asks)
            assert all(statuses(one.recv(4_096)) == [200] for one in idle)
            began = time.monotonic()
            assert all(goes_on(server) for _ in range(20))
            assert time.monotonic() - began < 10
        assert server.connections() >= IDLE
    finally:
        for one in idle:
            one.close()
