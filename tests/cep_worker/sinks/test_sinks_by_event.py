"""Sinks whose options hold values of events, and web hooks that want a token."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import msgspec
import pytest
from worker_world import ALERTS, PLAN, World, alerts, until

from cep_common.ids import PlanKey
from cep_common.protocol.registry import Connector, DeployedPlan, StreamBinding


class Server:
    """Keeps each request as (method, path, headers, body). `/token` gives tokens; other paths want the newest one if
    any was given."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str, dict[str, str], bytes]] = []
        self.grants: list[dict[str, list[str]]] = []
        self.good = ""
        self.refused_grants: set[str] = set()
        server = self

        class Handler(BaseHTTPRequestHandler):
            def answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                status, answer = server.answer(self.command, self.path, dict(self.headers), body)
                self.send_response(status)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            do_POST = do_PUT = do_GET = answer  # noqa: N815

            def log_message(self, *arguments: Any) -> None:
                """Tests need no access log."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def answer(self, method: str, path: str, headers: dict[str, str], body: bytes) -> tuple[int, bytes]:
        if path == "/token":
            grant = parse_qs(body.decode())
            self.grants.append(grant | {"who": [headers["Authorization"]]})
            if grant["grant_type"][0] in self.refused_grants:
                return 400, b"{}"
            self.good = f"token-{len(self.grants)}"
            return 200, json.dumps({"access_token": self.good, "refresh_token": "next", "expires_in": 3600}).encode()
        if self.good and headers.get("Authorization") != f"Bearer {self.good}":
            return 401, b""
        self.calls.append((method, path, headers, body))
        return 200, b""

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.close()


@pytest.fixture
def world(make_world: Callable[..., World]) -> World:
    return make_world()


def with_sink(kind: str, options: dict[str, str], mapper: str = "json", **mapped: str) -> DeployedPlan:
    return msgspec.structs.replace(PLAN, sinks=(Connector("Alerts", kind, options, mapper, mapped),))


THREE = alerts((1, "UA", 3), (2, "A/B", 4), (3, "UA", 5))


def test_address_method_and_headers_of_a_request_are_those_of_its_event(world: World, server: Server) -> None:
    options = {
        "publisher.url": f"{server.url}/x/{{{{carrier}}}}?n={{{{late}}}}",
        "method": "put",
        "headers": "'X-Carrier: {{carrier}}'",
    }
    world.start(with_sink("http", options))
    world.publisher().open().send("Alerts", alerts((1, "UA", 3), (2, "A\r\nB?", 4), (3, "UA", 3), (4, "UA", 3)))
    until(lambda: len(server.calls) == 3)
    assert [(method, path) for method, path, _, _ in server.calls] == [
        ("PUT", "/x/UA?n=3"), ("PUT", "/x/A%0D%0AB%3F?n=4"), ("PUT", "/x/UA?n=3"),
    ]  # fmt: skip
    assert server.calls[1][2]["X-Carrier"] == "A B?"
    assert len(json.loads(server.calls[2][3])) == 2, "events of one target share a request"


def test_an_event_that_makes_no_request_is_dropped_alone(world: World, server: Server) -> None:
    world.start(with_sink("http", {"publisher.url": server.url, "method": "{{carrier}}"}))
    world.publisher().open().send("Alerts", alerts((1, "GET", 1), (2, "BREW", 2), (3, "post", 3)))
    until(lambda: len(server.calls) == 2)
    assert [method for method, *_ in server.calls] == ["GET", "POST"]
    until(lambda: "method: must be POST or PUT" in str(world.health()["plans"][0]["last_error"]))


@pytest.mark.parametrize(("who", "grant"), [({"refresh.token": "first"}, "refresh_token"), ({}, "client_credentials")])
def test_a_token_is_got_and_got_again(world: World, server: Server, who: dict[str, str], grant: str) -> None:
    key = {"consumer.key": "k", "consumer.secret": "s", "token.url": f"{server.url}/token", "blocking.io": "true"}
    world.start(with_sink("http", {"publisher.url": f"{server.url}/x", **key, **who}))
    publisher = world.publisher().open()
    publisher.send("Alerts", THREE)
    until(lambda: len(server.calls) == 1)
    assert server.grants[0]["grant_type"] == [grant]
    assert server.grants[0]["who"] == ["Basic azpz"]
    server.good = "revoked"
    publisher.send("Alerts", THREE)
    until(lambda: len(server.calls) == 2)
    assert server.grants[1]["refresh_token"] == ["next"]
    server.good, server.refused_grants = "revoked", {"refresh_token"}
    publisher.send("Alerts", THREE)
    until(lambda: len(server.calls) == 3)
    assert server.grants[-1]["grant_type"] == ["client_credentials"]


def test_events_go_to_the_file_that_they_name(world: World, tmp_path: Path) -> None:
    world.start(with_sink("file", {"file.uri": f"{tmp_path}/out/{{{{carrier}}}}.json"}))
    world.publisher().open().send("Alerts", alerts((1, "UA", 3), (2, "../x", 4), (3, "UA", 5)))
    out = tmp_path / "out"
    until(lambda: (out / "UA.json").exists() and len((out / "UA.json").read_text().splitlines()) == 2)
    until(lambda: sorted(one.name for one in out.iterdir()) == [".._x.json", "UA.json"])


def test_events_go_to_the_topic_that_they_name(world: World) -> None:
    def next_one(stream: str, topic: str) -> DeployedPlan:
        source = Connector(stream, "inMemory", {"topic": topic}, "", {})
        binding = StreamBinding(stream, stream, ALERTS)
        return DeployedPlan(PlanKey(PLAN.key.tenant, stream), 1, (binding,), (), sources=(source,))

    sink = Connector("Alerts", "inMemory", {"topic": "{{carrier}}"}, "", {})
    plan = msgspec.structs.replace(PLAN, exported=(StreamBinding("Alerts", "Alerts", ALERTS),), sinks=(sink,))
    world.start(plan, next_one("First", "UA"), next_one("Second", "AA"))
    first, second = world.receiver("First"), world.receiver("Second")
    until(lambda: first.openings and second.openings, first, second)
    world.publisher().open().send("Alerts", alerts((1, "UA", 3), (2, "AA", 4), (3, "none", 5), (4, "UA", 6)))
    until(lambda: len(first.rows()) == 2 and len(second.rows()) == 1, first, second)
    assert [row[2] for row in first.rows()] == [3, 6]
