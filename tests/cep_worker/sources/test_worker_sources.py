"""Sources of each type in front of a real worker, and sources that cannot run."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
import requests
from free_ports import free_port
from schema_registry import schema_registry
from worker_world import DEPARTURES, PLAN, World, departures, until

from cep_common.errors import InputError
from cep_common.ids import Endpoint, PlanKey
from cep_common.protocol.links import StreamSchema
from cep_common.protocol.registry import Connector, DeployedPlan
from cep_worker.config import ArtefactConfig
from cep_worker.ingest.event_sender import EventSender

EVENT = {"_timestamp": 1, "carrier": "UA", "dep_delay": 5, "price": 1.5}
ROW = (1, "UA", 5, 1.5)


def with_source(kind: str, options: dict[str, str], mapper: str = "", **mapper_options: str) -> DeployedPlan:
    return msgspec.structs.replace(PLAN, sources=(Connector("Departures", kind, options, mapper, mapper_options),))


def test_an_http_source_takes_events_at_its_plans_path_of_the_built_in_server(world: World) -> None:
    world.start(with_source("http", {}, "json"))
    receiver = world.connected_receiver()
    answer = requests.post(world.url("/KnockOnDelays/Departures"), json={"event": EVENT}, timeout=5)
    assert (answer.status_code, answer.json()) == (202, {"accepted": 1})
    until(lambda: receiver.frames, receiver)
    assert receiver.rows() == [ROW]


def test_an_http_source_may_have_an_address_a_timestamp_and_leniency(world: World) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}/late/planes"
    options = {"receiver.url": url, "timestamp": "dep_delay", "basic.auth.enabled": "false"}
    world.start(with_source("http", options, "json", **{"fail.on.missing.attribute": "false"}))
    receiver = world.connected_receiver()
    assert requests.post(url, json=[{"dep_delay": 9}], timeout=5).status_code == 202
    until(lambda: receiver.frames, receiver)
    assert receiver.rows() == [(9, None, 9, None)]
    assert requests.post(f"http://127.0.0.1:{port}/late/trains", json=[], timeout=5).status_code == 404
    world.manager.deploy()
    until(lambda: world.health()["plans"] == [])
    with pytest.raises(requests.ConnectionError):
        requests.post(url, json=[], timeout=5)


def test_localhost_is_the_address_of_the_built_in_server_too(world: World) -> None:
    url = f"http://localhost:{world.config.http.port}/late/planes"
    world.start(with_source("http", {"receiver.url": url}))
    receiver = world.connected_receiver()
    assert requests.post(world.url("/late/planes"), json=EVENT, timeout=5).status_code == 202
    assert requests.post(url, json=EVENT, timeout=5).status_code == 202
    until(lambda: len(receiver.rows()) == 2, receiver)


def test_sources_share_an_address_that_they_name_otherwise(world: World) -> None:
    port = free_port()
    urls = [f"http://{host}:{port}/{host}" for host in ("localhost", "127.0.0.1")]
    sources = tuple(Connector("Departures", "http", {"receiver.url": url}, "", {}) for url in urls)
    world.start(msgspec.structs.replace(PLAN, sources=sources))
    receiver = world.connected_receiver()
    assert [requests.post(url, json=EVENT, timeout=5).status_code for url in urls] == [202, 202]
    until(lambda: len(receiver.rows()) == 2, receiver)


def test_an_http_source_finds_events_by_paths(world: World) -> None:
    paths = {f"attributes.{name}": f"flight.{name}" for name, _ in DEPARTURES}
    world.start(with_source("http", {}, "json", **{"enclosing.element": "$.all", **paths}))
    receiver = world.connected_receiver()
    body = {"all": [{"flight": EVENT, "more": 1}]}
    assert requests.post(world.url("/KnockOnDelays/Departures"), json=body, timeout=5).status_code == 202
    until(lambda: receiver.frames, receiver)
    assert [row[1:] for row in receiver.rows()] == [ROW[1:]]
    answer = requests.post(world.url("/KnockOnDelays/Departures"), json={"all": [{"flight": {}}]}, timeout=5)
    assert answer.status_code == 400


PATHS = {f"attributes.{name}": f"{name}/@v" for name, _ in DEPARTURES}


@pytest.mark.parametrize(
    ("mapper", "options", "body", "broken"),
    [
        ("csv", {"header.present": "true"}, "carrier,dep_delay,price\nUA,5,1.5\n", '"'),
        ("text", {}, 'carrier:"UA",\ndep_delay:5,\nprice:1.5', None),
        ("xml", PATHS, "<f><carrier v='UA'/><dep_delay v='5'/><price v='1.5'/></f>", "<f>"),
    ],
)
def test_an_http_source_takes_what_its_mapper_reads(
    world: World, mapper: str, options: dict[str, str], body: str, broken: str | None
) -> None:
    world.start(with_source("http", {"timestamp": "dep_delay"}, mapper, **options))
    receiver = world.connected_receiver()
    url = world.url("/KnockOnDelays/Departures")
    answer = requests.post(url, data=body, headers={"Content-Type": "application/x-ndjson"}, timeout=5)
    assert (answer.status_code, answer.json()) == (202, {"accepted": 1})
    until(lambda: receiver.frames, receiver)
    assert receiver.rows() == [(5, *ROW[1:])]
    answer = requests.post(url, data=body.replace("1.5", "dear"), timeout=5)
    assert (answer.status_code, answer.json()["code"]) == (400, "bad-events")
    assert answer.json()["details"] == [{"index": 0, "attribute": "price", "problem": "must be double, not 'dear'"}]
    answer = requests.post(url, data=b"\xff" if broken is None else broken.encode(), timeout=5)
    assert (answer.status_code, answer.json()["code"]) == (400, f"broken-{mapper}")


def test_an_http_source_reads_avro_by_the_schema_of_each_body(world: World) -> None:
    types = {"carrier": "string", "dep_delay": "int", "price": "double"}
    fields = [{"name": name, "type": type_} for name, type_ in types.items()]
    schema = {"type": "record", "name": "Departure", "fields": fields}
    with schema_registry() as registry:
        number = registry.add(json.dumps(schema))
        options = {"schema.registry": registry.url, "use.avro.deserializer": "true"}
        world.start(with_source("http", {}, "avro", **options))
        receiver = world.connected_receiver()
        url = world.url("/KnockOnDelays/Departures")
        body = struct.pack(">bI", 0, number) + b"\x04UA\x0a" + struct.pack("<d", 1.5)
        answers = [requests.post(url, data=body, timeout=5)]
        registry.answer = (503, b"")
        answers.append(requests.post(url, data=body, timeout=5))  # the schema is known
        unknown = requests.post(url, data=b"\0\0\0\0\x09" + body[5:], timeout=5)
    assert [one.status_code for one in answers] == [202, 202]
    assert (unknown.status_code, unknown.json()["code"]) == (503, "registry-unavailable")
    assert "Retry-After" in unknown.headers
    until(lambda: len(receiver.rows()) == 2, receiver)
    assert [row[1:] for row in receiver.rows()] == [ROW[1:]] * 2
    answer = requests.post(url, data=body[5:], timeout=5)
    assert (answer.status_code, answer.json()["code"]) == (400, "broken-body")


def test_headers_of_a_request_are_attributes_of_all_its_events(world: World) -> None:
    paths = {"attributes.carrier": "trp:X-Carrier", "attributes.dep_delay": "$.late", "attributes.price": "trp:X-Price"}
    plan = with_source("http", {}, "json", **paths)
    world.start(plan)
    url = world.url("/KnockOnDelays/Departures")
    world.manager.deploy(msgspec.structs.replace(plan, epoch=8))
    until(lambda: world.reports()[0].epoch == 8)
    receiver = world.connected_receiver()
    headers = {"x-carrier": "UA", "X-Price": "1.5"}
    assert requests.post(url, json=[{"late": 5}, {"late": 6}], headers=headers, timeout=5).status_code == 202
    lines = {**headers, "Content-Type": "application/x-ndjson"}
    assert requests.post(url, data='{"late": 7}\n{"late": 8}\n', headers=lines, timeout=5).status_code == 202
    until(lambda: len(receiver.rows()) == 4, receiver)
    assert [row[1:] for row in receiver.rows()] == [("UA", late, 1.5) for late in (5, 6, 7, 8)]
    answer = requests.post(url, json={"late": 5}, headers={"X-Price": "dear"}, timeout=5)
    assert (answer.status_code, answer.json()["details"]) == (
        400,
        [{"index": 0, "attribute": "price", "problem": "(trp:X-Price) must be double, not 'dear'"}],
    )


def test_no_header_is_the_time_of_events(world: World) -> None:
    paths = {"attributes.carrier": "c", "attributes.dep_delay": "trp:X-Late", "attributes.price": "p"}
    world.start(with_source("http", {"timestamp": "dep_delay"}, "json", **paths))
    until(lambda: "dep_delay: the event's time comes from the body" in world.health()["plans"][0]["last_error"])


def test_a_source_goes_on_when_its_plan_is_deployed_anew(world: World) -> None:
    plan = with_source("http", {})
    world.start(plan)
    world.manager.deploy(msgspec.structs.replace(plan, epoch=8))
    until(lambda: world.reports()[0].epoch == 8)
    receiver = world.connected_receiver()
    assert requests.post(world.url("/KnockOnDelays/Departures"), json=EVENT, timeout=5).status_code == 202
    until(lambda: receiver.frames, receiver)
    assert receiver.openings[-1].epoch == 8


def test_a_zeromq_source_takes_links_for_its_stream_only(world: World) -> None:
    port = free_port()
    world.start(with_source("zeromq", {"endpoint": f"tcp://127.0.0.1:{port}"}))
    receiver = world.connected_receiver()
    with EventSender(Endpoint("127.0.0.1", port), StreamSchema("Departures", DEPARTURES)) as sender:
        sender.send(departures(ROW))
    until(lambda: receiver.frames, receiver)
    assert receiver.rows() == [ROW]
    with pytest.raises(InputError, match="there is no stream Other"):
        EventSender(Endpoint("127.0.0.1", port), StreamSchema("Other", DEPARTURES))


def test_a_source_of_an_artefact_feeds_all_plans_that_import_the_stream(
    make_world: Callable[..., World], tmp_path: Path
) -> None:
    port = free_port()
    (tmp_path / "in.yaml").write_text(
        f"stream: Departures:1.0.0\ntype: http\noptions: {{receiver.url: 'http://127.0.0.1:{port}/in'}}\n"
    )
    world = make_world(artefacts=ArtefactConfig(sources=str(tmp_path)))
    binding = msgspec.structs.replace(PLAN.imported[0], stream="D")
    world.start(PLAN, msgspec.structs.replace(PLAN, key=PlanKey(-1234, "Other"), imported=(binding,)))
    first, second = world.connected_receiver("Departures"), world.connected_receiver("D")
    assert requests.post(f"http://127.0.0.1:{port}/in", json=EVENT, timeout=5).status_code == 202
    until(lambda: first.rows() and second.rows(), first, second)


@pytest.mark.parametrize(
    ("kind", "options", "mapper", "message"),
    [
        (
            "carrier-pigeon",
            {},
            "",
            "unknown type of source carrier-pigeon; known types: file, http, inMemory, kafka, zeromq",
        ),
        ("http", {"reciever.url": "x"}, "", "unknown option reciever.url; did you mean 'receiver.url'?"),
        ("http", {"receiver.url": "ftp://x:1/y"}, "", "receiver.url: must be http://host:port/path"),
        ("http", {"receiver.url": "http://127.0.0.1:99999/y"}, "", "is not an address"),
        ("http", {"receiver.url": "http://0.0.0.0:1/y"}, "", "from other hosts, and there are no tokens"),
        ("zeromq", {"endpoint": "tcp://0.0.0.0:1"}, "", "from other hosts, and there are no keys"),
        ("http", {"timestamp": "carrier"}, "", "timestamp: carrier is string"),
        ("http", {"basic.auth.enabled": "true"}, "", "tokens in the worker's configuration determine"),
        ("http", {}, "keyvalue", "unknown type of mapper keyvalue for the source http; known types: csv, json"),
        ("http", {}, "binary", "unknown type of mapper binary for the source http; known types: csv, json, text, xml"),
        ("http", {}, "json/attributes", "@attributes: no path for "),
        ("zeromq", {}, "", "missing required option endpoint"),
        ("zeromq", {"endpoint": "tcp://127.0.0.1:1"}, "json", "remove @map"),
    ],
)
def test_a_source_that_cannot_run_is_reported_and_the_rest_of_the_plan_runs(
    world: World, kind: str, options: dict[str, str], mapper: str, message: str
) -> None:
    mapper, _, nested = mapper.partition("/")
    world.start(with_source(kind, options, mapper, **{f"{nested}.carrier": "$.c"} if nested else {}))
    until(lambda: message in world.health()["plans"][0]["last_error"])
    receiver = world.connected_receiver()
    world.sender().send(departures(ROW))
    until(lambda: receiver.frames, receiver)


def test_a_source_whose_port_is_taken_is_reported(world: World) -> None:
    world.start(with_source("zeromq", {"endpoint": f"127.0.0.1:{world.config.ingress.port}"}))
    until(lambda: f"cannot listen on 127.0.0.1:{world.config.ingress.port}" in world.health()["plans"][0]["last_error"])


def test_two_sources_cannot_have_one_path(world: World) -> None:
    source = Connector("Departures", "http", {}, "", {})
    world.start(msgspec.structs.replace(PLAN, sources=(source, source)))
    until(lambda: "is taken already" in world.health()["plans"][0]["last_error"])
    receiver = world.connected_receiver()
    assert requests.post(world.url("/KnockOnDelays/Departures"), json=EVENT, timeout=5).status_code == 202
    until(lambda: receiver.frames, receiver)


def test_a_source_of_a_stream_that_is_not_imported_is_reported(world: World) -> None:
    world.start(msgspec.structs.replace(PLAN, sources=(Connector("Alerts", "http", {}, "", {}),)))
    until(lambda: "of stream Alerts: the stream needs @Import" in world.health()["plans"][0]["last_error"])
