"""The built-in HTTP service: events in, and everything that is refused."""

from __future__ import annotations

import gzip
import json
import threading
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
import requests
from worker_world import DEPARTURES, EVENT, PLAN, World, departures, until

from cep_common.ids import Endpoint, PlanKey
from cep_common.protocol.links import StreamSchema
from cep_common.protocol.registry import StreamBinding
from cep_worker.config import InflowConfig, WorkerHttpConfig
from cep_worker.ingest.event_sender import EventSender

BARE = {key: value for key, value in EVENT.items() if key != "_timestamp"}
ROW = (1, "UA", 5, 1.5)
SCHEMA = StreamSchema("Departures:1.0.0", DEPARTURES)
IN_MEMORY = msgspec.structs.replace(PLAN, delivery="at-most-once")
"""No more can wait for its receiver than fits into memory."""


def post(world: World, path: str, body: Any, content_type: str = "application/json") -> requests.Response:
    data = body if isinstance(body, bytes | str) or hasattr(body, "__next__") else json.dumps(body)
    return requests.post(world.url(path), data=data, headers={"Content-Type": content_type}, timeout=10)


@pytest.mark.parametrize(
    ("body", "content_type", "count"),
    [
        (EVENT, "application/json", 1),
        ({"event": EVENT}, "application/json", 1),
        ([EVENT, {"event": EVENT}], "application/json", 2),
        (f"{json.dumps(EVENT)}\n\n{json.dumps(EVENT)}\n", "application/x-ndjson", 2),
        (f"{json.dumps(EVENT)}", "application/x-ndjson; charset=utf-8", 1),
    ],
)
def test_events_are_accepted_in_every_form(world: World, body: Any, content_type: str, count: int) -> None:
    world.start(PLAN)
    receiver = world.connected_receiver()
    answer = post(world, "/events/Departures:1.0.0", body, content_type)
    assert (answer.status_code, answer.json()) == (202, {"accepted": count})
    until(lambda: len(receiver.rows()) == count, receiver)
    assert receiver.rows() == [ROW] * count


@pytest.mark.parametrize(
    ("coding", "compress"),
    [
        ("gzip", gzip.compress),
        ("deflate", zlib.compress),
        ("deflate", lambda data: zlib.compress(data)[2:-4]),
        ("gzip, deflate", lambda data: zlib.compress(gzip.compress(data))),
        ("identity", lambda data: b"\xef\xbb\xbf" + data),
    ],
)
@pytest.mark.parametrize("content_type", ["application/json", "application/x-ndjson"])
def test_a_body_may_be_compressed(
    world: World, coding: str, compress: Callable[[bytes], bytes], content_type: str
) -> None:
    world.start(PLAN)
    receiver = world.connected_receiver()
    headers = {"Content-Encoding": coding, "Content-Type": content_type}
    body = compress(json.dumps(EVENT).encode())
    answer = requests.post(world.url("/events/Departures"), data=body, headers=headers, timeout=10)
    assert (answer.status_code, answer.json()) == (202, {"accepted": 1})
    until(receiver.rows, receiver)
    assert receiver.rows() == [ROW]


@pytest.mark.parametrize(
    ("coding", "body", "status", "code"),
    [
        ("br", b"x", 415, "unsupported-encoding"),
        ("gzip", b"nonsense", 400, "broken-encoding"),
        ("gzip", gzip.compress(b"[]" * 50, mtime=0)[:-9], 400, "broken-encoding"),
        ("gzip", gzip.compress(b" " * 1_000_000, mtime=0), 413, "too-large"),
    ],
)
def test_a_body_that_cannot_be_unpacked_is_refused(
    world: World, coding: str, body: bytes, status: int, code: str
) -> None:
    world.start(PLAN)
    answer = requests.post(world.url("/events/Departures"), data=body, headers={"Content-Encoding": coding}, timeout=10)
    assert (answer.status_code, answer.json()["code"]) == (status, code)


def test_the_time_comes_from_an_attribute_or_from_the_worker(world: World) -> None:
    world.start(PLAN)
    receiver = world.connected_receiver()
    assert post(world, "/events/Departures?timestamp=dep_delay", BARE).status_code == 202
    assert post(world, "/events/KnockOnDelays/Departures?timestamp=ts", {**BARE, "ts": 77}).status_code == 202
    assert post(world, "/events/Departures", BARE).status_code == 202
    until(lambda: len(receiver.rows()) == 3, receiver)
    times = [row[0] for row in receiver.rows()]
    assert times[:2] == [5, 77]
    assert times[2] > 1_700_000_000_000


def test_an_empty_list_is_accepted_as_nothing(world: World) -> None:
    world.start(PLAN)
    assert post(world, "/events/Departures", []).json() == {"accepted": 0}
    assert post(world, "/events/Departures", "\n", "application/x-ndjson").json() == {"accepted": 0}


