"""What a worker tells managers and does at their word, and that it continues without them."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable

import msgspec
import pytest
import requests
from free_ports import free_port
from worker_world import ALERTS, EVENT, KEY, PLAN, World, alerts, departures, until

from cep_common.errors import PortInUseError
from cep_common.ids import Endpoint, PlanKey
from cep_common.protocol.registry import (
    Connector,
    ListPlans,
    RegisterEndpoint,
    RegisterWorker,
    RequestEndpoint,
    StreamBinding,
)
from cep_worker.config import IngressConfig, OutflowConfig
from cep_worker.plans.event_trace import EVENTS_A_SECOND
from cep_worker.worker import Worker


def test_a_worker_registers_and_beats_at_the_managers_pace(world: World) -> None:
    world.manager.heartbeat_ms = 20
    world.start()
    until(lambda: len([m for m in world.manager.heard if isinstance(m, RegisterWorker)]) >= 5)
    beat = world.manager.last(RegisterWorker)
    assert (beat.worker, beat.host, beat.process_id) == ("worker-1", "127.0.0.1", os.getpid())
    assert beat.http_address == world.url("")
    assert (beat.ingress.port, beat.egress.port) == (world.config.ingress.port, world.config.egress.port)


def test_a_heartbeat_tells_of_links_logs_sinks_and_of_what_went_wrong_with_them(world: World) -> None:
    sinks = (Connector("Alerts", "nonsense", {}, "", {}),)
    world.manager.heartbeat_ms = 20
    world.start(msgspec.structs.replace(PLAN, sinks=sinks))
    receiver = world.connected_receiver()
    world.publisher().open()
    assert requests.post(world.url("/events/Departures:1.0.0"), json=[EVENT, EVENT], timeout=10).status_code == 202
    until(lambda: world.manager.last(RegisterWorker).plans[0].inflow[0].sent_events == 2, receiver)
    until(lambda: bool(world.manager.last(RegisterWorker).plans[0].links), receiver)
    beat = world.manager.last(RegisterWorker)
    (plan,) = beat.plans
    (inflow,) = plan.inflow
    assert 0 <= inflow.in_flight_rows <= inflow.window_rows
    assert inflow.window_rows > 0
    (wal,) = plan.write_ahead_logs
    assert wal.size_bytes > 0
    assert (wal.segments, wal.maximum_bytes, wal.problem) == (1, world.config.wal.maximum_bytes, "")
    assert plan.links[0].window_rows == world.config.outflow.window_rows
    (sink,) = beat.connectors
    assert (sink.direction, sink.type, sink.plan) == ("sink", "nonsense", KEY.plan)
    (error,) = plan.errors
    assert (error.code, error.instance, error.count, error.text) == ("sink", "sink nonsense of Alerts", 1, sink.error)
    assert (beat.fsync, beat.leaving) == (world.config.wal.fsync, False)
    assert beat.memory_bytes > 1_000_000
    assert beat.cpu_ms > 0


def test_heartbeats_hold_the_reports_of_changed_plans_only(world: World) -> None:
    world.manager.heartbeat_ms, world.manager.remembers = 20, True
    world.start(PLAN)
    receiver = world.connected_receiver()

    def refers() -> bool:
        beat = world.manager.last(RegisterWorker)
        return beat.base > 0 and not beat.plans

    until(refers, receiver)
    sent = len(world.manager.heard)
    assert requests.post(world.url("/events/Departures:1.0.0"), json=[EVENT, EVENT], timeout=10).status_code == 202

    def of_plans() -> list[RegisterWorker]:
        return [one for one in world.manager.heard[sent:] if isinstance(one, RegisterWorker) and one.plans]

    until(lambda: of_plans() and refers(), receiver)
    told = of_plans()
    assert all(one.base > 0 and one.number > one.base for one in told)

    world.manager.remembers = False  # another one leads, which has heard nothing
    until(lambda: world.manager.last(RegisterWorker).base == 0, receiver)
    assert [one.key for one in world.manager.last(RegisterWorker).plans] == [PLAN.key]


def test_a_worker_that_leaves_says_so_however_fast_it_has_left(world: World) -> None:
    world.manager.heartbeat_ms = 600_000
    world.start()
    until(lambda: world.manager.last(RegisterWorker) is not None)
    assert not world.manager.last(RegisterWorker).leaving
    assert world.worker is not None
    world.worker.stop()
    world.worker = None
    assert world.manager.last(RegisterWorker).leaving


def test_plans_are_asked_for_when_the_revision_differs_and_only_then(world: World) -> None:
    world.start(PLAN)
    until(lambda: world.manager.last(RegisterWorker).revision == world.manager.revision)
    asked = len([m for m in world.manager.heard if isinstance(m, ListPlans)])
    world.manager.deploy()
    until(lambda: world.health()["plans"] == [])
    assert len([m for m in world.manager.heard if isinstance(m, ListPlans)]) == asked + 1


def test_the_outflow_of_each_plan_is_registered_with_its_publishers(world: World) -> None:
    world.start(PLAN)
    world.publisher(name="publisher#3").open()
    until(lambda: world.manager.last(RegisterEndpoint).connections == ("publisher#3",))
    registered = world.manager.last(RegisterEndpoint)
    assert (registered.role, registered.key, registered.epoch, registered.instance) == ("worker", KEY, 7, "worker-1")
    until(lambda: world.manager.last(RegisterWorker).plans[0].publishers == ("publisher#3",))


def test_a_receiver_is_asked_for_until_there_is_one_and_the_link_is_reported(world: World) -> None:
    world.start(PLAN)
    until(lambda: len([m for m in world.manager.heard if isinstance(m, RequestEndpoint)]) >= 3)
    request = world.manager.last(RequestEndpoint)
    assert (request.role, request.requester, request.host, request.stream) == (
        "receiver", "worker-1", "127.0.0.1", "Departures",
    )  # fmt: skip
    receiver = world.receiver()
    until(lambda: world.manager.last(RegisterWorker).plans[0].inflow[0].connected, receiver)
    assert world.manager.last(RegisterWorker).plans[0].inflow[0].receiver == "receiver#0"


def test_a_receiver_that_nobody_answers_for_is_left_at_once(make_world: Callable[..., World]) -> None:
    world = make_world()
    world.config = msgspec.structs.replace(
        world.config, registry=msgspec.structs.replace(world.config.registry, connect_ms=60_000)
    )
    world.manager.receivers["Departures"] = Endpoint("127.0.0.1", free_port())
    world.start(PLAN)
    until(lambda: len([m for m in world.manager.heard if isinstance(m, RequestEndpoint)]) >= 3)
    world.connected_receiver()


def test_data_flows_while_the_manager_is_away_and_it_learns_of_it_when_it_is_back(world: World) -> None:
    world.start(PLAN)
    receiver = world.connected_receiver()
    world.manager.stop()
    sender = world.sender()
    sender.send(departures((1, "UA", 1, None)))
    until(lambda: receiver.frames, receiver)
    sender.flush(5_000)
    world.manager.heard.clear()
    world.manager.start()
    until(lambda: world.manager.last(RegisterWorker) is not None)
    assert world.manager.last(RegisterWorker).plans[0].inflow[0].connected


def test_the_next_manager_is_asked_when_the_first_does_not_answer(make_world: Callable[..., World]) -> None:
    world = make_world()
    dead, alive = f"127.0.0.1:{free_port()}", world.config.managers[0]
    world.config = msgspec.structs.replace(world.config, managers=(dead, alive))
    world.start(PLAN)
    assert world.health()["plans"][0]["plan"] == "KnockOnDelays"


def test_a_refused_registration_does_not_stop_the_worker(world: World) -> None:
    world.manager.refuse.add("register-worker")
    world.start()
    until(lambda: len([m for m in world.manager.heard if isinstance(m, RegisterWorker)]) >= 2)
    world.manager.refuse.clear()
    world.manager.deploy(PLAN)
    until(lambda: len(world.health()["plans"]) == 1)


def test_a_changed_schema_starts_an_inflow_anew_and_others_go_on(world: World) -> None:
    second = StreamBinding("Arrivals", "Arrivals:1.0.0", ALERTS)
    plan = msgspec.structs.replace(PLAN, imported=(*PLAN.imported, second))
    world.start(plan)
    departures_receiver = world.connected_receiver("Departures")
    arrivals_receiver = world.connected_receiver("Arrivals")
    changed = StreamBinding("Arrivals", "Arrivals:1.0.0", (*ALERTS, ("gate", "string")))
    world.manager.deploy(msgspec.structs.replace(plan, imported=(PLAN.imported[0], changed)))
    until(lambda: len(arrivals_receiver.openings) == 2, departures_receiver, arrivals_receiver)
    assert arrivals_receiver.openings[1].streams[0].attributes[-1] == ("gate", "string")
    assert len(departures_receiver.openings) == 1


def test_no_free_outflow_port_is_reported_and_healed(make_world: Callable[..., World]) -> None:
    first = make_world()
    other = msgspec.structs.replace(PLAN, key=PlanKey(-1234, "Other"))
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        first.config = msgspec.structs.replace(first.config, outflow=OutflowConfig(first_port=port, last_port=port))
        first.start(PLAN, other)
        until(lambda: all("no free port" in plan["last_error"] for plan in first.health()["plans"]))
    until(lambda: [plan["last_error"] for plan in first.health()["plans"]] == ["", ""])


def test_plans_share_one_outflow_port(make_world: Callable[..., World]) -> None:
    first = make_world()
    port = free_port()
    first.config = msgspec.structs.replace(first.config, outflow=OutflowConfig(first_port=port, last_port=port))
    others = [msgspec.structs.replace(PLAN, key=PlanKey(-1234, f"Other{number}")) for number in range(20)]
    first.start(PLAN, *others)
    until(lambda: len(first.health()["plans"]) == 21)
    assert not any(plan["last_error"] for plan in first.health()["plans"])


@pytest.mark.parametrize("service", ["ingress", "egress", "http"])
def test_a_taken_port_is_named_and_nothing_is_left_open(make_world: Callable[..., World], service: str) -> None:
    running = make_world()
    running.start()
    other = make_world()
    taken = msgspec.structs.replace(
        getattr(other.config, service), port=getattr(running.config, service).port, host="127.0.0.1"
    )
    config = msgspec.structs.replace(other.config, **{service: taken})
    with pytest.raises(PortInUseError) as refused:
        Worker(config).start()
    assert f"127.0.0.1:{taken.port}" in refused.value.message
    other.start()


def test_a_port_that_was_given_up_can_be_used_again(make_world: Callable[..., World]) -> None:
    first = make_world()
    first.start()
    assert first.worker is not None
    first.worker.stop()
    first.worker = None
    second = make_world(ingress=IngressConfig(port=first.config.ingress.port), http=first.config.http)
    second.start()


def test_a_traced_plan_has_its_events_in_the_log_and_no_longer_when_it_is_not(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "cep.trace")
    traced = msgspec.structs.replace(PLAN, trace=True)
    world.start(traced)
    receiver = world.connected_receiver()
    publisher = world.publisher().open()
    sender = world.sender()
    sender.send(departures(*[(1, "UA", 5, 1.5)] * (EVENTS_A_SECOND + 7)))
    publisher.send("Alerts", alerts((2, "DL", 9)))
    until(lambda: len(receiver.rows()) == EVENTS_A_SECOND + 7, receiver)
    until(lambda: any("after processing" in line for line in caplog.messages), publisher)
    before = [line for line in caplog.messages if "before processing: {" in line]
    assert len(before) == EVENTS_A_SECOND
    assert before[0] == (
        "plan=KnockOnDelays[-1234] stream=Departures:1.0.0 (Departures) before processing: "
        '{"_timestamp": 1, "carrier": "UA", "dep_delay": 5, "price": 1.5}'
    )
    assert '"late": 9' in next(line for line in caplog.messages if "after processing" in line)
    world.manager.deploy(PLAN)
    until(lambda: world.manager.last(RegisterWorker).revision == world.manager.revision)
    caplog.clear()
    sender.send(departures((1, "UA", 5, 1.5)))
    until(lambda: len(receiver.rows()) == EVENTS_A_SECOND + 8, receiver)
    assert not [line for line in caplog.messages if "processing: {" in line]
