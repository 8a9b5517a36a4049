"""Single events that come together: joined to one batch, answered one by one."""

from __future__ import annotations

import json
import socket
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import requests
from worker_world import EVENT, PLAN, World, until

from cep_common.protocol.registry import Connector, TenantLimit
from cep_common.security.access import AccessRole
from cep_common.security.config import ServerSecurity
from cep_common.security.tokens import TokenFile
from cep_worker.config import InflowConfig, WalConfig
from cep_worker.data_plane import DataPlane
from cep_worker.worker import Worker

PATH = "/events/Departures"


def event(number: int, **changes: Any) -> bytes:
    return json.dumps({**EVENT, "_timestamp": number, **changes}).encode()


def request(body: bytes, headers: str = "", path: str = PATH) -> bytes:
    return f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{headers}Content-Length: {len(body)}\r\n\r\n".encode() + body


def burst(world: World, *raw: bytes) -> list[tuple[int, Any]]:
    """Send the requests at once on one connection and return the answers, which come in their order."""
    answers: list[tuple[int, Any]] = []
    with socket.create_connection(("127.0.0.1", world.config.http.port), timeout=10) as one:
        one.sendall(b"".join(raw))
        with one.makefile("rb") as file:
            while len(answers) < len(raw):
                status = int(file.readline().split()[1])
                length = 0
                while line := file.readline().strip():
                    name, _, value = line.partition(b":")
                    length = int(value) if name.lower() == b"content-length" else length
                answers.append((status, json.loads(file.read(length))))
    return answers


def post(world: World, key: str, body: bytes) -> requests.Response:
    return requests.post(world.url(PATH), data=body, headers={"Idempotency-Key": key}, timeout=10)


@pytest.fixture
def patient(make_world: Callable[..., World]) -> World:
    """A world whose requests may wait: these tests are not about time."""
    return waiting(make_world())


def waiting(world: World, wait_ms: int = 8_000) -> World:
    http = msgspec.structs.replace(world.config.http, wait_ms=wait_ms)
    world.config = msgspec.structs.replace(world.config, http=http)
    return world


