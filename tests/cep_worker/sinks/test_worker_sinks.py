"""Sinks of each type behind a real worker, and sinks that cannot run."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from free_ports import free_port
from worker_hook import Hook
from worker_world import ALERTS, OPEN_SINKS, PLAN, FakeReceiver, World, alerts, until

from cep_common.ids import PlanKey
from cep_common.protocol.registry import Connector, DeployedPlan, StreamBinding
from cep_worker.config import ArtefactConfig
from cep_worker.connector_runtime import running_sinks

TWO = alerts((5, "UA", 3), (6, "AA", 4))


def with_sink(kind: str, options: dict[str, str], mapper: str = "", **mapper_options: str) -> DeployedPlan:
    return msgspec.structs.replace(PLAN, sinks=(Connector("Alerts", kind, options, mapper, mapper_options),))


@pytest.fixture
def hook() -> Iterator[Hook]:
    made = Hook()
    yield made
    made.close()


def test_a_file_gets_a_line_for_each_event_behind_what_it_held(world: World, tmp_path: Path) -> None:
    file = tmp_path / "alerts.ndjson"
    file.write_text('{"half": ')
    world.start(with_sink("file", {"file.uri": f"file:{file}"}))
    world.publisher().open().send("Alerts", TWO)
    lines = ['{"half": ', '{"_timestamp":5,"carrier":"UA","late":3}', '{"_timestamp":6,"carrier":"AA","late":4}']
    until(lambda: file.read_text().splitlines() == lines)


@pytest.mark.parametrize("prepared", ["", "carrier,late\nDL,5\n"])
def test_a_file_of_csv_begins_with_its_header_once(world: World, tmp_path: Path, prepared: str) -> None:
    file = tmp_path / "alerts.csv"
    file.write_text(prepared)
    world.start(with_sink("file", {"file.uri": str(file)}, "csv", header="true"))
    publisher = world.publisher().open()
    publisher.send("Alerts", TWO)
    publisher.send("Alerts", TWO)
    until(lambda: file.read_text() == (prepared or "carrier,late\n") + "UA,3\nAA,4\n" * 2)


def test_a_log_of_csv_has_its_header_first(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.start(with_sink("log", {"priority": "WARN", "prefix": "p"}, "csv", header="true"))
    world.publisher().open().send("Alerts", TWO)
    logger = logging.getLogger("cep_worker.sinks.log").name
    until(lambda: len([record for record in caplog.records if record.name == logger]) == 3)
    told = [record.getMessage() for record in caplog.records if record.name == logger]
    assert told == ["p : carrier,late", "p : UA,3", "p : AA,4"]


@pytest.mark.parametrize(
    ("mapper", "body"),
    [
        ("csv", b"UA,3\nAA,4\n"),
        (
            "xml",
            (
                b"<events><event><carrier>UA</carrier><late>3</late></event>"
                b"<event><carrier>AA</carrier><late>4</late></event></events>"
            ),
        ),
    ],
)
def test_a_web_hook_gets_all_events_of_a_request_as_one_body(
    world: World, hook: Hook, mapper: str, body: bytes
) -> None:
    world.start(with_sink("http", {"publisher.url": hook.url}, mapper))
    world.publisher().open().send("Alerts", TWO)
    until(lambda: len(hook.bodies) == 1)
    assert hook.bodies == [body]
    assert mapper in hook.headers[0]["Content-Type"]


def test_the_log_sink_writes_each_event(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.start(with_sink("log", {"priority": "WARN"}, "json"))
    world.publisher().open().send("Alerts", TWO)
    logger = logging.getLogger("cep_worker.sinks.log").name
    until(lambda: len([record for record in caplog.records if record.name == logger]) == 2)
    record = next(record for record in caplog.records if record.name == logger)
    assert record.levelno == logging.WARNING
    assert record.getMessage() == 'KnockOnDelays : Alerts : {"event":{"carrier":"UA","late":3}}'


@pytest.mark.parametrize(("priority", "levels"), [("FATAL", {50}), ("Trace", {10}), ("OFF", set())])
def test_the_log_sink_has_all_priorities_of_siddhi(
    world: World, caplog: pytest.LogCaptureFixture, tmp_path: Path, priority: str, levels: set[int]
) -> None:
    caplog.set_level(logging.DEBUG, "cep_worker.sinks.log")
    file = tmp_path / "alerts.ndjson"
    kept = {"file.uri": str(file), "append": "TRUE", "add.line.separator": "true"}
    sinks = [Connector("Alerts", "log", {"priority": priority}, "", {}), Connector("Alerts", "file", kept, "", {})]
    world.start(msgspec.structs.replace(PLAN, sinks=tuple(sinks)))
    publisher = world.publisher().open()
    publisher.send("Alerts", TWO)
    until(lambda: len(file.read_text().splitlines()) == 2 and not publisher.link.unacknowledged(), publisher)
    assert {record.levelno for record in caplog.records if record.name == "cep_worker.sinks.log"} == levels


def test_a_web_hook_gets_events_with_headers_in_requests_of_the_asked_size(world: World, hook: Hook) -> None:
    options = {"publisher.url": hook.url, "headers": "'X-Key: secret','X-Other:b'", "batch.rows": "1"}
    world.start(with_sink("http", options))
    world.publisher().open().send("Alerts", TWO)
    until(lambda: len(hook.bodies) == 2)
    assert hook.bodies == [b'{"event":{"carrier":"UA","late":3}}', b'{"event":{"carrier":"AA","late":4}}']
    assert (hook.headers[0]["X-Key"], hook.headers[0]["X-Other"]) == ("secret", "b")
    assert hook.headers[0]["Content-Type"] == "application/json"


def test_a_single_header_may_stand_without_quotes(world: World, hook: Hook) -> None:
    world.start(with_sink("http", {"publisher.url": hook.url, "headers": "Accept-Date:20/02/2017"}))
    world.publisher().open().send("Alerts", TWO)
    until(lambda: len(hook.bodies) == 1)
    assert hook.headers[0]["Accept-Date"] == "20/02/2017"


@pytest.mark.parametrize("headers", ["A: b\nC: d", '{"X-Key":"b"}', '"A: b"', "[A:b]", "A B: c", "A"])
def test_headers_that_are_none_are_refused_when_the_plan_starts(world: World, hook: Hook, headers: str) -> None:
    world.start(with_sink("http", {"publisher.url": hook.url, "headers": headers}))
    until(lambda: "headers: must be 'Name: value'" in world.health()["plans"][0]["last_error"])


def test_an_option_that_holds_a_template_is_told_without_the_rest_of_it(world: World, hook: Hook) -> None:
    options = {"publisher.url": hook.url, "token.url": "hush {{late}}", "basic.auth.password": "a{{b}}"}
    world.start(with_sink("http", options))
    until(lambda: world.health()["plans"][0]["last_error"])
    told = world.health()["plans"][0]["last_error"]
    assert "token.url: {{late}} cannot differ from event to event" in told
    assert "hush" not in told
    assert "password" not in told


@pytest.mark.parametrize(("enabled", "sent"), [("true", "Basic YWRtaW46aHVzaA=="), ("false", None)])
def test_a_web_hook_is_told_who_sends(world: World, hook: Hook, enabled: str, sent: str | None) -> None:
    who = {"basic.auth.enabled": enabled, "basic.auth.username": "admin", "basic.auth.password": "hush"}
    world.start(with_sink("http", {"publisher.url": hook.url} | who))
    world.publisher().open().send("Alerts", TWO)
    until(lambda: len(hook.bodies) == 1)
    assert hook.headers[0].get("Authorization") == sent


def test_a_web_hook_that_fails_is_tried_again_and_the_plan_waits(make_world: Callable[..., World], hook: Hook) -> None:
    world = make_world(sinks=msgspec.structs.replace(OPEN_SINKS, waiting_rows=4))
    hook.status = 503
    world.start(with_sink("http", {"publisher.url": hook.url}))
    publisher = world.publisher().open()
    for number in range(10):
        publisher.send("Alerts", alerts((number, "UA", number)))
    until(lambda: len(hook.bodies) >= 2, publisher)
    assert len(publisher.link.unacknowledged()) >= 5
    hook.status = 200
    until(lambda: not publisher.link.unacknowledged(), publisher)
    until(lambda: {event["event"]["late"] for event in hook.events()} == set(range(10)))


def test_events_that_a_web_hook_does_not_want_are_dropped_and_said(world: World, hook: Hook) -> None:
    hook.status = 422
    world.start(with_sink("http", {"publisher.url": hook.url}))
    publisher = world.publisher().open()
    publisher.send("Alerts", TWO)
    until(lambda: "2 events dropped" in world.health()["plans"][0]["last_error"])
    assert "status 422" in world.health()["plans"][0]["last_error"]
    hook.status = 200
    publisher.send("Alerts", alerts((7, "DL", 1)))
    until(lambda: world.health()["plans"][0]["last_error"] == "")
    assert len(hook.bodies) == 2


def test_a_web_hook_may_be_given_up(world: World) -> None:
    options = {"publisher.url": f"http://127.0.0.1:{free_port()}/x", "on.error": "LOG", "retry.count": "1"}
    world.start(with_sink("http", options))
    world.publisher().open().send("Alerts", TWO)
    until(lambda: "dropped after 2 attempts: ConnectionError" in world.health()["plans"][0]["last_error"])


def test_a_zeromq_sink_sends_batches_and_connects_again(world: World) -> None:
    port = free_port()
    world.start(with_sink("zeromq", {"endpoint": f"tcp://127.0.0.1:{port}", "stream": "Late"}))
    publisher = world.publisher().open()
    publisher.send("Alerts", TWO)
    receiver = FakeReceiver(world.context, port=port)
    world.receivers.append(receiver)
    until(lambda: len(receiver.rows()) == 2, receiver)
    assert receiver.openings[-1].streams[0].stream == "Late"
    assert receiver.openings[-1].streams[0].attributes == ALERTS
    assert receiver.rows() == [(5, "UA", 3), (6, "AA", 4)]


def test_every_sink_and_listener_of_a_stream_gets_its_events(world: World, tmp_path: Path, hook: Hook) -> None:
    file = tmp_path / "a.ndjson"
    sinks = (
        Connector("Alerts", "file", {"file.uri": str(file)}, "", {}),
        Connector("Alerts", "http", {"publisher.url": hook.url}, "", {}),
    )
    world.start(msgspec.structs.replace(PLAN, sinks=sinks))
    listener = world.listener()
    world.publisher().open().send("Alerts", TWO)
    batch = listener.receive(5_000)
    assert batch is not None
    assert batch.num_rows == 2
    until(lambda: len(hook.events()) == 2 and len(file.read_text().splitlines()) == 2)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        (
            "telegram",
            {},
            "unknown type of sink telegram; known types: email, file, http, inMemory, kafka, log, rdbms, zeromq",
        ),
        ("file", {}, "missing required option file.uri"),
        ("file", {"file.url": "x"}, "unknown option file.url; did you mean 'file.uri'?"),
        ("file", {"file.uri": "/nowhere/at/all"}, "file.uri: /nowhere/at/all: No such file or directory"),
        ("http", {"publisher.url": "ftp://x"}, "publisher.url: must be http://"),
        ("http", {"publisher.url": "http://x", "headers": "X=y"}, "headers: must be"),
        ("http", {"publisher.url": "http://x", "headers": "X: y,Z: a"}, "headers: must be"),
        ("http", {"publisher.url": "http://x", "basic.auth.username": "a"}, "basic.auth.password go together"),
        ("http", {"publisher.url": "http://x", "basic.auth.enabled": "True"}, "enabled: needs basic.auth.username"),
        ("http", {"publisher.url": "http://x", "batch.rows": "0"}, "batch.rows: expected `int` >= 1"),
        (
            "http",
            {"publisher.url": "http://x", "on.error": "STAY"},
            "on.error: must be WAIT or LOG or STREAM or STORE, not 'STAY'",
        ),
        ("http", {"publisher.url": "http://x/{{carier}}"}, "publisher.url: no such attribute: carier"),
        ("http", {"publisher.url": "http://x", "batch.rows": "{{late}}"}, "batch.rows: {{late}} cannot differ from"),
        ("http", {"publisher.url": "http://x", "consumer.key": "a"}, "OAuth needs consumer.key, consumer.secret and"),
        ("file", {"file.uri": "/var/cep/{{nobody}}.txt"}, "file.uri: no such attribute: nobody"),
        ("file", {"file.uri": "/var/cep/x", "append": "false"}, "append: must be true, not 'false'"),
        ("log", {"priority": "LOUD"}, "priority: must be TRACE or DEBUG or INFO or WARN or ERROR or FATAL or OFF, not"),
        ("log", {"distribution.strategy": "roundRobin"}, "has no destination; write an @destination(…) for each"),
        ("zeromq", {"endpoint": "here"}, "endpoint: 'here' is not host:port"),
    ],
)
def test_a_sink_that_cannot_run_is_reported_and_the_rest_of_the_plan_runs(
    world: World, kind: str, options: dict[str, str], message: str
) -> None:
    world.start(with_sink(kind, options))
    until(lambda: message in world.health()["plans"][0]["last_error"])
    assert f"@sink(type='{kind}') of stream Alerts" in world.health()["plans"][0]["last_error"]
    listener = world.listener()
    world.publisher().open().send("Alerts", TWO)
    assert listener.receive(5_000) is not None


def test_a_sink_of_an_artefact_takes_an_event_stream_of_all_plans(
    make_world: Callable[..., World], tmp_path: Path
) -> None:
    file = tmp_path / "all.ndjson"
    (tmp_path / "all.yaml").write_text(f"stream: Alerts\ntype: file\noptions: {{file.uri: {file}}}\n")
    world = make_world(artefacts=ArtefactConfig(sinks=str(tmp_path)))
    swapped = (StreamBinding("A", "Alerts:1.0.0", tuple(reversed(ALERTS))),)
    other = msgspec.structs.replace(PLAN, key=PlanKey(-1234, "Other"), imported=(), exported=swapped)
    world.start(PLAN, other)
    world.publisher(PLAN).open().send("Alerts", alerts((1, "UA", 1)))
    world.publisher(other).open().send("A", alerts((2, "AA", 2)).select(["_timestamp", "_kind", "late", "carrier"]))
    expected = {'{"_timestamp":1,"carrier":"UA","late":1}', '{"_timestamp":2,"carrier":"AA","late":2}'}
    until(lambda: set(file.read_text().splitlines()) == expected)


def test_a_sink_of_an_undeployed_plan_delivers_what_it_has(world: World, hook: Hook) -> None:
    hook.status = 503
    world.start(with_sink("http", {"publisher.url": hook.url}))
    publisher = world.publisher().open()
    publisher.send("Alerts", TWO)
    until(lambda: hook.bodies, publisher)
    labels = Path(world.config.file_sources.positions) / "labels"
    until(lambda: len(list(labels.iterdir())) == 2, publisher)
    world.manager.deploy()
    until(lambda: world.health()["plans"] == [])
    hook.status = 200
    until(lambda: len(hook.events()) >= 4)
    assert list(labels.iterdir()), "its results may come yet"
    world.closing.pop().close()  # its topology has ended
    until(lambda: not list(labels.iterdir()))


def test_a_worker_that_leaves_delivers_first(world: World, tmp_path: Path) -> None:
    file = tmp_path / "alerts.ndjson"
    world.start(with_sink("file", {"file.uri": str(file)}))
    publisher = world.publisher().open()
    for number in range(200):
        publisher.send("Alerts", alerts((number, "UA", number)))
    until(lambda: not publisher.link.unacknowledged(), publisher)
    assert world.worker is not None
    world.worker.stop()
    world.worker = None
    assert len(file.read_text().splitlines()) == 200


@pytest.mark.parametrize("kind", ["http", "zeromq"])
def test_results_that_wait_when_the_worker_stops_are_delivered_by_the_next_one(
    world: World, hook: Hook, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    """They are not dropped, for their publisher sends them again."""
    hook.status = 503
    away = free_port()
    sink = {"http": {"publisher.url": hook.url}, "zeromq": {"endpoint": f"127.0.0.1:{away}"}}[kind]
    world.start(with_sink(kind, sink))
    publisher = world.publisher().open()
    publisher.send("Alerts", TWO)
    worker = world.worker
    assert worker is not None
    until(lambda: [one.waiting_events for one in worker._data.parts().connectors] == [2], publisher)
    worker.stop()
    world.worker = None
    assert any("undelivered events after" in one for one in caplog.messages)
    assert not [one for one in caplog.records if one.levelname == "ERROR"]
    assert len(publisher.link.unacknowledged()) == 1


@pytest.mark.parametrize("kind", ["http", "zeromq"])
def test_results_that_are_not_sent_again_are_reported_as_dropped_when_the_worker_stops(
    world: World, hook: Hook, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    """With at-most-once delivery the publisher has forgotten what a sink accepted."""
    hook.status = 503
    sink = {"http": {"publisher.url": hook.url}, "zeromq": {"endpoint": f"127.0.0.1:{free_port()}"}}[kind]
    world.start(msgspec.structs.replace(with_sink(kind, sink), delivery="at-most-once"))
    publisher = world.publisher().open()
    publisher.send("Alerts", TWO)
    worker = world.worker
    assert worker is not None
    until(lambda: [one.waiting_events for one in worker._data.parts().connectors] == [2], publisher)
    until(lambda: not publisher.link.unacknowledged(), publisher)
    worker.stop()
    world.worker = None
    until(lambda: any("dropped events" in one and "events=2" in one for one in caplog.messages))
    assert not [one for one in caplog.messages if "the next process delivers" in one]


def test_results_that_a_sink_could_not_deliver_to_its_end_are_told(
    world: World, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running_sinks, "ENDING_MS", 100)
    world.start(with_sink("http", {"publisher.url": f"http://127.0.0.1:{free_port()}/"}))
    world.publisher().open().send("Alerts", TWO)
    until(lambda: any("webhook failed" in one for one in caplog.messages))
    world.manager.deploy(PLAN)
    until(lambda: any("sink dropped events" in one for one in caplog.messages))
    told = next(one for one in caplog.messages if "sink dropped events" in one)
    assert "plan=KnockOnDelays[-1234] sink=@sink(type='http') of stream Alerts events=2 reason=" in told
