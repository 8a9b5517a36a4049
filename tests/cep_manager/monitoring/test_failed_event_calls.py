"""Failed events that workers keep, through the manager: it asks all workers, and tells who did not answer."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec
import pytest
from free_ports import free_port
from manager_world import KEY, LEASE_MS, FakeView, World, worker

from cep_common.clock import ManualClock
from cep_common.protocol.registry import RegisterWorker
from cep_common.security.access import AccessRole
from cep_common.security.config import ServerSecurity
from cep_common.security.tokens import TokenFile
from cep_common.security.web import Gate
from cep_manager.errors import NoWorkerError, WorkerFailedError
from cep_manager.monitoring.failed_events.client import FailedEventStores
from cep_manager.monitoring.failed_events.model import FailedEventSelection
from cep_manager.monitoring.worker_calls import SilentWorker, live_workers
from cep_manager.web.app import create_app


def entry(number: int) -> dict[str, Any]:
    return {
        "id": f"e{number}", "kind": "sink", "stream": "KnockOns", "sink": "http", "query": "", "reason": "status 500",
        "time_ms": number, "events": [{"_timestamp": number, "tailnum": "N1"}],
    }  # fmt: skip


class FakeWorker:
    """The HTTP interface of a worker that keeps `entries`."""

    def __init__(self, name: str, *entries: dict[str, Any]) -> None:
        self.asked: list[tuple[str, dict[str, Any], dict[str, str], Any]] = []
        self.answers: dict[str, Any] = {
            "/errors": {"found": len(entries) + 5, "entries": entries},
            "/errors/replay": {"replayed": 1, "events": 2, "refused": [], "under_way": 0, "left": 3},
            "/errors/discard": {"discarded": 1},
        }
        self.status = 200
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        self._thread.start()
        address = f"http://127.0.0.1:{self._server.server_port}"
        self.registered: RegisterWorker = msgspec.structs.replace(worker(), worker=name, http_address=address)

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        mine = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                parts = urlsplit(self.path)
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                said = json.loads(body) if body else None
                mine.asked.append((parts.path, parse_qs(parts.query), dict(self.headers), said))
                self.send_response(mine.status)
                self.end_headers()
                self.wfile.write(json.dumps(mine.answers[parts.path]).encode())

            do_POST = do_GET  # noqa: N815 - the base class calls it so

            def log_message(self, *arguments: Any) -> None:
                """Tests need no access log."""

        return Handler


@pytest.fixture
def workers() -> Iterator[tuple[FakeWorker, FakeWorker]]:
    made = FakeWorker("a", entry(1), entry(4)), FakeWorker("b", entry(2), entry(3))
    yield made
    for one in made:
        one.close()


def stores(*workers: RegisterWorker) -> FailedEventStores:
    return FailedEventStores(workers, KEY, "Bearer secret")


def test_the_oldest_entries_of_all_workers_come_first(workers: tuple[FakeWorker, FakeWorker]) -> None:
    told = stores(*(one.registered for one in workers)).listed(3)
    assert [(one.id, one.worker) for one in told.entries] == [("e1", "a"), ("e2", "b"), ("e3", "b")]
    assert (told.found, told.silent) == (14, ())
    path, parameters, headers, _ = workers[0].asked[0]
    assert (path, parameters) == ("/errors", {"plan": [KEY.plan], "limit": ["3"]})
    assert (headers["tenant"], headers["Authorization"]) == (str(KEY.tenant), "Bearer secret")


def test_every_worker_replays_and_discards_what_it_has(workers: tuple[FakeWorker, FakeWorker]) -> None:
    refused = {"id": "e2", "code": "no-inflow", "reason": "why"}
    workers[1].answers["/errors/replay"]["refused"] = [refused]
    asked = stores(*(one.registered for one in workers))
    told = asked.replay(FailedEventSelection(("e1", "e2")))
    assert (told.replayed, told.events, told.left) == (2, 4, 6)
    assert [msgspec.to_builtins(one) for one in told.refused] == [{**refused, "worker": "b"}]
    assert workers[0].asked[-1][3] == {"plan": KEY.plan, "ids": ["e1", "e2"], "all": False}
    assert asked.discard(FailedEventSelection(all=True)).discarded == 2
    assert workers[1].asked[-1][3] == {"plan": KEY.plan, "ids": [], "all": True}


def test_a_worker_that_does_not_answer_keeps_nobody_from_the_others(workers: tuple[FakeWorker, FakeWorker]) -> None:
    gone = msgspec.structs.replace(worker(), worker="gone", http_address=f"http://127.0.0.1:{free_port()}")
    workers[1].status = 403
    workers[1].answers["/errors"] = {"code": "not-authorised", "message": "may not", "details": []}
    told = stores(*(one.registered for one in workers), gone).listed(10)
    assert [one.id for one in told.entries] == ["e1", "e4"]
    assert [one.worker for one in told.silent] == ["b", "gone"]
    assert told.silent[0].problem == "may not [not-authorised]"
    with pytest.raises(WorkerFailedError, match="gone: no answer at"):
        stores(gone).listed(10)


def test_an_answer_that_is_none_is_a_silence(workers: tuple[FakeWorker, FakeWorker]) -> None:
    workers[0].answers["/errors"] = ["?"]
    workers[1].answers["/errors"] = {"found": 1, "entries": [{"id": 3}]}
    with pytest.raises(WorkerFailedError, match="a: no answer"):
        stores(*(one.registered for one in workers)).listed(10)


def test_workers_that_are_gone_are_not_asked() -> None:
    world = World()
    world.active()
    assert [one.worker for one in live_workers(world.snapshot(), "its error store")] == ["worker-1"]
    world.tick(LEASE_MS)
    with pytest.raises(NoWorkerError):
        live_workers(world.snapshot(), "its error store")


def test_rest_gives_them_and_refuses_what_says_nothing_clear() -> None:
    world = World()
    world.active()
    client = create_app(FakeView(world), 10_000).test_client()
    told = client.get(f"/api/v1/plans/{KEY.plan}/errors?limit=1").get_json()
    assert (told["plan"], told["found"], len(told["entries"])) == (KEY.plan, 1, 1)
    assert client.get(f"/api/v1/plans/{KEY.plan}/errors?limit=0").status_code == 400
    assert client.get("/api/v1/plans/Nobody/errors").status_code == 404
    for action, counted in (("replay", "replayed"), ("discard", "discarded")):
        address = f"/api/v1/plans/{KEY.plan}/errors/{action}"
        assert client.post(address, json={"ids": ["e1"]}).get_json()[counted] == 1
        assert client.post(address, json={"all": True}).get_json()[counted] == 1
        for unclear in ({}, {"ids": ["e1"], "all": True}, {"id": "e1"}, []):
            assert client.post(address, json=unclear).status_code == 400


def test_the_page_shows_replays_and_discards_them() -> None:
    world = World()
    world.active()
    view = FakeView(world)
    client = create_app(view, 10_000).test_client()
    page = client.get(f"/plans/{KEY.plan}/errors").text
    assert "stream Departures, query Delays" in page
    assert "10 cannot be divided by 0" in page
    assert "&#34;origin&#34;:&#34;ORD&#34;" in page
    for action, said in (("replay", "1 entries were replayed (1 events)."), ("discard", "1 entries were discarded.")):
        address = f"/plans/{KEY.plan}/errors/{action}"
        assert said in client.post(address, data={"entry": "3f9a21c07b5d"}, follow_redirects=True).text
        assert said in client.post(f"{address}?all=1", follow_redirects=True).text
        for unclear in (client.post(address), client.post(f"{address}?all=1", data={"entry": "3f9a21c07b5d"})):
            assert unclear.status_code == 400
    every = FailedEventSelection(all=True)
    one = FailedEventSelection(("3f9a21c07b5d",))
    assert view.chosen == [one, every, one, every]
    assert client.post(f"/plans/{KEY.plan}/errors/discard?all=1").status_code == 303  # to be loaded again as it likes
    assert client.get("/plans/Nobody/errors").status_code == 404
    assert f'href="/plans/{KEY.plan}/errors"' in client.get(f"/plans/{KEY.plan}").text


def test_the_page_says_who_did_not_do_what_was_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    world.active()
    view = FakeView(world)
    silent = (SilentWorker("worker-1", "no answer at http://host: ReadTimeout"),)
    for kind in ("replay", "discard"):
        act = getattr(view, f"{kind}_errors")
        monkeypatch.setattr(
            view, f"{kind}_errors", lambda *of, act=act: msgspec.structs.replace(act(*of), silent=silent)
        )
    client = create_app(view, 10_000).test_client()
    for kind in ("replay", "discard"):
        page = client.post(f"/plans/{KEY.plan}/errors/{kind}", data={"entry": "3f9a21c07b5d"}).text
        assert "worker-1: no answer at http://host: ReadTimeout" in page


def test_the_page_is_for_those_who_operate(tmp_path: Path) -> None:
    world = World()
    world.active()
    tokens = TokenFile(tmp_path / "tokens.json")
    shown_by = {role: tokens.create(role.value, role, None, 0) for role in (AccessRole.VIEWER, AccessRole.OPERATOR)}
    gate = Gate(ServerSecurity(tokens=str(tmp_path / "tokens.json")), "127.0.0.1", ManualClock())
    for role, status in ((AccessRole.VIEWER, 403), (AccessRole.OPERATOR, 200)):
        shown = {"Authorization": f"Bearer {shown_by[role]}"}
        client = create_app(FakeView(world), 10_000, gate).test_client()
        assert client.get(f"/plans/{KEY.plan}/errors", headers=shown).status_code == status
        done = client.post(f"/plans/{KEY.plan}/errors/discard?all=1", headers=shown)
        assert done.status_code == (303 if status == 200 else status)
        offered = f"/plans/{KEY.plan}/errors" in client.get(f"/plans/{KEY.plan}", headers=shown).text
        assert offered == (status == 200)
