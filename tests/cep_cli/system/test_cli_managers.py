"""How the command line finds the manager that leads: real requests to made-up managers."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from click.testing import CliRunner, Result

from cep_cli.client.rest import ManagerClient
from cep_cli.errors import CommandRefusedError
from cep_cli.main import main
from cep_common.errors import PeerError

TOKEN = "of-the-tests"  # noqa: S105 - of nothing
Answer = tuple[int, dict[str, str], Any]


class Manager:
    """Answers every request with `answer(path)`, and keeps who asked for what."""

    def __init__(self, answer: Callable[[str], Answer]) -> None:
        self.answer = answer
        self.asked: list[tuple[str, str, str, bytes]] = []
        manager = self

        class Handler(BaseHTTPRequestHandler):
            def handle_any(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                manager.asked.append((self.command, self.path, self.headers.get("Authorization", ""), body))
                status, headers, told = manager.answer(self.path)
                text = json.dumps(told).encode()
                self.send_response(status)
                for name, value in {**headers, "Content-Length": str(len(text))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(text)

            do_GET = do_POST = handle_any  # noqa: N815 - as the library calls them

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def start() -> Iterator[Callable[[Callable[[str], Answer]], Manager]]:
    made: list[Manager] = []

    def start(answer: Callable[[str], Answer]) -> Manager:
        made.append(Manager(answer))
        return made[-1]

    yield start
    for manager in made:
        manager.server.shutdown()
        manager.server.server_close()


def leads(_: str) -> Answer:
    return 200, {}, {"topology": "P[7]", "message": "done", "plan": "P", "changed": True}


def nobody_leads(_: str) -> Answer:
    return 503, {"Retry-After": "1"}, {"code": "not-leader", "message": "no manager leads at the moment", "details": {}}


def sends_to(leader: Manager) -> Callable[[str], Answer]:
    return lambda path: (307, {"Location": leader.url + path}, {"code": "not-leader", "message": "", "details": {}})


def nobody() -> str:
    """An address at which nobody listens."""
    gone = ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)
    gone.server_close()
    return f"http://127.0.0.1:{gone.server_port}"


def test_managers_that_name_each_other_are_asked_with_pauses(start: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cep_cli.client.connection.LEADER_WITHIN_S", 1.0)
    one = start(nobody_leads)
    other = start(sends_to(one))
    one.answer = sends_to(other)
    with pytest.raises(CommandRefusedError):
        ManagerClient(one.url, 7, TOKEN).plans()
    assert len(one.asked) + len(other.asked) <= 8


def test_a_command_goes_on_to_the_leader_whole_with_its_token_and_stays_there(start: Any) -> None:
    leader = start(leads)
    standby = start(sends_to(leader))
    client = ManagerClient(standby.url, 7, TOKEN)
    client.deploy("text", replace=True)
    client.deploy("text", replace=True)
    asked = ("POST", "/api/v1/plans?tenant=7&replace=true", f"Bearer {TOKEN}", b"text")
    assert leader.asked == [asked, asked]
    assert standby.asked == [asked]


def test_a_command_waits_for_a_manager_to_lead(start: Any) -> None:
    manager = start(nobody_leads)
    client = ManagerClient(manager.url)

    def leads_at_the_third(path: str) -> Answer:
        return leads(path) if len(manager.asked) >= 3 else nobody_leads(path)

    manager.answer = leads_at_the_third
    assert client.act("P", "restart")["message"] == "done"
    assert len(manager.asked) == 3


def test_the_next_of_several_managers_is_asked_where_nobody_listens(start: Any) -> None:
    leader = start(leads)
    client = ManagerClient(f"{nobody()}, {leader.url}")
    assert client.act("P", "restart")["message"] == "done"
    assert client.url == leader.url
    with pytest.raises(PeerError, match="no manager answers at"):
        ManagerClient(nobody()).act("P", "restart")


def test_a_manager_that_hangs_is_passed_over_and_asked_for_nothing(start: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr("cep_cli.client.connection.HUNG_S", 0.2)
    awake = threading.Event()

    def hangs(path: str) -> Answer:
        awake.wait(10)
        return leads(path)

    hung, leader = start(hangs), start(leads)
    client = ManagerClient(f"{hung.url},{leader.url}")
    assert client.act("P", "restart")["message"] == "done"
    awake.set()
    assert [path for _, path, _, _ in hung.asked] == ["/api/v1/health"]
    assert client.url == leader.url


@pytest.mark.parametrize("body", [{"error": "bad gateway"}, ["bad gateway"], "bad gateway", None])
def test_a_failure_that_is_not_a_managers_is_reported_by_its_status(start: Any, body: Any) -> None:
    proxy = start(lambda _: (502, {}, body))
    with pytest.raises(CommandRefusedError, match=r"^the manager answered 502$") as refused:
        ManagerClient(proxy.url).plans()
    assert refused.value.details == {}


@pytest.mark.parametrize("details", [[{"index": 0}], {"problems": [{"index": 0}, "a"]}, {"problems": None}])
def test_a_refusal_whose_details_are_not_of_a_text_is_reported(start: Any, details: Any) -> None:
    refusal = {"code": "bad-events", "message": "1 event does not fit", "details": details}
    manager = start(lambda _: (400, {}, refusal))
    with pytest.raises(CommandRefusedError, match=r"^1 event does not fit \[bad-events\]$"):
        ManagerClient(manager.url).plans()


def test_a_token_is_not_sent_in_the_clear_after_it_was_sent_encrypted() -> None:
    client = ManagerClient("https://10.0.0.5:9080", 7, TOKEN)
    with pytest.raises(CommandRefusedError, match="not HTTPS"):
        client._connection._turn_to("http://10.0.0.6:9080/api/v1/plans")


MANAGERS = [
    {"control": {"host": "a", "port": 8904}, "http_address": "http://a:9080", "role": "leader", "asked": True,
     "token": 3, "since_ms": 1_767_225_600_000, "silent_ms": 0},
    {"control": {"host": "b", "port": 8904}, "http_address": "http://b:9080", "role": "standby", "asked": False,
     "token": 0, "since_ms": 0, "silent_ms": 400},
]  # fmt: skip


def status(start: Any, managers: list[Any]) -> Result:
    manager = start(lambda path: (200, {}, {"plans": []} if "/plans" in path else {"managers": managers, "alerts": []}))
    return CliRunner().invoke(main, ["status", "--manager", manager.url])


def test_the_status_tells_who_leads_where_there_are_several(start: Any) -> None:
    assert status(start, MANAGERS).stdout == (
        "Managers :\n"
        "\ta:8904 http://a:9080 : leads since 2026-01-01 00:00:00 UTC, token 3\n"
        "\tb:8904 http://b:9080 : standby\n"
        "\n"
        "no plan is deployed\n"
    )
    assert status(start, MANAGERS[:1]).stdout == "no plan is deployed\n"