def test_long_ndjson_is_read_in_pieces_and_taken_as_a_whole(make_world: Callable[..., World]) -> None:
    world = make_world()
    world.config = msgspec.structs.replace(world.config, http=WorkerHttpConfig(port=world.config.http.port))
    world.start(PLAN)
    receiver = world.connected_receiver()

    def lines() -> Iterator[bytes]:
        for number in range(40_000):
            yield json.dumps({**EVENT, "_timestamp": number}).encode() + b"\n"

    answer = post(world, "/events/Departures", b"".join(lines()), "application/x-ndjson")
    assert answer.json() == {"accepted": 40_000}
    until(lambda: sum(frame.batch.num_rows for frame in receiver.frames) == 40_000, receiver)
    broken = b"".join(lines()) + b'{"carrier": 1}\n'
    answer = post(world, "/events/Departures", broken, "application/x-ndjson")
    assert answer.status_code == 400
    assert {detail["index"] for detail in answer.json()["details"]} == {40_000}
    receiver.pump()
    assert sum(frame.batch.num_rows for frame in receiver.frames) == 40_000


WRONG = [
    ("/events/Departures", {"carrier": "UA", "dep_delay": 5}, 400, "bad-events", "price", "is missing (double)"),
    ("/events/Departures", {**EVENT, "gate": "A"}, 400, "bad-events", "gate", "is not an attribute of the stream"),
    ("/events/Departures", {**EVENT, "dep_delay": "5"}, 400, "bad-events", "dep_delay", "must be int, not text"),
    ("/events/Departures", {**EVENT, "dep_delay": True}, 400, "bad-events", "dep_delay", "not true or false"),
    ("/events/Departures", {**EVENT, "dep_delay": 2**31}, 400, "bad-events", "dep_delay", "is out of range for int"),
    ("/events/Departures", {**EVENT, "dep_delay": 5.5}, 400, "bad-events", "dep_delay", "with a fraction"),
    ("/events/Departures", {**EVENT, "_timestamp": None}, 400, "bad-events", "_timestamp", "may not be null"),
    ("/events/Departures?timestamp=ts", BARE, 400, "bad-events", "ts", "is missing"),
    ("/events/Departures", [EVENT, 5], 400, "bad-events", "", "must be an object, not a number"),
    ("/events/Departures", "{", 400, "broken-json", None, None),
    ("/events/Departures", "", 400, "broken-json", None, None),
    ("/events/Departures?timestamp=carrier", EVENT, 400, "wrong-timestamp", None, None),
    *(
        (f"/events/Departures?timestamp={odd}", EVENT, 400, "wrong-key", None, None)
        for odd in ("%00", "a%22b", "a%5Cb", "a%09b", "%1f")
    ),
    ("/events/Departures?timestamp=%ed%a0%80", EVENT, 400, "bad-events", None, None),
    ("/events/Departures?timestamp=event", EVENT, 400, "bad-events", None, None),
    ("/events/Departures?timestmp=ts", EVENT, 400, "unknown-parameter", None, None),
    ("/events/Arrivals", EVENT, 404, "unknown-stream", None, None),
    ("/elsewhere", EVENT, 404, "unknown-path", None, None),
    ("/events/Departures", " " * 150_000, 413, "too-large", None, None),
]


@pytest.mark.parametrize(("path", "body", "status", "code", "attribute", "problem"), WRONG)
def test_what_does_not_fit_is_refused_by_name_and_nothing_else_is_lost(
    world: World, path: str, body: Any, status: int, code: str, attribute: str | None, problem: str | None
) -> None:
    world.start(PLAN)
    receiver = world.connected_receiver()
    answer = post(world, path, body)
    refusal = answer.json()
    assert (answer.status_code, refusal["code"]) == (status, code)
    assert refusal["message"]
    if attribute is not None:
        assert [detail["attribute"] for detail in refusal["details"]] == [attribute]
        assert problem in refusal["details"][0]["problem"]
    assert post(world, "/events/Departures", EVENT).status_code == 202
    until(lambda: receiver.frames, receiver)
    assert receiver.rows() == [ROW]


def test_one_wrong_event_refuses_the_whole_request(world: World) -> None:
    world.start(PLAN)
    receiver = world.connected_receiver()
    answer = post(world, "/events/Departures", [EVENT, EVENT, {**EVENT, "dep_delay": "x"}])
    assert answer.json()["details"] == [{"index": 2, "attribute": "dep_delay", "problem": "must be int, not text"}]
    assert post(world, "/events/Departures", {**EVENT, "_timestamp": 9}).status_code == 202
    until(lambda: receiver.frames, receiver)
    assert [row[0] for row in receiver.rows()] == [9]


def test_a_full_inflow_is_answered_with_429_and_takes_events_again_later(make_world: Callable[..., World]) -> None:
    world = make_world(inflow=InflowConfig(waiting_rows=10))
    world.start(IN_MEMORY)
    for number in range(10):
        assert post(world, "/events/Departures", {**EVENT, "_timestamp": number}).status_code == 202
    answer = post(world, "/events/Departures", {**EVENT, "_timestamp": 10})
    assert (answer.status_code, answer.json()["code"], answer.headers["Retry-After"]) == (429, "no-room", "1")
    receiver = world.connected_receiver()
    until(lambda: len(receiver.rows()) == 10, receiver)
    assert post(world, "/events/Departures", {**EVENT, "_timestamp": 11}).status_code == 202
    until(lambda: len(receiver.rows()) == 11, receiver)
    assert [row[0] for row in receiver.rows()] == [*range(10), 11], "what was answered with 429 did not slip in"


