"""Sinks with several destinations: what each gets, and what becomes of the events of one that fails."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import msgspec
import pyarrow as pa
import pytest
import zmq
from worker_hook import Hook
from worker_world import ALERTS, PLAN, World, alerts, sink_context, until

from cep_common.protocol.registry import CheckpointSpan, DeployedPlan, PlanCheckpoints
from cep_common.protocol.worker_reports import WrittenTopicReport
from cep_worker.config import SinkConfig
from cep_worker.plans.extensions import ConnectorExtension
from cep_worker.runtime.event_loop import EventLoop
from cep_worker.sinks import distribution
from cep_worker.sinks.base import EventSink
from cep_worker.sinks.distribution import RoundRobinSink, shared_rows
from query_plan.connectors.distribution import DestinationShare
from query_plan.connectors.reading import read_connectors
from siddhi.analysis.analyser import analyse
from siddhi.language.parser import parse

CARRIERS = ("UA", "AA", "DL", "B6", "", "x" * 40)
OF_TWO = {"UA": 0, "UB": 1}
"""By `Math.abs("UA".hashCode() % 2)` of Java: 2700 and 2701."""


def with_sink(annotation: str) -> DeployedPlan:
    """The plan with the sink that the annotation declares, as a compiler tells workers of it."""
    app = parse(f"{annotation} define stream Alerts (carrier string, late long); from Alerts select * insert into X;")
    return msgspec.structs.replace(PLAN, sinks=read_connectors(analyse(app), "sink"))


def java_hash(text: str) -> int:
    value = 0
    for character in text:
        value = (31 * value + ord(character)) & 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value


@pytest.fixture
def hooks() -> Iterator[list[Hook]]:
    made = [Hook(), Hook()]
    yield made
    for one in made:
        one.close()


def late(hook: Hook) -> list[int]:
    return [one["event"]["late"] for one in hook.events(hook.taken)]


def http(strategy: str, hooks: list[Hook]) -> DeployedPlan:
    key = "partitionKey='carrier', " if strategy == "partitioned" else ""
    each = ", ".join(f"@destination(publisher.url='{one.url}')" for one in hooks)
    return with_sink(
        f"@sink(type='http', batch.rows='1', @map(type='json'), @distribution(strategy='{strategy}', {key}{each}))"
    )


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_events_are_shared_out_by_javas_hash_code_of_the_key(count: int) -> None:
    batch = alerts(*((n, carrier, n) for n, carrier in enumerate(CARRIERS)))
    rows = [shared_rows(batch, DestinationShare("carrier", index, count), ALERTS) for index in range(count)]
    found = [batch.take(pa.array(one)) for one in rows]
    wanted: list[list[str]] = [[] for _ in range(count)]
    for carrier in CARRIERS:
        wanted[abs(java_hash(carrier)) % count].append(carrier)
    assert [one.column("carrier").to_pylist() for one in found] == wanted


def test_a_key_without_value_has_a_destination_too() -> None:
    batch = alerts((1, "UA", 1)).set_column(2, "carrier", pa.array([None], pa.string()))
    rows = [len(shared_rows(batch, DestinationShare("carrier", index, 5), ALERTS)) for index in range(5)]
    assert rows.index(1) == abs(java_hash("null")) % 5
    assert sum(rows) == 1


def test_each_strategy_gives_destinations_what_it_says(world: World, tmp_path: Path) -> None:
    def sink(strategy: str) -> str:
        each = ", ".join(f"@destination(file.uri='{tmp_path}/{strategy}-{one}')" for one in (0, 1))
        key = "partitionKey='late', " if strategy == "partitioned" else ""
        return f"@sink(type='file', @distribution(strategy='{strategy}', {key}{each}))"

    world.start(with_sink(" ".join(map(sink, ("broadcast", "partitioned", "roundRobin")))))
    publisher = world.publisher().open()
    for number in range(6):
        publisher.send("Alerts", alerts((number, "UA", number)))

    def found(strategy: str) -> list[list[int]]:
        files = [tmp_path / f"{strategy}-{one}" for one in (0, 1)]
        lines = [one.read_text().splitlines() if one.exists() else [] for one in files]
        return [[json.loads(line)["late"] for line in each] for each in lines]

    until(lambda: found("broadcast") == [[0, 1, 2, 3, 4, 5]] * 2, publisher)
    until(lambda: found("partitioned") == [[0, 2, 4], [1, 3, 5]], publisher)
    until(lambda: found("roundRobin") == [[0, 2, 4], [1, 3, 5]], publisher)
    until(lambda: not publisher.link.outbox.pending, publisher)


@pytest.mark.parametrize("strategy", ["broadcast", "partitioned"])
def test_a_dead_destination_holds_up_no_other_and_gets_its_events_later(
    world: World, hooks: list[Hook], strategy: str
) -> None:
    hooks[0].status = 503
    world.start(http(strategy, hooks))
    publisher = world.publisher().open()
    carriers = ["UA", "UB"] * 5
    for number, carrier in enumerate(carriers):
        publisher.send("Alerts", alerts((number, carrier, number)))
    of = [[n for n in range(10) if strategy == "broadcast" or OF_TWO[carriers[n]] == one] for one in (0, 1)]
    until(lambda: late(hooks[1]) == of[1], publisher)
    until(lambda: "503" in world.health()["plans"][0]["last_error"], publisher)
    hooks[0].status = 200
    until(lambda: late(hooks[0]) == of[0], publisher)
    until(lambda: not publisher.link.outbox.pending, publisher)


def test_others_get_the_events_of_a_dead_destination_until_it_is_back(
    world: World, hooks: list[Hook], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(distribution, "FAILING_MS", 200)
    monkeypatch.setattr(distribution, "AGAIN_MS", 1_000)
    hooks[0].status = 503
    world.start(http("roundRobin", hooks))
    publisher = world.publisher().open()
    for number in range(10):
        publisher.send("Alerts", alerts((number, "UA", number)))
    until(lambda: sorted(late(hooks[1])) == [*range(10)], publisher)
    until(lambda: not publisher.link.outbox.pending, publisher)
    assert late(hooks[0]) == []
    assert "destination 1 of 2" in world.health()["plans"][0]["last_error"]
    hooks[0].status = 200
    until(lambda: not world.health()["plans"][0]["last_error"], publisher)
    for number in range(10, 14):
        publisher.send("Alerts", alerts((number, "UA", number)))
    until(lambda: sorted(late(hooks[0]) + late(hooks[1])) == [*range(14)], publisher)
    assert late(hooks[0])


def test_an_event_of_an_exactly_once_plan_keeps_its_destination(world: World, hooks: list[Hook]) -> None:
    hooks[0].status = 503
    world.manager.checkpoints = (PlanCheckpoints(PLAN.key, (CheckpointSpan(7, 0, 1),)),)
    plan = msgspec.structs.replace(http("roundRobin", hooks), delivery="exactly-once")
    world.start(plan)
    publisher = world.publisher(plan).open()
    for number in range(6):
        publisher.send("Alerts", alerts((number, "UA", number)))
    publisher.mark(1)
    until(lambda: len(late(hooks[1])) == 3 and hooks[0].bodies, publisher)
    hooks[0].status = 200
    until(lambda: sorted(late(hooks[0]) + late(hooks[1])) == [*range(6)], publisher)


def test_a_sink_of_which_one_destination_cannot_run_is_reported(world: World, tmp_path: Path) -> None:
    world.start(
        with_sink(
            f"@sink(type='file', @distribution(strategy='roundRobin', @destination(file.uri='{tmp_path}/x'), "
            "@destination(file.uri='/nowhere/at/all')))"
        )
    )
    until(lambda: "/nowhere/at/all" in world.health()["plans"][0]["last_error"])


class TopicSink:
    """A sink that has written to a topic, and has an event that it cannot deliver if it has a `problem`."""

    passes_on = True
    dropped_events = 0
    transactions = None

    def __init__(self, messages: int, problem: str) -> None:
        self.written = (WrittenTopicReport("alerts", messages),)
        self.delivered_events = messages
        self._problem = problem

    def tick(self, now_ms: int) -> None:
        """Do nothing."""

    def drained(self) -> bool:
        return not self._problem

    def waiting_events(self) -> int:
        return 1 if self._problem else 0

    def last_error(self) -> str:
        return self._problem

    def close(self, successor: EventSink | None = None) -> None:
        self._problem = ""

    def leave(self) -> None:
        self.close()


def test_counts_of_a_destination_stay_when_its_sink_is_replaced(context: zmq.Context[Any]) -> None:
    (sink,) = with_sink(
        "@sink(type='log', @distribution(strategy='roundRobin', @destination(prefix='a'), @destination(prefix='b')))"
    ).sinks
    made = iter([TopicSink(5, "it is away"), TopicSink(7, ""), TopicSink(0, "")])
    shared = RoundRobinSink(sink_context(sink, EventLoop(), context), lambda _: cast("EventSink", next(made)))
    counted = [(shared.written, shared.delivered_events)]
    for now_ms in (0, distribution.FAILING_MS, 2 * distribution.FAILING_MS):
        shared.tick(now_ms)
        counted.append((shared.written, shared.delivered_events))
    assert next(made, None) is None, "the destination that failed has another sink"
    assert counted == [((WrittenTopicReport("alerts", 12),), 12)] * 4


@pytest.mark.parametrize("strategy", ["partitioned", "roundRobin"])
def test_events_of_a_frame_have_different_keys_at_all_destinations(
    world: World, hooks: list[Hook], strategy: str
) -> None:
    plan = msgspec.structs.replace(http(strategy, hooks), delivery="exactly-once")
    world.manager.checkpoints = (PlanCheckpoints(PLAN.key, (CheckpointSpan(7, 0, 1),)),)
    world.start(plan)
    publisher = world.publisher(plan).open()
    publisher.send("Alerts", alerts(*((n, ("UA", "UB")[n % 2], n) for n in range(6))))
    publisher.mark(1)
    until(lambda: sorted(late(hooks[0]) + late(hooks[1])) == [*range(6)], publisher)
    keys = [headers["Idempotency-Key"] for one in hooks for headers in one.headers]
    assert len({*keys}) == len(keys) == 6


def test_a_destination_in_place_of_the_operators_needs_permission(
    make_world: Callable[..., World], hooks: list[Hook]
) -> None:
    defaults = {"name": "http", "namespace": "sink", "properties": {"publisher.url": hooks[0].url}}
    entry = msgspec.convert({"extension": defaults}, ConnectorExtension)
    world = make_world(extensions=(entry,), sinks=SinkConfig())
    world.start(
        with_sink(
            "@sink(type='http', @map(type='json'), @distribution(strategy='roundRobin', "
            f"@destination(timeout.ms='1000'), @destination(publisher.url='{hooks[1].url}')))"
        )
    )
    until(lambda: "sinks.urls" in world.health()["plans"][0]["last_error"])
