"""Event streams and workers told from snapshots, and events sent to a worker's HTTP interface."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import msgspec
import pytest
from free_ports import free_port
from manager_world import COMPILED, KEY, LEASE_MS, World, plan, worker

from cep_common.ids import PlanKey
from cep_common.protocol.registry import StreamBinding
from cep_manager.errors import NoWorkerError, UnknownStreamError, WorkerFailedError, WorkerRejectedEventsError
from cep_manager.events.sending import own_authorization, send_events
from cep_manager.events.streams import event_streams, find_stream, workers_of

OTHER = msgspec.structs.replace(
    COMPILED,
    name="Other",
    imported=(COMPILED.imported[0],),
    exported=(StreamBinding("KnockOns", "KnockOns:1.0.0", (("tailnum", "long"),)),),
)


def test_a_stream_that_plans_share_is_told_once_and_one_that_they_define_differently_for_each() -> None:
    world = World()
    world.active()
    world.put(plan(key=PlanKey(KEY.tenant, "Other"), compiled=OTHER))
    told = {
        (one.side, one.name): [member.plan for member in one.members]
        for one in event_streams(world.snapshot(), KEY.tenant)
    }
    assert told == {
        ("imported", "Arrivals:1.0.0"): ["Other", "Storms"],
        ("imported", "Departures:1.0.0"): ["Storms"],
        ("exported", "AirportStorms:1.0.0"): ["Storms"],
        ("exported", "Other/KnockOns"): ["Other"],
        ("exported", "Storms/KnockOns"): ["Storms"],
    }
    assert event_streams(world.snapshot(), 7) == ()


def test_workers_of_a_stream_are_those_alive_that_serve_its_plans() -> None:
    world = World()
    world.active()
    stream = find_stream(world.snapshot(), KEY.tenant, "exported", "KnockOns:1.0.0")
    assert [one.worker for one in workers_of(world.snapshot(), KEY.tenant, stream)] == ["worker-1"]
    world.tick(LEASE_MS)
    with pytest.raises(NoWorkerError, match="no worker serves KnockOns"):
        workers_of(world.snapshot(), KEY.tenant, stream)
    with pytest.raises(UnknownStreamError):
        find_stream(world.snapshot(), KEY.tenant, "imported", "KnockOns:1.0.0")
    with pytest.raises(UnknownStreamError):
        find_stream(world.snapshot(), 7, "exported", "KnockOns:1.0.0")


class Handler(BaseHTTPRequestHandler):
    """Takes everything but what is `broken`; keeps what it was asked."""

    asked: list[tuple[str, dict[str, str], bytes]] = []  # noqa: RUF012 - one for the test

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.asked.append((self.path, dict(self.headers), body))
        refused = {"code": "bad-events", "message": "1 event does not fit", "details": [{"index": 0}]}
        strange = {b"proxy": (502, {"error": "bad gateway"}), b"list": (200, ["accepted"]), b"text": (500, "no")}
        status, told = strange.get(body) or ((400, refused) if body == b"broken" else (200, {"accepted": 2}))
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps(told).encode() if body != b"garbled" else b"<html>")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class calls it so
        """Says nothing."""


@pytest.fixture
def address() -> Iterator[str]:
    Handler.asked.clear()
    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_events_go_to_the_first_worker_with_http_in_the_name_of_who_sent_them(address: str) -> None:
    silent = msgspec.structs.replace(worker(), http_address="", worker="a")
    takes = msgspec.structs.replace(worker(), http_address=address)
    sent = send_events((silent, takes), "Plan/My Stream", 7, b"body", "application/x-ndjson", "Bearer secret")
    assert (sent.accepted, sent.worker) == (2, "worker-1")
    ((path, headers, body),) = Handler.asked
    assert (path, body) == ("/events/Plan/My%20Stream", b"body")
    assert (headers["tenant"], headers["Authorization"]) == ("7", "Bearer secret")
    assert headers["Content-Type"] == "application/x-ndjson"


def test_a_workers_refusal_comes_with_its_reasons(address: str) -> None:
    takes = msgspec.structs.replace(worker(), http_address=address)
    with pytest.raises(WorkerRejectedEventsError, match="1 event does not fit") as refused:
        send_events((takes,), "S", 7, b"broken", "", "")
    assert refused.value.details == {"code": "bad-events", "problems": [{"index": 0}]}
    with pytest.raises(WorkerFailedError, match="does not answer"):
        send_events((takes,), "S", 7, b"garbled", "", "")


@pytest.mark.parametrize(("body", "status"), [(b"proxy", 502), (b"list", 200), (b"text", 500)])
def test_an_answer_that_is_not_a_workers_is_a_failure_of_the_worker(address: str, body: bytes, status: int) -> None:
    takes = msgspec.structs.replace(worker(), http_address=address)
    with pytest.raises(WorkerFailedError, match=f"worker-1 at .* answered {status} in a form that is not a worker's"):
        send_events((takes,), "S", 7, body, "", "")


def test_a_worker_that_is_not_there_is_named() -> None:
    with pytest.raises(NoWorkerError):
        send_events((msgspec.structs.replace(worker(), http_address=""),), "S", 7, b"", "", "")
    gone = msgspec.structs.replace(worker(), http_address=f"http://127.0.0.1:{free_port()}")
    with pytest.raises(WorkerFailedError, match=r"worker-1 at .* does not answer"):
        send_events((gone,), "S", 7, b"", "", "")


def test_a_manager_shows_its_own_token_for_people_whom_workers_do_not_know(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("cep_x\n")
    assert own_authorization(str(file)) == "Bearer cep_x"
    assert own_authorization("") == ""
    with pytest.raises(WorkerFailedError, match=r"accounts\.worker_token: .*none cannot be read"):
        own_authorization(str(tmp_path / "none"))
