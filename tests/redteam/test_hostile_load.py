"""`make hostile-requests` notices what it looks for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from flask import Flask
from free_ports import free_port
from hostile_load import FORK, SLOW_S, Client, Found, Memory, Shared, told

from cep_common.security.config import ServerSecurity
from cep_common.web.server import WebServer

GET = {"method": "GET", "query_string": "", "headers": {}, "data": None}


@pytest.fixture
def port() -> Iterator[int]:
    """Of a server with one call that fails, one that hangs and one that works."""
    app, port = Flask("faulty"), free_port()
    app.add_url_rule("/fails", "fails", lambda: ("", 500))
    app.add_url_rule("/storm/api/v1/refuses", "refuses", lambda: ("unknown", 500))
    app.add_url_rule("/works", "works", lambda: "works")
    server = WebServer(app, "127.0.0.1", port, 2, 1_000, ServerSecurity(), "a test")
    server.start()
    yield port
    server.stop()


@pytest.fixture
def client(port: int) -> Client:
    return Client("test", port, Shared(100, FORK.Value("Q", 0), FORK.Event(), FORK.Queue()))


def test_a_failure_is_a_fault_but_not_a_refusal_of_storm(client: Client) -> None:
    for path in ("/works", "/fails", "/storm/api/v1/refuses", "/works", "/none"):
        client.ask(f"GET {path}", {**GET, "path": path})
    assert dict(client.found.statuses) == {200: 2, 500: 2, 404: 1}
    assert [fault.partition(" after")[0] for fault in client.found.faults] == ["500"]


def test_a_server_that_does_not_answer_is_a_fault() -> None:
    client = Client("test", free_port(), Shared(100, FORK.Value("Q", 0), FORK.Event(), FORK.Queue()))
    client.ask("GET /", {**GET, "path": "/"})
    assert "ConnectionRefusedError" in client.found.faults[0]


def test_slow_requests_are_repeated(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hostile_load.SLOW_S", -1.0)
    client.ask("GET /works", {**GET, "path": "/works"})
    assert client.found.slow == 1
    assert client.found.faults[0].startswith("200 after")


@pytest.mark.parametrize(
    ("faults", "lapses", "sizes", "code"),
    [
        ([], [], [100, 100, 100, 105], 0),
        (["500"], [], [100, 100, 100, 100], 1),
        ([], ["the manager did not answer"], [100, 100, 100, 100], 1),
        ([], [], [100, 100, 105, 115], 1),
        ([], [], [100, 150, 100, *[100] * 6, 100, 150, 100], 0),
        ([], [], [100, 150, 100, *[100] * 6, 100, 170, 100], 1),
        ([], [], [200, 100, 100, *[100] * 6, 120, 120, 120], 1),
    ],
)
def test_each_bound_decides(faults: list[str], lapses: list[str], sizes: list[int], code: int) -> None:
    found = Found("all", faults=faults, slowest_s={"GET /": SLOW_S / 2})
    found.statuses[200] = 10
    assert told(found, [], {"manager": Memory(1, sizes)}, lapses, 1.0, 1) == code


@pytest.mark.parametrize(("sizes", "known"), [([1, 1, 1], False), ([1, 1, 1, 1], True)])
def test_a_run_that_is_too_short_to_judge_memory_says_so(
    sizes: list[int], known: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    found = Found("all")
    found.statuses[200] = 10
    told(found, [], {"manager": Memory(1, sizes)}, [], 1.0, 1)
    assert ("too short to judge growth" not in capsys.readouterr().out) == known
