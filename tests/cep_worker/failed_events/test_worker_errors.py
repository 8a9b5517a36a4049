"""Events that fail at a worker: kept, listed, replayed and discarded over its HTTP interface."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import requests
import sqlalchemy
from failing_departures import faults, storing
from worker_hook import Hook
from worker_world import ALERTS, KEY, PLAN, World, alerts, until

from cep_common.ids import PlanKey
from cep_common.protocol.registry import Connector, DeployedPlan, StreamBinding
from cep_worker.config import ArtefactConfig, ErrorsConfig
from cep_worker.failed_events.store import FailedEventStore
from cep_worker.worker import Worker

TWO = alerts((5, "UA", 3), (6, "AA", 4))


def with_sink(kind: str, options: dict[str, str], *more: Connector) -> DeployedPlan:
    return msgspec.structs.replace(PLAN, sinks=(Connector("Alerts", kind, options, "", {}), *more))


def listed(world: World, **parameters: Any) -> Any:
    answer = requests.get(world.url("/errors"), params={"plan": KEY.plan, **parameters}, timeout=5)
    assert answer.status_code == 200, answer.text
    return answer.json()


def act(world: World, action: str, **choice: Any) -> Any:
    answer = requests.post(world.url(f"/errors/{action}"), json={"plan": KEY.plan, **choice}, timeout=15)
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.fixture
def hook() -> Iterator[Hook]:
    made = Hook()
    yield made
    made.close()


def refused_by(world: World, hook: Hook, **options: str) -> Any:
    """The entry of two events that the web hook did not want."""
    hook.status = 400
    world.start(with_sink("http", {"publisher.url": hook.url, "on.error": "store", **options}))
    world.publisher().open().send("Alerts", TWO)
    until(lambda: listed(world)["found"])
    (entry,) = listed(world)["entries"]
    return entry


def test_what_a_web_hook_refuses_is_kept_with_the_reason_and_delivered_by_a_replay(world: World, hook: Hook) -> None:
    entry = refused_by(world, hook)
    assert (entry["kind"], entry["stream"], entry["sink"]) == ("sink", "Alerts", "http")
    assert entry["reason"].startswith("refused with status 400")
    assert entry["events"] == [
        {"_timestamp": 5, "carrier": "UA", "late": 3}, {"_timestamp": 6, "carrier": "AA", "late": 4}
    ]  # fmt: skip
    assert all(not plan["last_error"] or "2 events kept" in plan["last_error"] for plan in world.health()["plans"])
    metrics = requests.get(world.url("/metrics"), timeout=5).text
    assert re.search(r"^cep_failed_events\{[^}]*\} 1.0$", metrics, re.MULTILINE)
    hook.bodies.clear()
    told = act(world, "replay", all=True)
    assert told["replayed"] == 0
    assert [(one["id"], one["code"]) for one in told["refused"]] == [(entry["id"], "failed-again")]
    assert listed(world)["found"] == 1, "what fails again stays"
    hook.status = 200
    hook.bodies.clear()
    told = act(world, "replay", ids=[entry["id"]])
    assert (told["replayed"], told["events"], told["refused"], told["left"]) == (1, 2, [], 0)
    assert [one["event"]["carrier"] for one in hook.events()] == ["UA", "AA"]
    assert listed(world) == {"found": 0, "entries": []}


def test_what_is_given_up_after_some_tries_is_kept_too(world: World, hook: Hook) -> None:
    hook.status = 503
    world.start(with_sink("http", {"publisher.url": hook.url, "on.error": "STORE", "retry.count": "1"}))
    world.publisher().open().send("Alerts", TWO)
    until(lambda: listed(world)["found"])
    assert "dropped after 2 attempts: status 503" in listed(world)["entries"][0]["reason"]


def test_of_a_batch_only_the_requests_that_failed_are_kept(
    world: World, hook: Hook, monkeypatch: pytest.MonkeyPatch
) -> None:
    handler: Any = hook.server.RequestHandlerClass
    take = handler.do_POST

    def choose(self: Any) -> None:
        hook.status = 400 if len(hook.bodies) == 1 else 200
        take(self)

    monkeypatch.setattr(handler, "do_POST", choose)
    world.start(with_sink("http", {"publisher.url": hook.url, "on.error": "STORE", "batch.rows": "1"}))
    world.publisher().open().send("Alerts", alerts((1, "UA", 1), (2, "AA", 2), (3, "DL", 3)))
    until(lambda: len(hook.bodies) == 3 and listed(world)["found"])
    (entry,) = listed(world)["entries"]
    assert [event["carrier"] for event in entry["events"]] == ["AA"]


def test_entries_outlive_the_worker(world: World, hook: Hook) -> None:
    entry = refused_by(world, hook)
    assert world.worker is not None
    world.worker.stop()
    world.worker = Worker(world.config)
    world.worker.start()
    until(world.reports)
    assert listed(world)["entries"] == [entry]
    hook.status = 200
    until(lambda: act(world, "replay", ids=[entry["id"]])["replayed"] == 1)
    assert listed(world)["found"] == 0


def test_what_a_leaving_worker_gives_up_is_not_kept_for_it_comes_again(world: World, hook: Hook) -> None:
    hook.status = 503
    world.start(with_sink("http", {"publisher.url": hook.url, "on.error": "STORE", "retry.count": "1000"}))
    world.publisher().open().send("Alerts", TWO)
    until(lambda: hook.bodies)
    assert world.worker is not None
    world.worker.stop()
    world.worker = None
    store = FailedEventStore(world.config.errors, "worker-1", lambda: 0)
    store.open_existing()
    assert store.counts() == {}
    store.close()


def test_without_store_nothing_is_kept(world: World, hook: Hook) -> None:
    hook.status = 400
    world.start(with_sink("http", {"publisher.url": hook.url}))
    world.publisher().open().send("Alerts", TWO)
    until(lambda: "2 events dropped" in world.health()["plans"][0]["last_error"])
    assert listed(world)["found"] == 0


def test_a_full_store_drops_counts_and_says_so(make_world: Callable[..., World], hook: Hook, tmp_path: Path) -> None:
    world = make_world(errors=ErrorsConfig(str(tmp_path / "small"), max_entries=1))
    hook.status = 400
    world.start(with_sink("http", {"publisher.url": hook.url, "on.error": "STORE"}))
    publisher = world.publisher().open()
    publisher.send("Alerts", TWO)
    until(lambda: listed(world)["found"] == 1, publisher)
    publisher.send("Alerts", TWO)
    until(lambda: "2 events dropped" in world.health()["plans"][0]["last_error"], publisher)
    assert "errors.max_entries" in world.health()["plans"][0]["last_error"]
    assert listed(world)["found"] == 1


def test_rows_that_a_database_refuses_are_kept_and_inserted_once_it_takes_them(world: World, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'alerts.db'}"
    engine = sqlalchemy.create_engine(url)
    with engine.begin() as connection:
        connection.exec_driver_sql("create table alerts (carrier text unique, late bigint)")
        connection.exec_driver_sql("insert into alerts values ('UA', 0)")
    world.start(with_sink("rdbms", {"url": url, "table.name": "alerts", "on.error": "STORE"}))
    world.publisher().open().send("Alerts", TWO)
    until(lambda: listed(world)["found"])
    (entry,) = listed(world)["entries"]
    assert [event["carrier"] for event in entry["events"]] == ["UA"]
    assert "UNIQUE constraint failed" in entry["reason"]
    with engine.begin() as connection:
        connection.exec_driver_sql("delete from alerts where late = 0")
    assert act(world, "replay", all=True)["replayed"] == 1
    with engine.begin() as connection:
        rows = connection.exec_driver_sql("select carrier, late from alerts order by carrier").all()
    assert [tuple(row) for row in rows] == [("AA", 4), ("UA", 3)]
    engine.dispose()


def test_a_replay_goes_to_the_sink_that_failed_and_not_to_its_neighbour(world: World, hook: Hook) -> None:
    other = Hook()
    try:
        more = Connector("Alerts", "http", {"publisher.url": other.url, "on.error": "STORE"}, "", {})
        other.status = 400
        world.start(with_sink("http", {"publisher.url": hook.url, "on.error": "STORE"}, more))
        world.publisher().open().send("Alerts", TWO)
        until(lambda: listed(world)["found"] and hook.bodies)
        (entry,) = listed(world)["entries"]
        assert entry["sink"] == "http#2"
        hook.bodies.clear()
        other.status = 200
        other.bodies.clear()
        assert act(world, "replay", all=True)["events"] == 2
        assert len(other.bodies) == 1
        assert hook.bodies == []
    finally:
        other.close()


def test_an_edited_sink_takes_what_its_former_self_could_not_deliver(world: World, hook: Hook) -> None:
    entry = refused_by(world, hook)
    hook.status = 200
    hook.bodies.clear()
    moved = with_sink("http", {"publisher.url": f"{hook.url}/moved", "on.error": "STORE"})
    world.manager.deploy(msgspec.structs.replace(moved, epoch=PLAN.epoch + 1))
    until(lambda: world.reports()[0].epoch == PLAN.epoch + 1)
    assert act(world, "replay", ids=[entry["id"]])["replayed"] == 1
    assert len(hook.events()) == 2


def test_a_sink_that_is_gone_is_told_of_and_its_entry_stays_until_it_is_discarded(world: World, hook: Hook) -> None:
    entry = refused_by(world, hook)
    world.manager.deploy(msgspec.structs.replace(PLAN, epoch=PLAN.epoch + 1))
    until(lambda: world.reports()[0].epoch == PLAN.epoch + 1)
    (refused,) = act(world, "replay", all=True)["refused"]
    assert (refused["id"], refused["code"]) == (entry["id"], "no-sink")
    assert act(world, "discard", ids=["nobody", entry["id"]]) == {"discarded": 1}
    assert listed(world)["found"] == 0


def test_events_that_failed_in_a_query_come_back_into_their_stream_by_a_replay(world: World) -> None:
    world.start(storing())
    receiver = world.connected_receiver()
    publisher = world.publisher(storing()).open()
    publisher.send("Departures_errors", faults((5, "UA", 0, "division"), (6, "AA", 0, "division"), (7, "DL", 1, "x")))
    until(lambda: listed(world)["found"] == 2, publisher, receiver)
    first, second = listed(world)["entries"]
    assert (first["kind"], first["stream"], first["query"], first["reason"]) == (
        "stream", "Departures", "Ratios", "division"
    )  # fmt: skip
    assert [event["carrier"] for event in first["events"]] == ["UA", "AA"]
    assert "_error" not in first["events"][0]
    told = act(world, "replay", ids=[first["id"]])
    assert (told["replayed"], told["events"]) == (1, 2)
    until(lambda: len(receiver.rows()) == 2, receiver)
    assert receiver.rows() == [(5, "UA", 0, 1.5), (6, "AA", 0, 1.5)]
    assert [entry["id"] for entry in listed(world)["entries"]] == [second["id"]]


def test_a_stream_that_nothing_feeds_from_outside_is_not_replayed_and_says_why(world: World) -> None:
    plan = storing(imported=())
    world.start(plan)
    world.publisher(plan).open().send("Departures_errors", faults((5, "UA", 0, "division")))
    until(lambda: listed(world)["found"])
    (refused,) = act(world, "replay", all=True)["refused"]
    assert refused["code"] == "no-inflow"
    assert "accepts no external events" in refused["reason"]
    assert listed(world)["found"] == 1


def test_events_of_a_stream_with_other_attributes_now_stay(world: World) -> None:
    world.start(storing())
    world.publisher(storing()).open().send("Departures_errors", faults((5, "UA", 0, "division")))
    until(lambda: listed(world)["found"])
    binding = StreamBinding("Departures", "Departures:1.0.0", ALERTS)
    world.manager.deploy(msgspec.structs.replace(storing(imported=(binding,)), epoch=PLAN.epoch + 1))
    until(lambda: world.reports()[0].epoch == PLAN.epoch + 1)
    assert act(world, "replay", all=True)["replayed"] == 1, "the carrier is there still, what is new is null"


def test_events_whose_attribute_has_another_type_now_stay(world: World) -> None:
    world.start(storing())
    world.publisher(storing()).open().send("Departures_errors", faults((5, "UA", 0, "division")))
    until(lambda: listed(world)["found"])
    binding = StreamBinding("Departures", "Departures:1.0.0", (("carrier", "int"), ("dep_delay", "long")))
    world.manager.deploy(msgspec.structs.replace(storing(imported=(binding,)), epoch=PLAN.epoch + 1))
    until(lambda: world.reports()[0].epoch == PLAN.epoch + 1)
    (refused,) = act(world, "replay", all=True)["refused"]
    assert refused["code"] == "schema-mismatch"
    assert "carrier was string and is int now" in refused["reason"]


def test_an_undeployed_plan_leaves_no_entries_behind(world: World, hook: Hook) -> None:
    refused_by(world, hook)
    world.closing.pop().close()  # its topology has ended
    world.manager.deploy()
    until(lambda: listed(world)["found"] == 0)


def test_what_a_sink_of_several_plans_keeps_stays_when_the_first_of_them_is_undeployed(
    make_world: Callable[..., World], hook: Hook, tmp_path: Path
) -> None:
    options = f"{{publisher.url: '{hook.url}', on.error: STORE}}"
    (tmp_path / "all.yaml").write_text(f"stream: Alerts\ntype: http\noptions: {options}\n")
    world = make_world(artefacts=ArtefactConfig(sinks=str(tmp_path)))
    hook.status = 400
    other = msgspec.structs.replace(PLAN, key=PlanKey(-1234, "Other"), imported=())
    world.start(PLAN, other)
    publisher = world.publisher(other).open()
    world.manager.deploy(other)
    until(lambda: [plan["plan"] for plan in world.health()["plans"]] == ["Other"], publisher)
    publisher.send("Alerts", TWO)
    until(lambda: listed(world, plan="Other")["found"], publisher)
    hook.status = 200
    assert act(world, "replay", plan="Other", all=True)["events"] == 2


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/errors?plan=P&limit=0", None),
        ("GET", "/errors?plan=P&limit=x", None),
        ("GET", "/errors?plan=P&limit=000000001000", None),
        ("GET", f"/errors?plan=P&limit={'0' * 8}{'1' * 5_000}", None),
        ("GET", "/errors?plan=P&limt=3", None),
        ("POST", "/errors/replay", {"plan": "P"}),
        ("POST", "/errors/replay", {"plan": "P", "ids": ["a"], "all": True}),
        ("POST", "/errors/discard", {"ids": ["a"]}),
        ("POST", "/errors/discard", {"plan": "P", "ids": ["a"] * 101}),
        ("POST", "/errors/discard", [1]),
    ],
)
def test_requests_that_say_nothing_clear_are_refused(world: World, method: str, path: str, body: Any) -> None:
    world.start(PLAN)
    answer = requests.request(method, world.url(path), json=body, timeout=5)
    assert answer.status_code == 400, answer.text
    assert answer.json()["code"] in ("bad-request", "unknown-parameter")


@pytest.mark.parametrize("header", [("Origin", "http://elsewhere.example"), ("Sec-Fetch-Site", "cross-site")])
def test_a_page_in_a_browser_discards_nothing(world: World, hook: Hook, header: tuple[str, str]) -> None:
    refused_by(world, hook)
    body = json.dumps({"plan": KEY.plan, "all": True})
    for action in ("discard", "replay"):
        answer = requests.post(world.url(f"/errors/{action}"), data=body, headers=dict([header]), timeout=15)
        assert (answer.status_code, answer.json()["code"]) == (403, "cross-site")
    assert listed(world)["found"] == 1


def test_another_tenant_sees_nothing(world: World, hook: Hook) -> None:
    entry = refused_by(world, hook)
    assert listed(world, tenant=7)["found"] == 0
    answer = requests.post(
        world.url("/errors/discard?tenant=7"), json={"plan": KEY.plan, "ids": [entry["id"]]}, timeout=5
    )
    assert answer.json() == {"discarded": 0}
    assert listed(world)["found"] == 1