def test_a_request_that_waits_for_room_is_accepted_when_there_is_some(make_world: Callable[..., World]) -> None:
    world = make_world(inflow=InflowConfig(waiting_rows=1))
    world.config = msgspec.structs.replace(world.config, http=msgspec.structs.replace(world.config.http, wait_ms=8_000))
    world.start(IN_MEMORY)
    assert post(world, "/events/Departures", EVENT).status_code == 202
    answers: list[int] = []
    waiting = threading.Thread(target=lambda: answers.append(post(world, "/events/Departures", EVENT).status_code))
    waiting.start()
    receiver = world.connected_receiver()
    until(lambda: len(receiver.rows()) == 2, receiver)
    waiting.join()
    assert answers == [202]


def test_streams_and_health_are_told(world: World) -> None:
    world.start(PLAN)
    described = {
        "stream": "Departures:1.0.0",
        "attributes": [{"name": name, "type": kind} for name, kind in DEPARTURES],
        "plans": [{"tenant": -1234, "plan": "KnockOnDelays", "stream": "Departures"}],
    }
    assert requests.get(world.url("/streams"), timeout=5).json() == {"streams": [described]}
    assert requests.get(world.url("/streams/Departures"), timeout=5).json() == described
    unknown = requests.get(world.url("/streams/Nothing"), timeout=5)
    assert (unknown.status_code, unknown.json()["code"]) == (404, "unknown-stream")
    health = requests.get(world.url("/health"), timeout=5).json()
    assert (health["status"], health["worker"], health["plans"][0]["inflows"]) == ("ok", "worker-1", 1)


def test_a_worker_is_ready_while_a_manager_takes_its_heartbeats(world: World) -> None:
    world.start(PLAN)
    until(lambda: requests.get(world.url("/health/ready"), timeout=5).status_code == 200)
    assert requests.get(world.url("/health/live"), timeout=5).json() == {"status": "live"}
    world.manager.stop()
    until(lambda: requests.get(world.url("/health/ready"), timeout=5).status_code == 503)
    assert requests.get(world.url("/health/live"), timeout=5).status_code == 200


def test_tenants_use_the_same_names_for_streams_of_their_own(world: World) -> None:
    theirs = msgspec.structs.replace(
        PLAN, key=PlanKey(7, "Theirs"), imported=(msgspec.structs.replace(PLAN.imported[0], stream="D"),)
    )
    world.start(PLAN, theirs)
    ours, other = world.connected_receiver(), world.connected_receiver("D")
    for sent, where in (("UA", {}), ("AA", {"tenant": "7"})):
        answer = requests.post(
            world.url("/events/Departures"), json=EVENT | {"carrier": sent}, headers=where, timeout=10
        )
        assert answer.status_code == 202
    with EventSender(Endpoint("127.0.0.1", world.config.ingress.port), SCHEMA, tenant=7) as sender:
        sender.send(departures((1, "DL", 5, 1.5)))
        until(lambda: len(other.rows()) == 2, ours, other)
        until(lambda: len(ours.rows()) == 1, ours)
    assert {row[1] for row in other.rows()} == {"AA", "DL"}
    assert {row[1] for row in ours.rows()} == {"UA"}
    listed = requests.get(world.url("/streams?tenant=7"), timeout=5).json()["streams"]
    assert [stream["plans"] for stream in listed] == [[{"tenant": 7, "plan": "Theirs", "stream": "D"}]]
    wrong = requests.get(world.url("/streams"), headers={"tenant": "seven"}, timeout=5)
    assert (wrong.status_code, wrong.json()["code"]) == (400, "unknown-tenant")


def test_a_wrong_method_is_answered_as_json(world: World) -> None:
    world.start(PLAN)
    answer = requests.get(world.url("/events/Departures"), timeout=5)
    assert (answer.status_code, answer.json()["code"]) == (405, "method-not-allowed")
    assert "POST" in answer.headers["Allow"]


def test_http_and_links_feed_the_same_stream(world: World) -> None:
    same = StreamBinding("D", "Departures:1.0.0", tuple(reversed(DEPARTURES)))
    world.start(
        PLAN, msgspec.structs.replace(PLAN, key=msgspec.structs.replace(PLAN.key, plan="Other"), imported=(same,))
    )
    first, second = world.connected_receiver("Departures"), world.connected_receiver("D")
    world.sender().send(departures(ROW))
    assert post(world, "/events/Departures", EVENT).status_code == 202
    until(lambda: len(first.rows()) == 2 and len(second.rows()) == 2, first, second)
    assert first.rows() == [ROW] * 2
    assert second.rows() == [(1, 1.5, 5, "UA")] * 2
