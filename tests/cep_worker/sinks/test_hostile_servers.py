"""Web hooks, servers of tokens and mail servers that answer too much or too slowly: sinks continue, and hold little."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
import zmq
from hostile_server import HostileServer
from worker_world import alerts, now_ms, sink_context, until

from cep_common.protocol.registry import Connector
from cep_worker.connector_runtime.sink_types import make_sink
from cep_worker.outflows.receipts import DeliveryReceipt
from cep_worker.runtime.event_loop import EventLoop
from cep_worker.sinks.base import EventSink

LARGE = 8 * 2**20
KEY = {"consumer.key": "k", "consumer.secret": "s"}


class Endless:
    """`first`, then `part` again and again, `every_s`."""

    def __init__(self, first: bytes, part: bytes, every_s: float = 0.0) -> None:
        self._first, self._part, self._every_s = first, part, every_s

    def __iter__(self) -> Iterator[bytes]:
        yield self._first
        while True:
            if self._every_s:
                time.sleep(self._every_s)
            yield self._part


class Desk:
    """Makes sinks, gives them work and counts what they have done with."""

    def __init__(self, context: zmq.Context[Any]) -> None:
        self._event_loop = EventLoop()
        self._context = context
        self._sinks: list[EventSink] = []
        self.settled = 0

    def sink(self, kind: str, **options: str) -> EventSink:
        given = {name.replace("_", "."): value for name, value in options.items()}
        connector = Connector("Alerts", kind, given, "", {})
        self._sinks.append(make_sink(sink_context(connector, self._event_loop, self._context)))
        return self._sinks[-1]

    def offer(self, sink: EventSink) -> None:
        sink.offer(alerts((1, "UA", 1)), None, DeliveryReceipt(1, self._count))

    def pump(self) -> None:
        self._event_loop.turn(5, now_ms)

    def _count(self) -> None:
        self.settled += 1

    def close(self) -> None:
        for sink in self._sinks:
            sink.close()
        self._event_loop.close()


@pytest.fixture
def desk() -> Iterator[Desk]:
    context: zmq.Context[Any] = zmq.Context()
    made = Desk(context)
    yield made
    made.close()
    context.term()


def test_a_web_hook_that_answers_without_end_has_taken_the_events_and_little_of_it_is_read(desk: Desk) -> None:
    with HostileServer(Endless(b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 65_536)) as server:
        sink = desk.sink("http", publisher_url=server.url)
        for number in range(3):
            desk.offer(sink)
            until(lambda number=number: desk.settled == number + 1, desk)
        assert sink.delivered_events == 3
        assert server.sent < 3 * LARGE


def test_a_web_hook_whose_head_never_ends_is_away(desk: Desk) -> None:
    with HostileServer(Endless(b"HTTP/1.1 200 OK\r\n", b"X: y\r\n", every_s=0.05)) as server:
        sink = desk.sink("http", publisher_url=server.url, timeout_ms="200", on_error="WAIT")
        desk.offer(sink)
        until(lambda: server.connections > 1, desk)
        assert server.url.rstrip("/") in sink.last_error()
        assert not sink.delivered_events


@pytest.mark.parametrize(
    ("told", "problem"),
    [
        ({"access_token": "a\r\nX: y"}, "is not a valid header value"),
        ({"access_token": "\u00e9"}, "is not a valid header value"),
        ([], "returned no access_token"),
        ("x" * 100_000, "more than 64 KiB"),
        (None, "returned no access_token"),
    ],
)
def test_what_a_server_of_tokens_may_say_loses_no_events(desk: Desk, told: Any, problem: str) -> None:
    text = json.dumps(told).encode()
    with HostileServer([b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(text), text]) as tokens:
        sink = desk.sink(
            "http", publisher_url="http://127.0.0.1:1/", token_url=tokens.url, **KEY,
            on_error="WAIT",
        )  # fmt: skip
        desk.offer(sink)
        until(lambda: problem in sink.last_error(), desk)
        assert not desk.settled
        assert not sink.dropped_events


@pytest.mark.parametrize("lasts", ["1e400", "-5", str(10**400), '"soon"', "NaN", "true"])
def test_an_odd_life_of_a_token_is_taken_for_one_without_end(desk: Desk, lasts: str) -> None:
    text = b'{"access_token": "t", "expires_in": %s}' % lasts.encode()
    head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(text)
    taken = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
    with HostileServer([head, text]) as tokens, HostileServer([taken], closes=False) as hook:
        sink = desk.sink("http", publisher_url=hook.url, token_url=tokens.url, **KEY)
        for number in range(2):
            desk.offer(sink)
            until(lambda number=number: desk.settled == number + 1, desk)
        assert (sink.delivered_events, sink.dropped_events) == (2, 0)


@pytest.mark.parametrize(
    ("first", "part", "every_s"),
    [(b"220-hello\r\n", b"220-again\r\n" * 1_000, 0.0), (b"220-hello\r\n", b"220-again\r\n", 0.05)],
    ids=["long", "slow"],
)
def test_a_mail_server_that_says_too_much_is_away(desk: Desk, first: bytes, part: bytes, every_s: float) -> None:
    with HostileServer(Endless(first, part, every_s), greets=True) as server:
        sink = desk.sink(
            "email", address="a@example.com", to="b@example.com", subject="s", host="127.0.0.1",
            port=str(server.port), ssl_enable="false", auth="false", timeout_ms="300", on_error="WAIT",
        )  # fmt: skip
        desk.offer(sink)
        until(lambda: server.connections > 1, desk)
        assert "127.0.0.1" in sink.last_error()
        assert not desk.settled
        assert server.sent < server.connections * LARGE
