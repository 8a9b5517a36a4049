"""Of what a server answers no more is read than there is use for, and for no longer than the caller waits."""

from __future__ import annotations

import gzip
import time
from collections.abc import Iterator

import pytest
import requests
from hostile_server import HostileServer

from cep_common.web.client import HEAD_BYTES, MOST_BYTES, AnswerError, WebClient

ENOUGH = 8 * 2**20
"""What a server may get rid of at most: the buffers of the system between both."""
HEAD = b"HTTP/1.1 200 OK\r\n"


def endless(part: bytes = b"x" * 65_536) -> Iterator[bytes]:
    while True:
        yield part


class Endless:
    """Parts that begin again for each connection."""

    def __init__(self, *first: bytes, part: bytes = b"x" * 65_536) -> None:
        self._first, self._part = first, part

    def __iter__(self) -> Iterator[bytes]:
        yield from self._first
        yield from endless(self._part)


class Dripping:
    """One byte after the other, slowly enough for every time-out that begins again with each."""

    def __init__(self, first: bytes, part: bytes) -> None:
        self._first, self._part = first, part

    def __iter__(self) -> Iterator[bytes]:
        yield self._first
        while True:
            time.sleep(0.05)
            yield self._part


@pytest.mark.parametrize(
    "head",
    [b"Content-Length: 4000000000\r\n\r\n", b"\r\n", b"Transfer-Encoding: chunked\r\n\r\n10000\r\n"],
    ids=["of a length", "to the end of the connection", "in chunks"],
)
def test_a_body_that_is_too_long_is_not_read_and_its_connection_is_closed(head: bytes) -> None:
    part = b"x" * 65_536 + (b"\r\n10000\r\n" if b"chunked" in head else b"")
    with HostileServer(Endless(HEAD + head, part=part)) as server, WebClient() as client:
        answer = client.request("POST", server.url, data=b"{}", timeout_s=5)
        assert answer.status == 200, "the server has said what became of the request"
        assert "more than 64 KiB" in answer.problem
        with pytest.raises(AnswerError, match="more than 64 KiB"):
            answer.content()
        assert server.hung_up.wait(5), "the connection was closed"
        assert server.sent < ENOUGH


@pytest.mark.parametrize(
    "first",
    [b"HTTP/1.1 200 OK\r\nX: ", HEAD + b"X-One: ", b"HTTP/1.1 100 Continue\r\n\r\n"],
    ids=["a line", "another line", "continue"],
)
def test_a_head_without_end_is_not_read(first: bytes) -> None:
    part = first if first.startswith(b"HTTP/1.1 100") else b"x" * 65_536
    with HostileServer(Endless(first, part=part)) as server, WebClient() as client:
        with pytest.raises(requests.RequestException):
            client.request("GET", server.url, timeout_s=5)
        assert server.hung_up.wait(5)
        assert server.sent < ENOUGH + HEAD_BYTES


@pytest.mark.parametrize(
    ("first", "part"),
    [(b"HTTP/1.1 200 OK\r\n", b"X: y\r\n"), (b"", b"H")],
    ids=["headers", "the first line"],
)
def test_a_head_that_comes_slowly_is_left_in_time(first: bytes, part: bytes) -> None:
    with HostileServer(Dripping(first, part)) as server, WebClient() as client:
        began = time.monotonic()
        with pytest.raises(requests.RequestException):
            client.request("GET", server.url, timeout_s=0.4)
        assert time.monotonic() - began < 2


def test_a_body_that_comes_slowly_is_left_in_time_and_the_status_counts() -> None:
    with HostileServer(Dripping(HEAD + b"Content-Length: 1000\r\n\r\n", b"x")) as server, WebClient() as client:
        began = time.monotonic()
        answer = client.request("GET", server.url, timeout_s=0.4)
        assert (answer.status, answer.problem) == (200, "its answer was not complete after 0.4 s")
        assert time.monotonic() - began < 2


@pytest.mark.parametrize("status", [200, 302])
def test_a_small_body_that_would_become_a_large_one_is_not_unpacked(status: int) -> None:
    packed = gzip.compress(bytes(50 * 2**20))
    head = (
        f"HTTP/1.1 {status} So\r\nLocation: http://127.0.0.1:1/\r\n".encode()
        + f"Content-Encoding: gzip\r\nContent-Length: {len(packed)}\r\n\r\n".encode()
    )
    assert len(packed) < MOST_BYTES
    with HostileServer([head, packed]) as server, WebClient() as client:
        answer = client.request("GET", server.url, timeout_s=5)
        assert answer.status == status
        assert "gzip" in answer.problem
        assert not answer.body


@pytest.mark.parametrize("text", [b"[" * 60_000, b"9" * 60_000, b"\xff\xfe", b"{"], ids=["deep", "long", "odd", "half"])
def test_what_is_no_json_is_an_answer_that_cannot_be_used(text: bytes) -> None:
    head = HEAD + f"Content-Length: {len(text)}\r\n\r\n".encode()
    with HostileServer([head, text]) as server, WebClient() as client:
        answer = client.request("GET", server.url, timeout_s=5)
        assert answer.content() == text
        with pytest.raises(AnswerError, match="not JSON"):
            answer.json()


def test_a_body_that_breaks_off_is_no_whole_one() -> None:
    with HostileServer([HEAD + b"Content-Length: 100\r\n\r\nhalf"]) as server, WebClient() as client:
        answer = client.request("GET", server.url, timeout_s=5)
        assert "broke off" in answer.problem


def test_a_connection_is_kept_for_the_next_request_and_redirections_are_not_followed() -> None:
    answers = [b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 2\r\n\r\n{}"]
    with HostileServer(answers, closes=False) as server, WebClient() as client:
        for _ in range(3):
            answer = client.request("GET", server.url, timeout_s=5)
            assert (answer.status, answer.json()) == (302, {})
        assert server.connections == 1