@pytest.fixture
def submitted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The rows of every batch that HTTP servers submit to the data thread."""
    rows: list[int] = []
    made = DataPlane.__init__

    def count(self: DataPlane, *arguments: Any, **options: Any) -> None:
        made(self, *arguments, **options)
        submit = self.gateway.submit

        def counted(source: Any, stream: Any, batch: Any, origin: Any = None) -> Any:
            rows.append(batch.num_rows)
            return submit(source, stream, batch, origin)

        monkeypatch.setattr(self.gateway, "submit", counted)

    monkeypatch.setattr(DataPlane, "__init__", count)
    return rows


def test_events_that_come_together_are_one_batch_in_their_order(patient: World, submitted: list[int]) -> None:
    patient.start(PLAN)
    receiver = patient.connected_receiver()
    assert burst(patient, *(request(event(n)) for n in range(1_000))) == [(202, {"accepted": 1})] * 1_000
    until(lambda: len(receiver.rows()) == 1_000, receiver)
    assert [row[0] for row in receiver.rows()] == list(range(1_000))
    assert sum(submitted) == 1_000
    assert len(submitted) < 100


def test_many_connections_share_batches_and_every_event_is_taken_once(patient: World, submitted: list[int]) -> None:
    patient.start(PLAN)
    receiver = patient.connected_receiver()

    def send(first: int) -> None:
        with requests.Session() as session:
            for n in range(first, first + 25):
                assert session.post(patient.url(PATH), data=event(n), timeout=10).json() == {"accepted": 1}

    senders = [threading.Thread(target=send, args=(first,)) for first in range(0, 500, 25)]
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join()
    until(lambda: len(receiver.rows()) == 500, receiver)
    assert Counter(row[0] for row in receiver.rows()) == Counter(range(500))
    assert len(submitted) < 500


WRONG: list[tuple[bytes, int, str]] = [
    (request(event(1, dep_delay="x")), 400, "bad-events"),
    (request(b"{"), 400, "broken-json"),
    (request(event(2**62)), 400, "bad-events"),
    (request(event(1, carrier="\ud800").replace(b"\\\\", b"\\")), 400, ""),
    (request(event(1), "Content-Encoding: br\r\n"), 415, "unsupported-encoding"),
    (request(event(1), "Origin: http://evil\r\n"), 403, "cross-site"),
    (request(event(1), path="/events/Nothing"), 404, "unknown-stream"),
    (request(event(1), path="/nowhere"), 404, "unknown-path"),
    (request(event(1), path=PATH + "?timestmp=x"), 400, "unknown-parameter"),
    (request(event(1), "Tenant: seven\r\n"), 400, "unknown-tenant"),
    (request(event(1)).replace(b"Host: 127.0.0.1", b"Host: evil.example"), 403, "unknown-host"),
]


def test_what_is_refused_is_refused_alone(patient: World) -> None:
    patient.start(PLAN)
    receiver = patient.connected_receiver()
    for wrong, status, code in WRONG:
        answers = burst(patient, request(event(1)), request(event(2)), wrong, request(event(3)), request(event(4)))
        assert [answer[0] for answer in answers] == [202, 202, status, 202, 202]
        assert answers[2][1]["code"] == code or not code
    until(lambda: len(receiver.rows()) == 4 * len(WRONG), receiver)
    assert [row[0] for row in receiver.rows()] == [1, 2, 3, 4] * len(WRONG)


def test_paths_and_methods_that_are_not_there_are_answered_as_the_application_does(world: World) -> None:
    """The application answers those with a query itself."""
    world.start(PLAN)
    for method, path, status in (
        ("GET", "/", 404), ("GET", "/nowhere", 405), ("PUT", "/events/Departures", 405), ("DELETE", "/streams", 405),
        ("POST", "/nowhere/at/all", 404), ("OPTIONS", "/nowhere", 200), ("POST", "/streams", 404),
        ("GET", "/streams", 200), ("HEAD", "/nowhere", 405), ("POST", "/wal/x/restore", 404), ("PROPFIND", "/x", 405),
    ):  # fmt: skip
        found = requests.request(method, world.url(path), data=b"", timeout=10)
        told = requests.request(method, world.url(path), data=b"", headers={"Tenant": "-1234"}, timeout=10)
        assert (found.status_code, found.content) == (told.status_code, told.content)
        assert (found.status_code, found.headers.get("Allow")) == (status, told.headers.get("Allow"))


def test_several_events_lists_lines_and_large_bodies_keep_their_order(patient: World) -> None:
    patient.start(PLAN)
    receiver = patient.connected_receiver()
    lines = b"\n".join(event(n) for n in range(3, 6))
    large = b"[" + b",".join(event(n) for n in range(6, 1_000)) + b"]"
    answers = burst(
        patient,
        request(b"[" + event(1) + b"," + event(2) + b"]"),
        request(lines, "Content-Type: application/x-ndjson\r\n"),
        request(large),
        request(event(1_000)),
        request(b"[]"),
    )
    assert answers == [(202, {"accepted": count}) for count in (2, 3, 994, 1, 0)]
    until(lambda: len(receiver.rows()) == 1_000, receiver)
    assert [row[0] for row in receiver.rows()] == list(range(1, 1_001))


def test_what_is_too_large_together_is_taken_one_by_one(make_world: Callable[..., World], tmp_path: Path) -> None:
    wal = WalConfig(str(tmp_path / "wal"), segment_bytes=16_384, maximum_bytes=65_536)
    world = waiting(make_world(wal=wal), 1_000)
    world.start(PLAN)
    world.connected_receiver()
    answers = burst(world, *(request(event(n, carrier="x" * 20_000)) for n in range(6)))
    assert [status for status, _ in answers[:2]] == [202, 202]
    assert {(status, told.get("code")) for status, told in answers} <= {(202, None), (429, "no-room")}


def test_a_key_is_taken_once_also_by_the_next_process(patient: World) -> None:
    patient.start(PLAN)
    assert patient.worker is not None
    for _ in range(3):
        answer = post(patient, "first", event(1))
        assert (answer.status_code, answer.json()) == (202, {"accepted": 1})
    assert burst(patient, *[request(event(2), "Idempotency-Key: second\r\n")] * 50)[-1] == (202, {"accepted": 1})
    reused = post(patient, "first", event(7))
    assert (reused.status_code, reused.json()["code"]) == (422, "key-reused")
    assert post(patient, "x" * 300, event(8)).json()["code"] == "bad-key"
    large = b"[" + b",".join(event(n) for n in range(10, 1_200)) + b"]"
    for _ in range(2):
        assert post(patient, "third", large).json() == {"accepted": 1_190}
    patient.worker.stop()
    patient.worker = Worker(patient.config)
    patient.worker.start()
    until(lambda: patient.health()["plans"])
    receiver = patient.connected_receiver()
    for key, body in (("first", event(1)), ("second", event(2)), ("third", large)):
        assert post(patient, key, body).status_code == 202
    assert post(patient, "fourth", event(9)).status_code == 202
    until(lambda: any(row[0] == 9 for row in receiver.rows()), receiver)
    assert [row[0] for row in receiver.rows()] == [1, 2, *range(10, 1_200), 9]


def test_a_key_whose_answer_is_forgotten_takes_other_events(patient: World) -> None:
    patient.start(PLAN)
    assert patient.worker is not None
    assert post(patient, "again", event(1)).status_code == 202
    patient.worker.stop()
    patient.worker = Worker(patient.config)
    patient.worker.start()
    until(lambda: patient.health()["plans"])
    receiver = patient.connected_receiver()
    assert post(patient, "again", event(2)).status_code == 202
    assert post(patient, "last", event(3)).status_code == 202
    until(lambda: any(row[0] == 3 for row in receiver.rows()), receiver)
    assert [row[0] for row in receiver.rows()] == [1, 2, 3]


def test_empty_lists_in_a_pipeline_are_answered_each(patient: World) -> None:
    patient.start(PLAN)
    empty, one = (202, {"accepted": 0}), (202, {"accepted": 1})
    assert burst(patient, *[request(b"[]")] * 5) == [empty] * 5
    assert burst(patient, request(b"[]"), request(event(1)), request(b"[]"), request(b"[]")) == [
        empty,
        one,
        empty,
        empty,
    ]


def test_a_refused_request_leaves_its_key_free(make_world: Callable[..., World]) -> None:
    world = make_world(inflow=InflowConfig(waiting_rows=1))
    world.start(msgspec.structs.replace(PLAN, delivery="at-most-once"))
    assert post(world, "one", event(1)).status_code == 202
    assert post(world, "two", event(2)).status_code == 429
    assert post(world, "three", event(1, dep_delay="x")).status_code == 400
    receiver = world.connected_receiver()
    until(lambda: receiver.frames, receiver)
    for key, body in (("two", event(2)), ("three", event(3))):
        until(lambda key=key, body=body: post(world, key, body).status_code == 202, receiver)
    until(lambda: len(receiver.rows()) == 3, receiver)
    assert [row[0] for row in receiver.rows()] == [1, 2, 3]


def test_a_tenant_beyond_its_quota_is_told_when_to_come_again(world: World) -> None:
    waiting(world, 100).manager.limits = (TenantLimit(-1234, 20),)
    world.start(PLAN)
    receiver = world.connected_receiver()
    answers: list[tuple[int, Any]] = []

    def is_refused() -> bool:
        answers[:] = burst(world, *[request(event(1))] * 30)
        return answers[-1][0] == 429

    until(is_refused, receiver)
    assert answers[-1][1]["code"] == "over-limit"
    answer = requests.post(world.url(PATH), data=event(3), timeout=10)
    assert answer.status_code == 202 or int(answer.headers["Retry-After"]) >= 1


def test_tokens_and_headers_are_looked_at_for_every_request(make_world: Callable[..., World], tmp_path: Path) -> None:
    file = TokenFile(tmp_path / "tokens.json")
    sender, viewer = (
        file.create("sender", AccessRole.SENDER, None, 1),
        file.create("viewer", AccessRole.VIEWER, None, 1),
    )
    others = file.create("others", AccessRole.SENDER, 7, 1)
    world = waiting(make_world(security=ServerSecurity(tokens=str(tmp_path / "tokens.json"))))
    source = Connector("Departures", "http", {}, "json", {
        "attributes.carrier": "trp:X-Carrier", "attributes.dep_delay": "dep_delay", "attributes.price": "price",
    })  # fmt: skip
    world.start(msgspec.structs.replace(PLAN, sources=(source,)))
    receiver = world.connected_receiver()
    shown = [f"Authorization: Bearer {token}\r\n" for token in (sender, viewer, others, "cep_unknown")]
    answers = burst(world, *(request(event(1), one) for one in (*shown, "", shown[0])))
    assert [status for status, _ in answers] == [202, 403, 404, 401, 401, 202]
    file.revoke("sender")
    assert burst(world, request(event(2), shown[0]))[0][0] == 401
    body = b'{"dep_delay": 5, "price": 1.5}'
    own = "/KnockOnDelays/Departures"
    file.create("sender", AccessRole.SENDER, None, 1)
    token = f"Authorization: Bearer {file.create('another', AccessRole.SENDER, None, 1)}\r\n"
    carriers = burst(world, *(request(body, f"{token}X-Carrier: C{n}\r\n", own) for n in range(3)))
    assert carriers == [(202, {"accepted": 1})] * 3
    until(lambda: len(receiver.rows()) == 5, receiver)
    assert [row[1] for row in receiver.rows()] == ["UA", "UA", "C0", "C1", "C2"]


def test_a_defect_is_answered_and_leaves_the_others_alone(patient: World, monkeypatch: pytest.MonkeyPatch) -> None:
    made = DataPlane.__init__

    def fail_once(self: DataPlane, *arguments: Any, **options: Any) -> None:
        made(self, *arguments, **options)
        submit, left = self.gateway.submit, [1]

        def submitted(*given: Any) -> Any:
            if left:
                left.pop()
                raise RuntimeError("a defect")
            return submit(*given)

        monkeypatch.setattr(self.gateway, "submit", submitted)

    monkeypatch.setattr(DataPlane, "__init__", fail_once)
    patient.start(PLAN)
    receiver = patient.connected_receiver()
    headers = {"Idempotency-Key": "k", "Connection": "close"}
    first = requests.post(patient.url(PATH), data=event(1), headers=headers, timeout=5)
    assert (first.status_code, first.json()["code"], first.headers["Connection"]) == (500, "failed", "close")
    assert post(patient, "k", event(1)).status_code == 202
    until(receiver.rows, receiver)
